"""`merge --explain` with probabilities, and `overlap`, as a user types them."""

import json

import numpy as np
import pytest

import decbayes as db


@pytest.fixture
def fitted(tmp_path):
    rng = np.random.default_rng(2)
    model = db.GaussianMixture(2, 2, covariance="diagonal", ascent=db.Ascent(restarts=0, passes=20))
    for name in "abc":
        points = np.array([[0.0, 0.0], [7.0, 7.0]])[rng.integers(2, size=30)] + rng.normal(size=(30, 2))
        np.savetxt(tmp_path / f"{name}.csv", points, delimiter=",", header="x,y", comments="")
        db.save(model.fit(points, rng=rng).posterior, tmp_path / f"{name}.posterior")
    return tmp_path


def test_an_explanation_says_how_likely_matches_are_right(run, fitted, monkeypatch):
    monkeypatch.setattr("decbayes.cli.shared.match_confidence.SIMULATED", 30)
    files = "a.posterior b.posterior c.posterior"
    for name in "abc":
        others = " ".join(f"{other}.posterior" for other in "abc" if other != name)
        assert run(f"overlap {name}.csv {name}.posterior {others} -o {name}.overlap")[0] == 0
    overlaps = json.loads((fitted / "a.overlap").read_text())["overlaps"]
    assert len(overlaps) == 2
    assert min(overlaps) > 0.9
    line = f"merge {files} -o m.posterior --explain --json --picture m.svg --overlap a.overlap b.overlap"
    status, shown, _ = run(line)
    assert (status, "of 6 matches are expected to be wrong" in shown) == (0, True)
    assert "reported by the sites themselves" in shown
    assert "%)" in shown
    rows = [json.loads(row) for row in shown.splitlines() if row.startswith("{")]
    sure = [value for row in rows for site in row["sites"] for value in site["confidence"]]
    assert len(sure) == 6
    assert all(0.5 < value <= 1.0 for value in sure)
    assert (
        "probability that it belongs there" in (fitted / "m.svg").read_text() or (fitted / "m.svg").stat().st_size > 999
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("merge a.posterior b.posterior -o m.posterior --overlap c.overlap", "not merged here"),
        ("merge a.posterior c.posterior -o m.posterior --overlap c.overlap --overlap c.overlap", "about one posterior"),
        (
            "merge a.posterior b.posterior -o m.posterior --overlap a.csv",
            "is not a file that `decbayes overlap` writes",
        ),
        ("merge a.posterior b.posterior -o m.posterior --naive --confidence", "--naive skips the alignment"),
    ],
)
def test_mistakes_with_confidence_are_one_line(run, fitted, line, said):
    if "c.overlap" in line:
        assert run("overlap c.csv c.posterior a.posterior -o c.overlap")[0] == 0
    status, _, errors = run(line)
    assert status != 0
    assert said in errors


def test_overlaps_are_those_of_the_site_whose_data_are_given(run, fitted):
    status, _, errors = run("overlap b.csv a.posterior b.posterior c.posterior -o a.overlap")
    assert status != 0
    assert "a.posterior is not the posterior of these data alone: its sums differ" in errors
    assert not (fitted / "a.overlap").exists()


def test_overlaps_leave_out_what_a_fit_held_back(run, fitted):
    """The rows that were fitted are compared, under the rules and for the persons of the fit."""
    for name in "ab":
        like = "--components 2" if name == "a" else "--like a.posterior"
        assert run(f"fit mixture {name}.csv {like} --hold-back 0.2 -o {name}.posterior")[0] == 0
    assert run("overlap a.csv a.posterior b.posterior -o a.overlap")[0] == 0
    assert run("overlap b.csv a.posterior b.posterior -o a.overlap")[0] != 0


def test_the_help_of_merge_names_the_solver_of_each_model(run):
    """As `aligning.solver_for` chooses it."""
    shown = " ".join(run("merge --help")[1].replace("│", " ").split())
    assert "Default: 'matching' for features, 'quadratic' for states, else 'grouping'." in shown
