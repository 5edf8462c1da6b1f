"""What a member keeps of its own: data at hand, what is withheld, approved, corrected, noted and taken back."""

from dataclasses import replace

import numpy as np
import pytest
from groups import ballot_on, gaussian_charter, identities, seated
from test_agent_laws import Disk, events, greeting, items

import decbayes as db
from decbayes.errors import InvalidCharter, InvalidData
from decbayes.models.core.persons import Persons
from decbayes.network import Agent, Remove, Rules
from decbayes.network.protocol.agent import persist_first
from decbayes.network.protocol.records.statements import Approval
from decbayes.network.protocol.site.evidence import MergeNote
from decbayes.network.protocol.talk.messages import encode

KEYS = identities(4)
CHARTER = gaussian_charter(KEYS[:3])
DATA = np.array([[1.0], [2.0], [4.0]])
LOOSE = db.disclosure.Rules(least_cell=1, least_outcome=1, least_observations=1, approval=True)


def linked(charter=CHARTER, key=KEYS[0], **options):
    """An agent that has heard a neighbour, and its disk."""
    agent, disk = Agent(charter, key, rng=np.random.default_rng(0), **options), Disk()
    agent.on_connect("two")
    persist_first(agent, agent.on_bytes("two", encode(greeting(agent))), disk)
    return agent, disk


def observed(agent, disk, data=DATA, **options):
    return persist_first(agent, agent.observe(data, rng=np.random.default_rng(0), **options), disk)


def test_data_count_once_under_their_name():
    agent, disk = linked()
    name = agent.shard_id(DATA)
    assert not agent.counts(name)
    assert events(observed(agent, disk)) == ["published"]
    assert agent.counts(name)
    assert agent.evidence.shards == {name}
    assert agent.version == disk.items[-1].version
    assert observed(agent, disk) == [], "the same data again"
    assert observed(agent, disk, DATA[::-1]) == []
    assert agent.learn(DATA, rng=np.random.default_rng(0)) is None
    assert agent.hold(DATA + 1.0) == agent.shard_id(DATA + 1.0)
    assert agent.holds(frozenset({name, agent.shard_id(DATA + 1.0)}))
    assert not agent.holds(frozenset({"x"}))
    assert not agent.counts(agent.shard_id(DATA + 1.0))
    np.testing.assert_allclose(agent.posterior().natural["mean"], CHARTER.model.fit(DATA).posterior.natural["mean"])


def test_persons_behind_evidence_are_counted_if_they_are_known():
    agent, disk = linked()
    assert agent.persons_of(agent.evidence) == 0
    observed(agent, disk, persons=["a", "a", "b"])
    assert agent.persons_of(agent.evidence) == 2
    observed(agent, disk, DATA + 1.0)
    assert agent.persons_of(agent.evidence) == 5
    assert agent.persons_of(replace(agent.evidence, shards=frozenset({"x"}), observations=7)) == 7, "not at hand"
    data, persons = agent.data_of(agent.evidence)
    assert (len(data), persons.total(6)) == (6, 5)
    with pytest.raises(InvalidData):
        agent.hold(DATA + 2.0, persons=["a"])
    assert isinstance(persons, Persons)


def test_what_waits_for_approval_goes_out_under_a_name():
    agent, disk = linked(replace(CHARTER, disclosure=LOOSE))
    assert events(observed(agent, disk)) == ["awaiting_approval"]
    digest = agent.awaiting.posterior.digest
    assert events(agent.approve("other", Approval("Kim"))) == ["not_published"]
    assert agent.awaiting is not None
    left = persist_first(agent, agent.approve(digest, Approval("Kim")), disk)
    assert events(left) == ["published"]
    assert disk.items[-1].statement.approval == Approval("Kim")
    assert agent.awaiting is None
    assert events(agent.approve(digest, Approval("Kim"))) == ["not_published"], "nothing waits"
    strict, _ = linked(rules=LOOSE)
    assert strict.rules == LOOSE
    assert events(observed(strict, Disk())) == ["awaiting_approval"], "the site's own rules"


def test_a_fit_of_earlier_evidence_is_not_published():
    agent, disk = linked()
    old = agent.learn(DATA, rng=np.random.default_rng(0))
    observed(agent, disk, DATA + 1.0)
    assert agent.outdated(old)
    assert events(agent.publish(old)) == ["not_published"]
    fresh = agent.learn(DATA, rng=np.random.default_rng(0))
    assert not agent.outdated(fresh)
    assert events(persist_first(agent, agent.publish(fresh), disk)) == ["published"]
    assert len(agent.evidence.shards) == 2


def test_what_is_corrected_and_retracted():
    agent, disk = linked()
    observed(agent, disk, shard="a")
    observed(agent, disk, DATA + 1.0, shard="b")
    learned = agent.correct(["b"], rng=np.random.default_rng(0))
    persist_first(agent, agent.publish(learned), disk)
    assert agent.evidence.shards == {"b"}
    expected = CHARTER.model.fit(DATA + 1.0).posterior
    np.testing.assert_allclose(agent.evidence.posterior.natural["mean"], expected.natural["mean"])
    assert not agent.retracted
    persist_first(agent, agent.retract(), disk)
    assert agent.retracted
    assert disk.items[-1].header.closed
    assert events(agent.publish(learned)) == ["not_published"]
    assert agent.relearn(rng=np.random.default_rng(0)) is None


def test_refits_are_bounded_and_need_data():
    charter = gaussian_charter(KEYS[:3], refinements=2)
    agent, disk = linked(charter)
    assert agent.relearn(rng=np.random.default_rng(0)) is None
    assert agent.refinements == 0
    observed(agent, disk)
    for done in (1, 2):
        assert agent.relearn(rng=np.random.default_rng(0)) is not None
        assert agent.refinements == done
    assert agent.relearn(rng=np.random.default_rng(0)) is None
    assert agent.refine(rng=np.random.default_rng(0)) == []


def test_notes_are_attached_to_the_merge_that_they_are_about():
    charter = gaussian_charter(KEYS[:3], rules=Rules(intervals=True))
    agent, disk = linked(charter)
    assert agent.look().note is None, "there are no data"
    observed(agent, disk)
    look = agent.look()
    assert look.note is not None
    assert look.evidence_digest == agent.pool.evidence_digest
    assert agent.attach(MergeNote(bytes(32), look.note)) == [], "the merge has changed"
    assert agent.attach(MergeNote(look.evidence_digest, None)) == []
    left = persist_first(agent, agent.attach(look), disk)
    assert events(left) == ["published"]
    assert disk.items[-1].note is not None
    assert agent.attach(agent.look()) == [], "the same note"
    plain, other = linked()
    observed(plain, other)
    assert plain.look().note is None, "the charter asks for none"


def test_votes_are_cast_once_by_whoever_sits():
    agent, disk = linked()
    persist_first(agent, agent.propose(Remove("agent 2")), disk)
    (pending,) = agent.pool.decisions.pending.values()
    assert agent.vote(pending.name) == [], "it has voted"
    with pytest.raises(InvalidCharter, match=r"does not identify one motion\. Pending: "):
        agent.vote("zz")
    with pytest.raises(InvalidCharter, match="The others would refuse it"):
        agent.propose(Remove("nobody"))
    numbers = [vote.number for vote in pending.votes.values()]
    persist_first(agent, agent.propose(Remove("agent 1")), disk)
    newest = max(vote.number for ballot in agent.pool.decisions.pending.values() for vote in ballot.votes.values())
    assert newest > max(numbers)
    stranger, _ = linked(key=KEYS[3])
    assert (stranger.seat, agent.seat) == ("", "agent 0")
    with pytest.raises(InvalidCharter, match="No vote: this agent's key has no seat"):
        stranger.propose(Remove("agent 2"))
    with pytest.raises(InvalidCharter, match="There are no contributions yet"):
        agent.propose_epoch()


def test_another_epoch_asks_for_nothing_that_is_in_its_prior():
    agent, disk = linked()
    observed(agent, disk, shard="a")
    (persist,) = items(agent.propose_epoch())
    for number in (1, 2):
        more = ballot_on(persist.question, seated(CHARTER, KEYS[number : number + 1]), CHARTER, body=persist.body)
        persist = persist.joined(more)
    left = persist_first(agent, agent.on_ballot("two", persist.content), disk)
    assert "adopted" in events(left)
    assert agent.counts("a")
    assert agent.evidence.shards == frozenset()
    assert agent.again == {}
    np.testing.assert_allclose(agent.posterior().natural["mean"], CHARTER.model.fit(DATA).posterior.natural["mean"])
    again = Agent(CHARTER, KEYS[0], rng=np.random.default_rng(0), saved=disk.items)
    assert again.counts("a")
    assert again.posterior() == agent.posterior()


def test_what_is_withheld_is_said_once_and_can_be_dropped():
    agent, _ = linked()
    assert events(agent.withhold("why")) == ["withheld"]
    assert agent.withhold("why") == []
    assert events(agent.withhold("other")) == ["withheld"]
    agent._withheld = frozenset({"a", "b"})
    assert agent.drop("a")
    assert agent.withheld == "other"
    assert agent.drop("b")
    assert agent.withheld == ""
    assert not agent.drop("b")
