"""Regressions: what is conjugate is exact, what is not is checked by integrals, and terms are what formulas say."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, optimize, stats
from scipy.special import expit

import decbayes as db
from decbayes.columns import Categorical, Gaussian, Poisson, YesNo
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.models.regressions.formulas.design import Design
from decbayes.models.regressions.formulas.formula import parsed
from decbayes.models.regressions.poisson import log_poisson, quantile

ROWS, SITES = 400, 8
KINDS = {db.LinearRegression: "pressure", db.LogisticRegression: "smoker", db.PoissonRegression: "visits"}


@pytest.fixture
def frame(rng):
    """Patients whose outcomes depend on age and ward."""
    age = rng.normal(50.0, 12.0, ROWS)
    ward = np.array(["heart", "skin", "bone"])[rng.integers(3, size=ROWS)]
    effect = 0.06 * (age - 50.0) + 0.7 * (ward == "heart") - 0.4 * (ward == "skin")
    return pd.DataFrame(
        {
            "age": age,
            "ward": ward,
            "pressure": 1e6 + 9.0 * effect + rng.normal(0.0, 5.0, ROWS),
            "smoker": rng.random(ROWS) < expit(effect),
            "visits": rng.poisson(np.exp(0.5 * effect + 0.4)),
        }
    )


def regression(kind, frame, terms="age + ward", **settings):
    return kind.from_frame(frame, f"{KINDS[kind]} ~ {terms}", **settings)


def sites_of(model, frame):
    return np.array_split(model.points(frame), SITES)


def deviations(model, one, other):
    """How far apart two posteriors' means are, in the second one's standard deviations."""
    mean, spread, _, _ = model.outcome.interval(other.natural["coefficients"], 0.9)
    return np.abs((model.outcome.interval(one.natural["coefficients"], 0.9)[0] - mean) / spread).max()


class TestLinear:
    def test_the_posterior_is_that_of_the_textbook(self, frame):
        model = regression(db.LinearRegression, frame)
        (mean,), (weight,), (shape,), (rate,) = model.outcome.family.columns(
            model.fit(frame).posterior.natural["coefficients"]
        )
        column, target = model.columns["age"], model.columns["pressure"]
        wards = model.columns["ward"].categories
        assert wards == ("bone", "heart", "skin")
        x = np.column_stack(
            [
                np.ones(ROWS),
                (frame["age"] - column.centre) / column.scale,
                frame["ward"] == "heart",
                frame["ward"] == "skin",
            ]
        ).astype(float)
        y = (frame["pressure"].to_numpy() - target.centre) / target.scale
        # Ridge by least squares: the prior is a few rows more.
        rows = np.vstack([x, 0.1 * np.eye(4)])
        expected, *_ = np.linalg.lstsq(rows, np.append(y, np.zeros(4)), rcond=None)
        np.testing.assert_allclose(mean, expected, rtol=1e-10)
        np.testing.assert_allclose(weight, rows.T @ rows, rtol=1e-10)
        residual = np.sum((y - x @ expected) ** 2) + 0.01 * np.sum(expected**2)
        assert (shape, rate) == (pytest.approx(0.5 * (1 + ROWS)), pytest.approx(0.5 * (0.5 + residual)))

    def test_merged_is_batch_though_targets_are_far_from_zero(self, frame, rng):
        model = regression(db.LinearRegression, frame)
        shards = sites_of(model, frame)
        posteriors = [model.fit(shard).posterior for shard in shards]
        batch = model.fit(frame).posterior
        for merged in (db.merge(posteriors), db.refine(model, shards, posteriors, rounds=1, rng=rng).merged):
            np.testing.assert_allclose(
                merged.natural["coefficients"], batch.natural["coefficients"], rtol=1e-12, atol=1e-12 * ROWS
            )
            assert deviations(model, merged, batch) < 1e-11

    def test_a_prediction_is_a_ratio_of_evidences(self, frame):
        """log p(y_new | y) = log p(y_new, y) − log p(y)."""
        model = regression(db.LinearRegression, frame)
        points = model.points(frame)
        few, more = model.fit(points[:30]), model.fit(points[:31])
        assert model.log_predictive(few.posterior, points[30:31]) == pytest.approx(more.bound[-1] - few.bound[-1])

    def test_intervals_hold_as_often_as_they_say(self, rng):
        """Of coefficients from the prior, and of new values."""
        model = db.LinearRegression("y", columns={"x": Gaussian(3, 2), "y": Gaussian(1, 5)}, prior_variance=4.0)
        inside, predicted = [], []
        for _ in range(200):
            drawn = db.simulate(model, 12, rng=rng)
            fit = model.fit(drawn.data[:10]).posterior
            rows = model.coefficients(fit, level=0.8)
            slope = drawn.parameters["coefficients"].mean[0, 1] * 5 / 2
            inside.append(rows[1]["low"] < slope < rows[1]["high"])
            found = model.predict(fit, drawn.data[10:], level=0.8)
            predicted.extend((found["low"] < drawn.data[10:, 1]) & (drawn.data[10:, 1] < found["high"]))
        # Within four standard errors.
        assert np.mean(inside) == pytest.approx(0.8, abs=4 * (0.16 / 200) ** 0.5)
        assert np.mean(predicted) == pytest.approx(0.8, abs=4 * (0.16 / 400) ** 0.5)

    def test_coefficients_are_in_the_columns_own_units(self, frame):
        model = regression(db.LinearRegression, frame)
        rows = {row["term"]: row for row in model.coefficients(model.fit(frame).posterior)}
        assert rows["age"]["mean"] == pytest.approx(9.0 * 0.06, abs=0.1)
        assert rows["ward=heart"]["mean"] == pytest.approx(9.0 * 0.7, abs=3.0)
        at_centre = rows["intercept"]["mean"] + 50.0 * rows["age"]["mean"]
        assert at_centre == pytest.approx(1e6, abs=3.0)
        assert model.noise(model.fit(frame).posterior) == pytest.approx(5.0, rel=0.15)


def log_likelihood(kind, y, f):
    return stats.bernoulli(expit(f)).logpmf(y) if kind is db.LogisticRegression else stats.poisson(np.exp(f)).logpmf(y)


def under(mean, variance, function):
    """E[function(f)] by the trapezoidal rule, which is exact to rounding for what vanishes smoothly at both ends."""
    f = mean + variance**0.5 * np.linspace(-12.0, 12.0, 4801)
    return integrate.trapezoid(function(f) * stats.norm.pdf(f, mean, variance**0.5), f)


@pytest.mark.parametrize("kind", [db.LogisticRegression, db.PoissonRegression])
class TestGaussianPosteriors:
    @pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.04), (-2.0, 1.0), (1.5, 4.0), (-6.0, 9.0)])
    @pytest.mark.parametrize("y", [0.0, 1.0])
    def test_expectations_are_the_integrals(self, kind, mean, variance, y, frame):
        model = regression(kind, frame)
        value, slope, weight = (
            float(part[0]) for part in model.outcome.expectations(np.array([y]), np.array([mean]), np.array([variance]))
        )
        expected = under(mean, variance, partial(log_likelihood, kind, y))
        assert value == pytest.approx(expected, abs=1e-6, rel=1e-6)
        # g and 2 dE/dv = −w, by differences of the expectation itself: Bonnet's and Price's theorems.
        step = 1e-4
        at = lambda m, v: float(model.outcome.expectations(*(np.array([part]) for part in (y, m, v)))[0][0])  # noqa: E731
        assert slope == pytest.approx((at(mean + step, variance) - at(mean - step, variance)) / (2 * step), abs=1e-5)
        risen = at(mean, variance + step) - at(mean, variance - step)
        assert weight == pytest.approx(-risen / step, rel=1e-4, abs=1e-6)

    def test_nothing_nearby_has_a_higher_bound(self, kind, frame, rng):
        model = regression(kind, frame)
        fit = model.fit(frame, rng=rng)
        design, targets = model.table.parts(frame)
        (prior,) = model.structure.prior.values()
        best = fit.posterior.natural["coefficients"]

        def bound(natural):
            (middle,), (covariance,) = model.outcome.family.columns(natural)
            mean, variance = design @ middle, np.sum(design @ covariance * design, axis=1)
            return model.outcome.expectations(targets, mean, variance)[0].sum() - model.outcome.family.kl(
                natural, prior
            )

        assert fit.bound[-1] == pytest.approx(bound(best))
        mean, covariance = model.outcome.family.columns(best)
        for _ in range(20):
            tilt = np.eye(4) + 0.05 * rng.normal(size=(4, 4))
            shift = 0.1 * rng.normal(size=4) * np.sqrt(np.diag(covariance[0]))
            other = model.outcome.family.natural(mean=mean + shift, covariance=tilt @ covariance @ tilt.T)
            assert bound(other) < fit.bound[-1]

    def test_laplace_is_the_mode_and_its_curvature(self, kind, frame, rng):
        model = regression(kind, frame, approximation="laplace")
        design, targets = model.table.parts(frame)

        def loss(beta):
            return 0.05 * beta @ beta - log_likelihood(kind, targets, design @ beta).sum()

        (mean,), (covariance,) = model.outcome.family.columns(
            model.fit(frame, rng=rng).posterior.natural["coefficients"]
        )
        found = optimize.minimize(loss, np.zeros(4), tol=1e-12)
        np.testing.assert_allclose(mean, found.x, atol=1e-4)
        f = design @ found.x
        weight = expit(f) * expit(-f) if kind is db.LogisticRegression else np.exp(f)
        exact = np.linalg.inv(design.T @ (weight[:, None] * design) + 0.1 * np.eye(4))
        np.testing.assert_allclose(covariance, exact, rtol=1e-3, atol=1e-6)

    @pytest.mark.parametrize("approximation", ["variational", "laplace"])
    def test_one_broadcast_is_near_batch_and_three_rounds_are_there(self, kind, approximation, frame, rng):
        model = regression(kind, frame, approximation=approximation)
        shards = sites_of(model, frame)
        posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
        batch = model.fit(frame, rng=rng).posterior
        refined = db.refine(model, shards, posteriors, rounds=3, rng=rng, schedule="parallel", damping=0.9)
        assert deviations(model, refined.rounds[0], batch) < 0.5
        assert deviations(model, refined.merged, batch) < 0.05

    def test_passed_on_one_broadcast_of_small_sites_is_nearer_to_batch(self, kind, frame, rng):
        model = regression(kind, frame)
        shards = np.array_split(model.points(frame), 5 * SITES)
        batch, passed_on = model.fit(frame, rng=rng).posterior, None
        merged = db.merge([model.fit(shard, rng=rng).posterior for shard in shards])
        for shard in shards:
            passed_on = model.fit(shard, prior=passed_on, rng=rng).posterior
        assert deviations(model, passed_on, batch) < 0.5 * deviations(model, merged, batch)

    def test_hard_data_have_finite_posteriors(self, kind, rng):
        """Separable outcomes, a column twice, one row per site, a column without variation."""
        x = rng.normal(size=40)
        y = (x > 0).astype(float) * (1.0 if kind is db.LogisticRegression else 30.0)
        columns = {"a": "real", "b": "real", "c": "real", "y": kind.outcome.holds()}
        model = kind("y", columns=columns)
        points = np.column_stack([x, x, np.zeros(40), y])
        merged = db.merge([model.fit(row[None], rng=rng).posterior for row in points])
        for posterior in (model.fit(points, rng=rng).posterior, merged):
            mean, spread, _, _ = model.outcome.interval(posterior.natural["coefficients"], 0.9)
            assert np.isfinite(mean).all()
            assert (spread > 0).all()
            assert mean[1] > 0
            assert spread[3] == pytest.approx(10**0.5, rel=1e-6), "nothing was learned of the constant column"
            assert np.isfinite(model.log_predictive(posterior, points)).all()

    def test_predictions_are_the_integrals(self, kind, frame, rng):
        model = regression(kind, frame)
        posterior = model.fit(frame.iloc[:20], rng=rng).posterior
        _, targets = model.table.parts(frame.iloc[:6])
        density = np.exp(model.log_predictive(posterior, frame.iloc[:6]))
        means, variances = model.linear(posterior, frame.iloc[:6])
        for found, y, mean, variance in zip(density, targets, means, variances, strict=True):
            exact = under(mean, variance, lambda f, y=y: np.exp(log_likelihood(kind, y, f)))
            assert found == pytest.approx(exact, rel=1e-6)


def test_improbable_outcomes_have_finite_log_densities(frame, rng):
    model = regression(db.LogisticRegression, frame)
    certain = db.Posterior.from_natural(
        model.structure,
        {"coefficients": model.outcome.family.natural(mean=[[-60.0, 0.0, 0.0, 0.0]], covariance=1e-4 * np.eye(4))},
    )
    rows = frame.assign(smoker=True).iloc[:3]
    np.testing.assert_allclose(model.log_predictive(certain, rows), -60.0, atol=0.01)


def test_quantiles_of_counts_are_those_of_the_sum():
    mean, variance = np.array([0.5, 3.0]), np.array([0.3, 0.1])
    counts = np.arange(400)
    for place in range(2):
        shares = np.exp(log_poisson(counts.astype(float), np.full(400, mean[place]), np.full(400, variance[place])))
        assert shares.sum() == pytest.approx(1.0, abs=1e-6)
        for share in (0.05, 0.5, 0.95):
            assert quantile(mean, variance, share)[place] == np.searchsorted(np.cumsum(shares), share)


@pytest.mark.parametrize(("rate", "deviation"), [(3.0, 2.0), (40.0, 0.3), (5000.0, 0.02), (5000.0, 0.1), (2e5, 1.0)])
def test_quantiles_of_large_counts_take_no_steps(rate, deviation):
    """Against a sum over 20,000 rates; forty of them are too far apart for counts of thousands."""
    rates = rate * np.exp(deviation * np.linspace(-8.0, 8.0, 20_001))
    weights = stats.norm.pdf(np.linspace(-8.0, 8.0, 20_001))
    for share in (0.05, 0.37, 0.95):
        found = quantile(np.array([np.log(rate)]), np.array([deviation**2]), share)[0]
        chance = (stats.poisson.cdf([[found - 1.0], [found]], rates) @ weights) / weights.sum()
        assert chance[0] - 1e-4 < share <= chance[1] + 1e-4


COLUMNS = {"age": Gaussian(50, 10), "ward": Categorical("a", "b", "c"), "sex": YesNo(), "n": Poisson(4)}


class TestTerms:
    def test_labels_numbers_and_units(self):
        design = Design(COLUMNS, ("age", "ward", "age:ward", "n"), True)
        assert design.labels == ("intercept", "age", "ward=b", "ward=c", "age:ward=b", "age:ward=c", "n")
        np.testing.assert_allclose(design.units, [1, 10, 1, 1, 10, 10, 2])
        points = np.array([[70.0, 2.0, 1.0, 6.0], [40.0, 0.0, 0.0, 4.0]])
        np.testing.assert_allclose(design.matrix(points), [[1, 2, 0, 1, 0, 2, 1], [1, -1, 0, 0, 0, 0, 0]])

    @pytest.mark.parametrize(
        ("formula", "terms", "intercept"),
        [
            ("y ~ age + sex", ("age", "sex"), True),
            ("y ~ age * sex", ("age", "sex", "age:sex"), True),
            ("y ~ . - 1", ("age", "ward", "sex", "n"), False),
            ("y ~ 0 + age", ("age",), False),
            ("y ~ 1", (), True),
            ("y ~ age + age : ward", ("age", "age:ward"), True),
        ],
    )
    def test_formulas(self, formula, terms, intercept):
        assert parsed(formula, [*COLUMNS, "y"])[:3] == ("y", terms, intercept)

    @pytest.mark.parametrize(
        ("formula", "message"),
        [
            ("y = age", "of the form"),
            ("age ~ age", "cannot be a term of its own"),
            ("height ~ age", "There is no column 'height' to predict; the columns are age, sex, y"),
            ("log(y) ~ age", "Add such a function of a column as a column first."),
        ],
    )
    def test_formulas_that_make_no_sense(self, formula, message):
        table = {"age": [1.5, 2.5], "sex": [True, False], "y": [0.1, 0.2]}
        with pytest.raises(InvalidStructure, match=message):
            db.LinearRegression.from_frame(table, formula, report=print)

    def test_an_intercept_alone_is_a_mean(self, frame):
        model = db.LinearRegression.from_frame(frame, "pressure ~ 1", prior_variance=1e6)
        (row,) = model.coefficients(model.fit(frame).posterior)
        assert row["mean"] == pytest.approx(frame["pressure"].mean(), rel=1e-9)

    def test_sites_with_other_categories_agree(self, frame, rng):
        here, there = frame[frame["ward"] != "skin"], frame[frame["ward"] != "bone"]
        names = ["age", "ward", "visits"]
        columns = db.columns.agree(*(db.columns.columns_of(part[names], {"age": "real"}) for part in (here, there)))
        model = db.PoissonRegression("visits", columns=columns)
        merged = db.merge([model.fit(part, rng=rng).posterior for part in (here, there)])
        assert [row["term"] for row in model.coefficients(merged)][2:] == ["ward=heart", "ward=skin"]


class TestData:
    def test_missing_values_are_refused_by_number(self, frame, rng):
        model = regression(db.LogisticRegression, frame)
        frame.loc[3, "age"] = np.nan
        with pytest.raises(InvalidData, match="1 of 400 rows have missing values; the first is row 3,"):
            model.fit(frame, rng=rng)

    def test_predictions_need_no_target(self, frame, rng):
        model = regression(db.PoissonRegression, frame)
        posterior = model.fit(frame, rng=rng).posterior
        new = frame[["ward", "age"]].iloc[:5]
        found = model.predict(posterior, new)
        assert ((found["low"] <= found["mean"]) & (found["mean"] <= found["high"])).all()
        np.testing.assert_allclose(found["mean"], model.predict(posterior, frame.iloc[:5])["mean"])
        with pytest.raises(InvalidData, match="There is no column 'age'; the columns are ward"):
            model.predict(posterior, new[["ward"]])

    def test_columns_far_from_their_agreed_centre_are_warned_of(self, frame, rng):
        kept = {"age": Gaussian(), "smoker": YesNo()}
        with pytest.warns(UserWarning, match="'age' is on average 1e\\+06 agreed units from its agreed centre"):
            db.LogisticRegression("smoker", columns=kept).fit(frame.assign(age=frame["age"] + 1e6), rng=rng)
        kept = {"age": Gaussian(centre=50, scale=10), "pressure": Gaussian()}
        with pytest.warns(UserWarning, match="'pressure' is on average 1e\\+06 agreed units"):
            db.LinearRegression("pressure", columns=kept).fit(frame)

    def test_two_categories_are_no_and_yes(self, frame, rng):
        told = frame.assign(smoker=np.where(frame["smoker"], "often", "never"))
        model = db.LogisticRegression.from_frame(told, "smoker ~ age")
        assert model.columns["smoker"] == Categorical("never", "often")
        plain = db.LogisticRegression.from_frame(frame, "smoker ~ age")
        one, other = model.fit(told, rng=rng).posterior, plain.fit(frame, rng=rng).posterior
        np.testing.assert_array_equal(one.natural["coefficients"], other.natural["coefficients"])
        with pytest.raises(InvalidStructure, match="or has two categories; 'ward' has 3"):
            db.LogisticRegression.from_frame(frame, "ward ~ age")

    def test_files_say_which_of_two_categories_is_yes(self, frame, tmp_path):
        path = tmp_path / "a.csv"
        frame.assign(smoker=np.where(frame["smoker"], "often", "never")).to_csv(path, index=False)
        model, _ = db.LogisticRegression.from_file(path, formula="smoker ~ age")
        assert model.modelled == "odds of smoker = often, by smoker ~ age"

    @pytest.mark.parametrize(
        ("kind", "targets"), [(db.LogisticRegression, [0.0, 2.0]), (db.PoissonRegression, [1.0, -1.0])]
    )
    def test_matrices_with_impossible_targets_are_refused(self, kind, targets, rng):
        model = kind("y", columns={"x": "real", "y": kind.outcome.holds()})
        with pytest.raises(InvalidData, match="target 'y' must be"):
            model.fit(np.column_stack([[0.0, 1.0], targets]), rng=rng)

    def test_a_target_of_another_kind_is_refused(self):
        with pytest.raises(InvalidStructure, match="The target of PoissonRegression is count; 'y' is real"):
            db.PoissonRegression("y", columns={"x": "real", "y": "real"})

    def test_a_formula_in_place_of_the_target_is_told_where_it_goes(self):
        with pytest.raises(InvalidStructure, match="from_frame"):
            db.PoissonRegression("y ~ x")
        with pytest.raises(InvalidStructure, match="Say what it holds"):
            db.PoissonRegression("y")

    def test_files_leave_out_incomplete_rows_and_say_so(self, frame, rng, tmp_path):
        frame.loc[[3, 5], "age"] = np.nan
        frame.to_csv(tmp_path / "a.csv", index=False)
        said = []
        formula = "visits ~ age + ward"
        model, points = db.PoissonRegression.from_file(tmp_path / "a.csv", formula=formula, report=said.append)
        assert len(points) == ROWS - 2
        assert "2 of 400 rows have missing values and are left out" in said[0]
        again = model.read(tmp_path / "a.csv")
        np.testing.assert_allclose(again, points)
