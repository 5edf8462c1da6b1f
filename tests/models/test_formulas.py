"""Formulas mean what they mean in R: patsy's matrices span the same space; offsets and weights do what they say."""

import ast
import re

import numpy as np
import pandas as pd
import patsy
import pytest
from scipy import optimize, stats

import decbayes as db
from decbayes.columns import Categorical, Gaussian
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.models.regressions.formulas.design import Design
from decbayes.models.regressions.formulas.expressions import combined
from decbayes.models.regressions.formulas.formula import parsed

ROWS = 80
# Agreed centres and units are not those of the data: what a formula expresses must not depend on them.
COLUMNS = {
    "x": Gaussian(5.1, 1.9),
    "z": Gaussian(-0.8, 0.6),
    "g": Categorical("a", "b", "c"),
    "h": Categorical("u", "v"),
    "k": Categorical("p", "q", "r"),
}
PARTS = (
    "x",
    "z",
    "g",
    "h",
    "k",
    "x:g",
    "x:z",
    "g:h",
    "x:g:h",
    "g:h:k",
    "x*g",
    "x*z",
    "x*z*g",
    "g*h",
    "x:z:g",
    "I(x**2)",
)


@pytest.fixture
def frame(rng):
    levels = {name: rng.choice(COLUMNS[name].categories, ROWS) for name in "ghk"}
    return pd.DataFrame(
        {"y": rng.normal(size=ROWS), "x": rng.normal(5, 2, ROWS), "z": rng.normal(-1, 0.5, ROWS), **levels}
    )


def coded(frame):
    return np.column_stack([column.coded(frame[name].to_numpy()) for name, column in COLUMNS.items()])


def matrix(formula, frame):
    read = parsed(formula, frame.columns)
    design = Design(COLUMNS, read.terms, read.intercept)
    numbers = design.matrix(coded(frame))
    assert len(design.labels) == len(design.units) == len(design.flags) == numbers.shape[1]
    return numbers


def same_space(ours, theirs):
    rank = np.linalg.matrix_rank
    return ours.shape[1] == theirs.shape[1] and rank(ours) == rank(theirs) == rank(np.hstack([ours, theirs]))


def test_random_formulas_express_what_patsy_says(frame, rng):
    for _ in range(120):
        chosen = rng.choice(PARTS, size=rng.integers(1, 5), replace=False)
        formula = " + ".join(chosen) + rng.choice(["", " - 1", " + 0"])
        assert same_space(matrix(f"y ~ {formula}", frame), np.asarray(patsy.dmatrix(formula, frame))), formula


def named(label):
    """What a coefficient of patsy's or ours belongs to, whatever the order of a product."""
    return frozenset(re.sub(r"\[(?:T\.)?(\w+)\]", r"=\1", label).lower().split(":"))


@pytest.mark.parametrize("formula", ["x - 1", "g - 1", "x*z*g", "g + x:g", "x:z", "C(g, ref='b')*x", "x + I(x**2)"])
def test_coefficients_are_those_of_least_squares_on_patsys_matrix(formula, frame):
    """Value by value, with standard errors in proportion: the target is far from 0, and nothing is centred."""
    frame["y"] += 100.0 + 3.0 * frame["x"] * frame["z"]
    theirs = patsy.dmatrix(formula.replace("C(g, ref='b')", "C(g, Treatment('b'))"), frame)
    best = np.linalg.lstsq(theirs, frame["y"], rcond=None)[0]
    errors = np.sqrt(np.diag(np.linalg.inv(theirs.T @ theirs)))
    labels = [label.replace("C(g, Treatment('b'))", "g") for label in theirs.design_info.column_names]
    model = db.LinearRegression.from_frame(frame, f"y ~ {formula}", prior_variance=1e10)
    rows = {named(row["term"].replace(" ", "")): row for row in model.coefficients(model.fit(frame).posterior)}
    ours = [rows[named(label.replace(" ", ""))] for label in labels]
    np.testing.assert_allclose([row["mean"] for row in ours], best, rtol=1e-4, atol=1e-4)
    deviations = np.array([row["deviation"] for row in ours])
    np.testing.assert_allclose(deviations / errors, deviations[0] / errors[0], rtol=1e-4)


@pytest.mark.parametrize(
    ("formula", "same"),
    [
        ("(x + z)^2", "x + z + x:z"),
        ("g / x", "g + g:x"),
        ("x * g - g", "x + x:g"),
        ("(x + z):g", "x:g + z:g"),
        ("x + 1 + 0", "x - 1"),
        ("g:h + h:g + g:g", "g + g:h"),
        ("I(x ** 2)+log( x+9 )", "I(x**2) + log(x + 9)"),
    ],
)
def test_two_ways_to_write_a_formula(formula, same, frame):
    np.testing.assert_array_equal(matrix(f"y ~ {formula}", frame), matrix(f"y ~ {same}", frame))


@pytest.mark.parametrize(
    ("formula", "theirs"),
    [
        ("bs(x, knots=(4, 6), bounds=(-5, 15))", "bs(x, knots=(4, 6), lower_bound=-5, upper_bound=15, degree=3)"),
        ("bs(x, knots=4, bounds=(-5, 15), degree=2)", "bs(x, knots=(4,), lower_bound=-5, upper_bound=15, degree=2)"),
        ("ns(x, knots=(3, 5, 7), bounds=(0, 10))", "cr(x, knots=(3, 5, 7), lower_bound=0, upper_bound=10) - 1"),
        ("poly(x, 3)", "I(x) + I(x**2) + I(x**3)"),
        ("log(x + 20) + sqrt(x + 20)", "np.log(x + 20) + np.sqrt(x + 20)"),
        ("C(g, ref='b') * x", "C(g, Treatment('b')) * x"),
    ],
)
def test_functions_of_columns_span_what_patsy_s_do(formula, theirs, frame):
    frame["x"] = frame["x"].clip(-4.5, 14.5) if "bs" in formula else frame["x"]
    assert same_space(matrix(f"y ~ {formula}", frame), np.asarray(patsy.dmatrix(theirs, frame)))


def test_natural_splines_are_straight_beyond_their_ends():
    basis = Design(COLUMNS, ("ns(x, knots=(3, 5, 7), bounds=(0, 10))",), False)
    for ends in (np.linspace(10.0, 30.0, 5), np.linspace(-20.0, 0.0, 5)):
        points = np.column_stack([ends, np.zeros((5, 4))])
        np.testing.assert_allclose(np.diff(basis.matrix(points), n=2, axis=0), 0.0, atol=1e-9)


def test_what_a_formula_leaves_open_is_part_of_what_sites_agree_on(frame):
    model = db.LinearRegression.from_frame(frame, "y ~ ns(x, df=3) + g")
    assert "knots=(" in model.terms[0]
    assert db.model_for(model.structure) == model
    other = db.LinearRegression("y", columns=model.columns | {"x": Gaussian(0.0, 1.0)}, terms=("ns(x, df=3)", "g"))
    assert other.structure.fingerprint != model.structure.fingerprint


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ w", "'w' in the formula is neither a column"),
        ("y ~ log(w)", "needs a column 'w'"),
        ("y ~ log(g)", "holds no numbers"),
        ("y ~ I(__import__('os'))", "more than a formula can compute"),
        ("y ~ I(x.real)", "more than a formula can compute"),
        ("y ~ log(x", "not closed"),
        ("y ~ x +", "ends where a term should follow"),
        ("y ~ x * * g", "Something is missing"),
        ("y ~ x) + z", "makes no sense"),
        ("y ~ x^z", "integer from 1 to 9"),
        ("y ~ C(g, ref='nobody')", "no such reference level"),
        ("y ~ bs(x, df=1)", "df must be an integer from 3"),
        ("y ~ bs(x, knots=(7, 5))", "knots must increase"),
        ("y ~ ns(x, knots='many')", "knots and bounds must be numbers"),
        ("y ~ poly(x, 0)", "degree"),
        ("y ~ poly(x, wrong=3)", "not of the form poly"),
        ("y ~ x + offset(g)", "holds no numbers"),
    ],
)
def test_formulas_that_are_refused(formula, message, frame):
    with pytest.raises(InvalidStructure, match=message):
        db.LinearRegression.from_frame(frame, formula)


def test_values_without_a_logarithm_are_counted_not_quoted(frame):
    frame["x"] = frame["x"].abs()
    frame.loc[[3, 5], "x"] = [-0.123, -0.1234]
    with pytest.raises(InvalidData, match=r"'log\(x\)' is not a finite number in 2 of 80 rows") as refused:
        db.LinearRegression.from_frame(frame, "y ~ log(x)").fit(frame)
    assert "123" not in str(refused.value)


class TestOffset:
    def test_rates_are_those_of_maximum_likelihood(self, rng):
        years, x = rng.uniform(0.01, 30.0, 600), rng.normal(size=600)
        events = rng.poisson(years * np.exp(-1.0 + 0.5 * x))
        frame = {"events": events, "years": years, "x": x}
        model = db.PoissonRegression.from_frame(frame, "events ~ x + offset(log(years))", prior_variance=1e6)
        found = model.fit(frame).posterior

        def surprise(beta):
            mean = years * np.exp(beta[0] + beta[1] * x)
            return -stats.poisson.logpmf(events, mean).sum()

        best = optimize.minimize(surprise, np.zeros(2), method="BFGS").x
        rows = model.coefficients(found)
        assert [row["mean"] for row in rows] == pytest.approx(best, abs=0.01)
        one, ten = model.predict(found, {"x": [0.3, 0.3], "years": [1.0, 10.0]})["mean"]
        assert ten == pytest.approx(10 * one)

    @pytest.mark.parametrize("varying", [(), ("intercept",)])
    def test_linear_targets_are_measured_from_it(self, varying, rng):
        """In fits, predictions and densities; of sites that are known, too."""
        x, base = rng.normal(size=100), rng.normal(100.0, 30.0, 100)
        site = np.arange(100) % 4
        y = base + 2.0 * x + 0.5 * site + rng.normal(size=100)
        settings = {"varying": varying, "by": "site"} if varying else {}
        columns = {"y": Gaussian(3.0, 2.0), "x": Gaussian()}
        with_offset = db.LinearRegression(
            "y", columns={**columns, "base": Gaussian()}, terms=("x",), offset="base", **settings
        )
        shifted = db.LinearRegression("y", columns=columns, terms=("x",), **settings)
        frames = {"y": y, "x": x, "base": base, "site": site}, {"y": y - base, "x": x, "site": site}
        one, two = (model.fit(frame).posterior for model, frame in zip((with_offset, shifted), frames, strict=True))
        np.testing.assert_allclose(one.natural["coefficients"], two.natural["coefficients"], rtol=1e-9)
        for known in (False, True) if varying else (False,):
            rows = [{"known": frame} if known else {} for frame in frames]
            found, plain = with_offset.predict(one, frames[0], **rows[0]), shifted.predict(two, frames[1], **rows[1])
            for name in ("mean", "low", "high"):
                np.testing.assert_allclose(found[name], plain[name] + base)
            densities = (
                with_offset.log_predictive(one, frames[0], **rows[0]),
                shifted.log_predictive(two, frames[1], **rows[1]),
            )
            np.testing.assert_allclose(*densities)


@pytest.mark.parametrize("kind", [db.LinearRegression, db.LogisticRegression, db.PoissonRegression])
def test_a_row_of_weight_three_is_three_rows(kind, rng):
    x, weight = rng.normal(size=60), rng.integers(0, 4, 60).astype(float)
    y = (rng.random(60) < 0.4).astype(float)
    columns = {"y": kind.outcome.holds(), "x": Gaussian(), "n": Gaussian()}
    weighted = kind("y", columns=columns, weights="n").fit(np.column_stack([y, x, weight])).posterior
    repeated = np.column_stack([y, x]).repeat(weight.astype(int), axis=0)
    once = kind("y", columns={"y": columns["y"], "x": columns["x"]}).fit(repeated).posterior
    np.testing.assert_allclose(weighted.natural["coefficients"], once.natural["coefficients"], rtol=2e-3, atol=1e-3)


def test_weights_that_are_no_frequencies_are_said_and_robust_errors_do_not_depend_on_their_sum(rng):
    """A quarter of all weights doubles intervals, though nobody has left the study."""
    x, weights = rng.normal(size=400), rng.uniform(0.5, 2.0, 400)
    frame = {"y": x + rng.normal(size=400), "x": x}
    plain, robust, said = [], [], []
    for n in (weights, weights / 4.0, np.rint(4.0 * weights), np.ones(400)):
        model = db.LinearRegression("y", columns={"y": "real", "x": "real", "n": "real"}, weights="n")
        site = model.fit_site(frame | {"n": n}).posterior
        calibrated = db.calibrate(model, [frame | {"n": n}], site, method="robust")
        assert "survey weights" not in [remark.kind for remark in calibrated.remarks]
        plain.append(model.coefficients(site)[1]["deviation"])
        robust.append(calibrated.deviation("coefficients")[0][1])
        said.append([(remark.kind, remark.severity) for remark in site.remarks])
    assert said == [[("survey weights", "warning")]] * 2 + [[("weights", "note")], []]
    assert plain[1] / plain[0] == pytest.approx(2.0, rel=0.02)
    assert robust[1] / robust[0] == pytest.approx(1.0, rel=0.02)


def test_predictions_need_no_weights(rng):
    frame = {"y": rng.normal(size=50), "x": rng.normal(size=50), "n": rng.uniform(1, 2, 50)}
    model = db.LinearRegression.from_frame(frame, "y ~ x", weights="n")
    assert model.predict(model.fit(frame).posterior, {"x": [0.0]})["mean"].shape == (1,)
    with pytest.raises(InvalidData, match="must not be negative"):
        model.fit(frame | {"n": -0.01 * frame["n"]})


@pytest.mark.parametrize(
    ("sign", "first", "second"),
    [(ast.Add, (-2, 3), (1, 4)), (ast.Sub, (-2, 3), (1, 4)), (ast.Mult, (-2, 3), (-1, 4)), (ast.Div, (-2, 3), (1, 4)),
     (ast.Pow, (-2, 3), (2, 2)), (ast.Pow, (-2, 3), (3, 3)), (ast.Pow, (1, 3), (2, 2))],
)  # fmt: skip
def test_ranges_of_expressions_are_those_of_all_numbers_in_them(sign, first, second):
    """Against a grid of both; where a divisor may be zero anything can come out."""
    made = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.Pow: np.power}[sign]
    values = made(*np.meshgrid(np.linspace(*first, 51), np.linspace(*second, 51)))
    assert combined(sign, first, second) == pytest.approx((values.min(), values.max()))
    assert combined(ast.Div, first, (-1.0, 1.0)) == (-np.inf, np.inf)


def test_whoever_predicts_has_no_targets():
    model = db.LinearRegression("y", columns={"x": "real", "y": "real"})
    rows = {"x": np.array([1.0, 2.0, 4.0])}
    posterior = model.fit(rows | {"y": np.array([2.0, 3.0, 5.0])}).posterior
    np.testing.assert_array_equal(model.assign(posterior, rows), np.ones((3, 1)))


@pytest.mark.parametrize("name", ["body mass", "a+b", "log(x"])
def test_names_in_backticks_are_columns_whatever_they_look_like(name):
    columns = ["age", name, "y"]
    assert parsed(f"y ~ age + `{name}`", columns).terms == parsed("y ~ .", columns).terms == ("age", name)
    assert parsed(f"`{name}` ~ age", columns).target == name
    with pytest.raises(InvalidStructure, match="backticks"):
        parsed("y ~ `no such`", columns)


@pytest.mark.parametrize("formula", ["~ x", "y ~", "y", "", "~", "y ~ x ~ z"])
def test_a_formula_has_one_target_and_terms(formula):
    with pytest.raises(InvalidStructure, match="of the form"):
        parsed(formula, ["x", "y", "z"])
