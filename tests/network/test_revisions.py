"""Agents that follow other rules: nothing is exchanged with them, and both the log and the status say why."""

from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from groups import ballot_on, digest, gaussian_charter, identities, seated
from summing_groups import summing_charter

from decbayes.network import Agent, Remove, Report, Send, persist_first, sign_record
from decbayes.network.protocol.talk import messages, revisions
from decbayes.network.protocol.talk.revisions import REVISION, SINCE, difference
from decbayes.network.runtime.reports.description import problems, status_of
from decbayes.network.runtime.reports.log import sentence

MEMBERS = identities(3)
CHARTER = gaussian_charter(MEMBERS)


def greeting(revision):
    """What a neighbour of a revision says: the first one did not state its number."""
    fields = [1, b"\1" * 32, bytes.fromhex(CHARTER.fingerprint), "0.1.0", b"", b""]
    return msgspec.msgpack.encode(fields if revision == 1 else [*fields, revision])


@pytest.fixture
def agent(rng):
    """A member with evidence, linked with a neighbour of its own revision and with another one."""
    agent = Agent(CHARTER, MEMBERS[0], rng=rng, software="0.1.0")
    for peer in ("alike", "other"):
        agent.on_connect(peer)
    agent.on_bytes("alike", digest(b"\1" * 32, CHARTER))
    return agent


def publishes(agent):
    """Its new evidence is written, and told to neighbours."""
    effects = agent.observe(np.ones(4), rng=np.random.default_rng(0))
    effects += agent.on_bytes("alike", digest(agent.pool.root, CHARTER))
    return persist_first(agent, effects, SimpleNamespace(put=lambda items: None))


def told(effects):
    return {(e.peer, type(messages.decode(e.message, CHARTER)).__name__) for e in effects if isinstance(e, Send)}


@pytest.mark.parametrize("revision", [1, REVISION + 1])
def test_with_another_revision_only_greetings_are_exchanged(agent, revision):
    assert told(agent.on_bytes("other", greeting(revision))) == set()
    assert ("alike", "Listing") in told(publishes(agent))
    for _ in range(20):
        assert told(agent.on_tick()) <= {("alike", "Listing"), ("alike", "Digest"), ("other", "Digest")}
    record = sign_record(CHARTER, MEMBERS[1], 1, posterior=None, shards=frozenset(), observations=0)
    votes = ballot_on(Remove("agent 2"), seated(CHARTER, MEMBERS[:2]), CHARTER)
    for message in (*messages.batches([record], [], CHARTER, [votes]), messages.listing([], [], complete=True)):
        assert told(agent.on_bytes("other", message)) == set()
    assert agent.refused == {"revision": 3}
    assert (agent.pool.version(MEMBERS[1].id), agent.pool.decisions.settled) == (0, {})


def test_messages_of_sums_go_to_neighbours_of_the_same_revision(rng):
    agent = Agent(summing_charter(MEMBERS), MEMBERS[0], rng=rng)
    for peer, content in (("alike", digest(b"\1" * 32, agent.charter)), ("other", greeting(1))):
        agent.on_connect(peer)
        agent.on_bytes(peer, content)
    assert agent.pool.sums is not None
    agent._sum_gossip.news.append(b"\1" * 32)
    agent.pool.sums.holds = lambda _: True
    assert [effect.peer for effect in agent.on_tick() if is_packets(effect, agent)] == ["alike"]
    assert told(agent.on_bytes("other", messages.encode(messages.Packets((b"\1" * 32,), complete=True)))) == set()
    assert agent.refused["revision"] == 1


def is_packets(effect, agent):
    return isinstance(effect, Send) and isinstance(messages.decode(effect.message, agent.charter), messages.Packets)


def test_a_neighbour_that_is_updated_is_heard_at_once(agent):
    agent.on_bytes("other", greeting(1))
    effects = agent.on_bytes("other", greeting(REVISION))
    assert ("other", "Listing") in told(effects)
    assert [effect.event for effect in effects if isinstance(effect, Report)] == ["linked"]


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        (1, f"{', '.join(SINCE.values())}: update that agent"),
        (REVISION + 1, f"this agent {REVISION}: update this agent"),
    ],
)
def test_log_and_status_say_what_differs_and_who_has_to_update(agent, revision, said):
    (report,) = (effect for effect in agent.on_bytes("other", greeting(revision)) if isinstance(effect, Report))
    assert agent.on_bytes("other", greeting(revision)) == [], "it is said once"
    assert said in sentence({"event": report.event, **report.fields})
    status = status_of(agent, lambda peer: f"{peer}:7447")
    (about,) = (text for text in problems(status, CHARTER.short_fingerprint) if "revision" in text)
    assert about.startswith("other:7447 follows revision")
    assert about.endswith(said)


@pytest.mark.parametrize(("software", "tells"), [("0.1.7", False), ("0.2.0", True), ("1.1.0", True), ("", False)])
def test_another_minor_version_is_a_problem_and_its_records_count(rng, software, tells):
    agent = Agent(CHARTER, MEMBERS[0], rng=rng, software="0.1.0")
    agent.on_connect("other")
    agent.on_bytes("other", messages.encode(messages.Digest(b"\1" * 32, b"\2" * 32, software, revision=REVISION)))
    status = status_of(agent, lambda peer: "b:7447")
    found = [text for text in problems(status, CHARTER.short_fingerprint) if "may differ in their last bits" in text]
    assert found == ([f"b:7447 runs decbayes {software}, this agent 0.1.0: " + UPDATE] if tells else [])
    assert agent.refused == {}


UPDATE = "update all agents, because merges of other versions may differ in their last bits"


def test_every_revision_says_what_has_changed(monkeypatch):
    assert [*SINCE] == [*range(2, REVISION + 1)]
    newest = REVISION + 1
    monkeypatch.setattr(revisions, "REVISION", newest)
    monkeypatch.setitem(SINCE, newest, "another rule")
    since = f"{SINCE[REVISION]}, another rule"
    assert difference(REVISION - 1) == (
        f"follows revision {REVISION - 1} of the protocol; since {newest}, {since}: update that agent"
    )
    assert difference(newest) == ""
