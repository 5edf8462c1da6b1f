"""Epochs: a merged posterior becomes the prior; nothing in it counts again, and records of two epochs never merge."""

import numpy as np
import pytest
from groups import gaussian_charter, identities
from scipy.sparse import csr_array

from decbayes.errors import Refused
from decbayes.network import Charter, Limits, Rules, open_record, sign_record, verify
from decbayes.network.simulation.simulator import Simulation
from decbayes.network.simulation.topology import clique

MEMBERS = identities(3)


def group(charter: Charter, data, rng) -> Simulation:
    """Agents that have observed one shard each and agree."""
    simulation = Simulation(charter, MEMBERS, rng=rng)
    simulation.links = clique(len(MEMBERS), rng)
    for site, (name, points) in zip(simulation.sites, data, strict=True):
        simulation.start(site)
        simulation.observe(site, name, points)
    simulation.round()
    simulation.round()
    return simulation


def open_epoch(simulation: Simulation, forgetting=None) -> Charter:
    """All vote for a new epoch; returns the charter in force."""
    for site in simulation.sites:
        simulation.perform(site, site.agent.propose_epoch(forgetting))
    simulation.round()
    simulation.round()
    return simulation.sites[0].agent.charter


def observe(simulation: Simulation, data) -> None:
    for site, (name, points) in zip(simulation.sites, data, strict=True):
        simulation.observe(site, name, points)
    simulation.round()
    simulation.round()


def test_two_epochs_of_a_conjugate_model_equal_batch(rng):
    first, second = rng.normal(size=(2, 3, 5))
    charter = gaussian_charter(MEMBERS)
    simulation = group(charter, [(f"first {i}", points) for i, points in enumerate(first)], rng)
    open_epoch(simulation)
    observe(simulation, [(f"second {i}", points) for i, points in enumerate(second)])
    batch = charter.model.fit(np.concatenate([first, second]).ravel(), rng=rng).posterior
    for opens in (False, True):
        later = open_epoch(simulation) if opens else simulation.sites[0].agent.charter
        for site in simulation.sites:
            np.testing.assert_allclose(site.agent.posterior().natural["mean"], batch.natural["mean"], rtol=0, atol=1e-9)
    assert later.epoch.counted["agent 1"] == ("first 1", "second 1")


@pytest.mark.parametrize("forgetting", [0.4, "learn"])
def test_an_epoch_may_forget(forgetting, rng):
    """A share of everything; or, learned, as much of the earlier epochs as this one's data contradict."""
    first, second = rng.normal(size=(3, 50)), 40.0 + rng.normal(size=(3, 5))
    groups = []
    for forgets in (None, forgetting):
        simulation = group(gaussian_charter(MEMBERS), [(f"first {i}", points) for i, points in enumerate(first)], rng)
        open_epoch(simulation)
        observe(simulation, [(f"second {i}", points) for i, points in enumerate(second)])
        groups.append(open_epoch(simulation, forgets))
    remembering, later = groups
    assert later.epoch.counted == remembering.epoch.counted
    known, left = (charter.epoch.prior.contribution["mean"] for charter in groups)
    if forgetting == 0.4:
        np.testing.assert_allclose(left, 0.6 * known)
    else:
        assert later.epoch.prior.mean("mean")[0, 0] > remembering.epoch.prior.mean("mean")[0, 0] + 10.0


def test_a_shard_in_the_prior_is_not_observed_again_and_refused_from_others(rng):
    data = rng.normal(size=(3, 5))
    simulation = group(gaussian_charter(MEMBERS), [("own", points) for points in data], rng)
    later = open_epoch(simulation)
    agent = simulation.sites[0].agent
    assert agent.observe(data[0], shard="own", rng=rng) == []
    assert not agent.waiting
    posterior = later.epoch.part(later.model.fit(data[1], prior=later.epoch.prior, rng=rng).posterior)
    cheat = sign_record(later, MEMBERS[1], 1, posterior=posterior, shards=frozenset({"own"}), observations=5)
    with pytest.raises(Refused, match="evidence"):
        verify(open_record(cheat.content, later), later)


def test_records_of_another_epoch_are_refused(rng):
    simulation = group(gaussian_charter(MEMBERS), [("own", points) for points in rng.normal(size=(3, 5))], rng)
    earlier = simulation.sites[0].agent.pool.records[MEMBERS[1].id]
    later = open_epoch(simulation)
    with pytest.raises(Refused, match="one epoch"):
        open_record(earlier.content, later)


def test_refining_a_mixture_within_an_epoch_keeps_the_prior(rng):
    """Refitting against the cavity replaces the epoch's evidence only: all weights together stay the counts."""
    charter = Charter(
        group="clusters",
        model_name="GaussianMixture",
        settings={"components": 2, "dimension": 1, "variance": 0.5, "prior_variance": 20.0},
        members={f"agent {index}": member.public for index, member in enumerate(MEMBERS)},
        limits=Limits(members=8),
    )
    data = [np.concatenate([rng.normal(-3, 0.5, 10), rng.normal(3, 0.5, 10)]) for _ in range(6)]
    two = group(charter, [("first", points) for points in data[:3]], rng)
    open_epoch(two)
    observe(two, [("second", points) for points in data[3:]])
    for site in two.sites:
        two.perform(site, site.agent.refine(rng=rng))
    two.round()
    posterior = two.sites[0].agent.posterior()
    np.testing.assert_allclose(posterior.parameters("weights")["alpha"].sum(), 2 * 1.0 + 120, rtol=1e-9)
    np.testing.assert_allclose(np.sort(posterior.mean("components").ravel()), [-3, 3], atol=0.3)


MODELS = {
    "mixture": ("GaussianMixture", {"components": 2, "dimension": 1, "variance": 0.5, "prior_variance": 20.0}, ()),
    "topics": ("LatentDirichletAllocation", {"topics": 2}, tuple("abcdef")),
}


@pytest.mark.parametrize("rules", [Rules(), Rules(robust=True), Rules(share=0.4)], ids=["plain", "robust", "share"])
@pytest.mark.parametrize("model", MODELS)
def test_the_parts_of_a_prior_add_up_to_the_merge_whatever_the_rules(model, rules, rng):
    """So that a member's part can leave it later. The oracle is the merge itself."""
    name, settings, words = MODELS[model]
    members = {f"agent {index}": member.public for index, member in enumerate(MEMBERS)}
    charter = Charter(
        group="g",
        model_name=name,
        settings=settings,
        vocabulary=words,
        members=members,
        limits=Limits(members=8),
        rules=rules,
    )
    if words:
        data = [csr_array(rng.multinomial(20, rng.dirichlet(np.ones(6)), size=30)) for _ in range(3)]
    else:
        data = [np.concatenate([rng.normal(-3, 0.5, 10 + 9 * k), rng.normal(3, 0.5, 10)]) for k in range(3)]
    simulation = group(charter, [("own", points) for points in data], rng)
    merged = simulation.sites[0].agent.posterior()
    later = open_epoch(simulation)
    assert later.epoch is not None
    assert len({site.agent.posterior().digest for site in simulation.sites}) == 1
    for factor, natural in merged.natural.items():
        np.testing.assert_allclose(later.epoch.prior.natural[factor], natural, rtol=1e-9, atol=1e-9)


def test_agents_learn_a_document_prior_together(rng):
    charter = Charter(
        group="texts",
        model_name="LatentDirichletAllocation",
        settings={"topics": 2, "document_prior": "learn"},
        vocabulary=tuple("abcdef"),
        members={f"agent {index}": member.public for index, member in enumerate(MEMBERS)},
        limits=Limits(members=8),
    )
    topics = np.kron(np.eye(2), np.full(3, 1 / 3))
    shares = rng.dirichlet([0.2, 0.8], size=(3, 40))
    counts = [csr_array(rng.multinomial(20, own @ topics)) for own in shares]
    simulation = group(charter, [(f"texts {site}", data) for site, data in enumerate(counts)], rng)
    found = [charter.model.document_prior_of(site.agent.posterior()) for site in simulation.sites]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(np.sort(found[0]), [0.2, 0.8], rtol=0.5)
