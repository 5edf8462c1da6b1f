"""Epochs: a merged posterior becomes the prior; nothing in it counts again, and records of two epochs never merge."""

import numpy as np
import pytest
from groups import gaussian_charter, identities
from scipy.sparse import csr_array

import decbayes as db
from decbayes.errors import InvalidCharter, Refused
from decbayes.network import Agent, Charter, Limits, open_record, sign_record, verify
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


def next_charter(simulation: Simulation) -> Charter:
    agent = simulation.sites[0].agent
    counted = {record.origin: record.header.shards for record in agent.pool.counted()}
    return simulation.charter.next_epoch(agent.pool.posterior(), counted)


def test_two_epochs_of_a_conjugate_model_equal_batch(rng):
    first, second = rng.normal(size=(2, 3, 5))
    charter = gaussian_charter(MEMBERS)
    one = group(charter, [(f"first {i}", points) for i, points in enumerate(first)], rng)
    two = group(next_charter(one), [(f"second {i}", points) for i, points in enumerate(second)], rng)
    three = group(next_charter(two), [("again", points) for points in first], rng)
    batch = charter.model.fit(np.concatenate([first, second]).ravel(), rng=rng).posterior
    for site in two.sites:
        np.testing.assert_allclose(site.agent.posterior().natural["mean"], batch.natural["mean"], rtol=0, atol=1e-9)
    assert three.charter.epoch.counted["agent 1"] == ("first 1", "second 1")


@pytest.mark.parametrize("forgetting", [0.4, "learn"])
def test_an_epoch_may_forget(forgetting, rng):
    """A share of everything; or, learned, as much of the earlier epochs as this one's data contradict."""
    first, second = rng.normal(size=(3, 50)), 40.0 + rng.normal(size=(3, 5))
    one = group(gaussian_charter(MEMBERS), [(f"first {i}", points) for i, points in enumerate(first)], rng)
    two = group(next_charter(one), [(f"second {i}", points) for i, points in enumerate(second)], rng)
    pool = two.sites[0].agent.pool
    counted = {record.origin: record.header.shards for record in pool.counted()}
    later = two.charter.next_epoch(pool.posterior(), counted, forgetting=forgetting)
    assert later.epoch.counted == next_charter(two).epoch.counted
    known, left = (charter.epoch.prior.contribution["mean"] for charter in (next_charter(two), later))
    if forgetting == 0.4:
        np.testing.assert_allclose(left, 0.6 * known)
    else:
        assert later.epoch.prior.mean("mean")[0, 0] > next_charter(two).epoch.prior.mean("mean")[0, 0] + 10.0


def test_a_shard_in_the_prior_is_not_observed_again_and_refused_from_others(rng):
    charter = gaussian_charter(MEMBERS)
    data = rng.normal(size=(3, 5))
    later = next_charter(group(charter, [("own", points) for points in data], rng))
    agent = Agent(later, MEMBERS[0], rng=rng)
    assert agent.observe(data[0], shard="own", rng=rng) == []
    assert not agent.waiting
    posterior = later.epoch.part(later.model.fit(data[1], prior=later.epoch.prior, rng=rng).posterior)
    cheat = sign_record(later, MEMBERS[1], 1, posterior=posterior, shards=frozenset({"own"}), observations=5)
    with pytest.raises(Refused, match="evidence"):
        verify(open_record(cheat.content, later), later)


def test_records_of_another_epoch_are_refused(rng):
    charter = gaussian_charter(MEMBERS)
    simulation = group(charter, [("own", points) for points in rng.normal(size=(3, 5))], rng)
    later = next_charter(simulation)
    earlier = simulation.sites[0].agent.pool.records[MEMBERS[1].id]
    with pytest.raises(Refused, match="one prior"):
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
    one = group(charter, [("first", points) for points in data[:3]], rng)
    two = group(next_charter(one), [("second", points) for points in data[3:]], rng)
    for site in two.sites:
        two.perform(site, site.agent.refine(rng=rng))
    two.round()
    posterior = two.sites[0].agent.posterior()
    np.testing.assert_allclose(posterior.parameters("weights")["alpha"].sum(), 2 * 1.0 + 120, rtol=1e-9)
    np.testing.assert_allclose(np.sort(posterior.mean("components").ravel()), [-3, 3], atol=0.3)


def test_an_epoch_comes_back_from_its_charter(tmp_path, rng):
    later = next_charter(group(gaussian_charter(MEMBERS), [("own", points) for points in rng.normal(size=(3, 5))], rng))
    later.save(tmp_path / "charter.toml")
    back = Charter.load(tmp_path / "charter.toml")
    assert back == later
    assert back.fingerprint == later.fingerprint
    assert back.structure.fingerprint != back.model.structure.fingerprint
    db.save(later.model.fit([9.0], rng=rng).posterior, tmp_path / "charter.prior")
    with pytest.raises(InvalidCharter, match="not the prior"):
        Charter.load(tmp_path / "charter.toml")


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
