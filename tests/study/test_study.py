"""A study by files: what lies in its folder says what is done, whose turn it is, and what does not count."""

import json
import re
import shutil
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tables_of_patients import patients, write_table

import decbayes as db
from decbayes.checking import Information
from decbayes.cli import main
from decbayes.cli.commands.study import _next
from decbayes.cli.commands.study._where import AtSite
from decbayes.disclosure import Rules
from decbayes.errors import InvalidProtocol
from decbayes.files import load_note
from decbayes.study import Protocol, Study, steps
from decbayes.study.agreed_list import agreed_list_for

NEW = ("study", "new", "stay", "--model", "linear-regression", "--formula", "days ~ age + ward", "--rules", "usual")


def due(folder):
    return [(step.who, step.what) for step in steps(Study(folder)) if step.due]


def test_the_result_is_that_of_least_squares_on_all_rows(finished):
    folder, tables = finished
    merged = db.load(folder / "stay" / "results" / "merged.posterior")
    found = {row["term"]: row["mean"] for row in db.model_for(merged.structure).coefficients(merged)}
    age, ward, days = (np.concatenate([table[name] for table in tables.values()]) for name in ("age", "ward", "days"))
    matrix = np.column_stack([np.ones(len(age)), age, ward == "heart"])
    _, slope, heart = np.linalg.lstsq(matrix, days, rcond=None)[0]
    assert found["age"] == pytest.approx(slope, rel=0.01)
    named = next(value for term, value in found.items() if "heart" in term)
    assert named == pytest.approx(heart, rel=0.02)


def test_whose_turn_it_is_follows_from_the_files(finished, tmp_path):
    done, _ = finished
    study = tmp_path / "stay"
    shutil.copytree(done / "stay", study)
    assert due(study) == []
    shutil.rmtree(study / "results")
    assert due(study) == [("north", "merge and write the report")]
    (study / "sites" / "south" / "south.posterior").unlink()
    assert due(study) == [("south", "fit and release")]
    (study / "sites" / "south" / "south.columns").unlink()
    assert due(study) == [("south", "check the data and list their columns")]
    assert Study(study).missing(0) == ["south"]


def test_an_older_report_is_not_that_of_the_newest_files(finished, tmp_path):
    done, _ = finished
    study = tmp_path / "stay"
    shutil.copytree(done / "stay", study)
    report = study / "results" / "report.html"
    report.write_text(report.read_text(encoding="utf-8").replace(digest(study), "0" * 12), encoding="utf-8")
    assert due(study) == [("north", "merge and write the report")]


def digest(study):
    return db.load(study / "results" / "merged.posterior").digest[:12]


def test_nothing_that_was_not_released_lies_in_the_shared_folder(finished):
    folder, _ = finished
    manifests = [load_note(path)["manifest"] for path in (folder / "stay" / "sites").rglob("*.posterior")]
    assert len(manifests) == 2
    assert all(manifest["approver"] == "Dr Kim" for manifest in manifests)
    assert not [*(folder / "stay").rglob("*.ledger*")]
    assert (folder / "stay.private" / "north" / "releases.ledger").exists()
    assert all(
        path.stat().st_mode & 0o077 == 0 for path in (folder / "stay.private", folder / "stay.private" / "north")
    )


def test_a_changed_protocol_is_explained_anew(finished, run, tmp_path):
    done, _ = finished
    study = tmp_path / "stay"
    shutil.copytree(done / "stay", study)
    assert "written again" not in run("study", "status", "--study", "stay")[2]
    text = (study / "protocol.toml").read_text(encoding="utf-8")
    (study / "protocol.toml").write_text(re.sub('south = ".*"', 'south = "Dr Lee"', text), encoding="utf-8")
    assert "protocol.md and checklist.md are written again" in run("study", "status", "--study", "stay")[2]
    assert "Dr Lee" in (study / "protocol.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("damage", ["draft", "half", "other site", "stranger", "other protocol"])
def test_files_that_do_not_count_are_named_and_left_alone(finished, run, tmp_path, damage):
    done, _ = finished
    shutil.copytree(done / "stay", tmp_path / "stay")
    place = tmp_path / "stay" / "sites"
    south = place / "south" / "south.posterior"
    if damage == "draft":
        note = load_note(south)
        db.files.save(db.load(south), south, note=note | {"manifest": note["manifest"] | {"approver": ""}})
    elif damage == "half":
        south.write_bytes(south.read_bytes()[:200])
    elif damage == "other site":
        shutil.copyfile(place / "north" / "north.posterior", south)
    elif damage == "other protocol":
        protocol = Protocol.load(tmp_path / "stay" / "protocol.toml")
        protocol.with_settings({"formula": "days ~ age"}).save(tmp_path / "stay" / "protocol.toml")
    else:
        south = place / "south" / "notes.posterior"
        shutil.copyfile(place / "north" / "north.posterior", south)
    before = south.read_bytes()
    status, _, told = run("study", "merge")
    assert status == (0 if damage == "stranger" else 1)
    assert f"Left alone: {south.relative_to(tmp_path)}" in told
    assert south.read_bytes() == before


def test_commands_can_be_run_again(finished, run, tmp_path):
    done, _ = finished
    for name in ("stay", "stay.private"):
        shutil.copytree(done / name, tmp_path / name)
    for site in ("north", "south"):
        shutil.copyfile(done / f"{site}.csv", tmp_path / f"{site}.csv")
    files = {path: path.read_bytes() for path in (tmp_path / "stay" / "sites").rglob("*.*")}
    for line in (("check", "south.csv"), ("fit",), ("report",), ("status",)):
        status, _, told = run("study", *line, *(("--site", "south") if line[0] in ("check", "fit") else ()))
        assert status == 0, told
    assert "has already released its fit" in run("study", "fit", "--site", "south")[2]
    status, _, told = run("study", "release", "--site", "south", "--approve", "Dr Kim")
    assert (status, "south.posterior: already released" in told) == (0, True)
    assert {path: path.read_bytes() for path in (tmp_path / "stay" / "sites").rglob("*.*")} == files


def test_only_the_approver_of_the_protocol_releases(finished, run, tmp_path):
    done, _ = finished
    for name in ("stay", "stay.private"):
        shutil.copytree(done / name, tmp_path / name)
    (tmp_path / "stay" / "sites" / "north" / "north.posterior").unlink()
    status, _, told = run("study", "release", "--site", "north", "--approve", "Mallory")
    assert (status, "Dr Kim approves what leaves north, not Mallory" in told) == (1, True)
    assert run("study", "release", "--site", "north", "--approve", "Dr Kim")[0] == 0
    assert due(tmp_path / "stay") == []


def test_sites_wait_for_each_others_columns(run, tmp_path):
    write_table(tmp_path / "north.csv", patients(np.random.default_rng(0), 40))
    assert run(*NEW, "--sites", "north,south")[0] == 0
    assert run("study", "check", "north.csv", "--site", "north")[0] == 0
    status, _, told = run("study", "fit")
    assert status == 1
    assert "those of south are missing" in told
    status, _, told = run("study", "merge")
    assert status == 1
    assert "Missing: north, south" in told


def test_a_merge_names_all_sites_that_it_could_do_without(finished, run, tmp_path):
    done, _ = finished
    shutil.copytree(done / "stay", tmp_path / "stay")
    protocol = Protocol.load(tmp_path / "stay" / "protocol.toml")
    replace(protocol, sites={**protocol.sites, "east": "", "west": ""}).save(tmp_path / "stay" / "protocol.toml")
    status, _, told = run("study", "merge")
    assert status == 1
    assert "Released: 2 of 4 sites. Missing: east, west." in told
    assert run("study", "merge", *told.rstrip(".\n").partition("without them: ")[2].split())[0] == 0


def test_another_unit_is_noticed_before_anybody_fits(run, tmp_path):
    rng = np.random.default_rng(0)
    north, south = patients(rng, 60), patients(rng, 60)
    write_table(tmp_path / "north.csv", north)
    write_table(tmp_path / "south.csv", south | {"age": south["age"] * 12})
    run(*NEW, "--sites", "north,south")
    run("study", "check", "north.csv", "--site", "north")
    _, shown, _ = run("study", "check", "south.csv", "--site", "south")
    assert "Column 'age': the centre of" in shown
    assert "use other units" in shown


def test_columns_that_sites_cannot_agree_on_are_named_with_their_sites(run, tmp_path):
    rng = np.random.default_rng(0)
    write_table(tmp_path / "north.csv", patients(rng, 60))
    south = patients(rng, 60)
    write_table(tmp_path / "south.csv", south | {"age": ["old", "young"] * 30})
    run(*NEW, "--sites", "north,south")
    for site in ("north", "south"):
        run("study", "check", f"{site}.csv", "--site", site)
    status, _, told = run("study", "fit", "--site", "north")
    assert status == 1
    assert "real at north, categorical at south" in told


def test_rounds_bring_the_merge_to_one_fit_of_all_data(run, tmp_path):
    """Logistic: after two rounds of three small sites, the merge is near the fit of all rows in one place."""
    rng, tables = np.random.default_rng(1), {}
    for site in ("a", "b", "c"):
        age = rng.normal(60, 10, 70)
        died = rng.random(70) < 1 / (1 + np.exp(-0.1 * (age - 60)))
        tables[site] = {"age": age.round(2), "died": np.where(died, "yes", "no")}
        write_table(tmp_path / f"{site}.csv", tables[site])
    run(
        "study",
        "new",
        "s",
        "--model",
        "logistic-regression",
        "--formula",
        "died ~ age",
        "--sites",
        "a,b,c",
        "--rounds",
        "2",
    )
    for site in tables:
        assert run("study", "check", f"{site}.csv", "--site", site)[0] == 0
    for command in ("fit", "round", "round"):
        for site in tables:
            assert run("study", command, "--site", site)[0] == 0
            assert run("study", "release", "--site", site, "--approve", "Kim")[0] == 0
    status, _, told = run("study", "merge")
    assert status == 0
    assert "Round 2 moved the merge by" in told
    merged = db.load("s/results/merged.posterior")
    model = db.model_for(merged.structure)
    together = {name: np.concatenate([table[name] for table in tables.values()]) for name in ("age", "died")}
    pooled = model.fit(model.points(together)).posterior
    for ours, theirs in zip(model.coefficients(merged), model.coefficients(pooled), strict=True):
        assert abs(ours["mean"] - theirs["mean"]) < 0.02 * theirs["deviation"]


def test_the_report_of_a_round_is_about_its_merge(run, tmp_path):
    """Survival: first broadcasts are moved before they are merged; what a round has made stays as it is."""
    rng = np.random.default_rng(2)
    formula = ("--formula", "Surv(days, died) ~ age", "--cuts", "5", "--rate", "0.1")
    run("study", "new", "s", "--model", "survival-regression", *formula, "--sites", "a,b", "--rounds", "1")
    for site in ("a", "b"):
        age = rng.normal(60, 10, 80).round(1)
        days = rng.exponential(10 * np.exp(-0.05 * (age - 60))).round(2) + 0.01
        write_table(tmp_path / f"{site}.csv", {"age": age, "days": days, "died": rng.integers(2, size=80)})
        assert run("study", "check", f"{site}.csv", "--site", site)[0] == 0
    for command in ("fit", "round"):
        for site in ("a", "b"):
            assert run("study", command, "--site", site)[0] == 0
            assert run("study", "release", "--site", site, "--approve", "Kim")[0] == 0
    assert run("study", "report")[0] == 0
    assert due(tmp_path / "s") == []


@pytest.fixture(scope="module")
def overlapping(tmp_path_factory):
    """A study of two sites with one round, whose two classes overlap."""
    folder, rng = tmp_path_factory.mktemp("overlapping"), np.random.default_rng(5)
    new = [
        "new",
        "s",
        "--model",
        "classes",
        "--components",
        "2",
        "--sites",
        "a,b",
        "--rounds",
        "1",
        "--approve",
        "a=Kim",
    ]
    lines = [[*new, "--rules", "none"]]
    for site in ("a", "b"):
        ill = rng.random((80, 1)) < 0.5
        answers = rng.random((80, 4)) < np.where(ill, 0.9, 0.15)
        write_table(folder / f"{site}.csv", dict(zip("pqrs", np.where(answers, "yes", "no").T, strict=True)))
        lines.append(["check", f"{site}.csv", "--site", site])
    for command in ("fit", "round"):
        for site in ("a", "b"):
            lines += [[command, "--site", site], ["release", "--site", site, "--approve", "Kim"]]
    for line in lines:
        with chdir(folder), pytest.raises(SystemExit) as ended:
            main(["study", *line])
        assert not ended.value.code, line
    return folder


def test_intervals_are_calibrated_once_all_sites_have_handed_over_their_sums(overlapping, run, tmp_path):
    """They are those of the library's own calibration of all data, in the merge, the report and the table."""
    for name in ("s", "s.private", "a.csv", "b.csv"):
        (shutil.copytree if (overlapping / name).is_dir() else shutil.copy)(overlapping / name, tmp_path / name)
    assert "To calibrate them: `decbayes study calibrate` at each site" in run("study", "merge")[2]
    narrow = db.load("s/results/merged.posterior")
    assert "from 160 observations; a merge, made without" in run("show", "s/results/merged.posterior")[1]
    status, _, told = run("study", "calibrate", "a.csv", "--site", "a", "--approve", "Lee")
    assert (status, "Kim approves what leaves a" in told) == (1, True)
    ledger = Path("s.private/a/releases.ledger")
    lines = ledger.read_bytes()
    ledger.write_bytes(lines[:-9])
    assert run("study", "calibrate", "a.csv", "--site", "a", "--approve", "Kim")[0] == 1
    assert not Path("s/sites/a/a.information").exists(), "nothing leaves that is not in the ledger"
    ledger.write_bytes(lines)
    assert run("study", "calibrate", "a.csv", "--site", "a", "--approve", "Kim")[0] == 0
    assert "the sums of b are missing" in run("study", "merge")[2]
    assert run("study", "calibrate", "b.csv", "--site", "b", "--approve", "Kim")[0] == 0
    assert json.loads(Path("s.private/b/releases.ledger").read_text().splitlines()[-1])["file"] == "b.information"
    status, said, told = run("study", "report")
    assert (status, "the intervals are calibrated" in said) == (0, True), told
    assert not Study(tmp_path / "s").problems
    assert due(tmp_path / "s") == []
    merged, model = db.load("s/results/merged.posterior"), db.model_for(narrow.structure)
    shards = [model.read(tmp_path / f"{site}.csv") for site in ("a", "b")]
    expected = db.calibrate(model, shards, narrow)
    np.testing.assert_allclose(merged.deviation("weights"), expected.deviation("weights"), rtol=1e-6)
    assert (merged.deviation("weights") > 1.1 * narrow.deviation("weights")).all()
    shares = [f"{100 * end[0]:.0f}%" for end in expected.interval("weights")]
    assert f"({shares[0]} to {shares[1]})" in said
    # Sums about another merge do not count, and neither do those that contradict it.
    part = Information.from_bytes(Path("s/sites/a/a.information").read_bytes())
    for changed, why in (
        (replace(part, at="0" * 64), "about an earlier merge"),
        (replace(part, contribution=part.contribution * 0.5), "deviations from where it would converge"),
    ):
        Path("s/sites/a/a.information").write_bytes(changed.to_bytes())
        assert why in run("study", "merge")[2]
        assert db.load("s/results/merged.posterior").calibration is None


def test_a_study_of_persons_with_several_rows_gives_robust_intervals(run, tmp_path, rng):
    """They are those of the library's own sandwich errors of all data; until then, tables say what is missing."""
    new = ["--model", "linear-regression", "--formula", "y ~ x", "--sites", "a,b", "--person", "who", "--rounds", "0"]
    assert run("study", "new", "s", *new, "--rules", "usual")[0] == 0
    for site in ("a", "b"):
        x, level = np.repeat(rng.normal(60, 10, 60).round(), 3), np.repeat(rng.normal(0, 8, 60), 3)
        y = (0.4 * x + level + rng.normal(0, 3, 180)).round(1)
        write_table(tmp_path / f"{site}.csv", {"who": [f"p{k // 3}" for k in range(180)], "x": x, "y": y})
        assert run("study", "check", f"{site}.csv", "--site", site)[0] == 0
    for site in ("a", "b"):
        assert run("study", "fit", "--site", site)[0] == 0
        assert run("study", "release", "--site", site, "--approve", "Kim")[0] == 0
    assert "To calibrate them: `decbayes study calibrate` at each site" in run("study", "report")[2]
    narrow = db.load("s/results/merged.posterior")
    assert "(95% interval, probably too narrow)" in Path("s/results/table.csv").read_text()
    for site in ("a", "b", "a"):  # again, once all have shared theirs
        status, _, told = run("study", "calibrate", f"{site}.csv", "--site", site, "--approve", "Kim")
        assert status == 0, told
    status, said, told = run("study", "report")
    assert (status, "the intervals are calibrated" in said) == (0, True), told
    assert "repeated persons" not in said
    assert "and so not too narrow although rows of one person depend" in told, "the remarks of fits say they are"
    model, persons = db.model_for(narrow.structure), [np.repeat(np.arange(60), 3)] * 2
    shards = [model.read(tmp_path / f"{site}.csv") for site in ("a", "b")]
    expected = db.calibrate(model, shards, narrow, method="robust", clusters=persons)
    merged = db.load("s/results/merged.posterior")
    np.testing.assert_allclose(merged.deviation("coefficients"), expected.deviation("coefficients"), rtol=1e-6)
    assert (merged.deviation("coefficients") > 1.2 * narrow.deviation("coefficients")).all()
    assert "too narrow" not in Path("s/results/table.csv").read_text() + Path("s/results/report.html").read_text()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda part: replace(part, grid=-9.0 * part.grid).to_bytes(), "not calibrated. The sums on the grid"),
        (lambda part: part.to_bytes()[:-9], "run `decbayes study calibrate` at a again"),
    ],
)
def test_a_study_goes_on_without_a_calibration_that_is_refused(damage, why, run, tmp_path, rng):
    sites = ("a", "b", "c")
    for site in sites:
        level = rng.normal(0, 5)
        x = rng.normal(60, 10, 150).round()
        write_table(tmp_path / f"{site}.csv", {"x": x, "y": (level + 0.4 * x + rng.normal(0, 8, 150)).round(1)})
    new = ["--model", "linear-regression", "--formula", "y ~ x + (1 | site)", "--sites", "a,b,c", "--rounds", "1"]
    lines = [["new", "s", *new, "--rules", "usual"]]
    lines += [["check", f"{site}.csv", "--site", site] for site in sites]
    for command in ("fit", "round"):
        for site in sites:
            lines += [[command, "--site", site], ["release", "--site", site, "--approve", "Kim"]]
    lines += [["calibrate", f"{site}.csv", "--site", site, "--approve", "Kim"] for site in sites]
    for line in lines:
        status, _, told = run("study", *line)
        assert not status, told
    status, _, told = run("study", "report")
    assert (status, "half-Cauchy between sites" in told) == (0, True), told
    path = Path("s/sites/a/a.information")
    path.write_bytes(damage(Information.from_bytes(path.read_bytes())))
    Path("s/results/report.html").unlink()
    status, _, told = run("study", "report")
    assert (status, why in told) == (0, True), told
    assert db.load("s/results/merged.posterior").calibration is None
    assert due(tmp_path / "s") == []


def test_a_site_waits_in_a_round_until_all_have_released(finished, run, tmp_path):
    done, _ = finished
    for name in ("stay", "stay.private"):
        shutil.copytree(done / name, tmp_path / name)
    (tmp_path / "stay" / "sites" / "south" / "south.posterior").unlink()
    status, _, told = run("study", "round", "--site", "north")
    assert status == 1
    assert "missing: south" in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "is not a protocol"),
        ('[study]\nname = "a"\n[model]\nname = "mean"\n[sites]\n', "at least one site"),
        ('[study]\nname = "a"\nsize = 3\n[model]\nname = "mean"\n[sites]\nx = ""\n', "unknown field"),
        ('[study]\nname = "../a"\n[model]\nname = "mean"\n[sites]\nx = ""\n', "names a folder"),
        ('[study]\nname = "a"\n[model]\nname = "mean"\n[sites]\nx = ""\nX = ""\n', "the same name"),
        ('[study]\nname = "a"\n[model]\nname = "mean"\n[sites]\nx = ""\n[rules]\nleast_cell = 0\n', "least_cell"),
    ],
)
def test_a_protocol_that_makes_no_sense_is_refused_in_one_line(tmp_path, text, said):
    (tmp_path / "protocol.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidProtocol, match=said) as refused:
        Protocol.load(tmp_path / "protocol.toml")
    assert "\n" not in str(refused.value)


def test_a_protocol_is_read_as_it_was_written(tmp_path):
    protocol = Protocol(
        "a",
        "topics",
        {"north": 'Dr "K"', "süd": ""},
        {"topics": 5, "topic_prior": 0.1, "stop_words": "english"},
        question="What?",
        authors=["Kim", "Lee"],
        rounds=2,
        units={"age (y)": "years"},
        rules=None,
        plan={"advice": ["fine"]},
    )
    protocol.save(tmp_path / "p.toml")
    assert Protocol.load(tmp_path / "p.toml") == protocol


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sites", "a,b", "--modle", "x"), "--modle"),
        (("--sites", "a,b", "--like", "x.posterior"), "not part of a protocol"),
        (("--sites", "a,b", "--approve", "c=Kim"), "not one of the sites"),
        (("--sites", "a,b,a"), "'a' is given twice"),
        ((), "Give --sites"),
    ],
)
def test_wrong_options_of_a_new_study_are_refused_and_write_nothing(run, tmp_path, words, said):
    status, _, told = run(*NEW, *words)
    assert status == 2
    assert said in told
    assert not (tmp_path / "stay").exists()


@pytest.mark.parametrize("formula", [(), ("--formula", "days ~"), ("--formula", " ~ age")])
def test_a_regression_study_says_what_it_predicts(run, tmp_path, formula):
    status, _, told = run("study", "new", "s", "--model", "poisson-regression", "--sites", "a,b", *formula)
    assert (status, "Give a formula" in told, (tmp_path / "s").exists()) == (2, True, False)


@pytest.mark.parametrize("stated", [(), ("--cuts", "30,90"), ("--cuts", "30,90", "--rate", "0.01")])
def test_sites_agree_on_cuts_and_a_rate_that_the_protocol_does_not_state(run, rng, stated):
    words = ("--model", "survival-regression", "--formula", "Surv(days, died) ~ age", "--sites", "a,b")
    assert run("study", "new", "s", *words, *stated)[0] == 0
    for site in "ab":
        days, age = rng.exponential(100, 90).round(1) + 0.1, rng.normal(60, 9, 90).round()
        lines = [f"{day},{int(day < 200)},{old}" for day, old in zip(days, age, strict=True)]
        Path(f"{site}.csv").write_text("\n".join(["days,died,age", *lines]), encoding="utf-8")
        assert run("study", "check", f"{site}.csv", "--site", site)[0] == 0
    assert ("events" in Path("s/sites/a/a.columns").read_text(encoding="utf-8")) == (len(stated) < 4)
    for site in "ab":
        assert run("study", "fit", "--site", site)[0] == 0
    models = [db.model_for(db.load(f"s.private/{site}/{site}.posterior").structure) for site in "ab"]
    assert models[0] == models[1]
    cuts, rate = models[0].cuts, models[0].rate
    assert cuts == (30.0, 90.0) if stated else 2 <= len(cuts) <= 5
    assert rate == (0.01 if len(stated) == 4 else pytest.approx(0.01, rel=0.3))
    assert len(stated) == 4 or rate != 0.01


def test_a_new_study_asks_on_a_terminal(run, monkeypatch):
    answers = iter(["Who stays long?", "1", "days ~ age", "north, south"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda: next(answers))
    assert run("study", "new", "stay")[0] == 0
    protocol = Protocol.load("stay/protocol.toml")
    assert (protocol.model, [*protocol.sites]) == ("linear-regression", ["north", "south"])
    assert protocol.settings == {"formula": "days ~ age"}


def test_the_answer_of_a_simulation_goes_into_the_protocol(run):
    run("study", "new", "s", "--model", "mean", "--variance", "1", "--sites", "a,b", "--rules", "none")
    assert run("study", "plan", "--observations", "5,20", "--data-sets", "3")[0] == 0
    advice = Protocol.load("s/protocol.toml").plan["advice"]
    assert [line.split(":")[0] for line in advice] == ["5 rows per site", "20 rows per site"]
    assert advice[0] in (Study.around("s").folder / "protocol.md").read_text(encoding="utf-8")


def test_a_protocol_becomes_a_charter_of_the_same_structure(finished, run, tmp_path):
    pytest.importorskip("cryptography")
    from decbayes.network import Charter

    done, _ = finished
    for name in ("stay", "stay.private"):
        shutil.copytree(done / name, tmp_path / name)
    assert "Waiting for the keys of south" in run("study", "network", "--site", "north")[2]
    assert run("study", "network", "--site", "south")[0] == 0
    charter = Charter.load("stay/group.toml")
    assert charter.model.structure == db.load("stay/sites/north/north.posterior").structure
    assert charter.disclosure == Protocol.load("stay/protocol.toml").rules
    assert run("study", "status")[0] == 0


@pytest.mark.parametrize(
    ("model", "kind"),
    [("classes", "columns"), ("states", "columns"), ("survival-regression", "columns"),
     ("ordered-regression", "columns"),
     ("linear-regression", "columns"), ("topics", "words"), ("mixture", None), ("mean", None)],
)  # fmt: skip
def test_sites_agree_on_columns_or_words_where_a_model_needs_it(model, kind):
    agreement = agreed_list_for(Protocol("a", model, {"x": ""}))
    assert (agreement and agreement.kind) == kind


def test_one_command_does_whatever_is_a_sites_turn(run, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for site in ("north", "south"):
        write_table(tmp_path / f"{site}.csv", patients(rng, 60))
    run(*NEW, "--sites", "north,south")
    folder = tmp_path / "stay"
    assert run("study", "next", "north.csv", "--site", "north", "--approve", "Kim")[0] == 0
    assert due(folder) == [("south", "check the data and list their columns")]
    assert run("study", "next", "south.csv", "--site", "south")[0] == 0
    assert Study(folder).missing(0) == ["north", "south"], "a draft waits for approval"
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stdin.isatty", lambda: True, raising=False)
        terminal.setattr("builtins.input", lambda *_: "n")
        status, _, said = run("study", "next", "--site", "south", "--approve", "Lee")
        assert (status, "It stays a draft" in said, Study(folder).missing(0)) == (0, True, ["north", "south"])
    assert run("study", "next", "--site", "south", "--approve", "Lee")[0] == 0
    assert Study(folder).missing(0) == ["north"]
    assert run("study", "next", "--site", "south", "--approve", "Lee")[0] == 0, "nothing to do is no error"
    _, shown, _ = run("study", "next", "--site", "north", "--approve", "Kim")
    assert "The mean of days is " in shown
    assert due(folder) == []


def test_a_stray_file_beside_the_protocol_is_named_and_files_of_the_study_are_not(finished, run, tmp_path):
    done, _ = finished
    shutil.copytree(done / "stay", tmp_path / "stay")
    assert Study(tmp_path / "stay").problems == ()
    (tmp_path / "stay" / "patients.csv").write_text("age\n1\n")
    _, _, said = run("study", "status")
    assert (
        "Left alone: stay/patients.csv: not part of the study. Everybody with access to this folder can read it" in said
    )


def test_a_unit_of_a_column_that_is_not_used_is_noticed(run, tmp_path, rng):
    status, _, said = run(*NEW, "--sites", "north", "--units", "age=years,stayy=days")
    assert (status, "'stayy' is not a column of 'days ~ age + ward'" in said) == (2, True)
    assert not (tmp_path / "stay").exists()
    run("study", "new", "groups", "--model", "classes", "--sites", "north", "--units", "size=cm", "--rules", "usual")
    write_table(tmp_path / "north.csv", patients(rng, 60))
    assert (
        "a unit for 'size', which is not among the columns used"
        in run("study", "check", "north.csv", "--site", "north")[1]
    )


def test_the_column_that_tells_persons_apart_is_not_modelled(run, tmp_path, rng):
    table = {**patients(rng, 90), "who": [f"p{row // 3}" for row in range(90)]}
    write_table(tmp_path / "north.csv", table)
    run("study", "new", "groups", "--model", "classes", "--sites", "north", "--person", "who", "--rules", "usual")
    assert run("study", "check", "north.csv", "--site", "north")[0] == 0
    listed = Study(tmp_path / "groups").lists()["north"].read_text()
    assert "age" in listed
    assert "who" not in listed


def test_a_preview_says_how_to_release_in_this_study(finished, run, tmp_path):
    done, _ = finished
    shutil.copytree(done, tmp_path, dirs_exist_ok=True)
    (tmp_path / "stay" / "sites" / "north" / "north.posterior").unlink()
    run("study", "fit", str(tmp_path / "north.csv"), "--site", "north")
    _, shown, said = run("study", "preview", "--site", "north")
    assert "decbayes study release --approve 'Dr Kim'" in said
    assert "decbayes release" not in shown + said


def test_data_that_could_not_be_read_are_not_remembered(run, tmp_path, rng):
    run(*NEW, "--sites", "north")
    write_table(tmp_path / "north.csv", patients(rng, 60))
    (tmp_path / "other").mkdir()
    assert run("study", "check", "north.csv", "--site", "north")[0] == 0
    assert run("study", "check", "other", "--site", "north")[0] == 1
    assert run("study", "check", "--site", "north")[0] == 0


def test_wrong_options_of_the_model_point_to_the_help_of_its_fit(run):
    _, _, said = run("study", "new", "stay", "--model", "classes", "--sites", "a", "--components", "two")
    assert said.count("\n") <= 1
    assert "Try `decbayes fit classes --help`." in said


@pytest.mark.parametrize("rules", [None, Rules()])
def test_what_a_preview_finds_stops_a_release_only_where_rules_were_agreed_on(rules, tmp_path, monkeypatch):
    """Public data (rules none) may have rare things, as `decbayes release` has it."""
    study = Study.create(tmp_path / "s", Protocol("s", "mean", {"a": ""}, {"variance": 1.0}, rules=rules))
    released = []
    monkeypatch.setattr(_next, "show_draft", lambda study, site: 3)
    monkeypatch.setattr(_next, "newest_draft", lambda study, site: "draft")
    monkeypatch.setattr(_next, "release", lambda **options: released.append(options["approve"]))
    ended = _next.show_and_release(AtSite(study=study.folder, site="a"), "Kim", None)
    assert (ended, released) == ((None, ["Kim"]) if rules is None else (3, []))


def test_a_site_that_is_too_small_is_told_how_the_study_goes_on_without_it(run, tmp_path, rng):
    assert run(*NEW, "--sites", "north,tiny")[0] == 0
    for site, size in (("north", 40), ("tiny", 9)):
        write_table(tmp_path / f"{site}.csv", patients(rng, size))
    assert run("study", "check", "north.csv", "--site", "north")[0] == 0
    status, out, errors = run("study", "check", "tiny.csv", "--site", "tiny")
    assert (status, "9 observations" in out) == (3, True)
    assert "--rules none" not in out, "rules are the protocol's"
    assert "remove its line from [sites] in stay/protocol.toml" in errors
    assert "from [sites] in protocol.toml" in run("study", "fit", "--site", "north")[2]
    protocol = tmp_path / "stay" / "protocol.toml"
    lines = protocol.read_text(encoding="utf-8").splitlines()
    protocol.write_text("\n".join(line for line in lines if not line.startswith("tiny =")), encoding="utf-8")
    assert run("study", "fit", "--site", "north")[0] == 0
    assert due(tmp_path / "stay") == [("north", "fit and release")]


def test_rules_that_stop_a_fit_are_the_protocols(run, tmp_path, rng):
    assert run("study", "new", "m", *["--model", "mean", "--variance", "1", "--sites", "a", "--rules", "usual"])[0] == 0
    (tmp_path / "a.csv").write_text("x\n" + "\n".join(map(str, rng.normal(size=9).round(2))), encoding="utf-8")
    status, _, errors = run("study", "fit", "a.csv", "--site", "a")
    assert status == 1
    assert errors.splitlines()[-1] == "decbayes: There are 9 observations; a file needs at least 20."


def test_two_answers_are_the_same_kind_of_column_at_all_sites(run, tmp_path, rng):
    """The list of a site calls its outcome yes/no; the columns of the next one are not yet listed."""
    words = ["--model", "logistic-regression", "--formula", "vote ~ age", "--rules", "usual"]
    assert run("study", "new", "polls", *words, "--sites", "a,b")[0] == 0
    for site in "ab":
        table = {"age": rng.normal(50, 9, 60).round(1), "vote": rng.choice(["left", "right"], 60)}
        write_table(tmp_path / f"{site}.csv", table)
        status, out, _ = run("study", "check", f"{site}.csv", "--site", site)
        assert (status, "other sites" in out) == (0, False)


def test_a_list_that_cannot_be_made_is_a_statement_beside_all_others(run, tmp_path):
    words = ["--model", "topics", "--topics", "3", "--least-documents", "2", "--sites", "north,south"]
    assert run("study", "new", "stay", *words)[0] == 0
    texts = [f"night ward bed {'sleep' if number % 2 else 'meal'} nurse doctor" for number in range(40)]
    (tmp_path / "t.txt").write_text("\n".join(texts), encoding="utf-8")
    status, out, errors = run("study", "check", "t.txt", "--site", "north")
    assert (status, "documents" in out, "--rules none" in out + errors) == (3, True, False)
    assert "name another site that merges" in errors
