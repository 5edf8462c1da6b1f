"""What single members, strangers and full disks could once do to an agent, one test for each."""

import hashlib
import json
import struct
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from groups import ballot_on, gaussian_charter, identities, later_charter, seated

import decbayes as db
from decbayes.base.tensors import read_arrays
from decbayes.errors import InvalidFile, Refused, StoreFailed
from decbayes.network import Agent, Charter, Proof, Rules, SqliteStore, sign_record
from decbayes.network.protocol.effects import Persist
from decbayes.network.protocol.records.accounts import next_epoch
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.record import HEADER_BYTES, Record, SignedHeader
from decbayes.network.protocol.records.verification import open_record
from decbayes.network.protocol.talk import messages
from decbayes.network.protocol.talk.messages import Batch, Digest, Listing, Pull, encode, notice_bytes
from decbayes.network.runtime.links.ask import is_merge
from decbayes.network.runtime.lookout import Lookout
from decbayes.network.runtime.owner import Owner
from decbayes.network.runtime.reports.watching import Watcher
from decbayes.network.runtime.store import orders

MEMBERS = identities(3)
CHARTER = gaussian_charter(MEMBERS)


def record(charter=CHARTER, version=1, member=MEMBERS[0], **said):
    posterior = db.Posterior(charter.structure, charter.model.fit(np.ones((4, 1))).posterior.contribution)
    told = {"posterior": posterior, "shards": frozenset({"s"}), "observations": 4} | said
    return sign_record(charter, member, version, **told)


def signed_with(body=None, **header):
    """A member's record with anything in its header or body, properly signed."""
    genuine = record()
    body = genuine.body if body is None else body
    changed = msgspec.structs.replace(genuine.header, body=hashlib.sha256(body).digest(), **header)
    digest = hashlib.sha256(msgspec.msgpack.encode(changed)).digest()
    return Record(SignedHeader(changed, MEMBERS[0].sign(digest)), body, None)


def arrays_of_shape(shape):
    """Safetensors bytes that claim a shape, with as many numbers as that takes."""
    count = int(np.prod(shape, dtype=object))
    told = {"contribution/mean/data": {"dtype": "F64", "shape": shape, "data_offsets": [0, 8 * count]}}
    header = json.dumps(told).encode()
    return struct.pack("<Q", len(header)) + header + bytes(8 * count)


@pytest.mark.parametrize("shape", [[1] * 65 + [2], [0] * 100, [1 << 62, 0]])
def test_a_shape_that_no_array_has_ends_nobody(shape, rng):
    """One such record of a member ended every agent that it was sent to."""
    body = arrays_of_shape(shape)
    with pytest.raises(InvalidFile, match="impossible shape"):
        read_arrays(body)
    agent = Agent(CHARTER, MEMBERS[1], rng=rng)
    agent.on_record("somebody", signed_with(body).content)
    assert agent.refused == {"shape": 1}


def test_what_is_read_before_anybody_vouches_for_it_takes_little_memory():
    """A message of 64 MB may hold millions of things, of many times its size each."""
    count = 2 * messages.MOST_ITEMS
    header = msgspec.msgpack.encode(msgspec.structs.replace(record().header, shards=("a",) * (HEADER_BYTES // 2)))
    crafted = [
        ("length", lambda: messages.decode(encode(Batch((b"ab",) * count)), CHARTER)),
        ("size", lambda: messages.decode(encode(Listing((), (bytes(32),) * count, complete=True)), CHARTER)),
        ("size", lambda: messages.decode(encode(Pull((bytes(32),) * 100_000)), CHARTER)),
        ("length", lambda: open_record(msgspec.msgpack.encode([header, bytes(64), b""]), CHARTER)),
    ]
    for why, act in crafted:
        with pytest.raises(Refused, match=why):
            act()
    content = encode(Batch((b"ab",) * count))
    tracemalloc.start()
    with pytest.raises(Refused):
        messages.decode(content, CHARTER)
    assert tracemalloc.get_traced_memory()[1] < len(content)
    tracemalloc.stop()


def test_a_listing_of_all_members_under_all_keys_is_no_longer_than_a_notice():
    """It was once longer than the largest message of a group with short records."""
    charter = gaussian_charter(MEMBERS, members=200, record_bytes=2000)
    keys = [n.to_bytes(32, "big") for n in range(400)]
    listed = messages.listing([(key, (1 << 63) - 1, bytes(32)) for key in keys], keys[:200], complete=True)
    assert len(listed) <= notice_bytes(charter) <= messages.message_bytes(charter)
    assert len(messages.decode(listed, charter).entries) == 400
    with pytest.raises(Refused, match="size"):
        messages.decode(encode(Pull((bytes(32),) * (notice_bytes(charter) // 34 + 1))), charter)
    assert messages.decode(encode(Batch((bytes(notice_bytes(charter)),))), gaussian_charter(MEMBERS, members=200))


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b31m", "a\nb", "\u202e"])
def test_what_cannot_be_printed_gets_onto_no_terminal(text):
    with pytest.raises(Refused, match="printed"):
        messages.decode(encode(Digest(bytes(32), bytes(32), text)), CHARTER)
    with pytest.raises(Refused, match="canonical"):
        open_record(signed_with(shards=(text,)).content, CHARTER)


def forked(charter, version=5):
    first, second = (record(charter, version, observations=n, units=n) for n in (4, 5))
    return Proof(first.signed, second.signed)


def test_who_has_signed_two_records_is_excluded_in_later_epochs_too(tmp_path, rng):
    """The proof was forgotten with the epoch, and the member was back."""
    pool = Pool(CHARTER)
    pool.add(record(member=MEMBERS[1]))
    question, body = next_epoch(pool)
    opened = replace(ballot_on(question, seated(CHARTER, MEMBERS), CHARTER, body=body), settled=True)
    proof = forked(CHARTER)
    with SqliteStore(tmp_path / "a.store", CHARTER) as store:
        store.put([proof, opened])
        again = Agent(CHARTER, MEMBERS[1], rng=rng, saved=store.load())
        assert store.damaged == 0
    assert again.charter.epoch is not None
    assert again.pool.excluded() == [MEMBERS[0].id]
    again.on_record("somebody", record(again.charter, 9).content)
    assert again.refused == {"excluded": 1}
    pair = tuple(messages.signed_bytes(signed) for signed in (proof.first, proof.second))
    fresh = Agent(CHARTER, MEMBERS[1], rng=rng, saved=[opened])
    assert fresh.on_proof("somebody", pair)
    assert fresh.pool.excluded() == [MEMBERS[0].id]


def test_one_version_in_each_of_two_epochs_proves_nothing(rng):
    later = later_charter(CHARTER, CHARTER.model.fit(np.ones((4, 1))).posterior)
    pair = tuple(messages.signed_bytes(record(charter, 5).signed) for charter in (CHARTER, later))
    agent = Agent(CHARTER, MEMBERS[1], rng=rng)
    agent.on_proof("somebody", pair)
    assert agent.refused == {"proof": 1}
    assert agent.pool.excluded() == []


class AtOnce:
    """A thread and an inbox that do everything when they are told."""

    def __init__(self):
        self.effects = []

    def submit(self, job):
        job()

    def post(self, call):
        self.effects += call() or []


def failing(times, act):
    left = [times]

    def attempt(*arguments):
        if left[0]:
            left[0] -= 1
            raise StoreFailed("a.store: database or disk is full.")
        return act(*arguments)

    return attempt


@pytest.fixture
def ordered(tmp_path, rng):
    """An agent with a neighbour, its store, its owner, and what it logs."""
    agent = Agent(CHARTER, MEMBERS[0], rng=rng)
    agent._publisher.synced = True
    told, hand = [], AtOnce()
    with SqliteStore(tmp_path / "a.store", CHARTER) as store:
        log = lambda event, **fields: told.append(event)  # noqa: E731
        yield agent, store, Owner(agent, store, hand, hand, log, rng=rng), hand, told


def test_a_vote_on_a_full_disk_is_signed_and_answered_when_there_is_room(ordered, monkeypatch):
    """Its version was made and then lost: the agent never published again."""
    agent, store, owner, _, told = ordered
    number = orders.give(store.path, orders.Propose("remove", "agent 1"))
    monkeypatch.setattr(orders, "answer", failing(2, orders.answer))
    effects = owner.tick()
    assert [type(effect) for effect in effects] == [Persist]
    agent.on_persisted(effects[0].item)
    assert [ballot.votes.keys() for ballot in agent.pool.decisions.pending.values()] == [{"agent 0"}]
    assert owner.tick() == []
    assert orders.answer_to(store.path, number, timeout=0) is None
    assert owner.tick() == owner.tick() == [], "it is not signed again"
    assert "1 of" in orders.answer_to(store.path, number, timeout=0)
    assert told == ["store_failed", "ordered"], "said once"
    orders.give(store.path, orders.Vote("nothing"))
    owner.tick(), owner.tick()
    assert told[2:] == ["ordered"], "also what is not done: whoever gave the order may be gone"


def test_an_observation_on_a_full_disk_is_published_when_there_is_room(ordered, monkeypatch, tmp_path):
    """It ended the agent."""
    agent, store, owner, hand, told = ordered
    np.save(tmp_path / "new.npy", np.ones((5, 1)))
    number = orders.give(store.path, orders.Observe(str(tmp_path / "new.npy")))
    monkeypatch.setattr(orders, "remember", failing(2, orders.remember))
    assert owner.tick() == hand.effects == []
    assert owner.tick() == []
    (effect,) = owner.tick()
    agent.on_persisted(effect.item)
    assert agent.evidence.observations == 5
    assert orders.answer_to(store.path, number, timeout=0) == "observed 5"
    assert told == ["store_failed", "ordered"]


def test_what_a_page_works_out_is_not_taken_for_the_agents_own(rng, monkeypatch):
    """A record that came while the page's thread took the hash of all records left an old hash with the agent."""
    agent, entries = Agent(CHARTER, MEMBERS[1], rng=rng), Pool.entries
    page = SimpleNamespace(show=lambda *_: None, tell=lambda *_: None, alive=True)

    def meanwhile(pool):
        found = entries(pool)
        if not agent.pool.records:
            agent.on_record("somebody", record().content)
        return found

    monkeypatch.setattr(Pool, "entries", meanwhile)
    Watcher(page).merge(agent)
    assert agent.pool.version(MEMBERS[0].id) == 1
    assert agent.pool.root == agent.pool.as_of_now().root


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("no"), FloatingPointError("overflow")])
def test_a_merge_that_cannot_be_computed_ends_no_thread(error, rng, monkeypatch):
    def merged(_):
        raise error

    posted = AtOnce()
    agent, told = Agent(CHARTER, MEMBERS[1], rng=rng), []
    monkeypatch.setattr(Pool, "merged", merged)
    lookout = Lookout(agent, None, posted, None, lambda event, **fields: told.append((event, fields["why"])))
    lookout._look_at_members()
    assert told == [("not_merged", str(error))]


@pytest.mark.parametrize(("rule", "slots", "taken"), [("model", 2, True), ("model", 3, False), ("auto", 3, True)])
def test_an_answer_may_have_as_many_components_as_the_rules_say(rule, slots, taken):
    """With the rule `components` every answer was once taken for that of another group."""
    settings = {"components": 2, "dimension": 1, "variance": 0.25, "prior_variance": 4.0}
    members = {"a": MEMBERS[0].public}
    charter = Charter("clusters", "GaussianMixture", settings, members, rules=Rules(components=rule))
    merged = db.Posterior.of_prior(charter.structure.with_components(slots))
    assert is_merge(merged, charter) == taken
    assert not is_merge(db.Posterior.of_prior(CHARTER.structure), charter)
