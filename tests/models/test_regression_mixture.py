"""Groups of rows, each with a regression of its own: against one regression, and against what was drawn."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate

import decbayes as db
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.models.core import points
from decbayes.models.likelihoods.emissions import coefficients
from decbayes.models.likelihoods.point_pass import PointBlocks
from decbayes.models.regressions import regression_mixture
from decbayes.views import view_of

COLUMNS = {"x": db.columns.Gaussian(3, 2), "w": db.columns.Categorical("a", "b"), "y": db.columns.Gaussian(100, 10)}


def rows(rng, count=120):
    """Two lines that cross, and the line of each row."""
    x, ward, line = rng.normal(3, 2, count), rng.integers(2, size=count), rng.random(count) < 0.4
    y = np.where(line, 110 + 6 * (x - 3), 95 - 4 * (x - 3)) + 5 * ward + rng.normal(0, 2, count)
    return pd.DataFrame({"x": x, "w": np.array(["a", "b"])[ward], "y": y}), line


def test_one_group_is_a_linear_regression(rng):
    frame, _ = rows(rng)
    one = db.RegressionMixture(1, "y", columns=COLUMNS)
    linear = db.LinearRegression("y", columns=COLUMNS)
    fit, exact = one.fit(frame, rng=rng), linear.fit(frame)
    for own, other in zip(one.lines(fit.posterior), linear.coefficients(exact.posterior), strict=True):
        for part in ("mean", "low", "high"):
            assert own[part] == pytest.approx(other[part], rel=1e-9)
    assert fit.bound[-1] == pytest.approx(exact.bound[-1], rel=1e-9)
    np.testing.assert_allclose(
        one.log_predictive(fit.posterior, frame), linear.log_predictive(exact.posterior, frame), rtol=1e-9
    )
    for own, other in zip(
        one.predict(fit.posterior, frame).values(), linear.predict(exact.posterior, frame).values(), strict=True
    ):
        np.testing.assert_allclose(own, other, rtol=1e-9)


def test_lines_that_cross_are_found_by_sites_together(rng):
    model = db.RegressionMixture(2, "y", columns=COLUMNS)
    sites = [rows(rng) for _ in range(4)]
    posteriors = [model.fit(frame, rng=rng).posterior for frame, _ in sites]
    merged = db.merge(posteriors)
    slopes = sorted(row["mean"] for row in model.lines(merged) if row["term"] == "x")
    np.testing.assert_allclose(slopes, [-4, 6], atol=0.3)
    tested, line = rows(rng, 300)
    assert db.checking.adjusted_rand(line, model.assign(merged, tested)) > 0.7
    assert model.score(merged, tested) > np.mean([model.score(posterior, tested) for posterior in posteriors])


def test_exported_rows_are_in_the_units_of_the_data(rng):
    frame, _ = rows(rng)
    model = db.RegressionMixture(2, "y", columns=COLUMNS)
    posterior = model.fit(frame, rng=rng).posterior
    exported = view_of(posterior.structure).parameters(posterior)
    told = {(row["component"], row["entry"]): row["mean"] for row in exported if row["quantity"] == "mean"}
    assert told == pytest.approx({(row["component"], row["term"]): row["mean"] for row in model.lines(posterior)})
    noise = [row["mean"] ** -0.5 for row in exported if row["quantity"] == "precision"]
    np.testing.assert_allclose(noise, [row["noise"] for row in model.describe(posterior)], rtol=1e-6)


def test_predictions_are_those_of_the_density(rng):
    frame, _ = rows(rng)
    model = db.RegressionMixture(2, "y", columns=COLUMNS)
    posterior = model.fit(frame, rng=rng).posterior
    new = frame.iloc[:1]
    told = model.predict(posterior, new.drop(columns="y"), level=0.8)

    y = np.linspace(-200, 400, 60_001)
    density = np.exp(model.log_predictive(posterior, new.loc[new.index.repeat(len(y))].assign(y=y)))
    below = integrate.cumulative_trapezoid(density, y, initial=0.0)
    low, high = np.interp([told["low"][0], told["high"][0]], y, below)
    assert low == pytest.approx(0.1, abs=1e-4)
    assert high - low == pytest.approx(0.8, abs=1e-4)
    mean = integrate.trapezoid(y * density, y)
    assert mean == pytest.approx(told["mean"][0], rel=1e-3)


def test_sites_with_other_groups_find_their_number(rng):
    model = db.RegressionMixture("auto", "y", columns=COLUMNS, ascent=db.Ascent(restarts=2))
    frame, _ = rows(rng, 300)
    posterior = model.fit(frame, rng=rng).posterior
    assert len(posterior.mean("weights")) == 2


def test_what_varies_is_for_regressions_of_one_group(rng):
    frame, _ = rows(rng, 20)
    with pytest.raises(InvalidStructure, match="no terms that vary from site to site"):
        db.RegressionMixture.from_frame(frame, "y ~ x + (1 | w)", components=2)
    with pytest.raises(InvalidStructure, match="has no offset"):
        db.RegressionMixture.from_frame(frame, "y ~ x + offset(w)", components=2)


def test_targets_that_were_held_out_are_predicted_from_the_rest(rng):
    frame, _ = rows(rng)
    for model in (db.RegressionMixture(2, "y", columns=COLUMNS), db.LinearRegression("y", columns=COLUMNS)):
        posterior, whole = model.fit(frame, rng=rng).posterior, model.points(frame)
        seen, held = whole.copy(), np.full_like(whole, np.nan)
        seen[:, 2], held[:, 2] = np.nan, whole[:, 2]
        np.testing.assert_array_equal(
            model.log_predictive(posterior, seen, held), model.log_predictive(posterior, whole)
        )
        assert model.score(posterior, seen, held) == pytest.approx(model.score(posterior, whole))
        with pytest.raises(InvalidData, match="both observed and held out"):
            model.log_predictive(posterior, whole, held)
        seen[:, 0], held[:, 0] = np.nan, whole[:, 0]
        with pytest.raises(InvalidData, match="only values of 'y' can be held out"):
            model.log_predictive(posterior, seen, held)


def test_groups_begin_with_different_rows_however_few_there_are(rng, monkeypatch):
    frame, _ = rows(rng, 6)
    model = db.RegressionMixture(3, "y", columns=COLUMNS)
    blocks = PointBlocks(model.emissions, model.points(frame))
    before = dict(db.Posterior.of_prior(model.structure).natural)
    begun = []

    def first(emissions, natural):
        begun.append(natural["weights"][:, 0] - before["weights"][:, 0])
        return coefficients(emissions, natural)

    monkeypatch.setattr(regression_mixture, "coefficients", first)
    after = model._begin(blocks, before, "random", rng)
    np.testing.assert_allclose(begun, [[2.0, 2.0, 2.0]])  # six rows, two for each, none twice
    assert (after["weights"] - before["weights"]).sum() == pytest.approx(6.0)
    for size in (1, 2):
        assert np.isfinite(model.fit(frame.iloc[:size], rng=rng).bound).all()


def test_a_start_reads_only_blocks_that_it_has_chosen_rows_of(rng, monkeypatch):
    frame, _ = rows(rng, 100)
    monkeypatch.setattr(points, "BLOCK", 5)
    model = db.RegressionMixture(1, "y", columns=COLUMNS)
    blocks, read = PointBlocks(model.emissions, model.points(frame)), []
    monkeypatch.setattr(blocks, "_block", lambda number, block=blocks._block: read.append(number) or block(number))
    assert len(blocks.sample(3, rng)) == 3
    assert len(read) <= 3
