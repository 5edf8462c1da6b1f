"""`merge --explain` with probabilities, `overlap` and `calibrate` as a user types them."""

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
    monkeypatch.setattr("decbayes.cli.shared.alignments.SIMULATED", 30)
    files = "a.posterior b.posterior c.posterior"
    for name in "abc":
        others = " ".join(f"{other}.posterior" for other in "abc" if other != name)
        assert run(f"overlap {name}.csv {name}.posterior {others} -o {name}.overlap")[0] == 0
    overlaps = json.loads((fitted / "a.overlap").read_text())["overlaps"]
    assert len(overlaps) == 2
    assert min(overlaps) > 0.9
    line = f"merge {files} -o m.posterior --explain --json --picture m.svg --overlap a.overlap --overlap b.overlap"
    status, shown, _ = run(line)
    assert (status, "of 6 matches are expected to be wrong" in shown) == (0, True)
    assert "reported of themselves" in shown
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
        (
            "merge a.posterior b.posterior -o m.posterior --overlap a.csv",
            "is not a file that `decbayes overlap` writes",
        ),
        ("merge a.posterior b.posterior -o m.posterior --naive --confidence", "--naive makes no alignment"),
        ("plan mixture --sites 2 --observations 5", "components"),
        (
            "plan topics --sites 2 --observations 5 --topics 2 --like a.posterior",
            "not of LatentDirichletAllocation",
        ),
        ("plan classes --sites 2 --observations 5 --components 2", "--like"),
    ],
)
def test_mistakes_with_confidence_are_told_in_a_line(run, fitted, line, said):
    if "c.overlap" in line:
        assert run("overlap c.csv c.posterior a.posterior -o c.overlap")[0] == 0
    status, _, errors = run(line)
    assert status != 0
    assert said in errors


def test_a_plan_is_simulated_drawn_and_goes_on(run, fitted):
    plan = "plan mixture --sites 3 --observations 20 --components 2 --dimension 1 --variance 1 --restarts 0"
    status, shown, _ = run(f"{plan} --prior-variance 100 --data-sets 4 -o plan.json --picture plan.png")
    assert status == 0
    assert "90% intervals hold the truth" in shown
    assert "4 data sets. With 3 sites of 20 observations" in shown
    assert (fitted / "plan.png").stat().st_size > 1000
    before = json.loads((fitted / "plan.json").read_text())
    status, shown, errors = run(f"{plan} --prior-variance 100 --data-sets 6 -o plan.json")
    assert (status, "Going on after 4 data sets" in errors, "6 data sets." in shown) == (0, True, True)
    after = json.loads((fitted / "plan.json").read_text())
    assert after["data sets"][:4] == before["data sets"]
    status, _, errors = run(f"{plan} --prior-variance 50 --data-sets 6 -o plan.json")
    assert (status, "something else than figures of this plan" in errors) == (1, True)
    like = "plan mixture --like a.posterior --sites 2 --observations 20 --restarts 0 --data-sets 2"
    assert run(like)[0] == 0
