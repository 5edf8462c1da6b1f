"""Columns: values become numbers and come back, whatever the frame; sites agree; what does not fit is refused."""

import json
from datetime import date
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import decbayes as db
from decbayes.columns import (
    Categorical,
    Gaussian,
    Missing,
    Poisson,
    YesNo,
    agree,
    coded,
    columns_of,
    declared,
    decoded,
    plain,
)
from decbayes.errors import InvalidData, InvalidStructure

RAW = {
    "sex": ["f", "m", None, "f"],
    "age": [71.0, None, 33.5, 20.0],
    "visits": [0, 3, 1, None],
    "smoker": [True, None, False, True],
}
COLUMNS = {"sex": Categorical("f", "m"), "age": Gaussian(50, 20), "visits": Poisson(2), "smoker": YesNo()}
NUMBERS = [[0, 71, 0, 1], [1, np.nan, 3, np.nan], [np.nan, 33.5, 1, 0], [0, 20, np.nan, 1]]


def pandas_frame():
    frame = pd.DataFrame(RAW)
    return frame.astype({"sex": "category", "visits": "Int64", "smoker": "boolean"})


def polars_frame():
    return pl.DataFrame(RAW).with_columns(pl.col("sex").cast(pl.Categorical))


def arrow_table():
    table = pa.table(RAW)
    return table.set_column(0, "sex", table["sex"].dictionary_encode())


FRAMES = {
    "pandas": pandas_frame,
    "plain pandas": lambda: pd.DataFrame(RAW),
    "Polars": polars_frame,
    "Arrow": arrow_table,
    "Arrow batch": lambda: arrow_table().combine_chunks().to_batches()[0],
    "mapping": lambda: RAW,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_gives_the_same_numbers_and_kinds(kind):
    frame = FRAMES[kind]()
    np.testing.assert_array_equal(coded(frame, COLUMNS), NUMBERS)
    found = columns_of(frame)
    assert [column.kind for column in found.values()] == ["categorical", "real", "count", "yes/no"]
    assert found["sex"] == Categorical("f", "m")
    assert found["age"] == Gaussian(42.0, 21.6, 0.1)
    assert found["visits"] == Poisson(1.33)


def test_a_lazy_frame_is_refused_with_what_to_do():
    with pytest.raises(InvalidData, match=r"lazy: pass frame\.collect\(\)"):
        coded(pl.DataFrame(RAW).lazy(), COLUMNS)


def test_columns_of_a_frame_may_be_in_any_order_and_more_than_needed():
    frame = pd.DataFrame(RAW)[["visits", "smoker", "age", "sex"]].assign(other="x")
    np.testing.assert_array_equal(coded(frame, COLUMNS), NUMBERS)


def test_numbers_come_back_as_values():
    back = decoded(np.array(NUMBERS), COLUMNS)
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        np.testing.assert_array_equal(coded(make(back), COLUMNS), NUMBERS)


def test_categories_that_a_frame_lists_count_though_they_do_not_occur():
    listed = pd.Categorical(["low", "high"], categories=["low", "middle", "high"])
    assert columns_of(pd.DataFrame({"dose": listed}))["dose"] == Categorical("low", "middle", "high")
    enum = pl.DataFrame({"dose": ["low"]}).with_columns(pl.col("dose").cast(pl.Enum(["low", "middle"])))
    assert columns_of(enum)["dose"] == Categorical("low", "middle")


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ([3, 1, 2, 2], Poisson(2.0)),
        ([1.0, 0.0, np.nan], YesNo()),
        (["yes", "No", None], YesNo()),
        ([18, 33, 90], Gaussian(47.0, 31.0, 1.0)),
        ([0.5, 1.0, 0.0], Gaussian(0.5, 0.408, 0.1)),
        ([-1, 0, 1], Gaussian(0.0, 0.816, 1.0)),
        ([1000000.0, 1000001.0], Gaussian(1000000.5, 0.5, 1.0)),
        (["2", "10", "1"], Categorical("1", "2", "10")),
    ],
)
def test_kinds_follow_from_values(values, column):
    assert columns_of({"x": np.array(values, dtype=object if isinstance(values[0], str) else None)})["x"] == column


def test_somebody_may_know_better_than_the_values():
    found = columns_of({"grade": [1, 2, 5], "age": [20, 30, 40]}, {"grade": "categorical", "age": "count"})
    assert found == {"grade": Categorical("1", "2", "5"), "age": Poisson(30.0)}


def test_real_columns_of_few_values_are_told_of():
    told = []
    columns_of({"score": [0.5, 1.5, 0.5, 1.5], "height": np.linspace(1.5, 2, 50)}, report=told.append)
    assert len(told) == 1
    assert "'score' is taken as real, and has 2 different values" in told[0]


def test_a_column_with_one_value_is_told_of():
    told = []
    columns_of({"score": [0.5] * 4}, report=told.append)
    assert "has the same value in all rows" in told[0]


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-9, 1e-15, 1e12])
def test_what_is_found_in_a_column_does_not_depend_on_its_unit(unit):
    """Concentrations in mol / l are as good as those in nmol / l: no class is taken to be wider than they are."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(5, 0.1, 60), rng.normal(9, 0.1, 60)]) * unit
    column = Gaussian.found_in(values)
    assert column.resolution < 1e-6 * column.scale
    model = db.LatentClasses(components=2, columns={"x": column})
    posterior = model.fit({"x": values}, rng=0).posterior
    np.testing.assert_allclose(posterior.mean("weights"), [0.5, 0.5], atol=1e-3)


@pytest.mark.parametrize(
    ("values", "resolution"),
    [([0.1, 0.2, 0.3 - 0.1 - 0.2], 0.1), ([0.0, 0.0], 1000.0), ([2000.0, 0.0], 1000.0), ([1e-10, 0.0], 0.0)],
)
def test_tiny_numbers_among_others_are_rounding_errors(values, resolution):
    assert Gaussian.found_in(np.array(values)).resolution == resolution


def test_sites_agree_on_all_categories_and_one_unit():
    here = {"sex": Categorical("f", "m"), "age": Gaussian(40, 3, 0.5), "visits": Poisson(1), "smoker": YesNo()}
    there = {"visits": Poisson(3), "sex": Categorical("x", "f"), "age": Gaussian(48, 3, 1), "smoker": YesNo()}
    together = agree(here, there)
    assert together["sex"] == Categorical("f", "m", "x")
    assert together["age"] == Gaussian(44, 5, 0.5)
    assert together["visits"] == Poisson(2)
    assert agree(there, here) == together
    with pytest.raises(InvalidStructure, match="'sex' is categorical at one site and real at another"):
        agree(here, {**there, "sex": Gaussian()})
    with pytest.raises(InvalidStructure, match="Only some sites have the columns age"):
        agree(here, {name: column for name, column in there.items() if name != "age"})


@pytest.mark.parametrize(
    ("values", "why", "kind"),
    [
        ([[2, 5, 3], [0, 4, 2]], "integers are counts only where they begin at 0 or 1", "count"),
        ([[0, 1, 1], [0, 4, 2]], "integers are counts where they exceed 1, even if only by a code such as 9", "count"),
        ([[2.5, 5.0], [0.0, 4.0]], "", "real"),
        ([[2.5, 5.0], ["a", "b"]], "", "categorical"),
    ],
)
def test_a_column_of_several_kinds_is_refused_with_one_that_suits_all_values(values, why, kind):
    sites = [columns_of({"visits": part}) for part in values]
    with pytest.raises(InvalidStructure, match=f"--kinds visits={kind}") as refused:
        agree(*sites)
    assert ("integers" in str(refused.value), why in str(refused.value)) == (bool(why), True)
    stated = [columns_of({"visits": part}, {"visits": kind}) for part in values]
    assert agree(*stated)["visits"].kind == kind


def test_columns_survive_json():
    assert declared(json.loads(json.dumps(plain(COLUMNS)))) == COLUMNS
    assert declared({"a": "real", "b": YesNo, "c": Poisson(2)}) == {"a": Gaussian(), "b": YesNo(), "c": Poisson(2)}
    assert Categorical(3).categories == ("0", "1", "2")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("sex", ["f", "secret"], "Column 'sex' .categorical.: 1 of 2 values are none of the 2 agreed categories .f, m"),
        ("visits", [1, -1], "Column 'visits' .count.: 1 of 2 values are not counts.*row 1"),
        ("visits", [0.5, 1], r"not counts \(0, 1, 2, …\)"),
        ("age", ["old", 3], "1 of 2 values are not numbers;"),
        ("age", ["1,5", "secret"], r"2 of 2 values are not numbers \(some have decimal commas: write points\)"),
        ("age", [np.inf, 3], "infinite"),
        ("smoker", [2, 1], "neither yes nor no"),
        ("smoker", ["maybe", "no"], "neither yes nor no"),
        ("age", np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"), "not numbers"),
    ],
)
def test_values_that_do_not_fit_are_refused_and_not_quoted(column, values, message):
    with pytest.raises(InvalidData, match=message) as refused:
        coded({column: np.asarray(values)}, {column: COLUMNS[column]})
    assert "secret" not in str(refused.value)


def test_missing_and_ragged_columns_are_refused():
    with pytest.raises(InvalidData, match="lack 2 of the 4 agreed columns: visits, smoker"):
        coded({"sex": ["f"], "age": [1.0]}, COLUMNS)
    with pytest.raises(InvalidData, match="different lengths"):
        coded({**RAW, "age": [1.0]}, COLUMNS)
    with pytest.raises(InvalidData, match="no column hight; the columns are sex, age"):
        columns_of(RAW, {"hight": "real"})
    with pytest.raises(InvalidData, match="1,001 categories"):
        columns_of({"name": [f"patient {number}" for number in range(1001)]})


@pytest.mark.parametrize("nothing", [[None, None], [np.nan, np.nan], pd.array([None, None], dtype="Int64"), []])
@pytest.mark.parametrize("kinds", [{}, {"x": "real"}])
def test_a_column_without_a_value_is_what_other_sites_say(nothing, kinds):
    lacking = columns_of({"x": nothing}, kinds)
    assert lacking == {"x": Missing()}
    assert declared(json.loads(json.dumps(plain(lacking)))) == lacking
    theirs = {"x": Gaussian(centre=50.0, scale=20.0, resolution=1.0)}
    assert agree(lacking, theirs) == agree(theirs, lacking) == agree(theirs)
    assert agree(lacking, lacking) == lacking
    assert np.isnan(coded({"x": nothing}, theirs)).all()


def test_no_model_is_about_columns_of_which_nobody_has_a_value():
    lacking = columns_of({"x": [None, None], "y": [1.5, 2.5]}, report=lambda text: None)
    for model in (partial(db.LatentClasses, 2), partial(db.LinearRegression, "y")):
        with pytest.raises(InvalidStructure, match=r"There are no values of x\. Agree on .* or leave them out"):
            model(columns=lacking)
    with pytest.raises(InvalidData, match="1 of 2 values are not missing; the first is in row 1,"):
        Missing().coded(np.array([None, "x"], dtype=object))


@pytest.mark.parametrize(
    "values", [pd.date_range("2020", periods=3), [date(2020, 1, 1), None], pd.to_timedelta([1, 2], unit="D")]
)
def test_dates_are_not_taken_for_categories_unless_somebody_says_so(values):
    with pytest.raises(InvalidData, match="Column 'x': the values are dates or times"):
        columns_of({"x": values})
    assert columns_of({"x": values}, {"x": "categorical"})["x"].kind == "categorical"


def test_columns_may_have_numbers_for_names_but_no_name_twice():
    numbered = pd.DataFrame({0: [1.5, 2.25], 1: ["a", "b"]})
    columns = columns_of(numbered)
    assert list(columns) == ["0", "1"]
    np.testing.assert_array_equal(coded(numbered, columns), [[1.5, 0.0], [2.25, 1.0]])
    with pytest.raises(InvalidData, match="2 columns called 'a'"):
        columns_of(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": 3}, "Column 'a' must be one of decbayes.columns"),
        ({"a": "colour"}, "no kind of column 'colour'; there are categorical, yes/no, count, real"),
        ([["a", "real", 0.0, -1.0]], "scale must be a positive number"),
        ([["a", "real"], ["a", "real"]], "Two columns have the same name"),
        ([["a"]], "Columns are {name: column}"),
        ([["a", "count", "many"]], "mean must be a positive number"),
    ],
)
def test_declarations_that_make_no_sense(columns, message):
    with pytest.raises(InvalidStructure, match=message):
        declared(columns)
    with pytest.raises(InvalidStructure, match="2 categories, 1 of them different"):
        Categorical("a", "a")


@pytest.mark.parametrize("words", [("ja", "nein"), ("Oui", "Non"), ("SÍ", "NO"), ("sim", "não"), ("Ja", "Nej")])
def test_yes_and_no_in_other_languages_count_as_those_in_english(words):
    (column,) = columns_of({"died": [words[0], words[1], None, words[0]]}).values()
    assert column == YesNo()
    np.testing.assert_array_equal(column.coded(np.array([*words, None], dtype=object)), [1.0, 0.0, np.nan])
    assert agree({"died": column}, columns_of({"died": [True, False]})) == {"died": YesNo()}


def test_yes_no_may_be_spelled_as_the_command_is():
    rare = {"rare": ["1", "0", "0"]}
    assert columns_of(rare, {"rare": "yes-no"}) == columns_of(rare, {"rare": "yes/no"})
