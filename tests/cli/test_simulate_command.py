"""`simulate` with a model: the agents fit it, and agree on a merge of all of its data."""

import json

import numpy as np
import pytest

import decbayes as db
from decbayes.network.simulation.guarantees import Violation
from decbayes.network.simulation.schedule import History, HistoryPlan, run_history
from decbayes.network.simulation.studies import OfModel

SEPARATE = "--variance 0.01 --prior-variance 25 --components 3"


def outcome(shown):
    return json.loads(shown.splitlines()[-1])


def test_agents_of_a_mixture_agree_on_what_one_fit_of_all_data_finds(run):
    status, shown, errors = run(f"simulate mixture {SEPARATE} --agents 4 --steps 40 --pause 0 --json")
    ended = outcome(shown)
    assert (status, ended["model"], ended["observations"] % 30) == (0, "GaussianMixture", 0)
    assert abs(ended["score"] - ended["score_at_once"]) < 0.05, errors
    assert "each shard counts once" in errors


def test_the_truth_may_come_from_a_posterior(run, tmp_path, rng):
    model = db.GaussianMixture(2, 1, variance=0.01, prior_variance=1e6)
    far = rng.normal(rng.choice([1000.0, 1300.0], size=200), 0.1)[:, None]
    db.save(model.fit(far, rng=rng).posterior, tmp_path / "a.posterior")
    status, shown, _ = run("simulate mixture --like a.posterior --agents 3 --steps 30 --pause 0 --json")
    density = -np.log(2) - 0.5 * np.log(2 * np.pi * np.e * 0.01)
    assert status == 0
    assert outcome(shown)["score"] == pytest.approx(density, abs=0.3), "far clusters of known variance"


def test_every_step_is_checked_for_a_model_as_for_the_mean(rng):
    study = OfModel(db.GaussianMixture(2, 2, variance=0.1, prior_variance=9.0), observations=6, rng=rng)
    for seed in (0, 4):
        run_history(seed, agents=4, steps=60, study=study)


def test_a_site_that_counts_too_little_is_a_violation(rng):
    study = OfModel(db.models.GaussianMean(variance=1.0, dimension=2), observations=5, rng=rng)
    history = History(HistoryPlan(3, 0, "clique", faults=False), seed=1, study=study)
    site = history.simulation.sites[0]
    history.simulation.observe(site, "first", study.shard(rng))
    history.simulation.round()
    site.shards["first"] = [*site.shards["first"], *study.shard(rng)]
    with pytest.raises(Violation, match="counts 10 observations of site 0, which are 15"):
        history.simulation.observe(site, "second", study.shard(rng))


def test_a_model_that_cannot_be_drawn_is_refused_in_one_line(run, monkeypatch):
    monkeypatch.setattr(db.models.GaussianMean, "draw", db.extending.Model.draw)
    status, _, errors = run("simulate mean --agents 2 --steps 2 --pause 0")
    assert (status, "does not say how to draw" in errors, errors.count("\n")) == (1, True, 0)
