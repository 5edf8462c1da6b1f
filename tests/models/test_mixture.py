"""Gaussian mixtures: the bound rises, corner cases have closed forms, predictions integrate parameters out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import decbayes as db
from decbayes.errors import InvalidData, StructureMismatch

MODELS = {
    "known": lambda k, d: db.GaussianMixture(components=k, dimension=d, variance=0.3, prior_variance=2.0),
    "diagonal": lambda k, d: db.GaussianMixture(components=k, dimension=d, covariance="diagonal"),
    "full": lambda k, d: db.GaussianMixture(components=k, dimension=d, covariance="full"),
}


def clusters(rng, count, dimension, spread=3.0):
    centres = rng.normal(0, spread, size=(3, dimension))
    return centres[rng.integers(3, size=count)] + rng.normal(0, 0.5, size=(count, dimension))


@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), components=st.integers(1, 5), dimension=st.integers(1, 3), count=st.integers(1, 60))
def test_the_bound_never_falls(kind, seed, components, dimension, count):
    rng = np.random.default_rng(seed)
    model = replace(MODELS[kind](components, dimension), ascent=db.Ascent(restarts=0))
    fit = model.fit(clusters(rng, count, dimension), rng=rng)
    steps = np.diff(fit.bound)
    assert (steps >= -1e-9 * np.abs(fit.bound[1:])).all()


@pytest.mark.parametrize("kind", MODELS)
def test_the_bound_is_the_evidence_for_one_component(kind, rng):
    """With one component variational Bayes is exact, so bounds of nested data sets differ by the predictive density."""
    model = MODELS[kind](1, 2)
    points = clusters(rng, 12, 2)
    whole, part = (model.fit(data, rng=rng) for data in (points, points[:-1]))
    predictive = model.log_predictive(part.posterior, points[-1:])[0]
    assert whole.bound[-1] - part.bound[-1] == pytest.approx(predictive, rel=1e-8)


def test_one_component_of_known_variance_is_a_gaussian_mean(rng):
    points = rng.normal(2.0, 1.0, size=(9, 3))
    mixture = db.GaussianMixture(components=1, dimension=3, variance=0.5, prior_mean=1.0, prior_variance=4.0)
    mean = db.models.GaussianMean(dimension=3, variance=0.5, prior_mean=1.0, prior_variance=4.0)
    ours, exact = mixture.fit(points, rng=rng), mean.fit(points)
    np.testing.assert_allclose(ours.posterior.natural["components"], exact.posterior.natural["mean"], rtol=1e-12)
    assert ours.bound[-1] == pytest.approx(exact.bound[-1], rel=1e-10)
    np.testing.assert_allclose(
        mixture.log_predictive(ours.posterior, points), mean.log_predictive(exact.posterior, points), rtol=1e-10
    )


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_one_component_has_the_conjugate_posterior(kind, rng):
    points = rng.normal(size=(20, 2)) @ np.array([[1.0, 0.5], [0.0, 2.0]])
    model = MODELS[kind](1, 2)
    after, before = (
        p.parameters("components")
        for p in (model.fit(points, rng=rng).posterior, db.Posterior.of_prior(model.structure))
    )
    strength = before["strength"].ravel()[0] + 20
    np.testing.assert_allclose(after["mean"][0], points.sum(axis=0) / strength)
    centred = points - points.mean(axis=0)
    shrunk = before["strength"].ravel()[0] * 20 / strength * np.outer(points.mean(axis=0), points.mean(axis=0))
    scatter = centred.T @ centred + shrunk
    if kind == "full":
        np.testing.assert_allclose(after["inverse_scale"][0], before["inverse_scale"][0] + scatter, rtol=1e-9)
        assert after["degrees"][0] == pytest.approx(before["degrees"][0] + 20)
    else:
        np.testing.assert_allclose(after["rate"][0], before["rate"][0] + 0.5 * np.diag(scatter), rtol=1e-9)
        np.testing.assert_allclose(after["shape"][0], before["shape"][0] + 10)


@pytest.mark.parametrize("kind", MODELS)
def test_the_predictive_density_integrates_to_one(kind, rng):
    model = MODELS[kind](2, 1)
    posterior = model.fit(clusters(rng, 15, 1), rng=rng).posterior
    mass, _ = integrate.quad(lambda x: np.exp(model.log_predictive(posterior, [x])[0]), -np.inf, np.inf, limit=200)
    assert mass == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("kind", MODELS)
def test_the_predictive_density_is_the_mean_over_parameters(kind, rng):
    model = MODELS[kind](2, 2)
    posterior = model.fit(clusters(rng, 30, 2), rng=rng).posterior
    place = clusters(rng, 1, 2)
    draws = posterior.sample(20_000, rng)
    densities = np.zeros(20_000)
    for k in range(2):
        if kind == "known":
            mean, covariance = draws["components"][:, k], np.eye(2) * 0.3
            part = stats.multivariate_normal(cov=covariance).pdf(place - mean)
        else:
            mean, precision = (part[:, k] for part in draws["components"])
            offset = place - mean
            if kind == "diagonal":
                part = np.prod(stats.norm(0, 1 / np.sqrt(precision)).pdf(offset), axis=1)
            else:
                square = np.einsum("nd,nde,ne->n", offset, precision, offset)
                part = np.sqrt(np.linalg.det(precision)) / (2 * np.pi) * np.exp(-0.5 * square)
        densities += draws["weights"][:, k] * part
    error = densities.std() / np.sqrt(len(densities))
    assert abs(densities.mean() - np.exp(model.log_predictive(posterior, place)[0])) < 5 * error


def test_responsibilities_follow_the_clusters(rng):
    model = db.GaussianMixture(components=2, dimension=1, variance=0.1, prior_variance=25.0)
    points = np.concatenate([rng.normal(-3, 0.3, 20), rng.normal(3, 0.3, 20)])
    responsibilities = model.assign(model.fit(points, rng=rng).posterior, points)
    np.testing.assert_allclose(responsibilities.sum(axis=1), 1.0)
    labels = responsibilities.argmax(axis=1)
    assert len(set(labels[:20])) == len(set(labels[20:])) == 1
    assert labels[0] != labels[-1]


@pytest.mark.parametrize("kind", MODELS)
def test_no_data_leaves_the_prior(kind, rng):
    model = MODELS[kind](3, 2)
    fit = model.fit(np.empty((0, 2)), rng=rng)
    assert fit.posterior == db.Posterior.of_prior(model.structure)
    assert fit.converged


@pytest.mark.parametrize("kind", MODELS)
def test_more_components_than_points_leave_some_at_the_prior(kind, rng):
    model = MODELS[kind](6, 1)
    fit = model.fit([0.0, 0.1], rng=rng)
    assert fit.posterior.parameters("weights")["alpha"].sum() == pytest.approx(6 + 2)


@pytest.mark.parametrize("kind", MODELS)
def test_an_earlier_posterior_as_prior_counts_its_data(kind, rng):
    model = MODELS[kind](3, 2)
    points = clusters(rng, 60, 2)
    first = model.fit(points[:30], rng=rng).posterior
    second = model.fit(points[30:], rng=rng, prior=first, start=first)
    assert second.posterior.parameters("weights")["alpha"].sum() == pytest.approx(3 + 60)
    assert (np.diff(second.bound) >= -1e-9 * np.abs(second.bound[1:])).all()


def test_a_start_is_kept_at_a_fixed_point(rng):
    model = db.GaussianMixture(components=3, dimension=2, variance=0.3, ascent=db.Ascent(tolerance=1e-12, passes=2000))
    points = clusters(rng, 60, 2)
    fit = model.fit(points, rng=rng)
    again = model.fit(points, rng=rng, start=fit.posterior)
    np.testing.assert_allclose(
        again.posterior.natural["components"], fit.posterior.natural["components"], rtol=1e-5, atol=1e-5
    )


def test_both_starts_work_and_restarts_keep_the_best_bound(rng):
    points = clusters(rng, 80, 2)
    bounds = []
    for restarts in (0, 20):
        for start_from in ("k-means++", "random"):
            model = db.GaussianMixture(
                components=4, dimension=2, variance=0.3, start_from=start_from, ascent=db.Ascent(restarts=restarts)
            )
            bounds.append(model.fit(points, rng=np.random.default_rng(5)).bound[-1])
    assert bounds[2] >= bounds[0]
    assert bounds[3] >= bounds[1]


def test_progress_is_reported_pass_by_pass(rng):
    seen = []
    model = db.GaussianMixture(components=2, dimension=1, variance=0.3, ascent=db.Ascent(restarts=2))
    fit = model.fit(clusters(rng, 30, 1), rng=rng, progress=seen.append)
    assert {report.restart for report in seen} == {0, 1, 2}
    assert max(report.bound for report in seen) == fit.bound[-1]


def test_an_interrupted_fit_keeps_its_best_state(rng):
    def stop(report):
        if report.number == 3 and report.restart == 1:
            raise KeyboardInterrupt

    model = db.GaussianMixture(
        components=3, dimension=1, variance=0.3, ascent=db.Ascent(restarts=5, tolerance=0.0, passes=5)
    )
    with pytest.raises(db.extending.FitInterrupted) as caught:
        model.fit(clusters(rng, 50, 1), rng=rng, progress=stop)
    fit = caught.value.fit
    assert not fit.converged
    assert fit.posterior.parameters("weights")["alpha"].sum() == pytest.approx(3 + 50)
    assert isinstance(caught.value, KeyboardInterrupt)


def test_an_interruption_between_restarts_loses_nothing(rng, monkeypatch):
    model = db.GaussianMixture(components=3, dimension=1, variance=0.3)
    begin, made = db.GaussianMixture._begin, []

    def interrupted(*arguments):
        made.append(begin(*arguments))
        if len(made) == 3:
            raise KeyboardInterrupt
        return made[-1]

    monkeypatch.setattr(db.GaussianMixture, "_begin", interrupted)
    with pytest.raises(db.extending.FitInterrupted) as caught:
        model.fit(clusters(rng, 50, 1), rng=rng)
    assert caught.value.fit.posterior.parameters("weights")["alpha"].sum() == pytest.approx(3 + 50)


@pytest.mark.parametrize("one", [1, np.float64(1.0), np.float32(1.0), np.int64(1)])
def test_equal_settings_agree_however_they_are_written(one):
    written = db.GaussianMixture(components=2, dimension=1, variance=one, prior_variance=one, weight_prior=one)
    assert written.structure == db.GaussianMixture(components=2, dimension=1, variance=1.0).structure


class TestBadInput:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            ([[1.0, np.nan], [1.0, 2.0]], "NaN"),
            ([[1.0, np.nan], [2.0, np.nan]], "Column number 1 is empty. Leave it out at all sites"),
            ({"b": [np.nan, np.nan], "a": [1.0, 2.0]}, "Column 'b' is empty. Leave it out at all sites"),
            ([[1.0, np.inf]], "infinite"),
            ([[1.0, 2.0, 3.0]], r"expects \(observations, 2\)"),
            ([1.0, 2.0, 3.0], "expects"),
            (["a", "b"], "numbers"),
            ([[[1.0]]], "expects"),
        ],
    )
    def test_data_the_model_cannot_have_produced(self, data, reason, rng):
        columns = ("a", "b") if isinstance(data, dict) else ()
        with pytest.raises(InvalidData, match=reason):
            db.GaussianMixture(components=2, dimension=2, variance=1.0, columns=columns).fit(data, rng=rng)

    @pytest.mark.parametrize("covariance", ["spherical", "diagonal", "full"])
    def test_a_spread_that_double_precision_cannot_hold(self, covariance, rng):
        """Of many components some have a negative variance by rounding."""
        points = 1e6 + 1e-3 * rng.normal(size=(200, 2))
        model = db.GaussianMixture(10, 2, covariance=covariance, prior_mean=1e6, prior_scale=1e-6)
        with pytest.raises(InvalidData, match="lost in rounding"):
            model.fit(points, rng=rng)

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            ({"variance": 1.0, "covariance": "full"}, "either"),
            ({"covariance": "tied"}, "diagonal"),
            ({"variance": 1.0, "start_from": "zero"}, "start_from"),
            ({"variance": 1.0, "components": 0}, "at least 1"),
            ({"variance": -1.0}, "positive"),
            ({"variance": 1.0, "weight_prior": 0.0}, "positive"),
        ],
    )
    def test_settings_that_make_no_sense(self, settings, reason):
        with pytest.raises(ValueError, match=reason):
            db.GaussianMixture(**{"components": 2, **settings})

    def test_a_posterior_of_another_model(self, rng):
        model, larger = (db.GaussianMixture(components=k, dimension=1, variance=1.0) for k in (2, 3))
        posterior = larger.fit([0.0, 1.0], rng=rng).posterior
        assert model.log_predictive(posterior, [0.0]) == larger.log_predictive(posterior, [0.0]), "merges may have more"
        wider = db.GaussianMixture(components=2, dimension=1, variance=2.0).fit([0.0, 1.0], rng=rng).posterior
        for call in (
            lambda: model.log_predictive(wider, [0.0]),
            lambda: model.assign(wider, [0.0]),
            lambda: model.fit([0.0], rng=rng, prior=posterior),
            lambda: model.fit([0.0], rng=rng, start=posterior),
        ):
            with pytest.raises(StructureMismatch, match="belongs to"):
                call()


@pytest.mark.parametrize(
    ("place", "settings", "said"),
    [
        (60.0, {}, True),
        (60.0, {"prior_mean": 60.0, "prior_variance": 100.0}, False),
        (60.0, {"prior_variance": 400.0}, False),  # three of its standard deviations away
        (60.0, {"prior_variance": 390.0}, True),
        (0.0, {}, False),
    ],
)
def test_a_prior_far_from_the_data_is_named_and_a_merge_passes_it_on(place, settings, said, rng):
    """The root mean square of what was observed is 60; of a single row, noise explains a distance, too."""
    points = np.array([[place - 10.0], [place + 10.0]] * 60)
    points *= place / np.sqrt((points**2).mean()) if place else 0.01
    model = db.GaussianMixture(2, 1, variance=1.0, ascent=db.Ascent(restarts=0), **settings)
    posteriors = [model.fit(points + shift, rng=rng).posterior for shift in (0.0, 1e-6)]
    assert [[remark.kind for remark in each.remarks] for each in posteriors] == [["far from the prior"] * said] * 2
    assert any("site 0, site 1: The data lie far" in str(remark) for remark in db.merge(posteriors).remarks) == said
    assert not model.fit(points, prior=posteriors[0], rng=rng).posterior.remarks
    wide = db.GaussianMixture(1, 1, variance=900.0, ascent=db.Ascent(restarts=0))
    assert not wide.fit([[place]], rng=rng).posterior.remarks
    unknown = db.GaussianMixture(2, 1).fit(points, rng=rng).posterior
    assert "far from the prior" not in [remark.kind for remark in unknown.remarks]
