"""Random and damaged bytes: never a crash, never an accepted forgery, and no memory kept."""

import tracemalloc

import numpy as np
import pytest
from damage import damaged, random_bytes
from groups import gaussian_charter, identities

from decbayes.errors import Refused
from decbayes.network import Agent, Identity, open_record, sign_record, verify
from decbayes.network.protocol.talk.messages import (
    MOST_BODIES,
    Batch,
    Digest,
    Listing,
    Packets,
    Pull,
    batches,
    encode,
    listing,
    packed,
)
from decbayes.network.protocol.talk.revisions import REVISION

MEMBERS = identities(3)
CHARTER = gaussian_charter(MEMBERS)


def record(member=MEMBERS[0], version=5, data=(1.0, 2.0)):
    posterior = CHARTER.model.fit(np.asarray(data), rng=None).posterior
    return sign_record(CHARTER, member, version, posterior=posterior, shards=frozenset({"a"}), observations=len(data))


def accepted(content: bytes) -> bool:
    try:
        verify(open_record(content, CHARTER), CHARTER)
    except Refused:
        return False
    return True


def test_no_random_or_damaged_bytes_pass_for_a_record(rng):
    genuine = [record(version=version).content for version in (1, 2)]
    for _ in range(5_000):
        assert not accepted(random_bytes(rng))
        content = damaged(genuine, rng)
        assert content in genuine or not accepted(content)


def test_no_single_bit_flip_passes(rng):
    content = record().content
    for position in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[position // 8] ^= 1 << position % 8
        assert not accepted(bytes(flipped))


def test_agents_survive_any_bytes_in_any_message_and_keep_no_memory(rng):
    agent = Agent(CHARTER, MEMBERS[2], rng=rng)
    own = record()
    messages = [
        encode(Digest(b"\1" * 32, b"\1" * 32, revision=REVISION)),
        listing([(MEMBERS[0].id, 7, b"\2" * 32)], [MEMBERS[1].id], complete=True),
        encode(Pull((MEMBERS[0].id,))),
        *batches([own], [], CHARTER),
    ]

    def feed(times):
        for _ in range(times):
            agent.on_bytes("somebody", damaged(messages, rng))
            agent.on_bytes("somebody", random_bytes(rng))
            agent.on_tick()

    feed(500)
    tracemalloc.start()
    feed(200)
    before, _ = tracemalloc.get_traced_memory()
    feed(2_000)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 100_000
    agent.on_bytes("somebody", batches([record(version=6)], [], CHARTER)[0])
    assert agent.pool.version(MEMBERS[0].id) == 6


def test_claims_of_a_gibibyte_are_refused_without_reading_one():
    claims = [
        b"\x93\xc6\x40\x00\x00\x00header",
        b"\x92\x04\xdd\x40\x00\x00\x00",
        b"\xdd\xff\xff\xff\xff",
        (1 << 30).to_bytes(8, "little") + b"{}",
    ]
    agent = Agent(CHARTER, MEMBERS[2], rng=np.random.default_rng(0))
    tracemalloc.start()
    for claim in claims:
        agent.on_bytes("somebody", claim)
        agent.on_record("somebody", claim)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert sum(agent.refused.values()) == 2 * len(claims)


def test_ten_thousand_replays_change_nothing(rng):
    agent = Agent(CHARTER, MEMBERS[2], rng=rng)
    old, new = record(version=1), record(version=2, data=(3.0,))
    agent.on_record("somebody", old.content)
    agent.on_record("somebody", new.content)
    root = agent.pool.root
    for _ in range(5_000):
        agent.on_record("somebody", old.content)
        agent.on_record("somebody", new.content)
    assert agent.pool.root == root
    assert agent.refused == {"replay": 5_000, "stale": 5_000}


def test_a_hundred_strangers_and_forged_origins_have_no_effect(rng):
    agent = Agent(CHARTER, MEMBERS[2], rng=rng)
    root = agent.pool.root
    for _ in range(100):
        stranger = Identity.generate()
        agent.on_record("somebody", record(member=stranger).content)
        posing = record(member=stranger).signed.header
        forged = sign_record(
            CHARTER, stranger, 3, posterior=record().posterior, shards=frozenset(posing.shards), observations=2
        )
        content = forged.content.replace(stranger.id, MEMBERS[0].id)
        agent.on_record("somebody", content)
    assert agent.refused == {"membership": 100, "signature": 100}
    assert agent.pool.root == root


@pytest.mark.parametrize("complete", [True, False])
def test_listings_of_versions_that_do_not_exist_do_not_fill_the_memory(complete, rng):
    agent = Agent(CHARTER, MEMBERS[2], rng=rng)
    for number in range(3_000):
        entries = [(MEMBERS[0].id, 10 + number * 10 + k, rng.bytes(32)) for k in range(10)]
        agent.on_listing("somebody", Listing(tuple(entries), (), complete))
    assert len(agent._gossip._asked) <= 4 * CHARTER.limits.members + 10


def test_a_neighbour_that_has_too_much_checked_is_cut_short_until_the_next_ticks(rng):
    charter = gaussian_charter(MEMBERS, tick_messages=3)
    agent = Agent(charter, MEMBERS[2], rng=rng)
    (many,) = batches([record(version=version) for version in range(1, 6)], [], charter)
    agent.on_bytes("loud", many)
    agent.on_bytes("loud", batches([record(version=9)], [], charter)[0])
    assert agent.refused == {"budget": 1}, "the first batch was two records above what there is for a tick"
    assert agent.pool.version(MEMBERS[0].id) == 5
    agent.on_bytes("quiet", batches([record(version=6)], [], charter)[0])
    assert agent.pool.version(MEMBERS[0].id) == 6, "another neighbour has its own share"
    agent.on_tick()
    agent.on_bytes("loud", batches([record(version=9)], [], charter)[0])
    assert agent.pool.version(MEMBERS[0].id) == 9


def test_who_signs_too_fast_waits_and_is_taken_in_later(rng):
    charter = gaussian_charter(MEMBERS, versions=4)
    agent = Agent(charter, MEMBERS[2], rng=rng)
    for version in range(1, 8):
        agent.on_record("somebody", record(version=version).content)
    assert (agent.pool.version(MEMBERS[0].id), agent.refused) == (4, {"pace": 3})
    agent.on_record("somebody", record(MEMBERS[1]).content)
    assert agent.pool.version(MEMBERS[1].id) == 5, "others have their own pace"
    agent.on_tick()
    agent.on_record("somebody", record(version=7).content)
    assert agent.pool.version(MEMBERS[0].id) == 7


def test_more_records_than_there_are_members_are_not_looked_at(rng):
    charter = gaussian_charter(MEMBERS, members=4)
    agent = Agent(charter, MEMBERS[2], rng=rng)
    contents = tuple(record(version=version).content for version in range(1, 10))
    agent.on_bytes("loud", encode(Batch(contents)))
    assert agent.refused == {"size": 1}
    assert not agent.pool.records


def test_no_message_keeps_an_agent_busy_for_long(rng):
    """20,000 records in one message were checked in one go, and everybody else waited; what is sent stays below."""
    agent = Agent(gaussian_charter(MEMBERS, members=20_000), MEMBERS[2], rng=rng)
    content = record().content
    parts = packed([content] * (2 * MOST_BODIES + 1), 1 << 30)
    assert [len(part) for part in parts] == [MOST_BODIES, MOST_BODIES, 1]
    agent.on_bytes("loud", encode(Batch((*parts[0], content))))
    agent.on_bytes("loud", encode(Packets(packets=(*parts[0], content))))
    assert agent.refused == {"size": 2}
    agent.on_bytes("loud", encode(Batch(parts[0])))
    assert agent.pool.records


def test_a_neighbour_that_pulls_too_much_gets_the_rest_later(rng):
    charter = gaussian_charter(MEMBERS, tick_bytes=500)
    agent = Agent(charter, MEMBERS[2], rng=rng)
    for member in MEMBERS[:2]:
        agent.on_record("somebody", record(member=member).content)
    pull = Pull(tuple(member.id for member in MEMBERS))
    assert len(agent.on_pull("greedy", pull)) == 1
    assert agent.on_pull("greedy", pull) == []
    agent.on_tick()
    assert len(agent.on_pull("greedy", pull)) == 1
