"""What a regression says of a table that was exported twice, with a row of totals, or with a constant column."""

import numpy as np
import pytest

import decbayes as db

FORMULA = "wage ~ school + years + union"
KINDS = {"repeated rows", "one row", "constant columns"}


def wages(rng, rows=80):
    school, years = rng.integers(8, 18, rows), rng.gamma(2.0, 5.0, rows).round()
    wage = (0.1 * school + 0.02 * years + rng.normal(0, 0.4, rows)).round(4)
    return {"wage": wage, "school": school + 0.0, "years": years, "union": rng.random(rows) < 0.4}


def said(frame, formula=FORMULA, kind=db.LinearRegression):
    kinds = {name: "real" for name in ("school", "years") if name in frame}
    model = kind.from_frame(frame, formula, kinds=kinds, report=lambda text: None)
    return {remark.kind for remark in model.fit_site(frame).posterior.remarks} & KINDS


def part(frame, rows):
    return {name: values[rows] for name, values in frame.items()}


def with_totals(frame):
    total = {name: values.sum() if values.dtype != bool else False for name, values in frame.items()}
    return {name: np.append(values, total[name]) for name, values in frame.items()}


def test_ordinary_tables_pass():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        assert not said(wages(rng, int(rng.integers(30, 300))))


@pytest.mark.parametrize("rows", [np.r_[:80, :80], np.r_[:80, :80, :80], np.r_[:80, :40]])
def test_rows_that_were_exported_twice_are_noticed(rows, rng):
    assert said(part(wages(rng), rows)) == {"repeated rows"}


def test_a_row_of_totals_is_noticed_in_predictors_and_outcome(rng):
    assert said(with_totals(wages(rng))) == {"one row"}
    frame = with_totals(wages(rng))
    (remark,) = (
        remark
        for remark in db.LinearRegression.from_frame(frame, "wage ~ union").fit_site(frame).posterior.remarks
        if remark.kind == "one row"
    )
    assert "wage" in remark.what
    assert not any(f"{value:g}" in str(remark) for value in frame["wage"][-1:])


def test_a_column_that_is_constant_here_is_a_note_of_the_merge(rng):
    sites = [wages(rng), wages(rng), {**wages(rng), "years": np.zeros(80)}]
    model = db.LinearRegression.from_frame(sites[0], FORMULA, kinds={"school": "real", "years": "real"})
    assert said({**sites[2], "union": np.ones(80, dtype=bool)}) == {"constant columns"}
    merged = db.merge([model.fit_site(site).posterior for site in sites])
    (remark,) = (remark for remark in merged.remarks if remark.kind == "constant columns")
    assert (remark.severity, "site 2" in remark.what, "years" in remark.what) == ("note", True, True)


def test_equal_rows_of_discrete_tables_and_of_rounded_ones_are_usual():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        ill, old = rng.random(200) < 0.4, rng.random(200) < 0.5
        assert not said({"ill": ill, "old": old}, "ill ~ old", db.LogisticRegression)
        dose = rng.integers(0, 12, 300) + 1.5
        assert not said({"ill": rng.random(300) < 0.4, "dose": dose}, "ill ~ dose", db.LogisticRegression)
