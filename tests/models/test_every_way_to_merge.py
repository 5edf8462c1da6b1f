"""Whoever merges first broadcasts of a regression, by whatever way, gets the same posterior."""

import numpy as np
import pytest
from groups import charter_of, identities
from zoo import ZOO

import decbayes as db
from decbayes.cli import main
from decbayes.models.regressions.regression import Regression
from decbayes.network.simulation.simulator import CALM, Simulation
from decbayes.network.simulation.topology import clique
from decbayes.sklearn import regressions as estimators
from decbayes.updates.rounds import Round, Sent

SITES, ROWS = 3, 30
REGRESSIONS = [name for name, (model, _) in ZOO.items() if isinstance(model, Regression)]
RECENTRED = {
    "Poisson regression", "survival", "logistic regression", "negative binomial regression", "ordered regression",
    "ordered regression, cumulative", "multinomial regression",
}  # fmt: skip
# Agents and commands know of no outcome: some whose broadcasts are moved, and one that varies.
EVERYWHERE = {"Poisson regression", "survival", "logistic, varying"}


@pytest.fixture(params=REGRESSIONS)
def case(request):
    """A regression, the rows of some sites, and what these send first."""
    model = charter_of(ZOO[request.param][0], identities(SITES)).model
    data = db.simulate(model, SITES * ROWS, rng=np.random.default_rng(4)).data
    shards = [*np.array_split(np.asarray(data), SITES)]
    return request.param, model, shards, [model.fit_site(shard).posterior for shard in shards]


@pytest.mark.filterwarnings("ignore::decbayes.errors.MergeWarning")
def test_every_way_to_merge_gives_the_same_posterior(case, tmp_path, monkeypatch):
    name, model, shards, sent = case
    merged = db.merge(sent)
    assert (merged != db.merging.product(sent)) == (name in RECENTRED)
    ways = {
        "align": db.align(sent[::-1]).merged(),
        "refine without rounds": db.refine(model, shards, sent, rounds=0).merged,
        "round by files": Round.of({str(site): Sent(posterior) for site, posterior in enumerate(sent)}).merged,
    }
    if name in EVERYWHERE:
        ways |= {
            "agents": by_agents(model, shards),
            "command": by_command(sent, tmp_path, monkeypatch, "--no-confidence"),
            "command, not aligned": by_command(sent, tmp_path, monkeypatch, "--naive"),
        }
    assert [way for way, posterior in ways.items() if posterior != merged] == []
    # A robust merge adds up what it has weighed, which may round otherwise.
    robust, plain = db.merging.robust_merge(sent[:2]).posterior, db.merge(sent[:2])
    for factor, part in plain.contribution.items():
        np.testing.assert_allclose(robust.contribution[factor], part, rtol=1e-12, atol=1e-12)


def by_agents(model, shards):
    members, rng = identities(SITES), np.random.default_rng(0)
    simulation = Simulation(charter_of(model, members), members, rng=rng, weather=CALM)
    simulation.links = clique(SITES, rng)
    for site, shard in zip(simulation.sites, shards, strict=True):
        site.shards["own"] = shard
        simulation.start(site)
    for _ in range(3):
        simulation.round()
    return simulation.sites[0].agent.posterior()


def by_command(sent, folder, monkeypatch, option):
    monkeypatch.chdir(folder)
    for site, posterior in enumerate(sent):
        db.save(posterior, f"{site}.posterior")
    with pytest.raises(SystemExit) as ended:
        main(["merge", *(f"{site}.posterior" for site in range(SITES)), option, "-o", "merged.posterior"])
    assert not ended.value.code
    return db.load("merged.posterior")


@pytest.mark.parametrize("kind", ["Logistic", "Poisson"])
@pytest.mark.filterwarnings("ignore::decbayes.errors.MergeWarning")
def test_estimators_merge_as_all_others_do(kind, rng):
    x, sites = rng.normal(size=(90, 2)), np.arange(90) % SITES
    found = getattr(estimators, f"{kind}Regression")().fit(x, rng.random(90) < 0.4, sites=sites)
    assert found.posterior_ == db.merge(found.posteriors_.values())
