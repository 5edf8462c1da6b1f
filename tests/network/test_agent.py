"""Agents over a fake link: what they merge is what `merge` makes of their posteriors, and refining leads to batch."""

import ast
from pathlib import Path

import numpy as np
import pytest
from groups import digest, gaussian_charter, identities

import decbayes as db
from decbayes.errors import InvalidData, StoreFailed
from decbayes.network import Agent, Charter, Limits, Persist, Report, Rules, Send, persist_first, sign_record
from decbayes.network.protocol import agent as agent_module
from decbayes.network.protocol.site.shards import mark, shard_id
from decbayes.network.protocol.talk.gossip import OVERDUE
from decbayes.network.protocol.talk.messages import Batch, Listing, Pull, decode, encode, message_bytes
from decbayes.network.simulation.simulator import CALM, Simulation
from decbayes.network.simulation.topology import clique

MEMBERS = identities(4)
CENTRES = np.array([[-4.0, 0.0], [0.0, 4.0], [4.0, 0.0]])


def mixture_group(rng, components="model") -> Simulation:
    charter = Charter(
        group="clusters",
        model_name="GaussianMixture",
        settings={"components": 3, "dimension": 2, "variance": 0.5, "prior_variance": 20.0},
        members={f"site {index}": member.public for index, member in enumerate(MEMBERS)},
        limits=Limits(members=8, refinements=6),
        rules=Rules(components=components),
    )
    simulation = Simulation(charter, MEMBERS, rng=rng, weather=CALM)
    simulation.links = clique(len(MEMBERS), rng)
    for site in simulation.sites:
        labels = rng.integers(3, size=30)
        site.shards["own"] = CENTRES[labels] + rng.normal(size=(30, 2)) * 0.7
        simulation.start(site)
    simulation.round()
    return simulation


def test_the_group_merges_what_merge_merges(rng):
    simulation = mixture_group(rng)
    local = [site.agent.evidence.posterior for site in simulation.sites]
    for site in simulation.sites:
        assert site.agent.posterior() == db.merge(local)


@pytest.mark.parametrize(("asked", "filled"), [("auto", 3), (2, 2), (5, 5)])
def test_a_group_may_read_another_number_of_components_than_it_fits(asked, filled, rng):
    simulation = mixture_group(rng, asked)
    local = [site.agent.evidence.posterior for site in simulation.sites]
    merged = simulation.sites[0].agent.posterior()
    assert len(merged.natural["components"]) == filled
    assert merged == db.merge(local, components=asked)
    for site in simulation.sites:
        simulation.perform(site, site.agent.refine(rng=rng))
    simulation.round()
    assert len({site.agent.posterior().digest for site in simulation.sites}) == 1
    assert len(simulation.sites[0].agent.posterior().natural["components"]) == filled


def test_components_keep_their_names_as_data_come_in_and_all_agents_agree_on_them(rng):
    simulation, called = mixture_group(rng), []
    for _ in range(4):
        for site in simulation.sites:
            labels = rng.integers(3, size=30)
            more = CENTRES[labels] + rng.normal(size=(30, 2)) * 0.7
            simulation.perform(site, site.agent.observe(more, rng=rng))
            simulation.deliver()
        simulation.round()
        assert len({site.agent.posterior().digest for site in simulation.sites}) == 1
        merged = simulation.sites[0].agent.posterior()
        nearest = ((merged.mean("components")[:, None] - CENTRES) ** 2).sum(axis=2).argmin(axis=0)
        called.append([merged.ids[slot] for slot in nearest])
    assert len(set(called[-1])) == 3
    assert called[1] == called[2] == called[3]
    simulation.perform(simulation.sites[0], simulation.sites[0].agent.refine(rng=rng))
    assert sorted(simulation.sites[0].agent.evidence.posterior.ids) == sorted(called[-1])


def test_refining_over_the_network_leads_to_a_fixed_point_of_batch_inference(rng):
    simulation = mixture_group(rng)
    for _ in range(6):
        for site in simulation.sites:
            simulation.perform(site, site.agent.refine(rng=rng))
            simulation.deliver()
    simulation.round()
    merged = simulation.sites[0].agent.posterior()
    data = np.concatenate([site.shards["own"] for site in simulation.sites])
    batch = simulation.charter.model.fit(data, start=merged, rng=rng).posterior
    for name in ("weights", "components"):
        np.testing.assert_allclose(merged.natural[name], batch.natural[name], rtol=1e-3, atol=1e-2)
    assert {site.agent.posterior().digest for site in simulation.sites} == {merged.digest}
    assert simulation.sites[0].agent.merged().observations == len(data)


def test_refinements_are_bounded_in_number(rng):
    simulation = mixture_group(rng)
    agent = simulation.sites[0].agent
    versions = []
    for _ in range(10):
        simulation.perform(simulation.sites[0], agent.refine(rng=rng))
        versions.append(agent.version)
    assert len(set(versions)) == 6


def test_refining_needs_the_data_again_after_a_restart(rng):
    simulation = mixture_group(rng)
    site = simulation.sites[0]
    agent = Agent(simulation.charter, site.identity, rng=rng, saved=site.disk.load())
    with pytest.raises(InvalidData, match="observe these again"):
        agent.refine(rng=rng)
    assert agent.observe(site.shards["own"], shard="own", rng=rng) == [], "it counts already"
    assert agent.relearn(rng=rng) is not None


def test_several_shards_of_one_site_are_fitted_on_top_of_each_other(rng):
    charter = gaussian_charter(MEMBERS)
    agent = Agent(charter, MEMBERS[0], rng=rng)
    data = rng.normal(size=9)
    for part in np.split(data, 3):
        agent.observe(part, rng=rng)
    batch = charter.model.fit(data, rng=rng).posterior
    np.testing.assert_allclose(agent.evidence.posterior.natural["mean"], batch.natural["mean"], rtol=0, atol=1e-12)
    assert agent.evidence.observations == 9
    agent.observe(np.split(data, 3)[1], rng=rng)
    assert agent.evidence.observations == 9


@pytest.mark.parametrize("name", [shard_id, mark])
def test_shards_are_named_by_their_content_in_any_order_and_by_a_secret(name):
    from scipy.sparse import csr_array

    counts = np.array([[0, 2, 1], [3, 0, 0]])
    own, others = b"a site's", b"another's"
    assert name(counts, own) == name(counts.tolist(), own) == name(counts[::-1].astype(float), own)
    assert name(counts, own) != name(counts, others), "who does not know the secret cannot try guesses"
    assert name(counts, own) != name(counts.T, own)
    assert name(counts, own) != name(counts[[0, 1, 1]], own)
    assert name(csr_array(counts), own) == name(csr_array(counts[::-1]), own)
    assert name(csr_array(counts), own) != name(csr_array(2 * counts), own)
    # The same counts with other integers, out of order, in two parts, and with a stored zero.
    other = csr_array((np.array([1.0, 1, 1, 3, 0]), np.array([2, 1, 1, 0, 2]), np.array([0, 3, 5])), shape=(2, 3))
    other.indices, other.indptr = other.indices.astype(np.int64), other.indptr.astype(np.int64)
    assert name(other, own) == name(csr_array(counts), own)
    assert other.nnz == 5, "the data is as it was"
    with pytest.raises(InvalidData, match="must be numbers"):
        name(np.array([["a", "b"]]), own)


def test_a_fit_that_was_overtaken_is_not_published(rng):
    agent = Agent(gaussian_charter(MEMBERS), MEMBERS[0], rng=rng)
    slow = agent.learn([1.0], shard="slow", rng=rng)
    agent.observe([2.0], shard="quick", rng=rng)
    (report,) = agent.publish(slow)
    assert report == Report("not_published", report.fields)
    assert agent.evidence.shards == {"quick"}


class Writes:
    """A store that notes what was written."""

    def __init__(self):
        self.items = []

    def put(self, items):
        self.items += items


def test_nothing_is_sent_or_counted_before_it_is_persisted(rng):
    agent = Agent(gaussian_charter(MEMBERS), MEMBERS[0], rng=rng)
    agent.on_connect("peer")
    agent.on_bytes("peer", digest(agent.pool.root, agent.charter))
    (effect,) = agent.observe([1.0], rng=rng)
    assert isinstance(effect, Persist)
    assert agent.version == 0
    store = Writes()
    sends = [left for left in persist_first(agent, [effect], store) if isinstance(left, Send)]
    assert store.items == [effect.item]
    assert agent.version == effect.item.version
    assert [send.peer for send in sends] == ["peer"]


def test_retracting_is_final_and_survives_a_restart(rng):
    charter, store = gaussian_charter(MEMBERS), Writes()
    agent = Agent(charter, MEMBERS[0], rng=rng)
    persist_first(agent, agent.on_bytes("peer", digest(agent.pool.root, agent.charter)), store)
    persist_first(agent, agent.observe([1.0], rng=rng), store)
    persist_first(agent, agent.retract(), store)
    assert agent.merged().observations == 0
    again = Agent(charter, MEMBERS[0], rng=rng, saved=store.items)
    assert again.retracted
    assert again.observe([1.0], rng=rng)[0].event == "not_published"


def test_an_old_copy_of_the_disk_does_not_make_an_agent_contradict_itself(rng):
    """Restored from a backup, the agent hears of its later version and goes above it."""
    charter, store = gaussian_charter(MEMBERS), Writes()
    agent = Agent(charter, MEMBERS[0], rng=rng)
    persist_first(agent, agent.on_bytes("peer", digest(agent.pool.root, agent.charter)), store)
    persist_first(agent, agent.observe([1.0], shard="a", rng=rng), store)
    backup = list(store.items)
    persist_first(agent, agent.observe([2.0], shard="b", rng=rng), store)
    old = Agent(charter, MEMBERS[0], rng=rng, saved=backup)
    old.observe([3.0], shard="c", rng=rng)
    assert old.waiting, "it has not heard anybody yet"
    left = persist_first(old, old.on_record("peer", agent.pool.records[agent.id].content), Writes())
    assert old.version > agent.version
    assert old.evidence.shards == {"a", "c"}, "the two cannot be taken apart, and 'a' must not count twice"
    assert [r.fields["observe_again"] for r in left if isinstance(r, Report) and r.event == "remembered"] == [["b"]]
    old.observe([2.0], shard="b", rng=rng)
    assert old.evidence.observations == 3


def test_large_records_travel_in_messages_of_their_own(rng):
    charter = gaussian_charter(MEMBERS, dimension=100_000, record_bytes=1_000_000, members=4)
    posterior = charter.model.fit(np.ones((1, 100_000)), rng=rng).posterior
    agent = Agent(charter, MEMBERS[3], rng=rng)
    for member in MEMBERS[:3]:
        record = sign_record(charter, member, 1, posterior=posterior, shards=frozenset("a"), observations=1)
        agent.on_record("somebody", record.content)
    sends = agent.on_pull("peer", Pull(tuple(member.id for member in MEMBERS)))
    assert [len(decode(send.message, charter).records) for send in sends] == [1, 1, 1]
    assert all(len(send.message) <= message_bytes(charter) for send in sends)
    assert isinstance(decode(sends[0].message, charter), Batch)


def test_what_the_others_would_refuse_does_not_count_here_either(rng):
    """Otherwise the agent would disagree with everybody for ever."""
    agent = Agent(gaussian_charter(MEMBERS, observations=3), MEMBERS[0], rng=rng)
    store = Writes()
    persist_first(agent, agent.on_bytes("peer", digest(agent.pool.root, agent.charter)), store)
    persist_first(agent, agent.observe([1.0, 2.0], shard="small", rng=rng), store)
    (report,) = persist_first(agent, agent.observe([1.0, 2.0], shard="too much", rng=rng), store)
    assert report.event == "not_published"
    assert "evidence" in report.fields["why"]
    assert persist_first(agent, agent.on_tick(), store) == [], "it is told once"
    assert agent.waiting
    assert agent.merged().observations == 2


def test_an_agent_whose_key_was_copied_says_so_and_falls_silent(rng):
    charter, store = gaussian_charter(MEMBERS), Writes()
    agent = Agent(charter, MEMBERS[0], rng=rng)
    persist_first(agent, agent.on_bytes("peer", digest(agent.pool.root, agent.charter)), store)
    persist_first(agent, agent.observe([1.0], shard="a", rng=rng), store)
    posterior = charter.model.fit([5.0], rng=rng).posterior
    copy = sign_record(charter, MEMBERS[0], agent.version, posterior=posterior, shards=frozenset("b"), observations=1)
    left = persist_first(agent, agent.on_record("peer", copy.content), store)
    assert [report.event for report in left] == ["excluded", "adopted", "revoked"]
    (report,) = persist_first(agent, agent.observe([2.0], shard="c", rng=rng), store)
    assert "new key" in report.fields["why"]
    assert agent.merged().observations == 0


def test_no_decision_reads_a_clock():
    """Ticks come from outside: clocks that are ten years off cannot matter."""
    for path in sorted(Path(agent_module.__file__).parent.glob("*.py")):
        imported = {
            alias.name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in ([*node.names] if isinstance(node, ast.Import) else [ast.alias(node.module or "")])
        }
        assert not imported & {"time", "datetime", "asyncio", "threading", "socket", "zenoh"}, path


def test_a_neighbour_that_compares_without_end_is_not_answered_without_end(rng):
    agent = Agent(gaussian_charter(MEMBERS, tick_bytes=1000), MEMBERS[0], rng=rng)
    for member in MEMBERS[1:]:
        posterior = agent.charter.model.fit([1.0], rng=rng).posterior
        record = sign_record(agent.charter, member, 1, posterior=posterior, shards=frozenset("a"), observations=1)
        agent.on_record("somebody", record.content)
    answers = [agent.on_bytes("restless", digest(b"\0" * 32, agent.charter)) for _ in range(20)]
    assert 1 <= sum(map(len, answers)) <= 5


class FullDisk:
    def put(self, items):
        raise StoreFailed("no space left")


def test_what_waits_for_a_full_disk_does_not_pile_up(rng):
    charter = gaussian_charter(MEMBERS, versions=100)
    agent = Agent(charter, MEMBERS[0], rng=rng)
    posterior = charter.model.fit([1.0], rng=rng).posterior
    for version in range(1, 50):
        record = sign_record(charter, MEMBERS[1], version, posterior=posterior, shards=frozenset("a"), observations=1)
        persist_first(agent, agent.on_record("somebody", record.content), FullDisk())
    assert agent.trouble == "no space left"
    assert agent.pool.version(MEMBERS[1].id) == 49
    store = Writes()
    persist_first(agent, agent.on_tick(), store)
    assert [item.version for item in store.items] == [49]
    assert agent.trouble is None


def test_a_version_that_is_listed_and_never_sent_is_reported_once(rng):
    agent = Agent(gaussian_charter(MEMBERS), MEMBERS[0], rng=rng)
    listing = encode(Listing(((MEMBERS[1].id, 7, bytes(32)),), (), complete=True))
    reports, pulls = [], 0
    for _ in range(5 * OVERDUE):
        pulls += sum(isinstance(effect, Send) for effect in agent.on_bytes("peer", listing))
        reports += [effect for effect in agent.on_tick() if isinstance(effect, Report)]
    assert pulls > OVERDUE
    assert [(report.event, report.fields["origin"]) for report in reports] == [("overdue", MEMBERS[1].id.hex())]


@pytest.mark.parametrize(
    ("entries", "complete", "published"),
    [
        ((), True, True),
        ((), False, False),
        (((MEMBERS[1].id, 7, bytes(32)),), True, True),  # somebody else's versions say nothing of ours
        (((MEMBERS[0].id, 7, bytes(32)),), True, False),  # we have lost it, and hear of it first
    ],
)
def test_an_agent_publishes_once_a_neighbour_has_listed_no_version_of_it_that_it_lacks(entries, complete, published):
    agent = Agent(gaussian_charter(MEMBERS), MEMBERS[0], rng=np.random.default_rng(0))
    assert not any(isinstance(effect, Persist) for effect in agent.observe(np.array([1.0, 2.0]), rng=None))
    effects = agent.on_bytes("peer", encode(Listing(entries, (), complete=complete)))
    assert any(isinstance(effect, Persist) for effect in effects) == published
