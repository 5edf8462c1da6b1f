"""Terms of formulas: the numbers they stand for, their agreed units, and how large they can be."""

import itertools

import numpy as np
import pytest
from scipy.interpolate import BSpline
from scipy.stats import norm

import decbayes as db
from decbayes.columns import Categorical, Gaussian, Poisson, YesNo
from decbayes.models.regressions.formulas.term_factors import factor_of

COLUMNS = {
    "x": Gaussian(10.0, 2.0), "z": Gaussian(-1.0, 0.5), "n": Poisson(4.0), "w": Categorical("a", "b", "c"), "s": YesNo()
}  # fmt: skip


def numbers(text, columns=COLUMNS, whole=False, **values):
    values = {name: np.asarray(value, dtype=float) for name, value in values.items()}
    return factor_of(text, columns).numbers(values, whole=whole)


@pytest.mark.parametrize("degree", range(1, 10))
def test_polynomials_are_orthonormal_where_a_column_is_as_agreed(degree):
    """E[p_i(x) p_j(x)] = δ_ij for x ~ N(centre, scale²), by quadrature; and the first is the column in agreed units."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    found = numbers(f"poly(x, {degree})", x=10.0 + 2.0 * nodes)
    np.testing.assert_allclose(found.T @ (found * (weights / weights.sum())[:, None]), np.eye(degree), atol=1e-9)
    np.testing.assert_allclose(found[:, 0], nodes, atol=1e-12)


@pytest.mark.parametrize(("df", "degree"), [(3, 3), (5, 3), (4, 2), (1, 1), (7, 3)])
def test_b_splines_are_those_of_scipy_at_quantiles_of_the_agreed_distribution(df, degree):
    inner = norm.ppf(np.arange(1, df - degree + 1) / (df - degree + 1))
    knots = np.concatenate([[-2.5] * (degree + 1), inner, [2.5] * (degree + 1)])
    x = np.linspace(5.01, 14.99, 41)
    found = numbers(f"bs(x, df={df}, degree={degree})", x=x)
    expected = BSpline.design_matrix((x - 10.0) / 2.0, knots, degree).toarray()[:, 1:]
    np.testing.assert_allclose(found, expected, atol=2e-3)  # knots are agreed to four digits
    stated = numbers(f"bs(x, knots=(9.0, 12.0), bounds=(4.0, 18.0), degree={degree})", x=x)
    knots = np.concatenate([[4.0] * (degree + 1), [9.0, 12.0], [18.0] * (degree + 1)])
    np.testing.assert_allclose(stated, BSpline.design_matrix(x, knots, degree).toarray()[:, 1:], atol=1e-12)


def test_natural_splines_are_those_of_the_textbook():
    """z, and d_k − d_{K−1} of truncated cubes in z, each over the distance between the ends."""
    x, knots = np.linspace(-5.0, 30.0, 101), (np.array([5.0, 9.0, 12.0, 16.0]) - 10.0) / 2.0
    z = (x - 10.0) / 2.0

    def d(k):
        cubes = [np.maximum(z - knot, 0.0) ** 3 for knot in (knots[k], knots[-1])]
        return (cubes[0] - cubes[1]) / (knots[-1] - knots[k])

    expected = [z, *((d(k) - d(2)) / (knots[-1] - knots[0]) for k in (0, 1))]
    found = numbers("ns(x, knots=(9.0, 12.0), bounds=(5.0, 16.0))", x=x)
    np.testing.assert_allclose(found, np.column_stack(expected), atol=1e-9)
    assert numbers("ns(x, df=4)", x=x).shape == (101, 4)


@pytest.mark.parametrize(
    ("text", "zero", "unit"),
    [
        ("log(x)", np.log(10.0), np.log(10.0 / 8.0)),
        ("I(x**2)", 100.0, 44.0),
        ("I(x * z)", -10.0, 5.0),
        ("I(x - 3 * n)", -2.0, 6.0),
        ("sqrt(z)", 0.0, 1.0),  # no number at the centre
        ("log(x - 8)", np.log(2.0), np.log(2.0)),  # none a unit below it
        ("I(0 * x)", 0.0, 1.0),
    ],
)  # fmt: skip
def test_computed_terms_have_the_units_that_follow_from_those_of_their_columns(text, zero, unit):
    factor = factor_of(text, COLUMNS)
    assert factor.zero_and_unit == (pytest.approx(zero), pytest.approx(unit))
    assert factor.unit == pytest.approx(unit)


@pytest.mark.parametrize("text", ["x", "n", "w", "s", "C(w, ref='b')"])
def test_whole_codings_and_contrasts_differ_by_constants(text):
    """All levels add up to one; contrasts leave one out; numbers are not centred where they are whole."""
    name = "w" if text.startswith("C") else text
    values = np.array([0.0, 1.0, 1.0]) if name in "sw" else np.array([3.0, 4.0, 12.0])
    whole, centred = (numbers(text, whole=whole, **{name: values}) for whole in (True, False))
    factor = factor_of(text, COLUMNS)
    assert (len(factor.labels(whole=True)), len(factor.labels(whole=False))) == (whole.shape[1], centred.shape[1])
    if name in "sw":
        np.testing.assert_array_equal(whole.sum(axis=1), 1.0)
        assert centred.shape[1] == whole.shape[1] - 1
        assert all((column == whole.T).all(axis=1).any() for column in centred.T)
    else:
        np.testing.assert_allclose(whole[:, 0] * factor.unit, values)
        assert np.ptp(whole - centred) == pytest.approx(0.0, abs=1e-12)


TERMS = [
    "x", "n", "w", "s", "poly(x, 2)", "poly(x, 4)", "poly(z, 9)", "bs(x, df=6)", "ns(x, df=4)", "I(x**2)", "I(-x)",
    "I(x**3 - z)", "I(x - z)", "I(2 * x * z)", "exp(z / 8)", "sqrt(x)", "abs(x - 3)", "log1p(exp(x / 4))",
    "I(x / (2 + abs(z)))", "I((x + z)**2 - x)", "I((4 + abs(x))**0.5)", "I((1 + x**2)**-1)",
]  # fmt: skip


@pytest.mark.parametrize("text", TERMS)
@pytest.mark.parametrize("value", [1.5, 4.0, 30.0])
def test_no_row_makes_a_term_larger_than_its_bound(text, value):
    """Over a grid of all columns together; and some row comes near it, unless the bound is what a unit is."""
    factor = factor_of(text, COLUMNS)
    if text in "ws":
        rows = {text: np.array([0.0, 1.0])}
    else:
        grid = [np.linspace(-value, value, 61)] * len(factor.names)
        rows = dict(zip(factor.names, np.array(list(itertools.product(*grid))).T, strict=True))
        if text == "sqrt(x)":
            rows = {"x": np.abs(rows["x"])}
    found, most = max(np.abs(factor.numbers(rows, whole=whole)).max() for whole in (True, False)), factor.largest(value)
    assert found <= most * (1 + 1e-9)
    assert most <= max(2.0 * found, 1.0), "a bound that nothing comes near is none"


@pytest.mark.parametrize("text", ["log(x)", "log1p(x)", "I(1 / x)", "I(x**-2)", "I(2**x / (x - z))", "I(x**z)"])
def test_functions_that_grow_beyond_all_bounds_have_none(text):
    assert factor_of(text, COLUMNS).largest(4.0) == np.inf


def test_sites_with_terms_of_several_columns_stay_within_their_bound(rng):
    """A difference of columns is largest where these have different signs; an offset adds to what a target can be."""
    columns = {"x": Gaussian(0, 1), "z": Gaussian(0, 1), "base": Gaussian(0, 1), "y": Gaussian(0, 1)}
    model = db.LinearRegression("y", columns=columns, terms=("I(x - z)",), offset="base")
    rows = rng.choice([-5.0, 5.0], size=(200, 4))
    seen = np.abs(model.fit(rows).posterior.contribution["coefficients"])
    assert (seen <= 200 * model.largest_contribution(5.0)["coefficients"] * (1 + 1e-9)).all()


def test_levels_without_a_reference_are_odds_not_ratios():
    columns = {"age": db.columns.Gaussian(50.0, 10.0), "ward": db.columns.Categorical("a", "b", "c")}
    for intercept, terms in ((True, ["ward=b", "ward=c", "age"]), (False, ["age"])):
        model = db.LogisticRegression(
            "y", columns=columns | {"y": "yes/no"}, terms=("ward", "age"), intercept=intercept
        )
        assert [row["term"] for row in model.ratios(db.Posterior.of_prior(model.structure))] == terms
