"""Mix-ups between sites: found where there are some, and not where patients merely differ."""

import re

import numpy as np
import pytest

import decbayes as db
from decbayes.columns.cells import seem_coded
from decbayes.columns.comparing import in_common_units
from decbayes.columns.sums import Events

Real, Categorical = db.columns.Gaussian, db.columns.Categorical


def sites(*columns):
    return {name: {"x": column} for name, column in zip("abcde", columns, strict=False)}


@pytest.mark.parametrize(
    ("columns", "blamed"),
    [
        ((Real(130, 15), Real(125, 18), Real(17, 2)), "c"),  # mmHg and kPa
        ((Real(130, 15), Real(16.5, 2)), "b"),
        ((Real(60, 15), Real(250, 380), Real(55, 12)), "b"),  # 999 for missing
        ((Real(1.7, 0.1), Real(1.72, 0.09), Real(171, 9.5), Real(1.68, 0.1)), "c"),  # metres and centimetres
        ((Real(72, 15), Real(70, 16), Real(71, 14), Real(156, 34)), "d"),  # kilograms and pounds
        ((Real(67, 4), Real(171, 10), Real(169, 9)), "a"),  # inches and centimetres
        ((Real(37.1, 0.6), Real(98.6, 1.1), Real(37, 0.7)), "b"),  # degrees
    ],
)
def test_other_units_are_found_and_the_site_is_named(columns, blamed):
    (line,) = db.columns.unlike(sites(*columns))
    assert f"the centre of {blamed} is" in line


@pytest.mark.parametrize("others", [[Real(2500, 810, 1)], [Real(2500, 810, 1), Real(2300, 790, 1)]])
def test_the_agreed_unit_is_that_of_the_sites_that_share_one(others):
    litres = [Real(2.4, 0.8, 0.01), Real(2.6, 0.9, 0.01), Real(2.5, 0.7, 0.01)]
    mixed = sites(*litres, *others)
    for order in ([*mixed.values()], [*reversed(mixed.values())]):
        assert db.columns.agree(*order) == db.columns.agree(*({"x": column} for column in litres))
    lines = db.columns.unlike(mixed)
    assert len(lines) == len(others)
    assert all("does not count for the agreed centre and scale" in line for line in lines)


def test_cuts_are_those_of_the_sites_that_share_a_unit_of_time():
    """Two sites count days; a third one counts months, which would leave no cut."""
    name, days, months = "Surv(days, died)", Real(380, 300), Real(12.5, 9.9)
    events = Events((40_000.0, 1100.0, *((100.0 * n, 10 * n) for n in range(1, 11))))
    few = Events((1300.0, 36.0, *((3.3 * n, 10 * n) for n in range(1, 11))))
    rows = [{"days": days, name: events}, {"days": days, name: events}, {"days": months, name: few}]
    agreed = db.columns.agree(*rows)
    assert agreed == db.columns.agree(*rows[:2])
    assert len(agreed[name].cuts) == 5
    assert not Events(*events.parts, *few.parts).cuts
    (line,) = db.columns.unlike({str(site): row for site, row in enumerate(rows)})
    assert line.endswith("It does not count for the agreed centre, scale and cuts.")
    assert len(db.columns.agree(*rows[1:])[name].parts) == 2, "of two sites, nobody knows which is right"
    other = {"days": days, "days (x)": Real(3, 1)}
    assert db.columns.agree(other, other, {**other, "days": months})["days (x)"].centre == 3, "no sums"


def test_nobody_knows_the_unit_if_as_many_sites_have_another():
    two = sites(Real(2.4, 0.8), Real(2500, 810))
    (line,) = db.columns.unlike(two)
    assert "does not count" not in line
    assert db.columns.agree(*two.values())["x"].scale > 1000
    four = sites(Real(2.4, 0.8), Real(2500, 810), Real(2.5, 0.8), Real(2400, 790))
    assert db.columns.agree(*four.values())["x"].scale > 1000
    assert len(db.columns.unlike(four)) == 1


def test_a_site_without_values_has_no_unit():
    narrow = sites(Real(3, 0.1), Real(3.1, 0.1), db.columns.Missing())
    assert db.columns.unlike(narrow) == []


@pytest.mark.parametrize(
    "columns",
    [
        (Real(30, 6), Real(55, 20), Real(60, 18)),  # the young and the old
        (Real(8, 5), Real(55, 15), Real(60, 14)),  # children, by age
        (Real(28, 13), Real(75, 15), Real(78, 16)),  # and by weight
        (Real(68, 2.4), Real(42, 11), Real(43, 10)),  # patients of a certain age
        (Real(2400, 1900), Real(1000, 800), Real(1100, 850)),  # an expensive hospital
        (Real(2005, 0.5), Real(2019, 0.5), Real(2018, 0.6)),  # other years
        (Real(-3, 0.1), Real(3, 0.1), Real(0, 0.1)),
        (Real(0, 1), Real(0.1, 5)),
        (db.columns.Poisson(1.0), db.columns.Poisson(30.0)),
        (Categorical("f", "m"), Categorical("f")),
        (Categorical("grade 1"), Categorical("grade 2")),
        (Categorical("male"), Categorical("female")),
        (Categorical("I", "II"), Categorical("II", "III")),
    ],
)
def test_sites_that_merely_differ_are_not_blamed(columns):
    assert db.columns.unlike(sites(*columns)) == []
    assert in_common_units("x", {"x": columns}) == [*columns]


def test_typos_are_found_in_the_site_that_has_them():
    (line,) = db.columns.unlike(
        sites(Categorical("heart", "skin"), Categorical("Heart ", "skin"), Categorical("heart"))
    )
    assert line == "Column 'x': 'Heart' is only at b; did it mean 'heart'?"


def test_letters_that_changed_places_are_a_typo_but_not_those_of_codes():
    known = Categorical("female", "male"), Categorical("male", "female")
    (line,) = db.columns.unlike(sites(*known, Categorical("female", "mael")))
    assert line == "Column 'x': 'mael' is only at c; did it mean 'male'?"
    assert db.columns.unlike(sites(Categorical("ab", "o"), Categorical("ab", "o"), Categorical("ba", "o"))) == []


def test_a_code_for_missing_values_is_asked_about_and_not_quoted():
    said = []
    age = np.r_[np.random.default_rng(0).normal(50, 10, 60).round(1), [999.0, 999.0]]
    db.columns.columns_of({"age": age}, report=said.append)
    assert "code for missing values" in said[0]
    assert said[0].endswith("If so, leave these cells empty."), "another kind of column would not help"
    assert not any("999.0" in line for line in said)
    said.clear()
    db.columns.columns_of({"age": age[:-2]}, report=said.append)
    assert said == []


@pytest.mark.parametrize(
    ("codes", "asked"),
    [
        ((-9, -9), True),
        ((-8, -9, -9), True),
        ((-99, -99), True),
        ((-1, -1), True),
        ((-9,), False),
        ((-9, -9, -3), False),
        ((), False),
    ],
)
def test_negative_codes_for_missing_values_are_asked_about(codes, asked):
    said = []
    income = np.r_[np.random.default_rng(0).integers(1, 24, 60), codes].astype(float)
    db.columns.columns_of({"income": income}, report=said.append)
    assert [line for line in said if "codes for missing values" in line] == (said[:1] if asked else [])
    assert bool(said) >= asked


def asked_about(values):
    said = []
    db.columns.columns_of({"x": values}, report=said.append)
    questions = ("codes? for missing values", "Should it be categorical")
    return [text for text in questions if re.search(text, "".join(said))]


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([0, 1], [9, 9]),
        ([1, 2], [9, 9]),
        ([1, 2, 3, 4, 5], [8, 9, 9]),
        (range(12), [99, 99]),
        (range(12), [97, 98, 98, 99]),
        (["f", "m"], ["9", "9"]),
    ],
)
def test_codes_above_all_values_are_asked_about(values, code):
    plain = [*values] * 20
    assert asked_about([*plain, *code]) == ["codes? for missing values"]
    assert "codes? for missing values" not in asked_about(plain)


def test_counts_without_zero_of_few_values_may_be_categories(rng):
    assert asked_about(rng.integers(1, 3, 100)) == ["Should it be categorical"]
    assert asked_about(rng.integers(1, 5, 100)) == ["Should it be categorical"]
    assert asked_about(np.r_[0, rng.integers(1, 5, 100)]) == []
    assert asked_about(1 + rng.poisson(7, 100)) == [], "more values than grades have"
    assert asked_about([1, 2, 1]) == [], "three counts may well not be 0"


def test_equally_spaced_values_and_tails_are_no_codes(rng):
    assert asked_about(np.repeat([5.0, 6.0, 7.0, 8.0, 9.0], 5)) == []
    assert asked_about(np.repeat([1.5, 3.0, 6.0, 9.0], 9)) == []
    assert asked_about(np.repeat([0, 1, 2, 3, 4, 5, 8], [33, 20, 9, 8, 5, 3, 2])) == []
    tail = np.repeat(np.arange(-1.0, 30.0), [2, 3, *[9] * 29])
    assert asked_about(tail) == []
    assert asked_about(np.r_[tail, np.full(20, -1.0)]) == ["codes? for missing values"]


@pytest.mark.parametrize(
    ("cells", "asked"),
    [
        ([*map(str, range(40)), "n/a?", "Mr Kim"], True),
        ([*map(str, range(40))], False),
        (["1", "2", "3+"] * 20, False),  # grades
        (["heart", "skin", "7"] * 20, False),
    ],
)
def test_words_among_numbers_are_asked_about_and_not_quoted(cells, asked):
    said = []
    db.columns.columns_of({"age": np.array(cells, dtype=object)}, report=said.append)
    found = [line for line in said if "has numbers in 40 of 42 rows" in line]
    assert len(found) == asked
    assert not any("Kim" in line for line in said)


def test_sites_whose_column_is_of_another_kind_are_named():
    (line,) = db.columns.unlike(sites(Real(1, 1), db.columns.YesNo(), Real(2, 1), db.columns.Missing()))
    assert line == "Column 'x' is yes/no at b, and real at a, c."


@pytest.mark.parametrize(
    ("times", "coded"),
    [
        ({-1: 8, 0: 20, 1: 30, 2: 20, 3: 8}, False),  # change scores
        ({-1: 25, 0: 20, 1: 30, 2: 20, 3: 8}, True),
        ({-1: 4, 18: 9, 30: 12, 50: 20, 64: 5}, True),
        ({-9: 4, -1: 3, 0: 20, 1: 30, 2: 20}, True),
    ],
)
def test_fits_take_minus_one_for_a_code_only_if_it_is_no_tail(times, coded):
    values = np.repeat([float(value) for value in times], [*times.values()])
    assert seem_coded(np.append(values, np.nan)) is coded
