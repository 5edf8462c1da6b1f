"""Outcomes without an order: statsmodels' MNLogit, quadrature, the logistic regression of two levels, and sites."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

import decbayes as db
from decbayes.errors import InvalidStructure, NotCalibrated, NotDisclosed, NotPrivate
from decbayes.models.regressions.multinomial import tilted

LEVELS = ("bus", "car", "train")
EFFECTS = np.array([[0.0, 0.0, 0.0], [0.3, 0.8, -0.4], [-0.2, -0.6, 0.5]])


def trips(rng, count=500, effects=EFFECTS):
    x, old = rng.normal(size=count), rng.random(count) < 0.4
    chances = softmax(np.column_stack([np.ones(count), x, old]) @ effects.T, axis=1)
    by = np.array(LEVELS)[(rng.random(count)[:, None] > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)]
    return {"x": x, "old": old, "by": by}


def model_of(frame, **settings):
    return db.MultinomialRegression.from_frame(frame, "by ~ x + old", **settings)


def means(model, posterior):
    return {row["term"]: row["mean"] for row in model.coefficients(posterior)}


def test_with_hardly_any_prior_it_is_statsmodels_multinomial_logit(rng):
    api = pytest.importorskip("statsmodels.api")
    frame = trips(rng)
    model = model_of(frame, prior_variance=1e6, approximation="laplace", reference="car")
    rows = model.coefficients(model.fit(frame).posterior)
    code = np.array([("car", "bus", "train").index(level) for level in frame["by"]])
    design = np.column_stack([np.ones(len(code)), frame["x"], frame["old"]])
    found = api.MNLogit(code, design).fit(disp=0, method="newton")
    assert [row["term"] for row in rows] == [f"{a}: {b}" for a in ("bus", "train") for b in ("intercept", "x", "old")]
    np.testing.assert_allclose([row["mean"] for row in rows], found.params.T.ravel(), atol=1e-4)
    np.testing.assert_allclose([row["deviation"] for row in rows], found.bse.T.ravel(), rtol=1e-3)


def test_variational_estimates_are_near_statsmodels_and_ratios_are_theirs(rng):
    api = pytest.importorskip("statsmodels.api")
    frame = trips(rng, 800)
    model = model_of(frame)
    posterior = model.fit(frame).posterior
    code = np.array([LEVELS.index(level) for level in frame["by"]])
    found = api.MNLogit(code, np.column_stack([np.ones(800), frame["x"], frame["old"]])).fit(disp=0)
    for row, mean, error in zip(
        model.coefficients(posterior), found.params.T.ravel(), found.bse.T.ravel(), strict=True
    ):
        assert abs(row["mean"] - mean) < 0.1 * error
        assert row["deviation"] == pytest.approx(error, rel=0.05)
    ratios = {row["term"]: row["ratio"] for row in model.ratios(posterior)}
    assert ratios.keys() == {"car: x", "car: old", "train: x", "train: old"}
    assert ratios["car: x"] == pytest.approx(np.exp(found.params[1, 0]), rel=0.05)
    assert "against bus" in model.modelled


def test_another_reference_compares_the_same_levels(rng):
    frame = trips(rng)
    one, other = (model_of(frame, reference=level, approximation="laplace", prior_variance=1e5) for level in LEVELS[:2])
    assert one.structure.fingerprint != other.structure.fingerprint
    assert db.model_for(other.structure).reference == "car"
    first, second = (means(model, model.fit(frame).posterior) for model in (one, other))
    assert first["car: x"] == pytest.approx(-second["bus: x"], abs=1e-3)
    assert second["train: x"] == pytest.approx(first["train: x"] - first["car: x"], abs=1e-3)
    probable = [model.probabilities(model.fit(frame).posterior, frame) for model in (one, other)]
    np.testing.assert_allclose(*probable, atol=2e-3)


def test_the_bound_is_close_to_the_expectation_and_never_below_it(rng):
    """Against 60 × 60 nodes, for three levels; slopes and weights against finite differences of the bound."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.outer(weights, weights).ravel() / weights.sum() ** 2
    for scale in (0.1, 0.5, 2.0):
        mean, root = np.append(0.0, rng.normal(size=2)), scale * rng.normal(size=(2, 2))
        covariance = np.zeros((3, 3))
        covariance[1:, 1:] = root @ root.T
        (shares,), (bound,) = tilted(mean[None], covariance[None])
        points = np.column_stack([np.zeros(len(grid)), mean[1:] + grid @ root.T])
        exact = mass @ logsumexp(points, axis=1)
        spread = np.trace(covariance)
        assert exact - 1e-9 <= bound <= exact + 0.06 * spread
        assert shares.sum() == pytest.approx(1.0)
        step = 1e-5
        for place in (1, 2):
            up, down = (
                tilted((mean + side * step * np.eye(3)[place])[None], covariance[None])[1][0] for side in (1, -1)
            )
            assert (up - down) / (2 * step) == pytest.approx(shares[place], abs=1e-6)
            wider = covariance + step * np.outer(np.eye(3)[place], np.eye(3)[place])
            slope = (tilted(mean[None], wider[None])[1][0] - bound) / step
            assert slope == pytest.approx(0.5 * shares[place] * (1 - shares[place]), abs=1e-4)


def test_shares_are_found_however_uncertain_the_levels_are(rng):
    for variance in (1e-6, 1.0, 50.0, 1e3):
        mean, covariance = np.array([[0.0, 3.0, -2.0, 1.0]]), variance * np.diag([0.0, 1.0, 1.0, 0.3])[None]
        (shares,), _ = tilted(mean, covariance)
        np.testing.assert_allclose(
            shares, softmax(mean[0] + 0.5 * np.diag(covariance[0]) - covariance[0] @ shares), atol=1e-9
        )


def test_probabilities_are_those_that_are_scored_and_the_exact_ones(rng):
    frame = trips(rng, 60)
    model = model_of(frame)
    posterior = model.fit(frame).posterior
    people = {"x": np.array([-1.0, 0.3, 2.0]), "old": [True, False, True]}
    predicted = model.predict(posterior, people)
    np.testing.assert_allclose(predicted["mean"].sum(axis=1), 1.0)
    scored = [np.exp(model.log_predictive(posterior, people | {"by": [level] * 3})) for level in LEVELS]
    np.testing.assert_allclose(predicted["mean"].T, scored)
    mean, covariance = model.outcome.moments(posterior.natural["coefficients"])
    drawn = rng.multivariate_normal(mean, covariance, size=200_000).reshape(-1, 2, 3)
    zero, unit = model.columns["x"].zero_and_unit
    design = np.column_stack([np.ones(3), (people["x"] - zero) / unit, people["old"]])
    f = np.einsum("mld,nd->mnl", drawn, design)
    shares = softmax(np.concatenate([np.zeros((*f.shape[:2], 1)), f], axis=2), axis=2)
    np.testing.assert_allclose(predicted["mean"], shares.mean(axis=0), atol=3e-3)
    np.testing.assert_allclose(predicted["low"], np.quantile(shares, 0.05, axis=0), atol=0.01)
    np.testing.assert_allclose(predicted["high"], np.quantile(shares, 0.95, axis=0), atol=0.01)


def test_two_levels_are_nearly_a_logistic_regression(rng):
    frame = trips(rng) | {"by": np.where(rng.random(500) < 0.3, "yes", "no")}
    model, logistic = (
        model_of(frame, reference="no"),
        db.LogisticRegression.from_frame(frame, "by ~ x + old", yes="yes"),
    )
    for row, best in zip(
        model.coefficients(model.fit(frame).posterior),
        logistic.coefficients(logistic.fit(frame).posterior),
        strict=True,
    ):
        assert row["term"] == f"yes: {best['term']}"
        assert abs(row["mean"] - best["mean"]) < 0.05 * best["deviation"]


def test_a_round_brings_one_broadcast_to_one_fit(rng):
    frame = trips(rng, 600)
    model = model_of(frame)
    sites = np.array_split(model.points(frame), 6)
    sent = [model.fit_site(site).posterior for site in sites]
    best = model.coefficients(model.fit(frame).posterior)
    refined = db.refine(model, sites, sent, rounds=3, rng=rng)

    def apart(posterior):
        rows = zip(model.coefficients(posterior), best, strict=True)
        return max(abs(row["mean"] - one["mean"]) / one["deviation"] for row, one in rows)

    distances = [apart(posterior) for posterior in refined.rounds]
    assert (np.array(distances) < [0.6, 0.1, 0.1, 0.002]).all()
    assert all(later < earlier for earlier, later in pairwise(distances))


def test_levels_vary_between_sites_and_their_deviation_is_found(rng):
    sites = []
    for place in range(25):
        moved = EFFECTS.copy()
        moved[1:, 0] += rng.normal(size=2)
        sites.append(trips(rng, 60, moved) | {"clinic": np.repeat(f"clinic {place}", 60)})
    pooled = {name: np.concatenate([site[name] for site in sites]) for name in sites[0]}
    model = db.MultinomialRegression.from_frame(pooled, "by ~ x + old + (1 | clinic)")
    posterior = model.fit(pooled).posterior
    between = {row["term"]: row["mean"] for row in model.between(posterior)}
    assert between.keys() == {"car: intercept", "train: intercept"}
    assert all(0.5 < deviation < 1.6 for deviation in between.values())
    known = model.predict(posterior, sites[3], known=sites[3])["mean"]
    assert np.abs(known - model.predict(posterior, sites[3])["mean"]).max() > 0.02


def test_few_with_a_level_do_not_leave_the_site(rng, tmp_path):
    frame = trips(rng)
    trains = frame["by"] == "train"
    frame["by"] = np.where(trains & (np.cumsum(trains) > 3), "bus", frame["by"])
    model = model_of(frame)
    with pytest.raises(NotDisclosed, match="Join levels"):
        db.save(model.fit(frame).posterior, tmp_path / "few.posterior", data=frame)


def test_a_category_of_whom_one_has_a_level_is_joined_to_others(rng):
    """The sums of a level over a category would otherwise be one person's."""
    frame = trips(rng)
    ward = np.repeat(["a", "b", "c"], [400, 80, 20])
    frame["by"] = np.where(ward == "c", "bus", frame["by"])
    frame["by"][-1] = "train"
    frame["ward"] = ward
    model = db.MultinomialRegression.from_frame(frame, "by ~ x + ward")
    changed, _, remarks = model.pooled(frame, 5, 2, agreed=False)
    assert "c" not in changed.columns["ward"].entries
    assert remarks


def test_what_it_cannot_do_is_refused_in_a_line(rng):
    frame = trips(rng, 100)
    model = model_of(frame)
    posterior = model.fit(frame).posterior
    with pytest.raises(InvalidStructure, match="no level 'boat'"):
        model_of(frame, reference="boat")
    with pytest.raises(InvalidStructure, match="no offset"):
        db.MultinomialRegression.from_frame(frame, "by ~ old + offset(x)")
    with pytest.raises(InvalidStructure, match="categorical column"):
        db.MultinomialRegression.from_frame(frame, "x ~ old", kinds={"x": "real"})
    with pytest.raises(NotCalibrated, match="no concordance"):
        model.risks(posterior, frame)
    with pytest.raises(NotPrivate, match="one level against all others"):
        _ = model.outcome.scores(model.columns["by"])


def test_sites_with_one_level_or_few_say_so(rng):
    frame = trips(rng, 100)
    alone = {name: values[frame["by"] == "bus"] for name, values in frame.items()}
    model = model_of(frame)
    assert "single outcome" in [remark.kind for remark in model.fit_site(alone).posterior.remarks]
    few = {name: values[:30] for name, values in frame.items()}
    assert "few events" in [remark.kind for remark in model.fit_site(few).posterior.remarks]
    assert "few events" not in [remark.kind for remark in model.fit_site(trips(rng, 300)).posterior.remarks]


@pytest.mark.parametrize("count", [2, 3, 6])
def test_what_one_row_adds_is_within_its_bound(count, rng):
    """Few rows, far from the centre or not, on top of what others believe."""
    columns = {"y": db.columns.Categorical(count), "x": db.columns.Gaussian(0, 1)}
    model = db.MultinomialRegression("y", columns=columns)
    side, family = 2 * (count - 1), model.outcome.family
    most = model.largest_contribution(3.0)["coefficients"]
    largest = np.zeros_like(most)
    for size in (1, 2, 5):
        points = np.column_stack([rng.integers(count, size=size), rng.uniform(-3, 3, size)]).astype(float)
        believed = family.natural(mean=rng.normal(0, 4, (1, side)), covariance=rng.choice([0.1, 10.0]) * np.eye(side))
        for prior in (None, db.Posterior.from_natural(model.structure, {"coefficients": believed})):
            natural = model.fit(points, prior=prior).posterior.natural["coefficients"]
            before = model.structure.prior["coefficients"] if prior is None else believed
            largest = np.maximum(largest, np.abs(natural - before) / size)
    assert (largest <= most + 1e-9).all()
    assert largest.max() > 0.1 * most.max()
