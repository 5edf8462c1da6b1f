"""Latent features: recovery, limiting cases, priors and starts, interruption and bad input."""

import numpy as np
import pytest
from feature_data import feature_error, matched, synthetic

import decbayes as db
from decbayes.errors import InvalidData, StructureMismatch
from decbayes.families import IsotropicGaussian

MODEL = db.LatentFeatures(dimension=10)


@pytest.fixture(scope="module")
def fitted():
    data, truth, assignments = synthetic(0, observations=400)
    return data, truth, assignments, MODEL.fit(data, rng=np.random.default_rng(0))


def means(posterior):
    return posterior.mean("features")


def test_batch_fits_recover_the_features_over_five_seeds():
    errors = []
    for seed in range(5):
        data, truth, _ = synthetic(seed)
        errors.append(feature_error(means(MODEL.fit(data, rng=np.random.default_rng(seed)).posterior), truth))
    # The right mode has an error of 0.1; other modes have 2 and more.
    assert np.median(errors) < 0.2
    assert np.mean(np.array(errors) < 1.0) >= 0.8


def test_merged_agents_are_near_batch_and_beat_the_naive_merge_and_the_agents():
    data, truth, _ = synthetic(1)
    rng = np.random.default_rng(1)
    agents = [MODEL.fit(shard, rng=rng).posterior for shard in np.split(data, 5)]
    candidates = MODEL.fit(data, rng=rng).posterior, db.merge(agents), db.merging.product(agents), *agents
    batch, amps, naive, *alone = (feature_error(means(posterior), truth) for posterior in candidates)
    assert amps < 1.1 * batch
    assert amps < np.median(alone) < naive


@pytest.mark.slow
def test_overcomplete_features_are_recovered_too():
    """More features than dimensions: the components of the data alone cannot tell them apart."""
    errors = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=(8, 6))
        assignments = rng.random((500, 8)) < rng.uniform(0.1, 0.9, 8)
        data = assignments @ truth + rng.normal(0, 0.2, (500, 6))
        posterior = db.LatentFeatures(features=8, dimension=6).fit(data, rng=rng).posterior
        errors.append(feature_error(means(posterior), truth))
    assert np.median(errors) < 0.5


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_never_falls_in_a_fit(seed):
    data, _, _ = synthetic(seed, observations=150)
    fit = MODEL.fit(data, rng=np.random.default_rng(seed))
    assert fit.converged
    assert (np.diff(fit.bound) >= -1e-8 * np.abs(fit.bound[-1])).all()


def test_no_data_leaves_the_prior():
    fit = MODEL.fit(np.empty((0, 10)), rng=np.random.default_rng(0))
    assert fit.posterior == db.Posterior.of_prior(MODEL.structure)


def test_no_data_leaves_a_given_prior(fitted):
    posterior = fitted[3].posterior
    assert MODEL.fit([], prior=posterior, rng=np.random.default_rng(0)).posterior == posterior


def test_one_feature_that_is_always_there_is_a_gaussian_mean():
    """With π = 1 the model is y ~ N(μ, σ²I), which is conjugate."""
    data = np.random.default_rng(0).normal(1.0, 0.2, (40, 3))
    model = db.LatentFeatures(features=1, dimension=3, inclusion_prior=(1e12, 1e-3))
    fit = model.fit(data, rng=np.random.default_rng(1))
    exact = db.models.GaussianMean(variance=0.04, prior_variance=1.0, dimension=3).fit(data)
    np.testing.assert_allclose(fit.posterior.natural["features"], exact.posterior.natural["mean"], rtol=1e-9)
    # Beta(1e12, 1e-3) loses digits in betaln; the bounds agree to what is left of them.
    assert fit.bound[-1] == pytest.approx(exact.bound[-1], abs=0.05)


def test_a_start_keeps_the_places_of_the_features(fitted):
    data, _, _, fit = fitted
    order = np.array([3, 0, 4, 1, 2])
    natural = {name: value[order] for name, value in fit.posterior.natural.items()}
    again = MODEL.fit(
        data, start=db.Posterior.from_natural(MODEL.structure, natural), rng=np.random.default_rng(1)
    ).posterior
    np.testing.assert_allclose(means(again), means(fit.posterior)[order], atol=1e-2)


def test_a_prior_that_knows_the_features_keeps_their_places(fitted):
    _, truth, _, fit = fitted
    more, _, _ = synthetic(0, observations=600)
    after = MODEL.fit(more[400:], prior=fit.posterior, rng=np.random.default_rng(2)).posterior
    np.testing.assert_array_equal(matched(means(after), truth), matched(means(fit.posterior), truth))
    assert feature_error(means(after), truth) < feature_error(means(fit.posterior), truth)
    assert (after.parameters("features")["variance"] < fit.posterior.parameters("features")["variance"]).all()


def test_a_fit_on_top_of_a_prior_begins_where_the_prior_is(fitted):
    """After one pass the first of the starts is ahead of those that look at the new data alone."""
    more, _, _ = synthetic(0, observations=200)
    first = []
    MODEL.fit(
        more,
        prior=fitted[3].posterior,
        rng=np.random.default_rng(2),
        progress=lambda reached: first.append(reached.bound) if reached.number == 1 else None,
    )
    assert first[0] > max(first[1:4])


def test_a_vague_prior_does_not_stop_a_fit_from_finding_the_features():
    """Eight observations tell features apart, wrongly; hundreds more must still win."""
    data, truth, _ = synthetic(1, observations=500)
    rng = np.random.default_rng(0)
    early = MODEL.fit(data[:8], rng=rng).posterior
    assert feature_error(means(MODEL.fit(data[8:], prior=early, rng=rng).posterior), truth) < 1.0


def test_refinement_stays_at_the_truth():
    data, truth, _ = synthetic(2, observations=500)
    rng = np.random.default_rng(0)
    shards = np.split(data, 5)
    agents = [MODEL.fit(shard, rng=rng).posterior for shard in shards]
    refined = db.refine(MODEL, shards, agents, rounds=2, rng=rng)
    assert feature_error(means(refined.merged), truth) < 1.2 * feature_error(means(refined.rounds[0]), truth)


def test_same_seed_same_bits(fitted):
    data, _, _, fit = fitted
    assert MODEL.fit(data, rng=np.random.default_rng(0)).posterior == fit.posterior


def test_images_are_taken_as_vectors(fitted):
    data, _, _, fit = fitted
    assert MODEL.fit(data.reshape(-1, 2, 5), rng=np.random.default_rng(0)).posterior == fit.posterior


def test_no_images_leave_the_prior():
    assert MODEL.fit(np.zeros((0, 2, 5)), rng=np.random.default_rng(0)).posterior == db.Posterior.of_prior(
        MODEL.structure
    )


def test_wide_data_is_fitted_like_any_other():
    """Fewer observations than dimensions are fitted in their span; outside of it all features are zero."""
    data, truth, _ = synthetic(3, observations=60, dimension=200)
    model = db.LatentFeatures(dimension=200)
    posterior = model.fit(data, rng=np.random.default_rng(0)).posterior
    # 60 observations leave each of 1,000 numbers an error of about 0.2 / √15.
    assert feature_error(means(posterior), truth) < 3.0
    outside = np.linalg.svd(data)[2][60:]
    np.testing.assert_allclose(means(posterior) @ outside.T, 0.0, atol=1e-10)


def test_a_start_counts_in_full_where_few_observations_span_little():
    """The start's feature is like the data but for a huge component that no observation has: none has the feature."""
    data = np.zeros((3, 10))
    data[:, 0] = 1.0
    model = db.LatentFeatures(features=1, dimension=10)
    start = np.zeros((1, 10))
    start[0, [0, 9]] = 1.0, 100.0
    natural = {
        "features": IsotropicGaussian().natural(mean=start, variance=0.01),
        "inclusion": db.families.Beta().natural(alpha=1.0, beta=1.0),
    }
    fit = model.fit(data, start=db.Posterior.from_natural(model.structure, natural), rng=np.random.default_rng(0))
    assert fit.posterior.parameters("inclusion")["alpha"] == pytest.approx(1.0, abs=1e-6)


def test_more_features_than_observations_is_defined():
    data, _, _ = synthetic(0, observations=3)
    posterior = MODEL.fit(data, rng=np.random.default_rng(0)).posterior
    assert IsotropicGaussian().contains(posterior.natural["features"])


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_data_is_defined(value):
    fit = MODEL.fit(np.full((20, 10), value), rng=np.random.default_rng(0))
    assert np.isfinite(fit.bound).all()


@pytest.mark.parametrize("phase", [0, 1, 4])
def test_interruption_keeps_the_best_state(phase):
    """Phases 0 and 1 are the first starts, phase 4 is the moves after four starts; in phase 1 the best is start 0."""
    data, _, _ = synthetic(0, observations=100)

    def stop(reached):
        if reached.restart == phase:
            raise KeyboardInterrupt

    with pytest.raises(db.extending.FitInterrupted) as caught:
        MODEL.fit(data, rng=np.random.default_rng(0), progress=stop)
    assert caught.value.fit.bound
    assert caught.value.fit.converged == (phase == 1)
    assert means(caught.value.fit.posterior).any()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (np.where(np.eye(4, 10), np.nan, 0.0), "NaN"),
        (np.full((4, 10), np.nan), "Column number 0 is empty"),
        (np.full((4, 10), np.inf), "infinite"),
        (np.zeros((4, 9)), "expects"),
        (np.zeros(10), "expects"),
        ([["a"] * 10], "numbers"),
        (np.zeros((4, 3, 5)), "expects"),
    ],
)
def test_bad_observations_are_refused(data, says):
    with pytest.raises(InvalidData, match=says):
        MODEL.fit(data, rng=np.random.default_rng(0))


def test_a_posterior_of_another_model_is_refused(fitted):
    other = db.Posterior.of_prior(db.LatentFeatures(dimension=10, variance=0.05).structure)
    for keyword in ("prior", "start"):
        with pytest.raises(StructureMismatch):
            MODEL.fit(fitted[0], rng=np.random.default_rng(0), **{keyword: other})
    with pytest.raises(StructureMismatch):
        MODEL.assign(other, fitted[0])
    with pytest.raises(StructureMismatch):
        MODEL.log_predictive(other, fitted[0], fitted[0])


@pytest.mark.parametrize(
    "wrong",
    [{"features": 0}, {"dimension": -1}, {"variance": 0.0}, {"prior_variance": -1.0}, {"inclusion_prior": (1.0, 0.0)}],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        db.LatentFeatures(**wrong)
