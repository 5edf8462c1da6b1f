"""`plan` as a user types it: figures, a picture, and a file to go on from."""

import json

import numpy as np
import pytest

import decbayes as db


@pytest.fixture
def fitted(tmp_path):
    rng = np.random.default_rng(2)
    model = db.GaussianMixture(2, 2, covariance="diagonal", ascent=db.Ascent(restarts=0, passes=20))
    db.save(model.fit(rng.normal(size=(30, 2)), rng=rng).posterior, tmp_path / "a.posterior")
    return tmp_path


def test_a_plan_is_simulated_drawn_and_goes_on(run, fitted):
    plan = "plan mixture --sites 3 --observations 20 --components 2 --dimension 1 --variance 1 --restarts 0"
    status, shown, _ = run(f"{plan} --prior-variance 100 --data-sets 4 -o plan.json --picture plan.png")
    assert status == 0
    assert "90% intervals contain the truth" in shown
    assert "4 data sets. With 3 sites of 20 observations" in shown
    assert (fitted / "plan.png").stat().st_size > 1000
    before = json.loads((fitted / "plan.json").read_text())
    status, shown, errors = run(f"{plan} --prior-variance 100 --data-sets 6 -o plan.json")
    assert (status, "Continuing after 4 data sets" in errors, "6 data sets." in shown) == (0, True, True)
    after = json.loads((fitted / "plan.json").read_text())
    assert after["data sets"][:4] == before["data sets"]
    status, _, errors = run(f"{plan} --prior-variance 50 --data-sets 6 -o plan.json")
    assert (status, "holds other results" in errors) == (1, True)
    like = "plan mixture --like a.posterior --sites 2 --observations 20 --restarts 0 --data-sets 2"
    assert run(like)[0] == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("plan counts --sites 2 --observations 5", "--components"),
        (
            "plan topics --sites 2 --observations 5 --topics 2 --like a.posterior",
            "not of LatentDirichletAllocation",
        ),
        ("plan mixture --like a.posterior --dimension 3 --sites 2 --observations 5", "--dimension and --like"),
        ("plan classes --sites 2 --observations 5 --components 2", "--like"),
    ],
)
def test_a_plan_that_lacks_something_is_refused(run, fitted, line, message):
    status, _, errors = run(line)
    assert (status, message in errors) == (2, True)
