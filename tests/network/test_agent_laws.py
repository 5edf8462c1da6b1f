"""What one agent answers to single messages and to its disk; its evidence, shard by shard; names of data."""

import hashlib
import hmac
from dataclasses import replace

import numpy as np
import pytest
from groups import ballot_on, charter_of, gaussian_charter, identities, seated
from scipy.sparse import csr_array
from test_charter_laws import evidence_of
from test_small_rules import record

import decbayes as db
from decbayes.errors import InvalidData, NotDisclosed
from decbayes.models.core.evaluation import hold_back
from decbayes.models.core.persons import EACH, Persons
from decbayes.network import Agent, Amend, Persist, Remove, Report, Rules, Send, sign_record
from decbayes.network.protocol.agent import persist_first
from decbayes.network.protocol.events import decided
from decbayes.network.protocol.site.evidence import (
    Evidence,
    correct,
    learn,
    note_on_merge,
    nothing,
    persons_in,
    relearn,
    select_shards,
    with_shard,
)
from decbayes.network.protocol.site.leaving import check_difference, in_force, person_records
from decbayes.network.protocol.site.shards import content_digest, mark, shard_id
from decbayes.network.protocol.talk.messages import Batch, Digest, Listing, Pull, decode, encode
from decbayes.network.protocol.talk.revisions import REVISION

KEYS = identities(5)
CHARTER = gaussian_charter(KEYS[:2])
THREE = gaussian_charter(KEYS[:3])


def agent_of(charter=CHARTER, key=KEYS[1], **options):
    return Agent(charter, key, rng=np.random.default_rng(0), **options)


def events(effects):
    return [effect.event for effect in effects if isinstance(effect, Report)]


def reason(effects):
    (report,) = [effect for effect in effects if isinstance(effect, Report) and effect.event == "refused"]
    return report.fields["reason"]


def items(effects):
    return [effect.item for effect in effects if isinstance(effect, Persist)]


class Disk:
    def __init__(self):
        self.items = []

    def put(self, items):
        self.items += items


def greeting(agent, **changed):
    pool = agent.pool
    fields = {"root": pool.root, "charter": bytes.fromhex(pool.decisions.founding.fingerprint), "revision": REVISION}
    return Digest(**{**fields, **changed})


# ---- messages


def test_equal_hashes_are_enough_and_others_are_answered_by_all_that_is_held():
    agent = agent_of()
    agent.on_connect("two")
    effects = agent.on_bytes("two", encode(greeting(agent)))
    assert events(effects) == ["linked"]
    assert agent.on_bytes("two", encode(greeting(agent))) == [], "nothing has changed"
    other = agent.on_bytes("two", encode(greeting(agent, root=bytes(32))))
    assert [type(decode(send.message, CHARTER)) for send in other] == [Listing]
    assert events(agent.on_bytes("two", encode(greeting(agent, charter=bytes(32))))) == ["other_charter"]
    apart = agent.on_bytes("two", encode(greeting(agent, root=bytes(32), revision=REVISION + 1)))
    assert (events(apart), len(apart)) == (["other_revision"], 1), "and nothing is sent"
    assert reason(agent.on_bytes("two", encode(Pull((KEYS[0].id,))))) == "revision"
    assert agent.refused["revision"] == 1
    assert agent.peers == ("two",)
    agent.on_disconnect("two")
    assert agent.peers == ()
    assert reason(agent.on_stranger("x")) == "stranger"


def test_evidence_goes_out_once_somebody_was_heard():
    agent, disk = agent_of(), Disk()
    agent.on_connect("two")
    assert items(agent.observe(np.ones((3, 1)), rng=np.random.default_rng(0))) == []
    assert agent.waiting
    newer = Listing(((KEYS[1].id, 5, bytes(32)),), (), True)
    assert items(agent.on_bytes("two", encode(newer))) == [], "others know a version of ours that we do not"
    assert items(agent.on_bytes("two", encode(Listing((), (), False)))) == [], "not all that it holds"
    other = Listing(((KEYS[0].id, 5, bytes(32)),), (), True)
    effects = agent.on_bytes("two", encode(other))
    left = persist_first(agent, effects, disk)
    assert [type(item).__name__ for item in disk.items] == ["Record"]
    assert "published" in events(left)
    published = next(effect for effect in left if isinstance(effect, Report) and effect.event == "published")
    assert (published.fields["observations"], published.fields["shards"]) == (3, 1)
    assert not agent.waiting
    news = [decode(send.message, CHARTER) for send in left if isinstance(send, Send)]
    assert any(isinstance(each, Listing) and each.entries == tuple(agent.pool.entries()) for each in news)


def test_records_are_taken_once_and_told_on():
    agent = agent_of()
    agent.on_connect("two")
    effects = agent.on_record("two", record(5).content)
    assert items(effects) == [record(5)]
    (report,) = [effect for effect in effects if isinstance(effect, Report)]
    assert (report.event, report.fields["peer"], report.fields["version"]) == ("accepted", "two", 5)
    assert agent._gossip.news == {KEYS[0].id}
    assert reason(agent.on_record("two", record(5).content)) == "replay"
    assert reason(agent.on_record("two", record(4).content)) == "stale"
    caught = agent.on_record("two", record(5, 2.0).content)
    assert events(caught) == ["excluded", "adopted"]
    assert reason(agent.on_record("two", record(6).content)) == "excluded"
    assert [*agent.refused.values()] == [1, 1, 1]
    pulled = agent.on_pull("two", Pull((KEYS[0].id,)))
    (batch,) = [decode(send.message, CHARTER) for send in pulled]
    assert (len(batch.proofs), len(batch.records)) == (1, 0)


def test_who_signs_too_fast_waits():
    charter = gaussian_charter(KEYS[:2], versions=3)
    agent = agent_of(charter)
    posterior = charter.model.fit(np.array([1.0])).posterior
    made = [
        sign_record(charter, KEYS[0], n, posterior=posterior, shards=frozenset("a"), observations=1).content
        for n in range(1, 6)
    ]
    assert [len(items(agent.on_record("two", content))) for content in made] == [1, 1, 1, 0, 0]
    assert agent.refused["pace"] == 2
    agent.on_tick()
    assert len(items(agent.on_record("two", made[3]))) == 1


def test_a_neighbour_may_send_so_much_and_have_so_much_sent():
    charter = gaussian_charter(KEYS[:2], tick_messages=2, tick_bytes=10)
    agent = agent_of(charter)
    agent.on_connect("two")
    posterior = charter.model.fit(np.array([1.0])).posterior
    made = [
        sign_record(charter, KEYS[0], n, posterior=posterior, shards=frozenset("a"), observations=1).content
        for n in range(1, 7)
    ]
    assert len(items(agent.on_bytes("two", encode(Batch(tuple(made[:4])))))) == 4, (
        "whoever has some left may spend more"
    )
    assert reason(agent.on_bytes("two", encode(Batch((made[4],))))) == "budget"
    agent.on_tick()
    assert reason(agent.on_bytes("two", encode(Batch((made[4],))))) == "budget", "it pays for what it has spent"
    agent.on_tick()
    assert len(items(agent.on_bytes("two", encode(Batch((made[4],)))))) == 1
    assert len(agent.on_pull("two", Pull((KEYS[0].id,)))) == 1
    assert agent.on_pull("two", Pull((KEYS[0].id,))) == [], "its budget of bytes is spent"
    assert agent.on_bytes("two", encode(greeting(agent, root=bytes(32))))[1:] == []


def test_records_that_never_come_are_reported_once():
    agent = agent_of()
    agent._gossip.overdue.append((KEYS[0].id, 7, bytes(32)))
    (report,) = [effect for effect in agent.on_tick() if isinstance(effect, Report)]
    assert (report.event, report.fields["origin"], report.fields["version"]) == ("overdue", KEYS[0].id.hex(), 7)
    assert events(agent.on_tick()) == []
    stranger = agent_of(key=KEYS[4])
    stranger._gossip.overdue.append((KEYS[0].id, 7, bytes(32)))
    assert events(stranger.on_tick()) == [], "whoever has no seat is given no records"
    assert stranger._gossip.overdue == []


# ---- votes


def test_votes_are_counted_told_on_and_reported():
    agent, disk = agent_of(THREE, KEYS[2]), Disk()
    agent.on_connect("two")
    motion = ballot_on(Remove("agent 0"), seated(THREE, KEYS[1:2]), THREE)
    first = agent.on_ballot("two", motion.content)
    assert (events(first), items(first)) == (["voted"], [motion])
    assert reason(agent.on_ballot("two", motion.content)) == "replay"
    left = persist_first(agent, agent.vote(motion.name), disk)
    assert "settled" in events(left)
    (settled,) = [effect for effect in left if isinstance(effect, Report) and effect.event == "settled"]
    assert settled.fields["votes"] == ["agent 1", "agent 2"]
    later = ballot_on(Remove("agent 1"), seated(THREE, KEYS[2:3]), THREE, number=3)
    assert reason(agent.on_ballot("two", later.content)) == "lapsed"


def test_reports_of_decisions_name_who_is_new():
    motion = ballot_on(Remove("agent 0"), seated(THREE, KEYS[1:3]), THREE)
    one = ballot_on(Remove("agent 0"), seated(THREE, KEYS[1:2]), THREE)
    settled = replace(motion, settled=True)
    for ballot, before, event, votes in (
        (one, None, "voted", ["agent 1"]), (motion, one, "voted", ["agent 2"]),
        (settled, one, "settled", ["agent 1", "agent 2"]),
        (settled, None, "settled", ["agent 1", "agent 2"]), (settled, replace(one, settled=True), "voted", ["agent 2"]),
    ):  # fmt: skip
        report = decided(ballot, before)
        assert (report.event, report.fields["votes"]) == (event, votes)
        assert (report.fields["motion"], report.fields["text"]) == (motion.name, "remove agent 0")


def test_an_own_vote_that_lapsed_while_it_was_written_is_cast_again():
    agent, disk = agent_of(THREE, KEYS[2]), Disk()
    (persist,) = agent.propose(Amend(Rules(agreement=0.6), THREE.limits))
    others = ballot_on(Remove("agent 0"), seated(THREE, KEYS[:2]), THREE)
    agent.on_ballot("two", others.content)
    assert events(agent.on_persisted(persist.item)) == []
    assert agent.pool.decisions.lapsed == [persist.item]
    again = persist_first(agent, agent.on_tick(), disk)
    assert "voted" in events(again) or "settled" in events(again)
    (pending,) = agent.pool.decisions.pending.values()
    assert pending.question == persist.item.question


# ---- the disk


def test_what_the_disk_refuses_is_tried_again_at_each_tick():
    agent = agent_of()
    assert events(agent.on_persist_failed(record(5), "full")) == ["store_failed"]
    assert agent.on_persist_failed(record(6), "full") == [], "reported once"
    assert events(agent.on_persist_failed(record(6), "broken")) == ["store_failed"]
    assert agent.trouble == "broken"
    assert items(agent.on_tick()) == [record(6)], "of others the newest"
    assert items(agent.on_tick()) == []
    own = [sign_record(CHARTER, KEYS[1], n, posterior=None, shards=frozenset(), observations=0) for n in (1, 2)]
    for each in own:
        agent.on_persist_failed(each, "broken")
    assert items(agent.on_tick()) == own, "own versions are never dropped"
    agent.on_persisted(record(5))
    assert agent.trouble is None


def test_decisions_are_written_before_those_that_come_after_them():
    agent = agent_of(THREE, KEYS[2])
    first = ballot_on(Amend(Rules(agreement=0.6), THREE.limits), seated(THREE, KEYS[:2]), THREE)
    agent.on_persist_failed(first, "full")
    agent.on_persist_failed(record(5), "full")
    motion = ballot_on(Remove("agent 0"), seated(THREE, KEYS[1:2]), THREE)
    assert items(agent.on_ballot("two", motion.content)) == [first, motion]
    assert items(agent.on_tick()) == [record(5)]


# ---- evidence


def test_evidence_counts_shards_observations_units_and_marks():
    charter = gaussian_charter(KEYS[:2], rules=Rules(compare=10))
    small, large = np.ones((9, 1)), np.ones((10, 1))
    one = with_shard(charter, nothing(charter), "a", small)
    two = with_shard(charter, one, "b", large)
    assert (two.shards, two.observations, two.units) == ({"a", "b"}, 19, 19)
    assert one.marks == frozenset()
    assert two.marks == {mark(large, charter.secret, 0)}
    assert (two.posterior, nothing(charter).posterior) == (one.posterior, charter.update.nothing)
    found = learn(charter, nothing(charter), {"a": small, "b": large}, None)
    assert (found.replaces, found.evidence.observations) == (frozenset(), 19)
    whole = charter.model.fit(np.ones((19, 1))).posterior
    np.testing.assert_allclose(found.evidence.posterior.natural["mean"], whole.natural["mean"])
    again = learn(charter, found.evidence, {"c": small}, None)
    assert again.replaces == {"a", "b"}
    assert found.evidence.same(found.evidence)
    assert not found.evidence.same(again.evidence)
    assert not found.evidence.same(replace(found.evidence, posterior=again.evidence.posterior))


def test_a_part_is_held_back_where_the_charter_says_so():
    charter = gaussian_charter(KEYS[:2], rules=Rules(validation=0.25))
    data = np.arange(40.0)[:, None]
    kept, held = hold_back(charter.model, data, share=0.25)
    found = learn(charter, nothing(charter), {"a": data}, None).evidence
    assert (found.observations, len(held)) == (30, 10)
    np.testing.assert_allclose(found.posterior.natural["mean"], charter.model.fit(kept).posterior.natural["mean"])
    names = Persons.of(np.arange(40) // 2)
    assert persons_in(charter, {"a": data}, {}) is EACH
    fitted = persons_in(charter, {"a": data}, {"a": names})
    assert fitted.total(30) == len({int(row) // 2 for row in kept.ravel()})
    rest = persons_in(charter, {"a": data}, {"a": names}, part=1)
    assert rest.total(10) == len({int(row) // 2 for row in held.ravel()})
    plain = gaussian_charter(KEYS[:2])
    assert persons_in(plain, {"a": data, "b": data}, {"a": names}).total(80) == 20 + 40


def test_what_is_corrected_leaves_no_trace():
    before = evidence_of(CHARTER, a=[1.0, 2.0], b=[30.0])
    shards = {"a": np.array([[1.0], [2.0]]), "b": np.array([[30.0]]), "c": np.array([[4.0]])}
    found = correct(CHARTER, before, shards, frozenset({"a", "c"}), None)
    assert (found.evidence.shards, found.evidence.observations, found.replaces) == ({"a", "c"}, 3, {"a", "b"})
    whole = CHARTER.model.fit(np.array([[1.0], [2.0], [4.0]])).posterior
    np.testing.assert_allclose(found.evidence.posterior.natural["mean"], whole.natural["mean"])
    assert correct(CHARTER, before, shards, frozenset(), None).evidence == nothing(CHARTER)
    with pytest.raises(InvalidData, match=r"observe these again first: \['x'\]"):
        select_shards(shards, frozenset({"a", "x"}))
    assert [*select_shards(shards, frozenset({"c", "a"}))] == ["a", "c"]


def test_a_refit_counts_what_is_there_now():
    before = evidence_of(CHARTER, a=[1.0, 2.0], b=[3.0])
    others = [CHARTER.model.fit(np.full((5, 1), 9.0)).posterior]
    shards = {"a": np.array([[1.0], [2.0]]), "b": np.array([[3.0]]), "c": np.array([[9.0]])}
    found = relearn(CHARTER, before, shards, others, np.random.default_rng(0))
    assert (found.evidence.shards, found.evidence.observations, found.replaces) == ({"a", "b"}, 3, {"a", "b"})
    np.testing.assert_allclose(found.evidence.posterior.natural["mean"], before.posterior.natural["mean"], atol=1e-9)


def test_notes_are_on_merges_that_one_is_in():
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    charter = replace(charter_of(model, KEYS[:2]), rules=Rules(intervals=True, validation=0.2))
    agent = agent_of(charter, KEYS[0])
    data = np.random.default_rng(1).normal(size=(50, 1))
    evidence = learn(charter, nothing(charter), {"a": data}, 0).evidence
    options = {"posterior": evidence.posterior, "shards": evidence.shards, "observations": evidence.observations}
    agent.pool.add(sign_record(charter, KEYS[0], 1, **options))
    merged = agent.pool.merged()
    assert note_on_merge(charter, evidence, {"a": data}, merged, KEYS[1].id) is None
    note = note_on_merge(charter, evidence, {"a": data}, merged, KEYS[0].id)
    assert note.at == merged.posterior.digest
    assert note.information is not None
    plain = note_on_merge(
        gaussian_charter(KEYS[:2], rules=Rules(intervals=True)), evidence, {"a": data}, merged, KEYS[0].id
    )
    assert plain.scores is None


def test_published_evidence_is_what_a_record_says():
    found = Evidence.published(record(5).header, record(5).posterior)
    assert (found.shards, found.observations, found.units, found.marks, found.approval) == (
        {"a"},
        1,
        1,
        frozenset(),
        None,
    )
    usual = Evidence(record(5).posterior)
    assert (usual.shards, usual.observations, usual.units, usual.marks) == (frozenset(), 0, 0, frozenset())


# ---- what leaves a site


def test_the_stricter_of_two_rules_is_in_force():
    agreed, own = db.disclosure.Rules(least_cell=6), db.disclosure.Rules(least_cell=8, most_levels=50)
    assert in_force(None, None) is None
    assert in_force(agreed, None) is agreed
    assert in_force(None, own) is own
    both = in_force(agreed, own)
    assert (both.least_cell, both.most_levels) == (8, 40)


@pytest.mark.parametrize(("changed", "refused"), [(0, False), (1, True), (4, True), (5, False)])
def test_versions_do_not_differ_by_a_few_persons(changed, refused):
    rules = db.disclosure.Rules(least_cell=5)
    before = np.arange(20.0)[:, None]
    after = np.concatenate([before[changed:]])
    shards = [(before, EACH)], [(after, EACH)]
    if refused:
        with pytest.raises(NotDisclosed, match=f"differ by {changed} person"):
            check_difference(*shards, rules)
    else:
        check_difference(*shards, rules)
    check_difference(*shards, None)


def test_records_of_a_person_are_one_piece():
    rows = np.arange(4.0)[:, None]
    assert len(person_records([(rows, EACH), (rows, EACH)])) == 8
    both = person_records([(rows, Persons.of(["a", "b", "a", "b"]))])
    expected = [b"".join(sorted(rows[n].tobytes() for n in own)) for own in ((0, 2), (1, 3))]
    assert sorted(both) == sorted(expected)


# ---- names of data


def test_names_of_data_are_keyed_and_follow_from_contents():
    secret, data = b"s" * 32, np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 5.0]])
    content = hashlib.sha256(b"(2,)" + b"".join(sorted(row.tobytes() for row in data))).digest()
    assert content_digest(data) == content
    assert shard_id(data, secret) == hmac.digest(secret, b"shard" + content, "sha256").hex()[:32]
    assert mark(data, secret) == hmac.digest(secret, b"mark" + content, "sha256")[:16]
    assert content_digest(data[::-1]) == content, "in any order"
    assert content_digest(np.where(data == 0.0, -0.0, data)) == content
    for other in (data[:2], data.T, data + 1.0, np.concatenate([data, data[:1]])):
        assert content_digest(other) != content
    assert content_digest(np.zeros((0, 2))) != content_digest(np.zeros((0, 3)))
    sequences = [data, data[:1]]
    assert content_digest(sequences) == content_digest(sequences[::-1])
    assert content_digest(sequences) != content_digest([data[:1], data[1:], data[:1]])
    assert content_digest([data[:, :1]]) != content_digest(data[:, :1])


def test_counts_have_one_name_however_they_are_stored_and_whatever_words_came_later():
    counts = np.array([[1, 0, 2], [0, 3, 0]])
    stored = csr_array(counts)
    twice = csr_array(
        (np.array([1.0, 1.0, 1.0, 3.0, 0.0]), np.array([0, 2, 2, 1, 0]), np.array([0, 3, 5])), shape=(2, 3)
    )
    assert content_digest(stored) == content_digest(twice) == content_digest(stored.astype(np.int32))
    assert content_digest(stored) != content_digest(csr_array(counts[:, ::-1]))
    wider = csr_array(np.column_stack([counts, [7, 8]]))
    assert content_digest(wider, 3) == content_digest(stored, 3) == content_digest(stored)
    assert content_digest(wider) != content_digest(stored)
    new = csr_array(np.array([[0, 0, 0, 4]]))
    assert content_digest(new, 3) == content_digest(new), "documents without any of the first words"


def test_a_few_withheld_rows_go_out_with_later_ones():
    model = db.models.GaussianMean(variance=1.0, dimension=1)
    rules = db.disclosure.Rules(least_cell=2, least_outcome=1, least_observations=10)
    charter = replace(charter_of(model, KEYS[:2]), disclosure=rules)
    agent, rng = agent_of(charter, KEYS[0]), np.random.default_rng(0)
    assert events(agent.observe(rng.normal(size=(6, 1)), shard="a", rng=rng)) == ["withheld"]
    assert agent.withheld
    agent.observe(rng.normal(size=(3, 1)), shard="b", rng=rng)
    assert agent.withheld
    learned = agent.learn(rng.normal(size=(7, 1)), shard="c", rng=rng)
    assert learned.evidence.shards == {"a", "b", "c"}
    assert learned.evidence.observations == 16
    assert agent.drop("a")
    assert not agent.drop("x")
