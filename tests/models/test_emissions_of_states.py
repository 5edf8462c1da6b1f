"""What states of sequences emit: real columns with unknown, known or full covariances, in any units, with gaps."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t, t

import decbayes as db
from decbayes.errors import InvalidData

UNITS = {"a": db.columns.Gaussian(10.0, 4.0), "b": db.columns.Gaussian(-3.0, 0.5)}
KINDS = {"diagonal": {}, "known": {"variance": 0.3}, "full": {"covariance": "full"}}


def points_of(rng, size=12):
    return rng.normal(size=(size, 2)) @ np.array([[4.0, 0.3], [0.0, 0.2]]) + [10.0, -3.0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_of_one_state_is_the_evidence_step_by_step(kind, rng):
    """One state hides nothing: log p(x) = Σ_n log p(x_n | x_1, …, x_{n−1}), and missing steps add nothing."""
    model = db.HiddenMarkov(states=1, columns=UNITS, **KINDS[kind])
    points = points_of(rng)
    points[4] = np.nan
    known, total = db.Posterior.of_prior(model.structure), 0.0
    for point in points:
        total += model.log_predictive(known, [point[None]])[0]
        known = model.fit([point[None]], prior=known, rng=rng).posterior
    fit = model.fit([points], rng=rng)
    assert fit.bound[-1] == pytest.approx(total)
    np.testing.assert_allclose(fit.posterior.natural["real"], known.natural["real"])


def test_predictions_are_those_of_the_textbook(rng):
    points, new = points_of(rng), points_of(rng, 3)
    z, after = (points - [10.0, -3.0]) / [4.0, 0.5], (new - [10.0, -3.0]) / [4.0, 0.5]
    weight, units = len(z) + 0.01, np.log(4.0 * 0.5)
    mean = z.sum(axis=0) / weight
    scatter = z.T @ z - weight * np.outer(mean, mean)
    one = {kind: db.HiddenMarkov(states=1, columns=UNITS, **KINDS[kind]) for kind in KINDS}
    found = {
        kind: model.log_predictive(model.fit([points], rng=rng).posterior, new[:, None]) for kind, model in one.items()
    }
    freedom = len(z) + 2.0
    full = multivariate_t(mean, (scatter + 0.6 * np.eye(2)) * (1 + 1 / weight) / freedom, df=freedom)
    np.testing.assert_allclose(found["full"], full.logpdf(after) - units)
    normal = multivariate_normal(mean, 0.3 * (1 + 1 / weight) * np.eye(2))
    np.testing.assert_allclose(found["known"], normal.logpdf(after) - units)
    spread = np.sqrt((np.diag(scatter) + 0.6) * (1 + 1 / weight) / freedom)
    np.testing.assert_allclose(found["diagonal"], t(freedom, mean, spread).logpdf(after).sum(axis=1) - units)


def test_one_column_is_not_correlated(rng):
    columns = {"a": UNITS["a"]}
    data = [points_of(rng, 30)[:, :1] for _ in range(2)]
    full, diagonal = (
        db.HiddenMarkov(states=2, columns=columns, covariance=each, ascent=db.Ascent(restarts=0))
        for each in ("full", "diagonal")
    )
    fits = [model.fit(data, rng=np.random.default_rng(1)) for model in (full, diagonal)]
    assert fits[0].bound[-1] == pytest.approx(fits[1].bound[-1])
    for model, fit in zip((full, diagonal), fits, strict=True):
        np.testing.assert_allclose(model.score(fit.posterior, data), diagonal.score(fits[1].posterior, data))


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_next_has_the_quantiles_of_the_textbook(kind, rng):
    model = db.HiddenMarkov(states=1, columns=UNITS, **KINDS[kind])
    data = [points_of(rng, 8), points_of(rng, 5)]
    z = (np.concatenate(data) - [10.0, -3.0]) / [4.0, 0.5]
    weight = len(z) + 0.01
    mean = z.sum(axis=0) / weight
    left = (z**2).sum(axis=0) - weight * mean**2 + 0.6
    freedom, square = (np.inf, 0.3) if kind == "known" else (len(z) + 2.0, left / (len(z) + 2.0))
    low = t(freedom).ppf(0.1) * np.sqrt(square * (1 + 1 / weight)) + mean
    posterior = model.fit(data, rng=rng).posterior
    rows = model.next_rows(posterior, data, steps=2, level=0.8)
    places = [(sequence, step, column) for sequence in (0, 1) for step in (1, 2) for column in "ab"]
    assert [(row["sequence"], row["step"], row["column"]) for row in rows] == places
    np.testing.assert_allclose([row["low"] for row in rows[2:4]], low * [4.0, 0.5] + [10.0, -3.0])


def test_gaps_are_filled_with_what_is_around_them(rng):
    """A state that lasts says what was missed in it."""
    states = np.repeat([0, 1, 0], 30)
    points = rng.normal(np.array([[0.0, 5.0], [8.0, 1.0]])[states], 0.5)
    points[[10, 45]] = np.nan
    model = db.HiddenMarkov(states=2, columns=dict.fromkeys("ab", db.columns.Gaussian(3, 3)), stickiness=5.0)
    filled = model.fill(model.fit([points], rng=rng).posterior, [points])
    values = {(row["row"], row["column"]): row["value"] for row in filled.rows}
    expected = {(10, "a"): 0.0, (10, "b"): 5.0, (45, "a"): 8.0, (45, "b"): 1.0}
    assert values == pytest.approx(expected, abs=0.5)
    assert filled.columns["a"][45] == values[45, "a"]


def test_correlated_columns_are_missing_together(rng):
    model = db.HiddenMarkov(states=2, columns=UNITS, covariance="full")
    points = points_of(rng)
    points[3, 1] = np.nan
    with pytest.raises(InvalidData, match=r"'b' must hold .* whole rows; 1 of 12"):
        model.fit([points], rng=rng)
    with pytest.raises(InvalidData, match="whole rows"):
        model.fit([dict(zip("ab", points.T, strict=True))], rng=rng)


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="'diagonal' where `variance` is known"):
        db.HiddenMarkov(columns=UNITS, variance=1.0, covariance="full")


def test_correlations_of_a_state_are_found(rng):
    """Two states at one place that differ in the sign of a correlation: diagonal covariances cannot tell them apart."""
    states = np.repeat([0, 1, 0, 1], 60)
    noise = rng.normal(size=(240, 2))
    points = np.column_stack([noise[:, 0], np.where(states, 1, -1) * 0.95 * noise[:, 0] + 0.3 * noise[:, 1]])
    columns = dict.fromkeys("ab", db.columns.Gaussian(0, 1))
    found = {}
    for covariance in ("full", "diagonal"):
        model = db.HiddenMarkov(states=2, columns=columns, covariance=covariance, stickiness=5.0)
        posterior = model.fit([points], rng=rng).posterior
        found[covariance] = db.checking.adjusted_rand(states, model.path(posterior, [points])[0])
    assert found["full"] > 0.9 > found["diagonal"] + 0.4
