"""What the commands say about a regression: which outcome, which ratios, which curve."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.views import view_of


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """Patients with an event that has categories, and one that two categories hide."""
    rng = np.random.default_rng(3)
    age, sex = rng.normal(60, 10, 400), rng.choice(["f", "m"], 400)
    died, lost = rng.exponential(500 * np.exp(-0.03 * (age - 60))), rng.uniform(50, 800, 400)
    rows = zip(
        age.round(1), sex, np.minimum(died, lost).round(1) + 1, np.where(died < lost, "died", "alive"),
        np.where(rng.random(400) < 1 / (1 + np.exp(-(age - 60) / 10)), "case", "control"),
        rng.poisson(3 * rng.gamma(2, 0.5, 400)), strict=True,
    )  # fmt: skip
    for name, part in zip("ab", np.array_split(np.array([*rows], dtype=object), 2), strict=True):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["age", "sex", "days", "outcome", "status", "visits"], *part.tolist()])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(path):
    return [*csv.DictReader(path.read_text().splitlines())]


SURVIVAL = "--formula Surv(days,outcome)~age+sex --yes died"


def test_every_command_says_which_level_is_modelled_and_the_named_level_is(run, trial):
    by_alphabet = run("fit logistic-regression a.csv --formula status~age -o x.posterior")[2]
    assert "odds of status = control" in by_alphabet
    said = run("fit logistic-regression a.csv --formula status~age --yes case -o a.posterior")[2]
    said_again = run("fit logistic-regression b.csv --like a.posterior -o b.posterior")[2]
    merged = run("merge a.posterior b.posterior -o m.posterior")[2]
    shown = run("show m.posterior")[1]
    run("export m.posterior -o m.csv")
    run("report a.posterior b.posterior -o r.html")
    texts = said, said_again, merged, shown, (trial / "m.csv").read_text(), (trial / "r.html").read_text()
    assert all("odds of status = case" in text for text in texts)
    # The old are cases.
    assert json.loads(run("show m.posterior --json")[1].splitlines()[1])["ratio"] > 1.0
    assert json.loads(run("show x.posterior --json")[1].splitlines()[1])["ratio"] < 1.0


@pytest.fixture
def clinics(tmp_path, monkeypatch):
    """Two clinics that differ, and two that do not."""
    rng = np.random.default_rng(5)
    for name, level in (("a", 0.0), ("b", 1.5), ("c", 0.0), ("d", 0.0)):
        age = rng.normal(50, 10, 150)
        visits = rng.poisson(np.exp(1.0 + level + 0.02 * (age - 50)))
        rows = "\n".join(f"{a:.1f},{v}" for a, v in zip(age, visits, strict=True))
        (tmp_path / f"{name}.csv").write_text(f"age,visits\n{rows}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fitted(run, formula, *names):
    first, *others = names
    assert run(f"fit poisson-regression {first}.csv --formula {formula} --kinds age=real -o {first}.posterior")[0] == 0
    for name in others:
        assert run(f"fit poisson-regression {name}.csv --like {first}.posterior -o {name}.posterior")[0] == 0
    return " ".join(f"{name}.posterior" for name in names)


def test_a_robust_merge_of_two_sites_says_what_a_plain_one_does_and_that_it_is_none(run, clinics):
    files = fitted(run, "visits~age", "a", "b")
    plain, robust = (
        run(f"merge {files} {option} -o {name}.posterior")[2] for name, option in (("p", ""), ("r", "--robust"))
    )
    kinds = {name: {remark.kind for remark in db.load(clinics / f"{name}.posterior").remarks} for name in "pr"}
    assert "sites differ" in kinds["p"]
    assert kinds["r"] == kinds["p"] | {"no majority"}
    assert ("cannot tell who is right" in robust, "cannot tell who is right" in plain) == (True, False)
    assert "--varying" not in plain, "two sites do not show how far sites differ"
    assert "Report the sites one by one" in plain
    run("fit poisson-regression c.csv --like a.posterior -o c.posterior")
    assert "cannot tell who is right" not in run(f"merge {files} c.posterior --robust -o r.posterior")[2]


@pytest.mark.parametrize("fit", ["poisson-regression {} --formula visits~age", "mixture {} --components 2"])
def test_another_sites_data_of_equal_size_are_not_refined_as_this_ones(run, clinics, fit):
    assert run(f"fit {fit.format('c.csv')} -o c.posterior")[0] == 0
    assert run(f"fit {fit.split()[0]} d.csv --like c.posterior -o d.posterior")[0] == 0
    line = "--own c.posterior --others d.posterior -o c1.posterior"
    status, _, errors = run(f"refine d.csv {line}")
    assert (status, "c.posterior is not the posterior of these data alone: its sums" in errors) == (1, True), errors
    assert run(f"refine c.csv {line}")[0] == 0


def test_a_report_is_a_page_and_no_pdf(run, clinics):
    files = fitted(run, "visits~age", "a", "b")
    status, _, errors = run(f"report {files} -o r.pdf")
    assert (status, "print it from a browser" in errors, (clinics / "r.pdf").exists()) == (2, True, False)
    shown = run("show a.posterior")[1]
    assert shown.startswith("Poisson regression (")
    assert "with intercept" in shown.splitlines()[0]
    status, _, errors = run("compare a.posterior b.posterior")
    assert (status, "is for merges with components" in errors) == (1, True), errors


def test_a_deviation_between_few_sites_or_of_one_broadcast_carries_a_remark(run, clinics):
    files = fitted(run, "visits~age+(1|site)", "c", "d")
    said = run(f"merge {files} -o m.posterior")[2]
    assert "rests on 2 sites and a single broadcast: it, and intervals of what varies, may be far off." in said
    assert "Do not report it as a finding: the prior decides much of it. Take two or three rounds (refine)." in said
    run("refine c.csv --own c.posterior --others d.posterior -o c1.posterior")
    run("refine d.csv --own d.posterior --others c.posterior -o d1.posterior")
    said = run("merge c1.posterior d1.posterior -o m.posterior")[2]
    assert "rests on 2 sites and a single round: it, and intervals of what varies, may be far off." in said
    assert "Take another round (refine)." in said
    run("refine c.csv --own c1.posterior --others d1.posterior -o c2.posterior")
    run("refine d.csv --own d1.posterior --others c1.posterior -o d2.posterior")
    said = run("merge c2.posterior d2.posterior -o m.posterior")[2]
    assert "rests on 2 sites: it, and intervals" in said
    assert "another round" not in said


@pytest.fixture
def visits(tmp_path, run):
    """Clinics whose patients come several times; some ages are missing."""
    rng = np.random.default_rng(11)
    for name, count in {"a": 40, "b": 50, "c": 60}.items():
        patient = np.repeat(np.arange(count), rng.integers(1, 7, count))
        age, level = (drawn[patient] for drawn in (rng.normal(60, 10, count).round(), rng.normal(0, 6, count)))
        pressure = (120 + 0.3 * (age - 60) + level + rng.normal(0, 4, len(patient))).round(1)
        shown = np.where(np.arange(len(age)) % 20 == 0, "", age.astype(str))
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["patient", "age", "pressure"], *zip(patient, shown, pressure, strict=True)])
    like = "--formula pressure~age"
    for name in "abc":
        run(f"fit linear-regression {name}.csv {like} --person patient -o {name}.posterior")
        like = "--like a.posterior"
    run("merge a.posterior b.posterior c.posterior -o m.posterior")
    return tmp_path


def test_after_robust_errors_nothing_asks_for_them_and_a_report_knows_all_sites(run, visits):
    assert (
        "uncertainty: exact if the model held, but rows of one person depend on each other"
        in run("show m.posterior")[1]
    )
    for name in "abc":
        run(f"calibrate m.posterior {name}.csv --robust --person patient -o {name}.information")
    assert run("calibrate m.posterior a.information b.information c.information -o r.posterior")[0] == 0
    shown = run("show r.posterior")[1]
    assert ("calibrated by robust errors, 3 sites" in shown, "too narrow" in shown) == (True, False)
    run("report r.posterior -o r.html")
    page, left_out = (visits / "r.html").read_text(), sum(len(rows_of(visits / f"{n}.csv")[::20]) for n in "abc")
    assert f"{left_out}<" in page
    assert f"{left_out} missing values" in page
    assert page.count(" at 3 sites") == 2
    assert ("1 sites" in page, "only one site" in page, "too narrow" in page) == (False, False, False)


def test_robust_errors_do_not_lose_persons_with_several_rows(run, visits):
    status, _, told = run("calibrate m.posterior a.csv --robust -o a.information")
    assert (status, "give --person COLUMN" in told, (visits / "a.information").exists()) == (1, True, False)
    merged = db.load("m.posterior")
    for name in "ab":
        run(f"calibrate m.posterior {name}.csv --robust --person patient -o {name}.information")
    # A part that was written before the merge had its remark.
    db.save(replace(merged, remarks=()), "silent.posterior")
    assert run("calibrate silent.posterior c.csv --robust -o c.information")[0] == 0
    status, _, told = run("calibrate m.posterior a.information b.information c.information -o r.posterior")
    assert (status, "some for single rows: give --person COLUMN" in told) == (1, True), told
    for name in "ab":
        run(f"calibrate silent.posterior {name}.csv --robust -o {name}.information")
    status, _, told = run("calibrate m.posterior a.information b.information c.information -o r.posterior")
    assert (status, "need the person of each row" in told) == (1, True), told
    model = db.model_for(merged.structure)
    frames = [model.read(visits / f"{name}.csv") for name in "abc"]
    with pytest.raises(db.errors.NotCalibrated, match="need the person of each row"):
        db.calibrate(model, frames, merged, method="robust")


def test_sites_are_not_compared_where_rows_of_one_person_depend_on_each_other(run, visits):
    run("report a.posterior b.posterior c.posterior -o r.html --table t.csv")
    page, table = (visits / "r.html").read_text(), (visits / "t.csv").read_text()
    assert ("<th>I²" in page, "I² and τ² are left out: rows of one person" in page, "I²" in table) == (
        False,
        True,
        False,
    )
    assert "would be exact if the model held, but rows of one person depend on each other" in page
    assert "intervals are exact" not in page
    like = "--formula pressure~age"
    for name in "abc":
        run(f"fit linear-regression {name}.csv {like} -o {name}2.posterior")
        like = "--like a2.posterior"
    run("report a2.posterior b2.posterior c2.posterior -o r.html --table t.csv")
    page, table = (visits / "r.html").read_text(), (visits / "t.csv").read_text()
    assert ("I² is the share" in page, "I²" in table, "intervals are exact for this model" in page) == (
        True,
        True,
        True,
    )


def test_what_varies_already_is_not_said_to_differ(run, tmp_path):
    sites = tables_of_clinics(tmp_path, np.random.default_rng(2))
    for formula, differs in {"pressure~age+arm": True, "pressure~age+arm+(1|site)": False}.items():
        run(f"fit linear-regression s0.csv --formula {formula} -o s0.posterior")
        for site in sites[1:]:
            run(f"fit linear-regression {site}.csv --like s0.posterior -o {site}.posterior")
        _, _, said = run(f"merge {' '.join(f'{site}.posterior' for site in sites)} -o m.posterior")
        assert ("differ by more than chance in intercept" in said) == differs, said
        assert ("--varying intercept at each site, then take two or three rounds (refine)" in said) == differs, said


def test_after_rounds_sites_are_tested_but_not_shown_one_by_one(run, clinics):
    files = fitted(run, "visits~age", "a", "b", "c")
    run(f"report {files} -o first.html")
    for name, others in (("a", "b c"), ("b", "a c"), ("c", "a b")):
        given = " ".join(f"{other}.posterior" for other in others.split())
        run(f"refine {name}.csv --own {name}.posterior --others {given} -o {name}1.posterior")
    status, shown, _ = run("merge a1.posterior b1.posterior c1.posterior --explain -o m.posterior")
    assert (status, "do sites differ?" in shown, "(all terms together, and each by itself)" in shown) == (0, True, True)
    run("report a1.posterior b1.posterior c1.posterior -o rounds.html")
    first, rounds = ((clinics / f"{name}.html").read_text() for name in ("first", "rounds"))
    assert ("for each site alone" in first, "I² is the share" in first) == (True, True)
    assert ("for each site alone" in rounds, "I² is the share" in rounds) == (False, False)
    assert "Single sites are not shown, because after a round their files depend on" in rounds
    assert "number of components" not in rounds


@pytest.fixture
def wards(trial):
    """Patients of three wards, where the old are in one of them more often."""
    rng = np.random.default_rng(4)
    for name in "ab":
        age = rng.normal(60, 10, 200)
        heights = np.column_stack([0 * age, (age - 60) / 10, (60 - age) / 10]) + rng.gumbel(size=(200, 3))
        ward = np.array(["bone", "heart", "skin"])[heights.argmax(axis=1)]
        text = "\n".join(["age,ward", *(f"{a:.1f},{w}" for a, w in zip(age, ward, strict=True))])
        (trial / f"{name}.csv").write_text(text + "\n")
    return trial


def test_levels_without_an_order_go_through_every_command(run, wards):
    said = run("fit multinomial-regression a.csv --formula ward~age --reference skin -o a.posterior")[2]
    assert "odds of ward = bone or heart against skin" in said
    run("fit multinomial-regression b.csv --like a.posterior -o b.posterior")
    assert run("merge a.posterior b.posterior -o m.posterior")[0] == 0
    shown = [json.loads(line) for line in run("show m.posterior --json")[1].splitlines()]
    ratios = {row["entry"]: row["ratio"] for row in shown if row.get("ratio")}
    assert ratios["heart: age"] > ratios["bone: age"] > 1.0
    run("export m.posterior -o m.csv")
    assert [row["entry"] for row in rows_of(wards / "m.csv")][:2] == ["bone: intercept", "bone: age"]
    run("report a.posterior b.posterior -o r.html")
    assert "heart: age" in (wards / "r.html").read_text()
    assert run("refine a.csv --own a.posterior --others b.posterior -o a1.posterior")[0] == 0
    predicted = [json.loads(line) for line in run("predict m.posterior age=40,80 --json")[1].splitlines()]
    assert [row["ward"] for row in predicted] == 2 * ["bone", "heart", "skin"]
    assert sum(row["mean"] for row in predicted[:3]) == pytest.approx(1.0)
    assert predicted[2]["mean"] > 0.5 > predicted[5]["mean"]
    assert all(row["low"] < row["mean"] < row["high"] for row in predicted)
    run("predict m.posterior age=40,80 -o p.csv")
    assert [float(row["mean"]) for row in rows_of(wards / "p.csv")] == pytest.approx([r["mean"] for r in predicted])
    status, _, errors = run("accuracy m.posterior a.csv")
    assert (status, "no concordance" in errors) == (1, True)


def test_the_link_of_ordered_levels_is_an_option_and_stays_with_the_file(run, wards):
    options = "--formula ward~age --levels skin,bone,heart --link cumulative"
    assert (
        "odds of a higher level of ward (skin < bone < heart)"
        in run(f"fit ordered-regression a.csv {options} -o a.posterior")[2]
    )
    run("fit ordered-regression b.csv --like a.posterior -o b.posterior")
    assert run("merge a.posterior b.posterior -o m.posterior")[0] == 0
    assert "link cumulative" in run("show m.posterior")[1]
    run("fit ordered-regression b.csv --formula ward~age --levels skin,bone,heart -o c.posterior")
    assert run("merge a.posterior c.posterior -o n.posterior")[0] == 1


def test_a_level_that_is_not_there_is_refused_and_no_category_of_the_data_is_quoted(run, trial):
    status, _, errors = run("fit logistic-regression a.csv --formula status~age --yes cases -o a.posterior")
    assert (status, "no category 'cases' in 'status'" in errors, "control" in errors) == (2, True, False)
    (trial / "agreed.columns").write_text('[["age", "real", 60, 10, 1], ["status", "yes/no"]]')
    options = "--formula status~age --agreed-columns agreed.columns -o a.posterior"
    assert "leave out --yes" in run(f"fit logistic-regression a.csv {options} --yes case")[2]


def test_columns_beside_the_agreed_ones_are_not_ignored(run, trial):
    """Whoever names the columns to use must not find others in the file."""
    (trial / "agreed.columns").write_text('[["age", "real", 60, 10, 1], ["sex", "categorical", "f", "m"]]')
    agreed = "--components 2 --agreed-columns agreed.columns -o a.posterior"
    status, _, errors = run(f"fit classes a.csv --columns age {agreed}")
    assert (status, "The agreed columns are age, sex" in errors) == (2, True)
    assert run(f"fit classes a.csv --kinds age=count {agreed}")[0] == 2
    assert not (trial / "a.posterior").exists()
    assert run(f"fit classes a.csv --columns sex,age {agreed}")[0] == 0
    status, _, errors = run("fit classes b.csv --columns sex --like a.posterior -o b.posterior")
    assert (status, "The agreed columns are age, sex" in errors) == (2, True)


def test_sites_that_model_different_levels_do_not_merge(run, trial):
    run("fit logistic-regression a.csv --formula status~age --yes case -o a.posterior")
    run("fit logistic-regression b.csv --formula status~age --yes control -o b.posterior")
    assert run("merge a.posterior b.posterior -o m.posterior")[0] == 1


def test_exported_coefficients_are_in_the_columns_own_units_with_ratios(run, trial):
    run("fit poisson-regression a.csv --formula visits~age -o a.posterior")
    run("export a.posterior -o out.csv")
    rows = rows_of(trial / "out.csv")
    posterior = db.load(trial / "a.posterior")
    model = db.PoissonRegression.from_structure(posterior.structure)
    for row, expected in zip(rows, model.coefficients(posterior), strict=True):
        assert float(row["mean"]) == pytest.approx(expected["mean"])
    assert rows[0]["ratio"] == ""
    assert float(rows[1]["ratio_upper"]) == pytest.approx(np.exp(float(rows[1]["upper"])))


def test_events_in_words_get_advice_and_a_named_one_is_the_event(run, trial):
    status, _, errors = run("fit survival-regression a.csv --formula Surv(days,outcome)~age -o a.posterior")
    assert (status, "--yes" in errors, "recode" in errors, "alive" in errors) == (1, True, True, False)
    said = run(f"fit survival-regression a.csv {SURVIVAL} -o a.posterior")[2]
    assert "hazard of outcome = died" in said
    shown = run("show a.posterior")[1]
    assert "hazard ratio" in shown
    assert "baseline: events per unit of days" in shown


def test_a_command_that_is_nearly_right_is_suggested(run, trial):
    assert "Did you mean survival-regression?" in run("fit survival a.csv -o a.posterior")[2]
    assert "Did you mean logistic-regression?" in run("fit logistc-regression a.csv -o a.posterior")[2]
    assert "Surv(days, died) ~ age + sex" in run("fit survival-regression a.csv -o a.posterior")[2]


def test_predicted_survival_is_that_of_the_model(run, trial):
    run(f"fit survival-regression a.csv {SURVIVAL} -o a.posterior")
    printed = run("predict a.posterior age=50,70 sex=m --times 30,365 --json")[1]
    rows = [json.loads(line) for line in printed.splitlines()]
    posterior = db.load(trial / "a.posterior")
    model = db.SurvivalRegression.from_structure(posterior.structure)
    curves = model.survival(posterior, {"age": [50.0, 70.0], "sex": ["m", "m"]}, times=[30.0, 365.0])
    assert [row["mean"] for row in rows] == pytest.approx(curves["mean"].ravel())
    assert [row["high"] for row in rows] == pytest.approx(curves["high"].ravel())
    (trial / "persons.csv").write_text("age,sex\n50,m\n70,m\n")
    run("predict a.posterior --data persons.csv --times 30,365 -o curves.csv")
    assert [float(row["mean"]) for row in rows_of(trial / "curves.csv")] == pytest.approx(curves["mean"].ravel())


def test_survival_long_after_the_last_cut_is_said_to_be_extrapolated(run, trial):
    run(f"fit survival-regression a.csv {SURVIVAL} -o a.posterior")
    last = db.SurvivalRegression.from_structure(db.load(trial / "a.posterior").structure).cuts[-1]
    person = "predict a.posterior age=50 sex=m --times"
    assert "extrapolations" not in run(f"{person} {last}")[2]
    said = " ".join(run(f"{person} {last},{20 * last}")[2].split())
    assert f"Times up to {20 * last:g}: the hazard is assumed constant after the last cut, {last:g}," in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Describe persons"),
        ("age=50", "Give sex=…"),
        ("height=50 sex=m", "with one of age, sex"),
        ("a.csv", "For the rows of a file: --data a.csv."),
        ("age=50 sex=m --times soon", "numbers separated by commas"),
    ],
)
def test_persons_that_are_described_badly_are_refused_in_a_line(run, trial, words, said):
    run(f"fit survival-regression a.csv {SURVIVAL} -o a.posterior")
    status, _, errors = run(f"predict a.posterior {words}")
    assert (status, said in errors) == (2, True)


def test_the_smallest_count_that_is_predicted_is_none(run, trial):
    run("fit negative-binomial-regression a.csv --formula visits~age --dispersion 2 -o a.posterior")
    assert "mean + mean² / 2" in run("show a.posterior")[1]
    assert json.loads(run("predict a.posterior age=60 --json")[1])["low"] == 0.0


def test_predictions_say_whether_intervals_are_of_means_or_of_new_outcomes(run, trial):
    run("fit linear-regression a.csv --formula visits~age --kinds visits=real -o a.posterior")
    run("fit logistic-regression a.csv --formula sex~age -o b.posterior")
    assert "a new value is between low and high (90%)." in run("predict a.posterior age=60")[1].replace("\n", " ")
    said = run("predict b.posterior age=60")[1].replace("\n", " ")
    assert "mean: the probability; low and high are the ends of its interval (90%)." in said


@pytest.mark.parametrize(("name", "further"), [("ordered", {"levels"}), ("survival", {"cuts", "rate"})])
def test_a_model_has_its_parents_options_and_explains_those_that_differ(name, further):
    from decbayes.cli.shared.model_options import model_options

    kinds = db.LogisticRegression, {"ordered": db.OrderedRegression, "survival": db.SurvivalRegression}[name]
    known, options = ({option.name: option for option in model_options(kind)} for kind in kinds)
    assert known.keys() | further <= options.keys() | {"yes"}
    helps = [one["formula"].annotation.__metadata__[0].help for one in (known, options)]
    assert helps[0] != helps[1]


def test_robust_errors_by_files_are_those_of_all_rows(run, trial):
    run("fit poisson-regression a.csv --formula visits~age -o a.posterior")
    said = run("fit poisson-regression b.csv --like a.posterior -o b.posterior")[2]
    assert "Counts vary more than Poisson counts do" in said
    merged = run("merge a.posterior b.posterior -o m.posterior --explain")
    assert "seem to differ where they do not" in merged[2]
    assert "Not tested: whether sites differ by more than chance. Counts vary more" in merged[1]
    assert "After one broadcast, coefficients are probably within" in merged[2]
    status, _, errors = run("calibrate m.posterior a.csv -o a.information")
    assert (status, "nothing to calibrate" in errors, (trial / "a.information").exists()) == (1, True, False)
    for name in "ab":
        assert run(f"calibrate m.posterior {name}.csv --robust -o {name}.information")[0] == 0
    status, shown, _ = run("calibrate m.posterior a.information b.information -o r.posterior")
    robust, plain = (db.load(trial / name) for name in ("r.posterior", "m.posterior"))
    model = db.PoissonRegression.from_structure(plain.structure)
    frames = [model.read(trial / f"{name}.csv") for name in "ab"]
    expected = db.calibrate(model, frames, plain, method="robust")
    assert robust.deviation("coefficients") == pytest.approx(expected.deviation("coefficients"), rel=1e-4)
    assert model.coefficients(robust)[1]["deviation"] > 1.2 * model.coefficients(plain)[1]["deviation"]
    assert "robust errors, 2 sites" in run("show r.posterior")[1]
    assert status == 0
    assert all(f"{row[end]:.4g}" in shown for row in model.coefficients(robust) for end in ("mean", "low", "high"))


def test_accuracy_by_files_is_the_sum_of_the_sites(run, trial):
    run(f"fit survival-regression a.csv {SURVIVAL} -o a.posterior")
    run("fit survival-regression b.csv --like a.posterior -o b.posterior")
    run("merge a.posterior b.posterior -o m.posterior")
    for name in "ab":
        assert run(f"accuracy m.posterior {name}.csv -o {name}.accuracy")[0] == 0
    printed = run("accuracy m.posterior a.accuracy b.accuracy --json")[1].splitlines()
    merged = db.load(trial / "m.posterior")
    model = db.SurvivalRegression.from_structure(merged.structure)
    parts = [db.checking.Accuracy.of(model, model.read(trial / f"{name}.csv"), merged) for name in "ab"]
    assert json.loads(printed[0])["concordance"] == pytest.approx((parts[0] + parts[1]).concordance)
    assert "concordance 0." in run("accuracy m.posterior a.accuracy b.accuracy")[1]
    assert "a.accuracy is given twice" in run("accuracy m.posterior a.accuracy a.accuracy")[2]
    status, _, errors = run("accuracy a.posterior a.accuracy b.accuracy")
    assert (status, "Some sums are not about" in errors) == (1, True)
    assert run("accuracy m.posterior a.csv b.csv")[0] == 2


def test_sites_with_other_units_are_named_when_columns_are_agreed(run, trial):
    text = (trial / "b.csv").read_text().splitlines()
    months = [
        text[0],
        *(",".join([str(12 * float(age)), rest]) for age, rest in (row.split(",", 1) for row in text[1:])),
    ]
    (trial / "b.csv").write_text("\n".join(months))
    for name in "ab":
        run(f"columns {name}.csv --columns age,sex,days --kinds age=real,days=real -o {name}.columns")
    assert "Does b use other units" in run("columns a.columns b.columns -o agreed.columns")[2]


def test_ratios_are_per_what_values_differ_by():
    """A ratio for one whole unit of a column that varies by hundredths would have fifty digits."""
    rng = np.random.default_rng(2)
    small, usual = rng.normal(0.1, 0.014, 400), rng.normal(50.0, 10.0, 400)
    ill = rng.random(400) < 1 / (1 + np.exp(-(small - 0.1) / 0.014 - (usual - 50.0) / 10.0))
    frame = {"small": small, "usual": usual, "ill": ill}
    model = db.LogisticRegression.from_frame(frame, "ill ~ small + usual")
    posterior = model.fit(frame).posterior
    by_term = {row["term"]: row for row in model.coefficients(posterior)}
    ratios = {row["term"]: row for row in model.ratios(posterior)}
    assert (ratios["small"]["per"], ratios["usual"]["per"]) == (0.01, 1.0)
    for term, row in ratios.items():
        assert row["ratio"] == pytest.approx(np.exp(row["per"] * by_term[term]["mean"]))
    assert [estimate.name for estimate in view_of(model).ratios(posterior)] == ["small, per 0.01", "usual"]


def test_half_cauchy_deviations_and_correlations_by_files_are_those_of_all_rows(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    for name in "abc":
        x, (level, slope) = rng.normal(size=20), rng.normal(size=2)
        rows = zip(x, level + (1 + slope) * x + rng.normal(size=20), np.arange(20) % 4, strict=True)
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["x", "y", "unit"], *rows])
    run("fit linear-regression a.csv --formula y~x+(1+x|site) -o a.posterior")
    model = db.LinearRegression.from_structure(db.load(tmp_path / "a.posterior").structure)
    frames = [model.read(tmp_path / f"{name}.csv") for name in "abc"]
    fits = [model.fit(frame).posterior for frame in frames]
    db.save(db.refine(model, frames, fits, rounds=4).merged, tmp_path / "m.posterior")
    for name in "abc":
        assert run(f"calibrate m.posterior {name}.csv -o {name}.information")[0] == 0
    assert run("calibrate m.posterior a.information b.information c.information -o h.posterior")[0] == 0
    ours, plain = (db.load(tmp_path / name) for name in ("h.posterior", "m.posterior"))
    expected = db.calibrate(model, frames, plain, method="half-Cauchy")
    for read in (model.between, model.correlations):
        for row, other in zip(read(ours), read(expected), strict=True):
            assert [row["low"], row["mean"], row["high"]] == pytest.approx(
                [other["low"], other["mean"], other["high"]], rel=1e-3
            )
    run("export h.posterior --level 0.5 -o h.csv")
    exported = {(row["quantity"], row["entry"]): row for row in rows_of(tmp_path / "h.csv")}
    (row,) = model.correlations(expected, level=0.5)
    assert float(exported["correlation", "intercept and x"]["upper"]) == pytest.approx(row["high"], rel=1e-3)
    (row, _) = model.between(expected, level=0.5)
    deviations = [row for row in rows_of(tmp_path / "h.csv") if row["factor"] == "variation"]
    assert float(deviations[0]["lower"]) == pytest.approx(row["low"], rel=1e-3)
    whole = db.checking.Information.of(model, frames[2], plain)
    (tmp_path / "c.information").write_bytes(whole.to_bytes())
    mixed = run("calibrate m.posterior a.information b.information c.information -o x.posterior")
    assert mixed[2].endswith("calibrated by linear response, 3 sites\n"), "sums for many values are not those of all"
    run("fit linear-regression a.csv --formula y~x+(1|site/unit) --kinds unit=categorical -o w.posterior")
    assert "reveal groups of unit" in run("calibrate w.posterior a.csv --rules usual -o c.information")[2]


def test_weights_are_listed_with_the_columns_of_a_formula_and_said(run, trial):
    """Here the visits of a patient, which are no weights otherwise."""
    for name in "ab":
        run(f"columns {name}.csv {SURVIVAL} --weights visits -o {name}.columns")
    run("columns a.columns b.columns -o agreed.columns")
    fit = f"fit survival-regression a.csv {SURVIVAL} --weights visits --agreed-columns"
    said = run(f"{fit} agreed.columns -o a.posterior")[2]
    assert "models the hazard of outcome = died, by Surv(days, outcome) ~ age + sex, weighted by visits" in said
    shown = run("show a.posterior")[1].replace("\n", " ")
    assert "weighted by visits" in shown
    assert re.search("from [0-9]+ weighted rows", shown), "rows that count several times are not as many observations"
    run(f"columns a.csv {SURVIVAL} -o few.columns")
    code, _, refused = run(f"{fit} few.columns -o x.posterior")
    assert code
    assert "no weights 'visits'. Make it with `decbayes columns --weights visits`" in refused


def test_rows_of_one_person_are_said_to_depend_on_each_other_until_errors_are_robust(run, tmp_path):
    """Five visits of each of 60 persons, nearly alike: the intervals of independent rows are too narrow."""
    rng = np.random.default_rng(4)
    for name in "ab":
        own = np.repeat(rng.gamma(1.0, 3.0, 60), 5)
        rows = zip(np.repeat(np.arange(60), 5), rng.normal(50, 9, 300).round(1), rng.poisson(own), strict=True)
        (tmp_path / f"{name}.csv").write_text("person,age,visits\n" + "".join(f"p{p},{a},{v}\n" for p, a, v in rows))
    options = "--formula visits~age --dispersion 1 --person person"
    said = run(f"fit negative-binomial-regression a.csv {options} -o a.posterior")[2]
    run("fit negative-binomial-regression b.csv --like a.posterior --person person -o b.posterior")
    merged = run("merge a.posterior b.posterior --explain -o m.posterior")
    assert all("intervals are probably too narrow" in text for text in (said, merged[2]))
    assert "Rows of one person depend on each other" in merged[1]
    for name in "ab":
        assert run(f"calibrate m.posterior {name}.csv --robust --person person -o {name}.information")[0] == 0
    assert run("calibrate m.posterior a.information b.information -o r.posterior")[0] == 0
    assert "too narrow" not in run("show r.posterior --remarks")[1]
    assert (
        "Persons have several rows"
        not in run("fit negative-binomial-regression a.csv --formula visits~age --dispersion 1 -o c.posterior")[2]
    )


def test_robust_errors_are_not_followed_by_the_advice_to_use_them(run, trial):
    run("fit poisson-regression a.csv --formula visits~age -o a.posterior")
    run("fit poisson-regression b.csv --like a.posterior -o b.posterior")
    assert "robust errors" in run("merge a.posterior b.posterior -o m.posterior")[2]
    for name in "ab":
        run(f"calibrate m.posterior {name}.csv --robust -o {name}.information")
    run("calibrate m.posterior a.information b.information -o r.posterior")
    assert "vary more than Poisson" not in run("show r.posterior --remarks")[1]


def test_a_merge_and_its_report_say_which_categories_the_rules_joined(run, tmp_path, monkeypatch):
    monkeypatch.delenv("DECBAYES_RULES")
    rng = np.random.default_rng(2)
    for name, rare in (("a", 2), ("b", 40)):
        ward = ["rare"] * rare + ["skin"] * 60 + ["bone"] * 60
        rows = "".join(f"{w},{y:.2f}\n" for w, y in zip(ward, rng.normal(size=len(ward)), strict=True))
        (tmp_path / f"{name}.csv").write_text(f"ward,y\n{rows}")
        run(f"columns {name}.csv -o {name}.columns")
    run("columns a.columns b.columns -o agreed.columns")
    for name in "ab":
        fit = f"fit linear-regression {name}.csv --formula y~ward --agreed-columns agreed.columns -o {name}.posterior"
        assert run(fit)[2].count("count as 'other', with common ones") == (name == "a")  # said once
    remark = "a: Changed by the disclosure rules: Column 'ward': categories that few persons have, or in which few "
    assert remark in run("merge a.posterior b.posterior -o m.posterior")[2]
    assert remark in run("show m.posterior --remarks")[1]
    run("refine a.csv --own a.posterior --others b.posterior -o a1.posterior")
    kinds = [one.kind for one in db.load("a1.posterior").remarks]
    assert kinds.count("disclosure rules") == 1  # a refit says again what the first fit said
    run("report a.posterior b.posterior -o r.html")
    assert "The disclosure rules changed data of a:" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(("only", "yes"), [("case", "case"), ("case", "control"), ("alive", "died")])
def test_a_site_with_one_outcome_lists_its_columns_like_all_others(run, trial, only, yes):
    """A site without a single event is one of those that broadcasts are made for."""
    column = "outcome" if yes == "died" else "status"
    model, formula = ("survival", "Surv(days,outcome)~age") if yes == "died" else ("logistic", "status~age")
    head, *rows = (trial / "b.csv").read_text().splitlines()
    kept = [row for row in rows if only in row.split(",")]
    (trial / "b.csv").write_text("\n".join([head, *kept]) + "\n")
    for name in "ab":
        line = f"columns {name}.csv --model {model}-regression --formula {formula} --yes {yes} -o {name}.columns"
        assert run(line)[0] == 0
    assert f"{yes} is yes" in run("columns a.columns b.columns -o agreed.columns")[1]
    fit = f"fit {model}-regression b.csv --formula {formula} --yes {yes} --agreed-columns agreed.columns"
    assert (run(f"{fit} -o b.posterior")[0], column in run("show b.posterior")[1]) == (0, True)


def test_a_single_outcome_that_nobody_has_named_is_asked_for(run, trial):
    (trial / "c.csv").write_text("age,status\n" + "".join(f"{age},case\n" for age in range(30, 60)))
    status, _, errors = run("fit logistic-regression c.csv --formula status~age -o c.posterior")
    assert (status, "--yes" in errors) == (2, True)


def test_times_before_the_beginning_are_refused_in_one_line(run, trial):
    run(f"fit survival-regression a.csv {SURVIVAL} --cuts 200 --rate 0.002 -o a.posterior")
    for times in ("100,-5", "nan", "inf"):
        status, _, errors = run(f"predict a.posterior age=60 sex=f --times={times}")
        assert (status, "--times, from 0 on," in errors) == (2, True)


def test_a_site_with_one_outcome_has_no_concordance(run, trial):
    run("fit logistic-regression a.csv --formula status~age --yes case -o a.posterior")
    (trial / "c.csv").write_text("age,status\n" + "".join(f"{age},case\n" for age in range(30, 60)))
    assert "concordance unknown" in run("accuracy a.posterior c.csv")[1]
    assert json.loads(run("accuracy a.posterior c.csv --json")[1].splitlines()[0])["concordance"] is None


def test_options_to_copy_are_quoted_for_the_shell(run, tmp_path):
    """Names of columns have spaces and brackets."""
    rows = "".join(f"{day},{age % 7}\n" for age, day in enumerate(range(0, 600, 10)))
    (tmp_path / "c.csv").write_text(f"stay (days),visits\n{rows}")
    assert "--kinds 'stay (days)=real'" in run("columns c.csv -o c.columns")[2]


def test_spellings_of_yes_are_not_counted_as_no(run, tmp_path):
    rows = ["yes"] * 30 + ["Yes"] * 30 + ["no"] * 40
    (tmp_path / "a.csv").write_text("died,x\n" + "".join(f"{y},{place % 7}.5\n" for place, y in enumerate(rows)))
    status, _, errors = run("fit logistic-regression a.csv --formula died~x --yes yes -o a.posterior")
    assert (status, "Another category of 'died' is 'yes' but for capital letters" in errors) == (2, True), errors
    (tmp_path / "a.csv").write_text((tmp_path / "a.csv").read_text().replace("Yes", "perhaps"))
    _, _, errors = run("fit logistic-regression a.csv --formula died~x --yes yes -o a.posterior")
    assert "models the odds of died = yes against all 2 other categories" in errors
    assert "differ only in capital letters" not in run("columns a.csv -o a.columns")[2]
    (tmp_path / "b.csv").write_text("ward\n" + "heart\n" * 30 + "Heart\n" * 30 + "skin\n" * 30)
    assert "'ward' is taken as categorical, and has categories that differ only in capital" in run("columns b.csv")[2]


def test_codes_for_missing_values_are_noticed_at_every_site(run, rng, tmp_path):
    for name, code in (("a", None), ("b", "-9")):
        ages = [f"{age:.1f}" for age in rng.normal(50, 8, 80)]
        ages[:6] = [code] * 6 if code else ages[:6]
        (tmp_path / f"{name}.csv").write_text("age,y\n" + "".join(f"{a},{rng.normal():.2f}\n" for a in ages))
    said = "Some values of age look like codes for missing values"
    assert said not in run("fit linear-regression a.csv --formula y~age -o a.posterior")[2]
    assert said in run("fit linear-regression b.csv --like a.posterior -o b")[2]
    assert said in run("fit linear-regression b.csv --formula y~age -o c")[2]


@pytest.mark.filterwarnings("default")
def test_warnings_are_lines_without_source_code_and_simulated_sites_make_none(run, rng, tmp_path):
    for name, shift in (("a", 0.0), ("b", 0.0), ("c", 5000.0)):
        rows = "".join(f"{x + shift:.2f},{int(rng.random() < 0.5)}\n" for x in rng.normal(50, 5, 60))
        (tmp_path / f"{name}.csv").write_text(f"x,y\n{rows}")
    run("fit logistic-regression a.csv --formula y~x -o a")
    run("fit logistic-regression b.csv --like a -o b")
    errors = run("fit logistic-regression c.csv --like a -o c")[2]
    assert "Column 'x' is on average" in errors
    assert "UserWarning" not in errors
    assert "Column 'column 1'" not in run("merge a b c -o m")[2]


def tables_of_clinics(folder, rng, sites=6, rows=300):
    """Tables of clinics that differ in level, with an outcome of each kind."""
    for number in range(sites):
        age, level = rng.normal(60, 10, rows).round(), rng.normal(0, 6)
        arm = rng.choice(["a", "b"], rows)
        pressure = 120 + level + 0.4 * (age - 60) - 3 * (arm == "b") + rng.normal(0, 8, rows)
        died = rng.random(rows) < 1 / (1 + np.exp(0.5 - level / 8 - 0.03 * (age - 60)))
        table = zip(age, arm, pressure.round(1), np.where(died, "yes", "no"), strict=True)
        with (folder / f"s{number}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["age", "arm", "pressure", "died"], *table])
    return [f"s{number}" for number in range(sites)]


@pytest.mark.parametrize(("kind", "formula"), [("linear", "pressure~age+arm"), ("logistic", "died~age+arm")])
def test_terms_that_vary_are_calibrated_under_rules_as_without(kind, formula, run, tmp_path, monkeypatch):
    monkeypatch.delenv("DECBAYES_RULES", raising=False)
    sites = tables_of_clinics(tmp_path, np.random.default_rng(2))
    run(f"fit {kind}-regression s0.csv --formula {formula}+(1|site) -o s0.posterior")
    for site in sites[1:]:
        run(f"fit {kind}-regression {site}.csv --like s0.posterior -o {site}.posterior")
    model = db.model_for(db.load("s0.posterior").structure)
    frames = [model.read(tmp_path / f"{site}.csv") for site in sites]
    fits = [db.load(f"{site}.posterior") for site in sites]
    db.save(db.refine(model, frames, fits, rounds=2).merged, "m.posterior")
    for site in sites:
        assert run(f"calibrate m.posterior {site}.csv -o {site}.information")[0] == 0
    status, _, told = run(f"calibrate m.posterior {' '.join(f'{site}.information' for site in sites)} -o c.posterior")
    assert status == 0, told
    (ours,) = model.between(db.load("c.posterior"))
    (plain,) = model.between(db.calibrate(model, frames, db.load("m.posterior")))
    assert [ours["low"], ours["high"]] == pytest.approx([plain["low"], plain["high"]], rel=1e-6)


def test_rounds_by_files_of_counts_are_those_of_one_process_where_a_site_lacks_levels(run, tmp_path):
    """The check of a site's data must not ask how many counts a vague prior expects: more than can be added to it."""
    rng, sites, formula = np.random.default_rng(1), ("x0", "x1", "x2"), "--formula visits~age+ward"
    for site in sites:
        age, ward = rng.normal(60, 10, 600).round(), rng.choice(["bone", "eye", "heart", "skin"], 600)
        ward[np.isin(ward, ["eye", "skin"]) & (site == "x2")] = "bone"
        visits = rng.poisson(np.exp(1 + 0.02 * (age - 60) + 0.5 * (ward == "bone")))
        with (tmp_path / f"{site}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["age", "ward", "visits"], *zip(age, ward, visits, strict=True)])
        run(f"columns {site}.csv {formula} --model poisson-regression -o {site}.columns")
    run(f"columns {' '.join(f'{site}.columns' for site in sites)} -o agreed")
    (tmp_path / "shared").mkdir()
    for site in sites:
        run(f"fit poisson-regression {site}.csv {formula} --agreed-columns agreed -o shared/{site}.posterior")
    fits = [db.load(f"shared/{site}.posterior") for site in sites]
    for site in sites * 2:
        status, _, told = run(f"refine {site}.csv --folder shared")
        assert status == 0, told
    run("merge shared -o m.posterior")
    model = db.model_for(fits[0].structure)
    frames = [model.read(tmp_path / f"{site}.csv") for site in sites]
    expected = db.refine(model, frames, fits, rounds=2, schedule="parallel").merged
    assert db.load("m.posterior") == expected


def test_options_for_components_are_refused_for_regressions(run, clinics):
    files = fitted(run, "visits~age", "a", "c")
    for option in ("--components 3", "--solver matching"):
        status, _, said = run(f"merge {files} {option} -o m.posterior")
        assert status
        assert "has no components to align: leave out --" in said
    status, _, said = run("fit poisson-regression a.csv --formula visits~age --restarts 5 -o x.posterior")
    assert status
    assert "leave out --restarts" in said


def test_files_of_a_round_are_said_to_be_beyond_a_robust_merge_and_no_report_advises_one(run, clinics):
    (clinics / "shared").mkdir()
    for name in fitted(run, "visits~age", "a", "b", "c", "d").split():
        (clinics / name).rename(clinics / "shared" / name)
    for name in "abcd":
        assert run(f"refine {name}.csv --folder shared --site {name}")[0] == 0
    status, _, said = run("merge shared --robust -o m.posterior")
    assert status
    assert "remove the files of sites that it leaves out from the folder, then take rounds" in said
    merged = run("merge shared -o m.posterior")[2]
    assert "Posteriors of round 1." in merged
    run("report shared -o r.html")
    assert "A robust merge (--robust)" not in (clinics / "r.html").read_text()
    run("report shared/a.posterior shared/b.posterior shared/c.posterior shared/d.posterior -o f.html")
    assert "A robust merge (--robust)" in (clinics / "f.html").read_text()


def test_a_merge_tells_how_many_persons_are_behind_it(run, tmp_path):
    rng = np.random.default_rng(6)
    for name in "ab":
        rows = zip(np.repeat(np.arange(30), 4), rng.normal(50, 9, 120).round(1), rng.poisson(3.0, 120), strict=True)
        (tmp_path / f"{name}.csv").write_text("person,age,visits\n" + "".join(f"p{p},{a},{v}\n" for p, a, v in rows))
    run("fit poisson-regression a.csv --formula visits~age --person person -o a.posterior")
    run("fit poisson-regression b.csv --like a.posterior --person person -o b.posterior")
    said = run("merge a.posterior b.posterior -o m.posterior")[2]
    assert "240 observations of 60 persons" in said
    assert "from 240 observations of 60 persons" in run("show m.posterior")[1]


def test_only_terms_that_differ_by_themselves_are_named(run, tmp_path, monkeypatch):
    """A sixth clinic with the opposite slope: the intercept differs by chance only."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    for number in range(6):
        age, sex = rng.normal(60, 10, 300).round(), rng.choice(["f", "m"], 300)
        slope = 0.05 if number < 5 else -0.08
        died = rng.random(300) < 1 / (1 + np.exp(0.5 - slope * (age - 60) - 0.5 * (sex == "m")))
        rows = "".join(f"{a},{s},{'yes' if d else 'no'}\n" for a, s, d in zip(age, sex, died, strict=True))
        (tmp_path / f"s{number}.csv").write_text("age,sex,died\n" + rows)
    run("fit logistic-regression s0.csv --formula died~age+sex -o s0.posterior")
    for number in range(1, 6):
        run(f"fit logistic-regression s{number}.csv --like s0.posterior -o s{number}.posterior")
    _, shown, said = run(f"merge {' '.join(f's{number}.posterior' for number in range(6))} --explain -o m.posterior")
    named = said.partition("Sites differ by more than chance in ")[2].partition(":")[0]
    assert named.startswith("age (")
    times = [float(text.split(" ×")[0]) for text in named.split("(")[1:]]
    assert times == sorted(times, reverse=True)
    assert min(times) >= 1.5
    assert f"Sites differ in {', '.join(part.split(' (')[0] for part in named.split(', '))}" in " ".join(shown.split())


def test_the_lead_of_a_report_says_that_data_count_twice(run, clinics):
    head, *rows = (clinics / "a.csv").read_text().splitlines()
    (clinics / "e.csv").write_text("\n".join([head, *rows[::-1]]) + "\n")
    files = fitted(run, "visits~age", "a", "c", "d", "e")
    said = run(f"merge {files} -o m.posterior")[2]
    assert "Their statistics are the same." in said
    run(f"report {files} -o r.html")
    text = " ".join((clinics / "r.html").read_text().split())
    assert "a, e seem to hold the same data, which count more than once" in text
    assert "No site stands out" not in text


def test_a_term_that_differs_only_beside_another_is_not_notable():
    """Given a slope that varies, the intercept was chosen, too, although it differs as by chance (1.0 ×)."""
    model = db.LogisticRegression("died", columns={"died": "yes/no", "age": "real"})
    values = {"coefficients": {"value": np.array([[1.0, 6.0]])}}
    spread = db.merging.Heterogeneity(np.array([3.0]), np.array([0.0]), values, values, (1, 0))
    named = [term.name for term in view_of(model)._differences(spread) if term.notable]
    assert named == ["age"]


def test_a_merge_names_a_common_category_that_hides_rare_ones_at_all_sites_but_one(run, tmp_path, monkeypatch, rng):
    """At two of three sites two persons in another ward pull the smallest common one into "other"."""
    monkeypatch.delenv("DECBAYES_RULES")
    for name, rare in (("a", 2), ("b", 2), ("c", 0)):
        ward = ["burns"] * rare + ["skin"] * 20 + ["bone"] * 40 + ["heart"] * 40
        rows = "".join(f"{w},{y:.2f}\n" for w, y in zip(ward, rng.normal(size=len(ward)), strict=True))
        (tmp_path / f"{name}.csv").write_text(f"ward,y\n{rows}")
        run(f"columns {name}.csv -o {name}.columns")
    run("columns a.columns b.columns c.columns -o agreed.columns")
    for name in "abc":
        run(f"fit linear-regression {name}.csv --formula y~ward --agreed-columns agreed.columns -o {name}.posterior")
    said = run("merge a.posterior b.posterior c.posterior -o m.posterior")[2]
    assert "No more than one site shows ward=skin;" in said
    assert "ward=heart" not in said
    assert "burns" not in said


@pytest.fixture
def clinic(run, tmp_path, rng):
    """A posterior of illness by age and ward, with a genuine ward "other"."""
    ward = np.array(["heart", "skin", "other"])[np.arange(120) % 3]
    ill = rng.random(120) < 0.5
    lines = [f"{age:.0f},{each},{yes}" for age, each, yes in zip(rng.normal(60, 10, 120), ward, ill, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["age,ward,ill", *lines]))
    assert run("fit logistic-regression a.csv --formula ill~age+ward -o a.posterior")[0] == 0
    return tmp_path


def test_a_category_that_is_not_agreed_gets_no_prediction_of_other(run, clinic):
    for asked in ("heart,Heart", "cardiology", "skin,cardiology"):
        status, printed, errors = run(f"predict a.posterior age=60 ward={asked}")
        assert (status != 0, printed) == (True, "")
        assert "heart, other, skin" in errors
    model, posterior = db.LogisticRegression.from_structure, db.load(clinic / "a.posterior")
    with pytest.raises(db.errors.InvalidData, match="heart, other, skin"):
        model(posterior.structure).predict(posterior, {"age": [60.0], "ward": ["Heart"]})
    assert run("predict a.posterior age=60 ward=heart,other")[0] == 0


@pytest.mark.filterwarnings("default::UserWarning")
def test_rows_of_a_file_that_get_the_prediction_of_other_are_counted(run, clinic):
    (clinic / "new.csv").write_text("age,ward\n50,heart\n60,Heart\n70,icu\n")
    status, _, errors = run("predict a.posterior --data new.csv")
    assert (status, "2 of 3 values are not among the agreed ones" in errors) == (0, True)
    assert "Heart" not in errors
    (clinic / "new.csv").write_text("age,ward\n60,Heart\n70,icu\n")
    assert run("predict a.posterior --data new.csv")[0] != 0


def test_values_far_from_the_agreed_centre_are_said_and_others_are_not(run, clinic):
    for ages, far in (("40,75", ""), ("600", "1 of 1 values is far"), ("60,-99,1000", "2 of 3 values are far")):
        errors = run(f"predict a.posterior age={ages} ward=heart")[2]
        assert ("far from those of the sites" in errors, far in errors) == (bool(far), True)


def test_a_mean_outside_its_interval_is_explained(run, clinic):
    """A probability whose linear predictor has a standard deviation far above its mean has such a mean."""
    for ages, outside in (("60", False), ("100000", True)):
        printed, errors = run(f"predict a.posterior age={ages} ward=heart --level 0.01 --json")[1:]
        row = json.loads(printed)
        assert (not row["low"] <= row["mean"] <= row["high"]) == outside == ("outside their intervals" in errors)


def test_words_that_are_levels_need_an_order_but_lists_of_columns_do_not(run, wards):
    assert run("columns a.csv --model ordered-regression --formula ward~age")[0] == 0
    status, _, errors = run("fit ordered-regression a.csv --formula ward~age -o a.posterior")
    assert status == 2
    assert "--levels" in errors
    assert "bone, heart, skin" in errors
