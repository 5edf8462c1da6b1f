"""What one member, one neighbour or one broken disk may cost the others: little, and somebody is told."""

import sqlite3
from contextlib import closing, suppress

import numpy as np
import pytest
from damage import overwrite
from groups import gaussian_charter, identities

from decbayes.cli import main
from decbayes.errors import Refused, StoreFailed
from decbayes.network import Agent, Limits, Rules, Send, SqliteStore, sign_record, verify
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.protocol.records.merges import within_share
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.verification import open_record
from decbayes.network.protocol.site.shards import mark, shard_id
from decbayes.network.protocol.talk.guests import Guests
from decbayes.network.protocol.talk.messages import Batch, Digest, Pull, encode
from decbayes.network.runtime.queues import CALL_BYTES, Inbox
from decbayes.posterior import Posterior

MEMBERS = identities(3)
CHARTER = gaussian_charter(MEMBERS)


def record(member, version, data, *, charter=CHARTER, scale=1.0, shard="s", **said):
    fitted = charter.model.fit(np.asarray(data, dtype=float), rng=None).posterior
    posterior = Posterior(fitted.structure, {name: scale * part for name, part in fitted.contribution.items()})
    told = {"shards": frozenset({shard}), "observations": len(data), **said}
    return sign_record(charter, MEMBERS[member], version, posterior=posterior, **told)


def refusal(content, charter=CHARTER):
    with pytest.raises(Refused) as error:
        verify(open_record(content, charter), charter)
    return error.value.reason


def test_a_member_that_signs_more_evidence_than_it_states_is_refused():
    """Weight 1e9 with observations=1 in the header, as it was once accepted."""
    assert refusal(record(0, 1, [1e5], scale=1e9).content) == "consistency"
    assert refusal(record(0, 1, [1.0, 2.0], observations=1).content) == "consistency"
    assert verify(open_record(record(0, 1, [1.0, 2.0]).content, CHARTER), CHARTER).header.observations == 2


def test_the_charter_bounds_what_a_member_may_claim():
    few = gaussian_charter(MEMBERS, rules=Rules(least_observations=3))
    assert refusal(record(0, 1, [1.0, 2.0], charter=few).content, few) == "evidence"
    many = gaussian_charter(MEMBERS, observations=3)
    assert refusal(record(0, 1, [1.0] * 4, charter=many).content, many) == "evidence"
    small = gaussian_charter(MEMBERS, value=2.0)
    assert refusal(record(0, 1, [1.0, 9.0], charter=small).content, small) == "consistency"
    verify(open_record(record(0, 1, [1.0, 2.0], charter=small).content, small), small)


def shares_by_bisection(units, share):
    """The largest C with C ≤ share · Σ min(e, C), found without any algebra."""
    low, high = 0.0, float(max(units))
    for _ in range(200):
        middle = (low + high) / 2
        if middle <= share * np.minimum(units, middle).sum():
            low = middle
        else:
            high = middle
    return np.minimum(1.0, low / np.asarray(units))


@pytest.mark.parametrize("share", [0.4, 0.5, 0.7])
def test_no_member_has_more_than_its_share_of_what_counts(share, rng):
    for _ in range(50):
        units = np.sort(rng.lognormal(3, 2, size=5)).round() + 1
        scales = within_share(units, share)
        np.testing.assert_allclose(scales, shares_by_bisection(units, share), rtol=1e-9)
        assert (scales * units).max() <= share * (scales * units).sum() * (1 + 1e-9)
    np.testing.assert_allclose(within_share(np.array([5.0, 100.0]), 0.3) * [5.0, 100.0], 5.0)


def test_a_share_bounds_what_a_large_member_does_to_the_merge():
    charter = gaussian_charter(MEMBERS, rules=Rules(share=0.5))
    pool = Pool(charter)
    for member, data in enumerate(([0.0] * 10, [0.0] * 10, [9.0] * 980)):
        pool.add(record(member, 1, data, charter=charter))
    counted = -2.0 * pool.merged().posterior.contribution["mean"][0, -1]
    np.testing.assert_allclose(counted, 40.0, rtol=1e-9)
    assert pool.merged().observations == 1000, "what they have said stays said"


def test_a_shard_id_tells_nothing_without_the_sites_secret():
    """Every guess of a small shard has another id under another site's key, and the same under its own."""
    one = np.array([[37.0]])
    own = {shard_id(one, member.secret) for member in MEMBERS}
    assert len(own) == 3
    assert shard_id([[37]], MEMBERS[0].secret) == shard_id(one, MEMBERS[0].secret)
    assert mark(one, CHARTER.secret) != mark(one, bytes(31) + b"\1")


def test_sequences_of_any_length_have_names_that_follow_from_their_steps(rng):
    one, two = rng.normal(size=(3, 2)), rng.normal(size=(5, 2))
    name, *others = (
        shard_id(data, MEMBERS[0].secret)
        for data in ([one, two], [two, one], [one[::-1], two], [np.concatenate([one, two])], [one])
    )
    assert name == others[0], "the order of sequences says nothing"
    assert len({name, *others}) == 4, "that of their steps does, and so does where one ends"


def test_the_same_data_at_two_members_is_noticed(rng):
    data = rng.normal(size=200)
    pool = Pool(CHARTER)
    for member in (0, 1):
        pool.add(record(member, 1, data, marks=frozenset({mark(data[:, None], CHARTER.secret)})))
    pool.add(record(2, 1, data[:100], marks=frozenset({mark(data[:100, None], CHARTER.secret)})))
    assert pool.same_data() == [tuple(sorted(member.id for member in MEMBERS[:2]))]


def linked(member, name):
    return Agent(CHARTER, member, rng=np.random.default_rng(0), name=name)


def test_only_those_who_show_a_members_key_are_given_records():
    one, two = linked(MEMBERS[0], "one"), linked(MEMBERS[1], "two")
    stranger = linked(identities(5)[4], "three")
    hello = {agent: agent.on_connect("one")[0].message for agent in (two, stranger)}
    one.on_connect("two")
    one.on_connect("three")
    one.on_bytes("two", encode(Batch((record(2, 1, [1.0]).content,))))
    assert one.pool.version(MEMBERS[2].id) == 1, "whoever brings it, its origin has signed it"
    ask = encode(Pull((MEMBERS[2].id,)))
    replies = [one.on_bytes("two", ask), one.on_bytes("three", hello[stranger]), one.on_bytes("three", hello[two])]
    replies.append(one.on_bytes("three", ask))
    assert one.refused == {"stranger": 4}, "no proof yet, no member, somebody else's proof, still none"
    assert not [effect for reply in replies for effect in reply if isinstance(effect, Send)]
    one.on_bytes("two", hello[two])
    assert [effect.peer for effect in one.on_bytes("two", ask) if isinstance(effect, Send)] == ["two"]
    assert one.guests == {"two": MEMBERS[1].id}
    elsewhere = linked(MEMBERS[0], "elsewhere")
    elsewhere.on_connect("two")
    elsewhere.on_bytes("two", hello[two])
    assert elsewhere.guests == {}, "what was signed for one link proves nothing on another"


def test_a_forged_proof_of_membership_is_refused():
    guests = Guests(CHARTER, MEMBERS[0], "one")
    digest = Digest(bytes(32), bytes(32), "", MEMBERS[1].id, bytes(64))
    with pytest.raises(Refused, match="has not shown"):
        guests.recognise("two", digest, Roster.founded(CHARTER))


def test_endless_lies_are_checked_no_faster_than_versions_are_accepted():
    """A member that signed one lie after another kept an agent's thread busy: news took 25 s to pass it."""
    agent = Agent(CHARTER, MEMBERS[0], rng=np.random.default_rng(0))
    agent.on_connect("peer")
    lies = encode(Batch(tuple(record(1, version, [1.0], scale=1e9).content for version in range(1, 51))))
    ticks = 10
    for _ in range(ticks):
        agent.on_bytes("peer", lies)
        agent.on_tick()
    assert agent.refused["consistency"] <= agent.charter.limits.versions + ticks
    assert agent.refused["pace"] > 0
    for _ in range(agent.charter.limits.versions):
        agent.on_tick()
    agent.on_bytes("peer", encode(Batch((record(1, 60, [1.0]).content, record(2, 1, [1.0]).content))))
    assert (agent.pool.version(MEMBERS[1].id), agent.pool.version(MEMBERS[2].id)) == (60, 1), "the truth counts"


def test_thousands_of_valid_versions_cost_what_one_does():
    """One batch of them once froze a neighbour for a minute."""
    agent = Agent(gaussian_charter(MEMBERS, members=20_000), MEMBERS[0], rng=np.random.default_rng(0))
    agent.on_connect("peer")
    flood = encode(Batch(tuple(record(1, version, [1.0]).content for version in range(1, 400))))
    agent.on_bytes("peer", flood)
    taken = agent.pool.version(MEMBERS[1].id)
    assert taken <= agent.charter.limits.versions + 1, "versions beyond the pace wait"
    assert len(agent.pool.records) == 1, "older ones leave nothing behind"
    agent.on_bytes("peer", flood)
    assert agent.refused["budget"] == 1, "and so many records a tick are checked of one neighbour, not more"
    for _ in range(50):
        agent.on_tick()
    agent.on_bytes("peer", encode(Batch((record(1, 9_999, [1.0]).content,))))
    assert agent.pool.version(MEMBERS[1].id) == 9_999, "nobody disagrees for good because of a limit"


def test_sources_take_turns_in_the_inbox():
    inbox = Inbox(10_000 * CALL_BYTES)
    for number in range(1000):
        inbox.post(lambda number=number: f"loud {number}", source="loud")
    inbox.post(lambda: "question", source="questions")
    inbox.post(lambda: "quiet", source="quiet")
    assert [inbox.take(0)() for _ in range(4)] == ["loud 0", "question", "quiet", "loud 1"]
    inbox.forget("loud")
    assert inbox.take(0) is None
    assert inbox.dropped == 998


def test_a_store_does_not_grow_with_what_was_said_before(tmp_path):
    sizes = []
    with SqliteStore(tmp_path / "a.store", CHARTER) as store:
        for version in range(1, 301):
            store.put([record(0, version, [1.0], shard=f"shard {version}")])
            if version in (30, 300):
                sizes.append(store.connection.execute("SELECT sum(pgsize) FROM dbstat").fetchone()[0])
    assert sizes[0] == sizes[1]


def flipped(content, rng):
    """A few bytes anywhere are others."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 20))):
        overwrite(changed, rng)
    return bytes(changed[: len(content)])


def break_a_row(path, table, column, value):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection, suppress(sqlite3.Error):
        connection.execute(f"UPDATE {table} SET {column} = {value} WHERE rowid = 1")


@pytest.mark.parametrize("count", [200, pytest.param(600, marks=pytest.mark.slow)])
def test_damaged_stores_never_end_in_a_traceback(tmp_path, rng, capsys, count):
    """Damaged in bytes and in rows: each is read without what is damaged, or refused in a line, by the command too."""
    path, broken, charter = tmp_path / "a.store", tmp_path / "b.store", tmp_path / "group.toml"
    CHARTER.save(charter)
    with SqliteStore(path, CHARTER) as store:
        store.put([record(member, 5, [1.0, 2.0]) for member in range(3)])
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content, outcomes = path.read_bytes(), {"read": 0, "refused": 0}
    columns = [("records", name) for name in ("origin", "prior", "version", "header", "signature", "body")]
    columns += [("agreement", "charter_group"), ("agreement", "structure"), ("orders", "content")]
    values = ["NULL", "'text'", "x'ff00ff'", "CAST(x'ff' AS TEXT)", "-1", "1e300", "zeroblob(70)"]
    for number in range(count):
        broken.write_bytes(flipped(content, rng) if number % 2 else content)
        if number % 2 == 0:
            table, column = columns[int(rng.integers(len(columns)))]
            break_a_row(broken, table, column, values[int(rng.integers(len(values)))])
        try:
            with SqliteStore(broken, CHARTER) as store:
                store.load()
            outcomes["read"] += 1
        except StoreFailed:
            outcomes["refused"] += 1
        if number < 10:
            with pytest.raises(SystemExit) as end:
                main(["posterior", str(charter), "--store", str(broken)])
            assert end.value.code in (0, 1, 3) or "b.store" in end.value.code
        for extra in tmp_path.glob("b.store?*"):
            extra.unlink()
    print(outcomes)
    assert min(outcomes.values()) > 20


def test_limits_and_rules_are_checked():
    with pytest.raises(ValueError, match="positive"):
        Limits(versions=0)
