"""What regressions say of coefficients and of new rows, against draws of all parameters and outcomes."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import nbinom, poisson

import decbayes as db
from decbayes.models.regressions._estimates import ratio_text
from decbayes.models.regressions.logistic import Logistic
from decbayes.models.regressions.negative_binomial import NegativeBinomial
from decbayes.models.regressions.poisson import PoissonOutcome

DRAWS, LEVEL = 40_000, 0.7
PREDICTORS = {"a": db.columns.Gaussian(5.0, 0.002), "w": db.columns.Categorical("p", "q", "r")}
NEW = {"a": [5.001, 4.998], "w": ["q", "p"]}
KINDS = {
    "linear": db.LinearRegression("y", columns=PREDICTORS | {"y": db.columns.Gaussian(10.0, 4.0)}),
    "logistic": db.LogisticRegression("y", columns=PREDICTORS | {"y": db.columns.YesNo()}, prior_variance=2.0),
    "poisson": db.PoissonRegression("y", columns=PREDICTORS | {"y": db.columns.Poisson(3.0)}, prior_variance=0.5),
    "negative binomial": db.NegativeBinomialRegression(
        "y", columns=PREDICTORS | {"y": db.columns.Poisson(3.0)}, prior_variance=0.5, dispersion=2.5
    ),
    "survival": db.SurvivalRegression(
        "y", columns=PREDICTORS | {"y": db.columns.YesNo(), "t": db.columns.Gaussian(2.0, 1.0)}, time="t",
        terms=("a", "w"), cuts=(1.0, 3.0), rate=0.4, prior_variance=0.5,
    ),
    "ordered": db.OrderedRegression(
        "y", columns=PREDICTORS | {"y": db.columns.Categorical("c", "a", "b")}, levels=("a", "b", "c"),
        prior_variance=0.5,
    ),
}  # fmt: skip


@pytest.fixture(params=KINDS, scope="module")
def case(request):
    """A model, its posterior after a few rows, and draws of the coefficients (and of the noise)."""
    model, rng = KINDS[request.param], np.random.default_rng(7)
    posterior = model.fit(db.simulate(model, 25, rng=rng).data, rng=rng).posterior
    drawn = posterior.sample(DRAWS, rng)["coefficients"]
    noise = None
    if request.param == "linear":
        drawn, noise = drawn.mean, 1.0 / np.sqrt(drawn.precision)
    return request.param, model, posterior, np.asarray(drawn).reshape(DRAWS, -1), noise


def quantiles(values):
    return np.quantile(values, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], axis=0)


def near(found, expected, size):
    np.testing.assert_allclose(found, expected, atol=0.04 * np.max(size))


def test_coefficients_have_the_quantiles_of_draws_in_the_columns_own_units(case):
    """Levels are those where a, which lies around 5 ± 0.002, is 0."""
    name, model, posterior, drawn, _ = case
    unit, centre = (4.0, 10.0) if name == "linear" else (1.0, 0.0)
    rows = model.coefficients(posterior, level=LEVEL)
    slopes = unit / 0.002 * drawn[:, [row["term"] for row in rows].index("a")]
    for row, values in zip(rows, unit * drawn.T, strict=True):
        is_level = row["term"] == "intercept" or ("=" in row["term"] and not row["term"].startswith("w"))
        own = slopes if row["term"] == "a" else centre + values - 5.0 * slopes if is_level else values
        wide = own.std()
        near(row["mean"], own.mean(), wide)
        near(row["deviation"], wide, wide)
        near([row["low"], row["high"]], quantiles(own), wide)


def test_ratios_are_exponentials_per_a_difference_that_columns_have(case):
    name, model, posterior, _, _ = case
    ratios = {row["term"]: row for row in model.ratios(posterior, level=LEVEL)}
    rows = {row["term"]: row for row in model.coefficients(posterior, level=LEVEL)}
    if name == "linear":
        assert ratios == {}
        return
    assert set(ratios) == {"a", "w=q", "w=r"}
    assert (ratios["a"]["per"], ratios["w=q"]["per"]) == (0.001, 1.0)
    for term, row in ratios.items():
        for end, of in (("ratio", "mean"), ("low", "low"), ("high", "high")):
            assert row[end] == pytest.approx(np.exp(row["per"] * rows[term][of]))


def linear_draws(model, drawn):
    """(draws, rows) or (draws, rows, steps): xβ of the new rows, from agreed units by hand."""
    x = np.array([[0.5, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    slopes = drawn[:, -3:] @ x.T
    return slopes + drawn[:, :1] if drawn.shape[1] == 4 else slopes[:, :, None] + drawn[:, None, :-3]


def test_predictions_have_the_quantiles_of_draws(case):
    name, model, posterior, drawn, noise = case
    rng, line = np.random.default_rng(8), linear_draws(model, drawn)
    found = model.predict(posterior, NEW, level=LEVEL)
    if name == "survival":
        exposure = 0.4 * np.array([1.0, 2.0, 0.0])
        hazard = np.sum(np.exp(line) * exposure, axis=2)
        at_mean = np.sum(np.exp(line.mean(axis=0)) * exposure, axis=1)
        near(found["mean"], np.exp(-at_mean), 0.3)
        low, high = quantiles(np.exp(-hazard))
        near(found["low"], low, 2.0)  # by the delta method
        near(found["high"], high, 2.0)
        return
    if name == "ordered":
        further = expit(line)
        levels = (rng.random(further.shape) < further).cumprod(axis=2).sum(axis=2)
        near(found["mean"], levels.mean(axis=0), 1.0)
        chances = np.stack([(levels == level).mean(axis=0) for level in range(3)], axis=1)
        near(model.probabilities(posterior, NEW), chances, 1.0)
        new = levels
    elif name == "linear":
        new = 10.0 + 4.0 * (line + noise.reshape(DRAWS, 1) * rng.normal(size=line.shape))
        near(found["mean"], np.median(new, axis=0), new.std())
    elif name == "logistic":
        new = expit(line)
        near(found["mean"], new.mean(axis=0), 1.0)
    else:
        rates = np.exp(line) * (rng.gamma(2.5, 1 / 2.5, line.shape) if name == "negative binomial" else 1.0)
        near(found["mean"], np.exp(line).mean(axis=0), np.exp(line).std())
        new = rng.poisson(rates)
    if name in ("linear", "logistic"):
        near([found["low"], found["high"]], quantiles(new), new.std())
        return
    for end, share in (("low", 0.5 - 0.5 * LEVEL), ("high", 0.5 + 0.5 * LEVEL)):
        at_most, below = (new <= found[end]).mean(axis=0), (new < found[end]).mean(axis=0)
        assert (at_most > share - 0.01).all()
        assert (below < share + 0.01).all()


def test_what_varies_between_sites_has_the_quantiles_of_draws(rng):
    """Standard deviations between sites, and predictions for a site that nobody has met."""
    columns = PREDICTORS | {"y": db.columns.Gaussian(10.0, 4.0)}
    model = db.LinearRegression("y", columns=columns, varying=("intercept", "a"), between_degrees=8.0)
    posterior = model.fit(db.simulate(model, 80, rng=rng).data, rng=rng).posterior
    drawn = posterior.sample(DRAWS, rng)
    noise = 1.0 / np.sqrt(drawn["coefficients"].precision).reshape(DRAWS, 1)
    between = 1.0 / np.sqrt(np.asarray(drawn["variation"]).reshape(DRAWS, 2))
    usual = model.outcome.noise(posterior.natural["coefficients"]) ** 0.5
    for row, values, unit in zip(model.between(posterior, level=LEVEL), between.T, (4.0, 2000.0), strict=True):
        values = unit * usual * values
        near(row["mean"], values.mean(), values.std())
        near(row["deviation"], values.std(), 2 * values.std())
        near([row["low"], row["high"]], quantiles(values), values.std())
    own = between * noise * rng.normal(size=(DRAWS, 2))
    line = linear_draws(model, np.asarray(drawn["coefficients"].mean).reshape(DRAWS, -1))
    line = line + own[:, :1] + own[:, 1:] * np.array([0.5, -1.0])
    new = 10.0 + 4.0 * (line + noise * rng.normal(size=line.shape))
    found = model.predict(posterior, NEW, level=LEVEL)
    size = np.subtract(*quantiles(new)[::-1])
    near([found["low"], found["high"]], quantiles(new), 2 * size)


@pytest.mark.parametrize("outcome", [Logistic(), PoissonOutcome(), NegativeBinomial(0.4), NegativeBinomial(5.0)])
@pytest.mark.parametrize("target", [0.0, 1.0])
def test_outcomes_that_recentre_are_linear_in_the_target_but_for_how_much_a_row_counts(outcome, target, rng):
    """log p(y|f) = y f + c h(f) + const: all that whoever reads a message assumes of them."""
    f = rng.normal(0.0, 2.0, size=9)
    alone, given = outcome.log_given(np.zeros(9), f, 1.0), outcome.log_given(np.full(9, target), f, 1.0) - target * f
    design = np.column_stack([np.ones(9), alone])
    fitted = design @ np.linalg.lstsq(design, given, rcond=None)[0]
    np.testing.assert_allclose(fitted, given, atol=1e-6)
    np.testing.assert_allclose(outcome.bent(0.0, f, np.zeros(9))[0], alone, atol=1e-9)
    factor = np.exp(outcome.bent(0.0, f + 0.7, np.zeros(9))[2] / outcome.bent(0.0, f, np.zeros(9))[2])
    assert np.allclose(factor, factor[0]) == outcome.proportional


def test_likelihoods_of_draws_are_those_of_rows(case):
    """log p(y | xβ) of each row and draw."""
    name, model, _, drawn, _ = case
    points = {**NEW, "y": [1, 0] if name == "logistic" else [4, 2]}
    if name not in ("logistic", "poisson", "negative binomial"):
        return
    line, y = linear_draws(model, drawn)[:50], np.array(points["y"])
    if name == "logistic":
        expected = np.log(expit(np.where(y == 1, line, -line)))
    elif name == "poisson":
        expected = poisson.logpmf(y, np.exp(line))
    else:
        expected = nbinom.logpmf(y, 2.5, 2.5 / (2.5 + np.exp(line)))
    (found,) = model.log_likelihoods({"coefficients": drawn[:50, None, :]}, points)
    np.testing.assert_allclose(found, expected, atol=1e-3 if name == "logistic" else 1e-6)


def test_risks_are_slopes_and_expectations_those_of_predictions(case):
    """The linear predictor without its baseline; what is observed and expected of each row."""
    name, model, posterior, _, _ = case
    if name in ("survival", "ordered"):
        return
    y = {"linear": [12.0, 9.0], "logistic": [1, 0]}.get(name, [4, 2])
    risks = model.risks(posterior, {**NEW, "y": y})
    mean = model.outcome.moments(posterior.natural["coefficients"])[0]
    np.testing.assert_allclose(risks.risk, np.array([[0.5, 1.0, 0.0], [-1.0, 0.0, 0.0]]) @ mean[1:])
    np.testing.assert_allclose(risks.expected, model.predict(posterior, NEW)["mean"])
    np.testing.assert_allclose(risks.observed, y)
    np.testing.assert_allclose(risks.time, -np.array(y, dtype=float))
    assert (risks.event == 1).all()


def test_a_curve_is_drawn_beyond_the_last_cut_or_as_long_as_an_event_takes():
    columns = {"y": db.columns.YesNo(), "t": db.columns.Gaussian(2.0, 1.0)}
    assert db.SurvivalRegression("y", columns=columns, time="t", cuts=(1.0, 4.0)).horizon == 6.0
    assert db.SurvivalRegression("y", columns=columns, time="t", cuts=(), rate=0.25).horizon == 4.0


@pytest.mark.parametrize("setting", ["prior_between", "between_degrees"])
def test_what_is_known_of_differences_between_sites_is_a_positive_number(setting):
    with pytest.raises(ValueError, match=setting):
        db.LinearRegression("y", columns={"x": "real", "y": "real"}, varying=("intercept",), **{setting: 0.0})


@pytest.mark.parametrize("name", KINDS)
def test_rows_for_which_outcomes_are_drawn_stay_as_they_are(name):
    model = KINDS[name]
    data = db.simulate(model, 20, rng=1).data
    before = data.copy()
    drawn = db.simulate(model, 20, rng=2, data=data).data
    np.testing.assert_array_equal(data, before)
    assert (drawn != before).any()


@pytest.mark.parametrize(
    ("ratio", "low", "high", "per", "text"),
    [
        (1.0011, 0.99861, 1.00363, 1.0, "1.0011 (0.9986 to 1.0036)"),  # not 1 (0.999 to 1)
        (3.92, 3.1749, 4.8606, 10.0, "3.92 (3.17 to 4.86) per 10"),
        (0.00344, 0.000924, 0.0128, 1.0, "0.00344 (0.000924 to 0.0128)"),
        (40.0, 20.0, 80.0, 1.0, "40 (20 to 80)"),
        (1.0, 1.0, 1.0, 1.0, "1 (1 to 1)"),
    ],
)
def test_ratios_have_the_digits_that_their_intervals_leave(ratio, low, high, per, text):
    assert ratio_text({"ratio": ratio, "low": low, "high": high, "per": per}) == text
