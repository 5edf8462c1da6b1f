"""Classes, regressions and states as a user types them: results, and errors in one line that quote no data."""

import csv
import json

import numpy as np
import pytest

import decbayes as db
from decbayes.cli import main


@pytest.fixture
def tables(tmp_path, rng):
    """Two sites' patients; the second has a ward that the first has not."""
    for name, wards in (("a", ["heart", "skin"]), ("b", ["heart", "bone"])):
        kind = rng.integers(2, size=40)
        rows = zip(rng.normal(30.5 + 30 * kind, 4), np.array(wards)[kind], rng.poisson(1 + 6 * kind), strict=True)
        lines = [f"{age:.1f},{ward},{visits},{name}{number % 4}" for number, (age, ward, visits) in enumerate(rows)]
        lines[3] = ",?,,a3"
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,ward,visits,walk", *lines]), encoding="utf-8")
    return tmp_path


def test_an_unknown_category_is_named_by_its_column_and_never_quoted(run, tables):
    assert run("fit classes a.csv --components 2 --columns age,ward,visits -o a.posterior")[0] == 0
    status, _, errors = run("fit classes b.csv --like a.posterior -o b.posterior")
    assert (status, "Column 'ward' (categorical)" in errors, "agree on all that sites have" in errors) == (
        1,
        True,
        True,
    )
    assert "bone" not in errors
    assert not (tables / "b.posterior").exists()


def test_a_list_of_columns_names_those_that_say_the_same(run, tmp_path, rng):
    """Copies under another name, in another unit, of categories and of answers; permuted columns are no copies."""
    height, sex, ill = rng.normal(170.2, 9.0, 60).round(1), rng.choice(["f", "m"], 60), rng.integers(2, size=60)
    rows = zip(height, height / 100.0, rng.permutation(height), sex, sex, rng.permutation(sex), ill, ill, strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    (tmp_path / "c.csv").write_text("\n".join(["cm,m,other,sex,gender,partner,ill,sick", *lines]), encoding="utf-8")
    status, _, errors = run("columns c.csv -o c.columns")
    assert status == 0
    assert "Columns that say the same: cm, m; gender, sex; ill, sick. Keep one of each." in errors
    assert "say the same" not in run("columns c.csv --columns cm,other,sex,partner,ill -o d.columns")[2]


def test_sites_agree_on_columns_first(run, tables):
    for name in "ab":
        assert run(f"columns {name}.csv --columns age,ward,visits -o {name}.columns")[0] == 0
    assert run("columns a.columns b.columns -o agreed.columns")[0] == 0
    for name in "ab":
        line = f"fit classes {name}.csv --components 2 --agreed-columns agreed.columns -o {name}.posterior"
        assert run(line)[0] == 0
        assert "take a list of agreed columns with --agreed-columns" in run(line.replace("--agreed-", "--"))[2]
    assert run("merge a.posterior b.posterior -o merged.posterior")[0] == 0
    status, shown, _ = run("show merged.posterior")
    assert status == 0
    assert "bone" in shown
    assert run("show merged.posterior --picture classes.png")[0] == 0


def test_a_regression_says_what_to_fit_and_which_rows_it_left_out(run, tables):
    status, _, errors = run("fit poisson-regression a.csv -o a.posterior")
    assert (status, "patients.csv --formula 'visits ~ age + sex'" in errors) == (2, True)
    line = "fit poisson-regression a.csv --target visits --columns age,visits -o a.posterior"
    status, _, errors = run(line)
    assert (status, "1 of 40 rows have missing values and are left out" in errors) == (0, True)
    model = db.model_for(db.load(tables / "a.posterior").structure)
    assert [row["term"] for row in model.coefficients(db.load(tables / "a.posterior"))] == ["intercept", "age"]


def test_sites_that_differ_are_said_so_and_may(run, tables, rng):
    for name, level in zip("cdef", (0.0, 1.0, -1.0, 0.5), strict=True):
        age = rng.normal(50, 10, 60)
        visits = rng.poisson(np.exp(1.0 + level + 0.02 * (age - 50)))
        lines = [f"{a:.1f},{v},{name}{n % 2}" for n, (a, v) in enumerate(zip(age, visits, strict=True))]
        (tables / f"{name}.csv").write_text("\n".join(["age,visits,clinic", *lines]), encoding="utf-8")
    assert run("fit poisson-regression c.csv --formula visits~age --kinds age=real -o c.posterior")[0] == 0
    for name in "def":
        assert run(f"fit poisson-regression {name}.csv --like c.posterior -o {name}.posterior")[0] == 0
    status, shown, said = run("merge c.posterior d.posterior e.posterior f.posterior -o g.posterior --explain")
    assert (status, "do sites differ?" in shown) == (0, True)
    assert "Sites differ by more than chance in intercept" in said
    assert "fit with --varying intercept at each site" in said
    wanted = "--target visits --columns age,visits --kinds age=real --varying intercept --by clinic"
    assert run(f"fit poisson-regression c.csv {wanted} -o c.posterior")[0] == 0
    assert run("fit poisson-regression d.csv --like c.posterior -o d.posterior")[0] == 0
    status, _, said = run("merge c.posterior d.posterior -o g.posterior")
    assert (status, "--varying" in said) == (0, False), "what varies already is not advised"
    assert "intercept, from clinic to clinic" in run("show g.posterior")[1], "files are of two clinics each"
    merged = db.load(tables / "g.posterior")
    assert merged.structure.model["by"] == "clinic"
    assert merged.contribution["variation"][0, 0] == 2.0  # half of four sites
    line = "fit regression-mixture c.csv --components 2 --target visits --columns age,visits --kinds visits=real"
    assert run(f"{line} -o i.posterior")[0] == 0
    assert "age" in run("show i.posterior")[1]
    status, _, errors = run("fit poisson-regression c.csv --target visits --varying weight -o h.posterior")
    assert (status, "'weight' cannot vary from site to site" in errors) == (2, True)


def test_the_column_that_tells_sequences_apart_is_none_to_agree_on(run, tables):
    """Its values may be names of people, and never get into a file that leaves the site."""
    assert run("columns a.csv --sequences walk -o a.columns")[0] == 0
    assert "walk" not in (tables / "a.columns").read_text(encoding="utf-8")
    assert run("fit states a.csv --states 2 --sequences walk --agreed-columns a.columns -o a.posterior")[0] == 0
    status, _, errors = run("columns a.csv --sequences trip")
    assert (status, "there is no column 'trip'" in errors) == (1, True)


def test_states_of_sequences_that_a_column_tells_apart(run, tables):
    line = "fit states a.csv --states 2 --sequences walk --columns age,visits --stickiness 2 -o a.posterior"
    status, _, errors = run(line)
    assert (status, "4 sequences" in errors) == (0, True)
    status, shown, _ = run("show a.posterior")
    assert (status, "steps per visit" in shown) == (0, True)
    assert run("show a.posterior --picture states.png")[0] == 0


def test_a_regression_names_what_it_lacks_and_scores_of_one_target_compare(run, tables):
    for said, told in (
        ("--formula visit~age", "There is no column 'visit' to predict; the columns are age, ward, visits, walk."),
        ("--target visit", "There is no column 'visit' to predict; the columns are age, ward, visits, walk."),
        ("--target visits --by walk", "no term varies: name terms with `varying`"),
        ("--formula visits~age+walk --varying intercept --by walk", "cannot also be a column of the regression"),
    ):
        status, _, errors = run(f"fit linear-regression a.csv {said} -o a.posterior")
        assert (status, told in errors) == (2, True), errors
    for name, right in (("one", "age"), ("two", "age+ward")):
        assert run(f"fit linear-regression a.csv --formula visits~{right} -o {name}.posterior")[0] == 0
    assert run("fit linear-regression a.csv --formula age~visits -o other.posterior")[0] == 0
    assert "cannot be compared" not in run("score a.csv one.posterior two.posterior")[2]
    assert "cannot be compared" in run("score a.csv one.posterior other.posterior")[2]


def test_values_that_nobody_agreed_on_are_counted_for_their_owner(run, tmp_path, rng):
    """Ten patients of the second site are in a ward that the first site has joined with a rare one."""
    for name, wards in (("a", ["heart"] * 60 + ["skin"] * 60 + ["other"] * 10), ("b", ["heart"] * 60 + ["icu"] * 10)):
        lines = [f"{rng.normal():.3f},{ward}" for ward in wards]
        (tmp_path / f"{name}.csv").write_text("\n".join(["cost,ward", *lines]))
    fit = "fit linear-regression {0}.csv {1} -o {0}.posterior --rules none"
    assert run(fit.format("a", "--formula cost~ward"))[0] == 0
    status, _, errors = run(fit.format("b", "--like a.posterior"))
    assert status == 0
    assert "10 of 70 values are not among the agreed ones and count as 'other'" in " ".join(errors.split())
    assert "icu" not in errors


def test_regressions_are_shown_with_the_probability_of_their_intervals_and_in_the_data_s_units(run, tables):
    for name in "ab":
        rows = (tables / f"{name}.csv").read_text(encoding="utf-8").splitlines()
        kept = [row for row in rows if "?" not in row]
        (tables / f"{name}.csv").write_text("\n".join(kept), encoding="utf-8")
    assert run("fit poisson-regression a.csv --formula visits~age -o a.posterior")[0] == 0
    assert run("fit poisson-regression b.csv --like a.posterior -o b.posterior")[0] == 0
    status, explained, errors = run("merge a.posterior b.posterior -o m.posterior --explain")
    assert (status, "m.posterior: 2 posteriors, 78 observations" in errors) == (0, True)
    assert "No clear difference: p about 0." in explained
    assert "site's parameters being the same" in explained
    shown = run("show m.posterior")[1]
    assert "90% interval" in shown
    assert " low " not in shown
    model, merged = db.model_for(db.load(tables / "m.posterior").structure), db.load(tables / "m.posterior")
    slope = model.coefficients(merged)[-1]
    (row,) = [row for row in csv.DictReader(run("export m.posterior -o -")[1].splitlines()) if row["entry"] == "age"]
    assert float(row["mean"]) == pytest.approx(slope["mean"])


def test_large_whole_numbers_are_counts_with_a_hint_at_what_to_do(run, tmp_path, rng):
    rows = "\n".join(
        f"{days},{visits}" for days, visits in zip(rng.integers(0, 40, 60), rng.poisson(1, 60), strict=True)
    )
    (tmp_path / "a.csv").write_text(f"days,visits\n{rows}\n", encoding="utf-8")
    for command in ("fit classes a.csv --components 2 -o a.posterior", "columns a.csv"):
        assert "--kinds days=real" in " ".join(run(command)[2].split())
        assert "--kinds" not in run(f"{command} --kinds days=real")[2]


def test_names_of_columns_may_have_commas(run, tmp_path):
    rows = "".join(f"{30 + age % 41}.5,{age % 3}\n" for age in range(60))
    (tmp_path / "a.csv").write_text(f'"age, years",visits\n{rows}')
    line = ["columns", "a.csv", "--columns", '"age, years",visits', "--kinds", '"age, years"=categorical']
    with pytest.raises(SystemExit) as ended:
        main([*line, "-o", "a.columns"])
    assert not ended.value.code
    assert db.columns.declared(json.loads((tmp_path / "a.columns").read_text()))["age, years"].kind == "categorical"
    assert 'the columns are "age, years", visits' in run("columns a.csv --columns age")[2]


def test_the_kind_of_a_column_that_the_formula_lacks_is_refused_for_that_reason(run, tables):
    _, _, errors = run("fit linear-regression a.csv --formula visits~age --kinds ward=categorical -o a.posterior")
    assert "The formula does not use ward: leave it out of --kinds" in errors
    assert "There is no column" not in errors
