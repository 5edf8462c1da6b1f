"""Laws over all models of what single arguments do: levels, files, what is asked for by name."""

import inspect
import sys
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import decbayes as db
from decbayes.errors import DecbayesError, InvalidStructure
from decbayes.models.core.ascent import FitInterrupted
from decbayes.models.core.persons import Persons
from decbayes.models.core.registry import kind_called
from decbayes.models.likelihoods.likelihood import squared_distances
from decbayes.models.regressions.formulas.term_factors import factor_of
from decbayes.models.regressions.ordered import gap_derivatives
from decbayes.models.sequences.chains import stationary
from decbayes.models.sequences.rare_moves import hidden, table_of

sys.path.insert(0, str(Path(__file__).parent))
from zoo import ZOO


@cache
def prior_of(name):
    model, size = ZOO[name]
    return model, db.Posterior.of_prior(model.structure), db.simulate(model, size, rng=1).data


def methods_with(model, argument):
    for name, method in inspect.getmembers(type(model), inspect.isfunction):
        parameters = inspect.signature(method).parameters
        needed = {each.name for each in parameters.values() if each.default is each.empty} - {"self", "options"}
        if not name.startswith("_") and argument in parameters and needed <= {"posterior", "data"}:
            yield name, method, needed


@pytest.mark.parametrize("level", [0.0, 1.0, 90])
@pytest.mark.parametrize("name", ZOO)
def test_levels_lie_between_zero_and_one(name, level):
    model, posterior, data = prior_of(name)
    given = {"posterior": posterior, "data": data}
    for _, method, needed in methods_with(model, "level"):
        with pytest.raises((ValueError, DecbayesError)):
            method(model, **{one: given[one] for one in needed}, level=level)


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({
        "age": rng.normal(60, 9, 80).round(1), "sex": rng.choice(["f", "m"], 80), "ward": rng.choice([*"ABC"], 80),
        "visits": rng.poisson(3, 80), "pain": rng.choice(["none", "some", "much"], 80), "days": rng.gamma(2.0, 9.0, 80),
        "died": rng.choice(["no", "yes"], 80), "stay": rng.normal(5, 2, 80).round(2),
    })  # fmt: skip
    path = tmp_path_factory.mktemp("fine") / "patients.csv"
    frame.to_csv(path, index=False)
    return path, frame


FORMULAS = {
    "linear-regression": ("stay ~ age + sex", {}),
    "logistic-regression": ("died ~ age + sex", {"yes": "yes"}),
    "poisson-regression": ("visits ~ age + sex", {}),
    "negative-binomial-regression": ("visits ~ age + sex", {"dispersion": 2.0}),
    "ordered-regression": ("pain ~ age + sex", {"levels": "none,some,much"}),
    "survival-regression": ("Surv(days, died) ~ age + sex", {"cuts": "10,20", "rate": 0.05}),
    "multinomial-regression": ("pain ~ age + sex", {"reference": "some"}),
}


@pytest.mark.parametrize("command", FORMULAS)
def test_files_are_fitted_as_formula_and_options_say(command, patients):
    path, _ = patients
    kind, (formula, options) = kind_called(command), FORMULAS[command]
    model, data = kind.from_file(path, formula=formula, **options)
    assert model.count(data) == 80
    labels = model.table.design.labels
    assert any("age" in label for label in labels)
    assert any("sex=m" in label for label in labels)
    assert not any("ward" in label for label in labels)
    for name, value in options.items():
        stated = getattr(model, name)
        split = {"levels": lambda text: tuple(text.split(",")), "cuts": lambda text: tuple(map(float, text.split(",")))}
        assert stated == split.get(name, lambda text: text)(value)
    varying, _ = kind.from_file(path, formula=formula, varying="age", **options)
    assert varying.varying == ("age",)
    assert model.varying == ()
    wards, rows = kind.from_file(path, formula=formula.replace("age", "ward"), **options)
    assert any("ward=B" in label for label in wards.table.design.labels)
    assert rows.shape[0] == 80


def test_an_interrupted_fit_says_where_its_state_is():
    assert "best state so far" in str(FitInterrupted(None))


def test_names_of_commands_are_those_of_models():
    assert kind_called("topics") is db.LatentDirichletAllocation
    assert kind_called("linear-regression") is db.LinearRegression
    with pytest.raises(LookupError, match=r"'horoscopes'.*topics"):
        kind_called("horoscopes")


def test_squared_distances_are_those_of_all_pairs(rng):
    points, centres = rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    expected = [[np.sum((point - centre) ** 2) for centre in centres] for point in points]
    np.testing.assert_allclose(squared_distances(points, centres), expected)


@pytest.mark.parametrize("f", [-2.0, 5e-4, 1e-3, 0.3, 4.0])
def test_derivatives_of_a_gap_are_those_of_its_logarithm(f):
    """By finite differences; below the narrowest gap a parabola stands in its place."""
    step = 1e-5
    around = np.array([f - step, f, f + step])
    value, slope, weight, change = gap_derivatives(around)
    if f > 1e-3:
        assert value[1] == pytest.approx(np.log(1 - np.exp(-f)))
    assert slope[1] == pytest.approx((value[2] - value[0]) / (2 * step), rel=1e-3)
    assert -weight[1] == pytest.approx((slope[2] - slope[0]) / (2 * step), rel=1e-2)
    if f > 2e-3:
        assert change[1] == pytest.approx((-weight[2] + weight[0]) / (2 * step), rel=1e-2)
    if f < 5e-4 + 1e-9:
        assert change[1] == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_hidden_moves_keep_all_sums_and_could_be_none(seed):
    """For each rare cell there is a table with the sums that are known in which it is empty: by linear programming."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(seed)
    chances = np.array([[0.7, 0.06, 0.24], [0.1, 0.85, 0.05], [0.3, 0.2, 0.5]])
    moved, begun = np.zeros((3, 3)), np.zeros(3)
    for _ in range(9):
        state = rng.integers(3)
        begun[state] += 1
        for _ in range(rng.integers(3, 9)):
            following = rng.choice(3, p=chances[state])
            moved[state, following] += 1
            state = following
    table = table_of(begun, moved)
    persons = table.copy()
    shown = hidden(table, persons, 3)
    np.testing.assert_allclose(shown.sum(axis=0), table.sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(shown.sum(axis=1), table.sum(axis=1), rtol=1e-6)
    same = np.isclose(shown, table, rtol=1e-12)
    rare = (table > 0) & (table < 3)
    assert not (same & rare).any()
    lines = [np.indices((4, 4))[axis] == place for place in range(4) for axis in (0, 1)]
    for cell in np.argwhere(rare):
        bounds = [
            (number, number) if kept else (0, None) for number, kept in zip(table.ravel(), same.ravel(), strict=True)
        ]
        place = cell[0] * 4 + cell[1]
        bounds[place] = (0, 0)
        equal = np.array([line.ravel() for line in lines], dtype=float)
        found = linprog(np.zeros(16), A_eq=equal, b_eq=equal @ table.ravel(), bounds=bounds)
        assert found.status == 0


def test_settings_that_cannot_be_are_refused():
    columns = {"a": "real", "y": "real"}
    for wrong in ({"prior_between": 0.0}, {"prior_between": -1.0}, {"between_degrees": 0.0}):
        with pytest.raises((ValueError, InvalidStructure)):
            db.LinearRegression("y", columns=columns, varying=("intercept",), **wrong)
    with pytest.raises((ValueError, InvalidStructure)):
        db.LogisticRegression("y", columns={"a": "real", "y": "yes/no"}, approximation="guess")


# A scale that nothing has where variances are known, a tolerance of which any is one, and stickiness of none.
ANY = {
    ("known variance", "prior_scale"),
    ("topics", "document_tolerance"),
    ("topics, prior learned", "document_tolerance"),
}


@pytest.mark.parametrize("name", ZOO)
def test_numbers_that_no_setting_can_be_are_refused(name):
    model, _ = ZOO[name]
    for setting in fields(model):
        if not isinstance(getattr(model, setting.name), float) or (name, setting.name) in ANY:
            continue
        for wrong in (-1.0, np.nan, np.inf, *([0.0] if setting.name != "stickiness" else [])):
            with pytest.raises((ValueError, DecbayesError)), np.errstate(invalid="ignore"):
                _ = replace(model, **{setting.name: wrong}).structure


def test_many_fits_are_those_of_single_shards_with_their_own_numbers():
    model = db.GaussianMixture(2, 1, variance=1.0, ascent=db.Ascent(passes=2, restarts=0))
    shards = [np.random.default_rng(seed).normal(size=(25, 1)) * 3.0 for seed in range(3)]
    fits = model.fit_many(shards, rng=5)
    assert [fit.bound for fit in fits] == [fit.bound for fit in model.fit_many(shards, rng=5)]
    assert [fit.bound for fit in fits] != [fit.bound for fit in model.fit_many(shards, rng=6)]
    starts = [fit.posterior for fit in fits]
    for fit, shard, start in zip(model.fit_many(shards, rng=5, starts=starts), shards, starts, strict=True):
        assert fit.bound == model.fit(shard, start=start, rng=1).bound
    for fit, shard in zip(model.fit_many(shards, rng=5, priors=starts, starts=starts), shards, strict=True):
        assert fit.bound[0] != model.fit(shard, start=starts[0], rng=1).bound[0]


def test_the_number_of_components_is_that_of_the_start_or_the_prior():
    model = db.GaussianMixture("auto", 1, variance=1.0, ascent=db.Ascent(passes=2))
    data = np.random.default_rng(1).normal(size=(30, 1)) * 4.0
    three = replace(model, components=3).fit(data, rng=1).posterior
    assert len(model.fit(data, start=three, rng=1).posterior.mean("weights")) == 3
    assert len(model.fit(data, prior=three, rng=1).posterior.mean("weights")) == 3


FEW_ENOUGH = {
    "bs(x, df=3)": 3, "bs(x, df=50)": 50, "bs(x, df=51)": 0, "bs(x, df=2)": 0, "ns(x, df=1)": 1, "ns(x, df=0)": 0,
    "poly(x, 9)": 9, "poly(x, 10)": 0, "poly(x, 0)": 0, "bs(x, df=4, degree=4)": 4, "bs(x, df=3, degree=4)": 0,
}  # fmt: skip


@pytest.mark.parametrize(("text", "number"), FEW_ENOUGH.items())
def test_splines_and_polynomials_have_so_many_functions(text, number):
    columns = {"x": db.columns.Gaussian(5.0, 2.0)}
    if not number:
        with pytest.raises(InvalidStructure):
            factor_of(text, columns)
        return
    assert factor_of(text, columns).numbers({"x": np.linspace(1, 9, 5)}, whole=False).shape == (5, number)


def test_shares_of_states_that_last_are_those_that_a_move_keeps(rng):
    moves = rng.dirichlet(np.ones(4), 4)
    shares = stationary(moves)
    np.testing.assert_allclose(shares @ moves, shares, atol=1e-12)
    assert shares.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(stationary(np.array([[1.0, 0.0], [0.5, 0.5]])), [1.0, 0.0], atol=1e-12)


def test_persons_of_several_parts_are_numbered_on():
    named, everyone = Persons.of(["a", "b", "a"]), Persons.of(None)
    both = Persons.joined([(everyone, 2), (named, 3)])
    assert both.total(5) == 4
    assert both.among(np.array([True, True, False, False, False])) == 2
    assert both.among(np.array([False, False, True, False, True])) == 1
    assert both.among(np.array([False, True, True, True, False])) == 3


@pytest.mark.parametrize(
    ("bars", "read"),
    [
        ("(1 | a)", (("intercept",), "a", (), "")),
        ("(1 + x | a)", (("intercept", "x"), "a", (), "")),
        ("(1 | a/b)", (("intercept",), "a", ("intercept",), "b")),
        ("(1 + x | a) + (1 | a:b)", (("intercept", "x"), "a", ("intercept",), "b")),
        ("(1 | a:b) + (x | a)", (("intercept", "x"), "a", ("intercept",), "b")),
        ("(1 | a) + (1 | b)", None),
        ("(1 | a) + (1 | a/b)", None),
        ("(1 | a) + (1 | b:c)", None),
        ("(1 | a) + (1 | a:a)", None),
        ("(1 | a) + (1 | a:b) + (1 | a:c)", None),
        ("(1 | a:b)", None),
        ("(1 + x | a) + (1 + x || a:b)", None),
    ],
)
def test_groups_lie_inside_sites_or_are_refused(bars, read):
    rng = np.random.default_rng(0)
    frame = {name: rng.choice(["u", "v"], 30) for name in "abc"} | {name: rng.normal(size=30) for name in "xy"}
    if read is None:
        with pytest.raises(InvalidStructure):
            db.LinearRegression.from_frame(frame, f"y ~ x + {bars}")
        return
    model = db.LinearRegression.from_frame(frame, f"y ~ x + {bars}")
    assert (tuple(model.varying), model.by, tuple(model.varying_within), model.within) == read


def test_rows_without_a_column_for_the_site_are_of_one_site(rng):
    columns = {"x": "real", "y": "real"}
    model = db.LinearRegression(
        "y", columns=columns, varying=("intercept",), within="ward", varying_within=("intercept",)
    )
    rows = rng.normal(size=(4, 2))
    one, site, both = (model.points(np.column_stack([rows, *[np.ones((4, more))] * (more > 0)])) for more in (0, 1, 2))
    np.testing.assert_array_equal(one[:, :2], rows)
    assert np.isnan(one[:, 2:]).all()
    assert one.shape == site.shape == both.shape == (4, 4)
    assert np.isnan(site[:, 2]).all()
    assert (site[:, 3] == 1).all()
    assert (both[:, 2:] == 1).all()
    for wrong in (rows[:, :1], np.column_stack([rows, np.ones((4, 3))])):
        with pytest.raises(DecbayesError):
            model.points(wrong)
