"""Sites hold data back, score all cuts of one tree, and their sums choose: as a user types it."""

from dataclasses import replace
from shutil import copytree

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import InvalidData


@pytest.fixture(scope="module")
def files(tmp_path_factory, run_in):
    folder, rng = tmp_path_factory.mktemp("validate"), np.random.default_rng(1)
    centres = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]])
    for name, seen in (("a", [0, 1, 2]), ("b", [1, 2, 3])):
        points = centres[rng.choice(seen, size=120)] + rng.normal(size=(120, 2))
        np.savetxt(folder / f"{name}.csv", points, delimiter=",", header="x,y", comments="")
        like = "" if name == "a" else "--like a.posterior"
        options = "--covariance full --components 4" if name == "a" else ""
        run_in(folder, f"fit mixture {name}.csv {options} {like} --hold-back 0.1 -o {name}.posterior")
    return folder


@pytest.fixture
def fitted(tmp_path, files):
    return copytree(files, tmp_path, dirs_exist_ok=True)


def test_summed_scores_of_cuts_choose_the_number_of_components(run, fitted):
    for name in "ab":
        line = f"validate {name}.csv a.posterior b.posterior --held-back 0.1 --cuts 2:7 -o {name}.scores"
        assert run(line)[0] == 0
    status, shown, _ = run("validate a.scores b.scores -o both.scores")
    total = db.checking.Scores.load(fitted / "both.scores")
    assert (status, total.observations, total.names) == (0, 24, (2, 3, 4, 5, 6, 7))
    assert f"choice {total.choice()}" in shown
    assert total.choice().name in (4, 5)
    posteriors = [db.load(fitted / f"{name}.posterior") for name in "ab"]
    model = db.model_for(posteriors[0].structure)
    parts = [db.checking.hold_back(model, model.read(fitted / f"{name}.csv"), share=0.1) for name in "ab"]
    assert round(posteriors[0].contribution["weights"].sum()) == len(parts[0][0]) == 108
    again = sum(db.validate(model, db.merging.tree(posteriors).cuts(range(2, 8)), held) for _, held in parts)
    assert (total.sums == again.sums).all()


def test_files_are_scored_by_name(run, fitted):
    status, shown, _ = run("validate a.csv a.posterior b.posterior --held-back 0.1")
    assert status == 0
    assert [line.split()[0] for line in shown.splitlines()[1:3]] == ["a", "b"]
    assert "largest number tried" not in shown
    assert "largest number tried" not in run("validate a.csv b.posterior a.posterior --held-back 0.1")[1]


def test_a_file_counts_once_and_rows_that_were_held_back_are_left_out_of_a_calibration(run, fitted):
    assert run("validate a.csv a.posterior b.posterior --held-back 0.1 -o a.scores")[0] == 0
    assert "a.scores is given twice" in run("validate a.scores a.scores")[2]
    run("merge a.posterior b.posterior -o m.posterior")
    for name in "ab":
        line = f"calibrate m.posterior {name}.csv -o {name}.information"
        assert "108 observations" in run(f"{line} --held-back 0.1")[2]
        run(f"calibrate m.posterior {name}.csv -o {name}{name}.information")
    assert run("calibrate m.posterior a.information b.information -o c.posterior")[0] == 0
    assert "held back rows" in run("calibrate m.posterior aa.information bb.information -o d.posterior")[2]
    assert "--held-back" in run("calibrate m.posterior a.csv -o a.information --held-back 1")[2]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("validate a.csv", "Give the data, then the posteriors"),
        ("validate a.csv a.posterior --held-back 0.01", "would reveal too much"),
        ("validate a.csv a.posterior --held-back 2", "between 0 and 1"),
        ("validate a.csv a.posterior --cuts 2-5", "FIRST:LAST"),
        ("validate a.csv a.posterior --cuts 5:2", "FIRST:LAST"),
        ("validate a.csv a.posterior --cuts 2:9", "have 4 components together"),
        ("validate a.csv a.posterior a.posterior", "same file name"),
        ("validate none.scores", "none.scores"),
        ("fit mixture a.csv --hold-back 0.7 -o c.posterior", "from 0 to 0.5"),
    ],
)
def test_mistakes_are_told_in_a_line(run, fitted, line, said):
    status, _, errors = run(line)
    assert status != 0
    assert said in errors
    assert len(errors.strip().splitlines()) <= 2


def test_formulas_are_compared_on_the_rows_they_were_fitted_to(run, tmp_path):
    rng = np.random.default_rng(0)
    for name in "ab":
        x, z, noise = rng.normal(size=(3, 40)).round(4)
        gaps = [*z[:3], "", *z[4:]]
        rows = [f"{x[row]},{gaps[row]},{x[row] + noise[row]}" for row in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,z,y", *rows]))
    assert run("columns a.csv b.csv -o agreed.columns")[0] == 0
    for label in "xz":
        for name in "ab":
            options = f"--formula y~{label} --agreed-columns agreed.columns -o {name}{label}.posterior"
            assert run(f"fit linear-regression {name}.csv {options}")[0] == 0
        assert run(f"merge a{label}.posterior b{label}.posterior -o {label}.posterior")[0] == 0
    for name in "ab":
        status, _, said = run(f"validate {name}.csv x.posterior z.posterior --leave-one-out -o {name}.scores")
        assert status == 0
        assert "1 of 40 rows have missing values" in said
    status, shown, _ = run("validate a.scores b.scores")
    assert (status, "78 observations, each predicted from all others" in " ".join(shown.split())) == (0, True)
    assert "choice x: the best score" in shown
    assert "Pareto" not in shown
    one = run("validate a.csv x.posterior --leave-one-out --held-back 0.1")
    assert one[0] != 0
    assert "--leave-one-out takes the data that were fitted" in one[2]
    total = db.checking.Scores.load(tmp_path / "a.scores")
    replace(total, unreliable=(0, 3)).save(tmp_path / "c.scores")
    assert "z: 3 of 39 observations change the posterior too much" in run("validate c.scores")[1].replace("\n", " ")


def test_scores_of_models_with_different_columns_do_not_tell_which_rare_value_somebody_has(run, tmp_path, rng):
    ward, age = rng.choice(["bone", "heart"], size=90), rng.normal(50, 9, 90).round(1)
    days = (age / 10 + rng.normal(size=90)).round(2)
    some = np.where(np.arange(90) < 30, rng.choice(["burns", "skin", "other"], 90), ward)
    rare = {site: np.where(np.arange(90) == 7, value, ward) for site, value in (("a", "burns"), ("b", "skin"))}
    for site, wards in {**rare, "all": some}.items():
        lines = ["age,ward,days", *(f"{a},{w},{d}" for a, w, d in zip(age, wards, days, strict=True))]
        (tmp_path / f"{site}.csv").write_text("\n".join(lines), encoding="utf-8")
    lines = ["age,ward,days", *(f"{a},{w},{d}" for a, w, d in zip(age, some, days[::-1], strict=True))]
    (tmp_path / "more.csv").write_text("\n".join(lines), encoding="utf-8")
    for name, formula in (("short", "days~age"), ("long", "days~age+ward")):
        assert run(f"fit linear-regression all.csv --formula {formula} -o {name}1.posterior")[0] == 0
        assert run(f"fit linear-regression more.csv --like {name}1.posterior -o {name}2.posterior")[0] == 0
        assert run(f"merge {name}1.posterior {name}2.posterior -o {name}.posterior")[0] == 0
    for site in "ab":
        line = f"validate {site}.csv short.posterior long.posterior --leave-one-out --rules usual -o {site}.scores"
        assert run(line)[0] == 0
    assert (tmp_path / "a.scores").read_bytes() == (tmp_path / "b.scores").read_bytes()
    lines = ["age,ward,days", *(f"{a},{w},{d}" for a, w, d in zip(age, ward, days, strict=True))]
    (tmp_path / "few.csv").write_text("\n".join(lines), encoding="utf-8")
    assert run("fit linear-regression few.csv --formula days~age+ward -o few1.posterior")[0] == 0
    lines = ["age,ward,days", *(f"{a},{w},{d}" for a, w, d in zip(age, ward, days[::-1], strict=True))]
    (tmp_path / "fewer.csv").write_text("\n".join(lines), encoding="utf-8")
    assert run("fit linear-regression fewer.csv --like few1.posterior -o few2.posterior")[0] == 0
    assert run("merge few1.posterior few2.posterior -o few.posterior")[0] == 0
    status, _, errors = run("validate a.csv long.posterior few.posterior --leave-one-out --rules usual -o c.scores")
    assert (status, "different categories of 'ward'" in errors) == (1, True)


@pytest.fixture(scope="module")
def three_sites(tmp_path_factory, run_in):
    """Sites of equal size, and of one also rows that nobody fitted; merges with and without the first site."""
    folder, rng = tmp_path_factory.mktemp("three"), np.random.default_rng(2)
    for name in "abc":
        x, noise = rng.normal(size=(2, 60)).round(4)
        (folder / f"{name}.csv").write_text(
            "\n".join(["x,y", *(f"{u},{u + v:.4f}" for u, v in zip(x, noise, strict=True))])
        )
        like = "--formula y~x" if name == "a" else "--like a.posterior"
        run_in(folder, f"fit linear-regression {name}.csv {like} -o {name}.posterior")
    rows = [(folder / f"{name}.csv").read_text().splitlines() for name in "abc"]
    (folder / "ab.csv").write_text("\n".join(rows[0] + rows[1][1:]))
    (folder / "new.csv").write_text("\n".join(rows[2][:31]))
    run_in(folder, "fit linear-regression a.csv --like a.posterior --hold-back 0.2 -o kept.posterior")
    run_in(folder, "merge a.posterior b.posterior -o ab.posterior")
    run_in(folder, "merge b.posterior c.posterior -o bc.posterior")
    db.save(db.load(folder / "ab.posterior"), folder / "bare.posterior")
    return folder


@pytest.fixture
def sites(tmp_path, three_sites):
    return copytree(three_sites, tmp_path, dirs_exist_ok=True)


def test_scores_of_rows_that_were_fitted_are_said_to_be_too_high(run, sites):
    status, _, errors = run("score a.csv a.posterior b.posterior ab.posterior")
    assert (status, errors.startswith("Probably too high: a.posterior, ab.posterior. By their sums")) == (0, True)
    assert errors.count("\n") == 1
    assert run("score a.csv b.posterior")[2] == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a.csv a.posterior b.posterior --leave-one-out", "b.posterior is neither the fit of a.csv nor merged with it"),
        ("a.csv a.posterior bc.posterior --leave-one-out", "bc.posterior is neither the fit of a.csv nor merged"),
        ("ab.csv b.posterior --leave-one-out", "b.posterior is neither the fit of ab.csv"),
        ("a.csv kept.posterior --leave-one-out", "rows were held back from its fit"),
        ("b.csv b.posterior kept.posterior --leave-one-out", "kept.posterior is neither the fit of b.csv nor merged"),
        ("a.csv ab.posterior --approximation", "ab.posterior holds 60 observations more than a.csv"),
        ("a.csv kept.posterior --approximation", "kept.posterior holds 12 observations fewer than a.csv"),
        ("b.csv a.posterior --approximation", "a.posterior was not fitted to b.csv: the sums differ"),
        (
            "a.csv b.posterior a.posterior --held-back 0.2",
            "a.posterior was fitted to a.csv, and nothing was held back",
        ),
        ("a.csv kept.posterior --held-back 0.3", "only 12 observations were held back"),
        ("a.csv a.posterior", "a.posterior was fitted to a.csv"),
    ],
)
def test_rows_are_left_out_only_of_fits_that_hold_them_and_held_back_only_from_those_that_do_not(
    run, sites, line, said
):
    status, shown, errors = run(f"validate {line}")
    assert (status, shown) == (1, "")
    assert said in errors
    assert len(errors.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "assumed"),
    [
        ("a.csv a.posterior ab.posterior --leave-one-out", ""),
        ("a.csv ab.posterior --leave-one-out", "ab.posterior is assumed to hold the rows of a.csv"),
        ("a.csv a.posterior bare.posterior --leave-one-out", "bare.posterior is assumed to hold the rows of a.csv"),
        ("ab.csv ab.posterior --approximation", ""),
        ("a.csv kept.posterior --approximation --held-back 0.2", ""),
        ("a.csv kept.posterior b.posterior --held-back 0.2", ""),
        ("a.csv ab.posterior --held-back 0.2", "ab.posterior: no site held rows back"),
        ("new.csv a.posterior b.posterior ab.posterior", ""),
    ],
)
def test_posteriors_that_hold_the_rows_or_none_of_them_are_scored(run, sites, line, assumed):
    status, _, errors = run(f"validate {line}")
    assert status == 0
    assert errors.startswith(assumed) if assumed else "assumed" not in errors and "held" not in errors


def test_a_refined_fit_and_merges_of_it_hold_the_rows(run, sites):
    for name, other in ("ab", "ba"):
        assert run(f"refine {name}.csv --own {name}.posterior --others {other}.posterior -o {name}2.posterior")[0] == 0
    assert run("merge a2.posterior b2.posterior -o m2.posterior")[0] == 0
    status, _, errors = run("validate a.csv a.posterior a2.posterior m2.posterior ab.posterior --leave-one-out")
    assert (status, errors) == (0, "")


def test_a_fit_is_recognised_although_rules_changed_its_rows(run, tmp_path):
    """One category is pooled, and a rare answer counts as a share; the other site has as many rows."""
    rng = np.random.default_rng(3)
    for name in "ab":
        ward = np.where(np.arange(60) < 3, "rare", rng.choice(["bone", "heart", "skin"], 60))
        smokes, age = np.where(np.arange(60) % 20 == 0, "yes", "no"), rng.normal(50, 9, 60).round(1)
        rows = [f"{w},{s},{a}" for w, s, a in zip(ward, smokes, age, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["ward,smokes,age", *rows]))
        assert run(f"columns {name}.csv --kinds smokes=yes-no --rules none -o {name}.columns")[0] == 0
    assert run("columns a.columns b.columns -o agreed.columns")[0] == 0
    for name in "ab":
        options = "--components 2 --restarts 1 --agreed-columns agreed.columns --rules usual"
        status, _, said = run(f"fit classes {name}.csv {options} -o {name}.posterior")
        assert (status, "fewer than 5 persons" in said) == (0, True), said
    assert run("validate a.csv a.posterior --leave-one-out")[0] == 0
    assert "neither the fit" in run("validate a.csv b.posterior --leave-one-out")[2]


def test_a_posterior_in_memory_that_holds_too_few_observations_cannot_hold_the_rows(rng):
    model = db.GaussianMixture(1, 1, variance=1.0)
    few, many = rng.normal(size=(9, 1)), rng.normal(size=(10, 1))
    db.validate(model, [model.fit(many, rng=rng).posterior], few, leave_one_out=True)
    with pytest.raises(InvalidData, match="0 holds fewer observations"):
        db.validate(model, [model.fit(few, rng=rng).posterior], many, leave_one_out=True)
