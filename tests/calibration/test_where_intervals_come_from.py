"""All places that show intervals show the calibrated ones, and say which intervals are exact or of no use."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, gamma, t

import decbayes as db
from decbayes.calibrated import Calibration
from decbayes.errors import NotCalibrated


def widened(posterior, times):
    """The posterior with deviations that are so many times the family's."""
    deviations = {
        name: {part: times * posterior.deviation(name, part) for part in posterior.quantities(name)}
        for name in posterior.structure.families
    }
    return replace(posterior, calibration=Calibration("a test", deviations))


@pytest.fixture
def table(rng):
    old = np.arange(60) < 30
    frame = {
        "age": np.where(old, 80, 30) + 5 * rng.normal(size=60),
        "sex": rng.choice(["f", "m"], 60),
        "well": rng.random(60) < np.where(old, 0.3, 0.7),
        "visits": rng.poisson(np.where(old, 9.0, 3.0)),
    }
    model = db.LatentClasses.from_frame(frame, components=2, kinds={"visits": "count"})
    return model, model.fit(frame, rng=rng).posterior


def widths(rows, column):
    return np.array([row["high"] - row["low"] for row in rows if row["column"] == column])


def test_profiles_have_the_families_own_intervals_without_a_calibration(table):
    model, posterior = table
    rows = [row for row in model.profiles(posterior, level=0.8) if row["component"] == 0]
    lows = {(row["column"], row["category"]): row["low"] for row in rows}
    strength, shape, rate = (posterior.parameters("real")[name][0, 0] for name in ("strength", "shape", "rate"))
    scale, centre = model.columns["age"].scale, model.columns["age"].centre
    mean = posterior.mean("real")[0, 0]
    student = t(2 * shape, mean, np.sqrt(rate / (shape * strength)))
    assert lows["age", ""] == pytest.approx(centre + scale * student.ppf(0.1))
    yes, no = (posterior.parameters("yes_no")[name].reshape(2, -1)[0, 0] for name in ("alpha", "beta"))
    assert lows["well", ""] == pytest.approx(beta(yes, no).ppf(0.1))
    shape, rate = (posterior.parameters("counts")[name].reshape(2, -1)[0, 0] for name in ("shape", "rate"))
    assert lows["visits", ""] == pytest.approx(gamma(shape, scale=1 / rate).ppf(0.1))


def test_profiles_are_as_wide_as_the_calibration_says_in_the_columns_own_units(table):
    model, posterior = table
    plain, wide = model.profiles(posterior), model.profiles(widened(posterior, 1.5))
    for column in model.columns:
        assert widths(wide, column) == pytest.approx(1.5 * widths(plain, column), rel=0.1)
    assert widths(wide, "age") == pytest.approx(1.5 * widths(plain, "age"))


@pytest.mark.parametrize("kind", [db.LinearRegression, db.LogisticRegression])
def test_coefficients_are_as_wide_as_the_calibration_says(kind, rng):
    rows = np.column_stack([rng.normal(size=50), rng.random(50) < 0.5]).astype(float)
    model = kind("y", columns={"x": "real", "y": "real" if kind is db.LinearRegression else "yes/no"})
    posterior = model.fit(rows).posterior
    plain, wide = model.coefficients(posterior), model.coefficients(widened(posterior, 2.0))
    for before, after in zip(plain, wide, strict=True):
        assert after["high"] - after["low"] == pytest.approx(2.0 * (before["high"] - before["low"]))
        assert after["deviation"] == pytest.approx(2.0 * before["deviation"])


def test_exact_posteriors_are_called_exact_and_others_are_not(rng):
    rows = np.column_stack([rng.normal(size=20), rng.random(20) < 0.5]).astype(float)
    linear = db.LinearRegression("y", columns={"x": "real", "y": "real"})
    logistic = db.LogisticRegression("y", columns={"x": "real", "y": "yes/no"})
    assert linear.fit(rows).posterior.uncertainty == "exact"
    assert db.models.GaussianMean(dimension=1).fit(rows[:, :1]).posterior.uncertainty == "exact"
    assert linear.fit(rows).posterior.summary()[0]["uncertainty"] == "exact"
    varying = db.LinearRegression("y", columns={"x": "real", "y": "real"}, varying=("intercept",))
    assert logistic.fit(rows).posterior.uncertainty == "approximate, for all parameters jointly"
    hidden = varying.fit(np.column_stack([rows, np.zeros(20)])).posterior
    assert hidden.uncertainty == "mean-field, not calibrated"


def test_intervals_that_cover_far_less_than_they_say_are_marked(rng):
    chains = db.HiddenMarkov(2, columns={"x": "real"})
    states = chains.fit([rng.normal(size=(12, 1)) for _ in range(3)], rng=rng).posterior
    assert "too narrow to be used" in states.uncertainty
    assert widened(states, 1.5).uncertainty == "calibrated by a test"
    clusters = db.GaussianMixture(2, 1, covariance="diagonal").fit(rng.normal(size=(20, 1)), rng=rng).posterior
    marked = {row["quantity"] for row in clusters.summary() if "too narrow to be used" in row["uncertainty"]}
    assert marked == {"precision"}
    assert not any("too narrow" in row["uncertainty"] for row in widened(clusters, 1.5).summary())


@pytest.mark.parametrize("method", [None, "linear response"])
@pytest.mark.parametrize("kind", [db.LinearRegression, db.LogisticRegression])
def test_intervals_that_a_calibration_would_not_change_are_not_called_calibrated(kind, method, rng):
    rows = np.column_stack([rng.normal(size=50), rng.random(50) < 0.5]).astype(float)
    model = kind("y", columns={"x": "real", "y": "real" if kind is db.LinearRegression else "yes/no"})
    posterior = model.fit_site(rows).posterior
    for again in (posterior, widened(posterior, 2.0)):
        with pytest.raises(NotCalibrated, match=r"nothing to calibrate: .* take a round .*--robust"):
            db.calibrate(model, [rows], again, method=method)
