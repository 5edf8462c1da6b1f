"""Calibrating a merge through files: each site writes its part, somebody adds them up."""

from shutil import copytree

import numpy as np
import pytest

import decbayes as db


@pytest.fixture(scope="module")
def files(tmp_path_factory, run_in):
    """Data and posteriors of two sites, and their merge."""
    folder, rng = tmp_path_factory.mktemp("calibrate"), np.random.default_rng(2)
    for name in "ab":
        points = np.where(rng.random((60, 1)) < 0.5, -1.0, 1.0) + rng.normal(0, [0.6], size=(60, 1))
        np.savetxt(folder / f"{name}.csv", points, header="x", comments="")
    run_in(
        folder,
        "fit mixture a.csv --components 2 -o a.posterior",
        "fit mixture b.csv --like a.posterior -o b.posterior",
        "merge a.posterior b.posterior -o m.posterior",
        "calibrate m.posterior a.csv -o a.information",
    )
    return folder


@pytest.fixture
def sites(tmp_path, files):
    return copytree(files, tmp_path, dirs_exist_ok=True)


def test_parts_of_two_sites_calibrate_a_merge(run, sites):
    for name in "ab":
        status, _, errors = run(f"calibrate m.posterior {name}.csv -o {name}.information")
        assert (status, f"60 observations, no rows of {name}.csv" in errors, "think twice" in errors) == (
            0,
            True,
            False,
        )
    status, printed, errors = run("calibrate m.posterior a.information b.information -o c.posterior --level 0.5")
    assert status == 0
    assert "calibrated by linear response, 2 sites" in errors
    plain, found = db.load(sites / "m.posterior"), db.load(sites / "c.posterior")
    assert (found.deviation("weights") > 1.01 * plain.deviation("weights")).all()
    assert f"{found.interval('weights', 0.5).lower[0]:.4g}" in printed
    assert "uncertainty: calibrated by linear response, 2 sites" in run("show c.posterior")[1]
    assert "uncertainty: mean-field, not calibrated" in run("show m.posterior")[1]
    assert "from 120 observations" in run("show c.posterior")[1]
    for other in ("m.posterior", "a.posterior"):
        status, _, errors = run(f"merge c.posterior {other} -o twice.posterior")
        assert (status, "hold the same data" in errors) == (1, True)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("a.information", "holds 120 observations, these parts 60 (a.information 60): at least one is missing"),
        ("a.information a.information", "a.information is given twice"),
        ("a.information copy.information", "copy.information is the same as a.information"),
        ("a.information b.information c.information", "parts 150"),
    ],
)
def test_what_is_added_up_is_one_part_of_each_site_in_the_merge(run, sites, parts, message):
    run("calibrate m.posterior b.csv -o b.information")
    lines = (sites / "b.csv").read_text().splitlines()
    (sites / "c.csv").write_text("\n".join(lines[:31]))
    run("calibrate m.posterior c.csv -o c.information")
    (sites / "copy.information").write_bytes((sites / "a.information").read_bytes())
    status, _, errors = run(f"calibrate m.posterior {parts} -o calibrated.posterior")
    assert (status, message in errors) == (1, True), errors
    assert not (sites / "calibrated.posterior").exists()


def test_data_of_some_sites_or_of_one_twice_calibrate_nothing_in_python(sites):
    merged = db.load(sites / "m.posterior")
    model = db.model_for(merged.structure)
    first, second = (np.loadtxt(sites / f"{name}.csv", skiprows=1, ndmin=2) for name in "ab")
    with pytest.raises(db.errors.NotCalibrated, match=r"shard 0 60\): at least one is missing"):
        db.calibrate(model, [first], merged)
    with pytest.raises(db.errors.NotCalibrated, match="shard 1 is the same as shard 0"):
        db.calibrate(model, [first, first.copy()], merged)
    with pytest.raises(db.errors.NotCalibrated, match="counts twice"):
        db.calibrate(model, [first, second, second], merged, method="bootstrap", replicas=2)


def test_a_tiny_site_is_told_what_its_part_would_say(run, sites):
    (sites / "tiny.csv").write_text("x\n0.1\n0.7\n")
    assert "think twice" in run("calibrate m.posterior tiny.csv -o tiny.information")[2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("m.posterior a.csv -o a.posterior2", ".information"),
        ("m.posterior a.csv b.csv -o a.information", "one file"),
        ("m.posterior a.csv -o a.information --level 2", "--level"),
        ("a.posterior a.information -o c.posterior", "another posterior"),
        ("m.posterior bad.information -o c.posterior", "bad.information"),
        ("m.posterior a.csv -o m.posterior", "would be lost"),
    ],
)
def test_what_makes_no_sense_is_refused(run, sites, line, message):
    (sites / "bad.information").write_bytes(b"nothing")
    status, _, errors = run(f"calibrate {line}")
    assert status > 0
    assert message in errors


def test_topics_are_not_calibrated_through_files(run, sites):
    model = db.LatentDirichletAllocation(2, ("a", "b"))
    db.save(db.Posterior.of_prior(model.structure), sites / "t.posterior")
    status, _, errors = run("calibrate t.posterior a.csv -o a.information")
    assert status > 0
    assert "calibrated by refitting" in errors


def test_a_site_too_small_for_its_part_is_told_what_works_in_one_unit(run, tmp_path):
    """Three states of one column have 24 numbers: 21 persons are too few. The merge of the others is calibrated."""
    rng, steps = np.random.default_rng(0), 6
    for name, count in (("a", 40), ("b", 30), ("c", 21)):
        levels = np.repeat(rng.choice([-9.0, 0.0, 9.0], size=(count, 2)), steps // 2, axis=1)
        rows = [f"{who},{value:.3f}" for who, row in enumerate(rng.normal(levels)) for value in row]
        (tmp_path / f"{name}.csv").write_text("\n".join(["who,x", *rows]))
        options = "--states 3 --sequences who" if name == "a" else "--like a.posterior"
        assert run(f"fit states {name}.csv {options} --restarts 2 -o {name}.posterior")[0] == 0
    assert run("merge a.posterior b.posterior c.posterior -o abc.posterior")[0] == 0
    status, _, errors = run("calibrate abc.posterior c.csv --rules usual -o c.information")
    assert (status, "Merge the other sites' files without this one and calibrate that" in errors) == (1, True), errors
    said = run("calibrate abc.posterior a.csv -o a.information")[2]
    assert f"24 × 24 sums over 40 sequences ({40 * steps} steps), no rows" in said
    errors = run("calibrate abc.posterior a.information -o d.posterior")[2]
    assert f"holds {91 * steps} steps, these parts {40 * steps} (a.information {40 * steps}): at least one" in errors
    assert "or merge again without sites that have none" in errors
    assert run("merge a.posterior b.posterior -o ab.posterior")[0] == 0
    for name in "ab":
        assert run(f"calibrate ab.posterior {name}.csv --rules usual -o {name}.information")[0] == 0
    status, _, errors = run("calibrate ab.posterior a.information b.information -o d.posterior")
    assert status == 0
    assert "calibrated by linear response, 2 sites" in errors
