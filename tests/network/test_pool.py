"""A pool holds what is current: its union is commutative, associative, idempotent and monotone all the same."""

import numpy as np
import pytest
from groups import gaussian_charter, identities
from hypothesis import given
from hypothesis import strategies as st

from decbayes.network import Change, Pool, sign_record
from decbayes.network.protocol.records import pool as pools
from decbayes.network.runtime.reports.description import answered
from decbayes.posterior import Posterior

MEMBERS = identities(3)
CHARTER = gaussian_charter(MEMBERS)
DATA = np.random.default_rng(0).normal(size=(3, 6))


def record(member: int, version: int, points: int):
    """`points` of the member's data; none of them is a retraction."""
    data = DATA[member][:points]
    posterior = CHARTER.model.fit(data, rng=None).posterior if points else None
    shards = frozenset({f"first {points}"} if points else ())
    return sign_record(CHARTER, MEMBERS[member], version, posterior=posterior, shards=shards, observations=points)


# Few members, versions and contents, so that replays, regressions, retractions and equivocations are common.
RECORDS = {(m, v, p): record(m, v, p) for m in range(3) for v in (1, 2, 3) for p in (0, 2, 5)}
records = st.sampled_from(sorted(RECORDS)).map(RECORDS.__getitem__)
contents = st.lists(records, max_size=8)


def pool_of(*contents) -> Pool:
    """What an agent holds that has heard these, one after the other, and has drawn its conclusions at once."""
    pool = Pool(CHARTER)
    for record in contents:
        pool.add(record)
    return pool


def joined(*contents) -> Pool:
    """The union of what each of these is alone: nobody has drawn conclusions."""
    return union(*(pool_of(record) for record in contents))


def union(*pools: Pool) -> Pool:
    total = Pool(CHARTER)
    for pool in pools:
        total.union(pool)
    return total


states = st.tuples(contents, st.booleans()).map(lambda drawn: (pool_of if drawn[1] else joined)(*drawn[0]))


@given(states, states)
def test_union_is_commutative(a, b):
    assert union(a, b) == union(b, a)


@given(states, states, states)
def test_union_is_associative(a, b, c):
    assert union(union(a, b), c) == union(a, union(b, c))


@given(states)
def test_union_is_idempotent(a):
    assert union(a, a) == a


@given(states, states)
def test_union_is_monotone(a, b):
    after = union(a, b)
    assert a.proofs.keys() <= after.proofs.keys()
    for origin in a.records.keys() - after.proofs.keys():
        assert after.version(origin) >= a.version(origin)


def one_content_per_version(a) -> list:
    return list({(record.origin, record.version): record for record in a}.values())


@given(contents.map(one_content_per_version), st.randoms())
def test_of_honest_origins_the_same_is_held_in_whatever_order_it_was_heard(a, random):
    """What is dropped on the way leaves no trace."""
    heard = pool_of(*a)
    random.shuffle(a)
    other, both = pool_of(*a), union(pool_of(*a[::2]), pool_of(*a[1::2]))
    assert heard == other == both
    assert heard.root == other.root == both.root
    assert heard.posterior() == both.posterior()


@given(contents, contents)
def test_whatever_origins_do_agents_that_have_told_each_other_everything_hold_the_same(a, b):
    one, two = pool_of(*a), pool_of(*b)
    for _ in range(2):
        one.union(two)
        one.notice()
        two.union(one)
        two.notice()
    assert one == two
    assert one.root == two.root


@given(contents)
def test_of_each_origin_one_record_is_held_however_many_there_were(a):
    pool = pool_of(*a)
    assert len(pool.records) + len(pool.proofs) == len({record.origin for record in a})
    assert not pool.rivals


@given(contents)
def test_what_counts_is_the_newest_version_of_each_origin_that_is_not_caught(a):
    """An oracle that looks at all records at once."""
    expected, pool = {}, pool_of(*a)
    for origin in {record.origin for record in a} - pool.proofs.keys():
        newest = max((record for record in a if record.origin == origin), key=lambda record: record.version)
        if not newest.empty:
            expected[origin] = newest
    assert {record.origin: record for record in pool.counted()} == expected


@given(contents)
def test_whoever_signs_two_records_under_its_newest_version_is_caught(a):
    caught = set()
    for origin in {record.origin for record in a}:
        top = max(record.version for record in a if record.origin == origin)
        if len({record.digest for record in a if (record.origin, record.version) == (origin, top)}) > 1:
            caught.add(origin)
    assert caught <= pool_of(*a).proofs.keys()
    final = joined(*a)
    final.notice()
    assert final.proofs.keys() == caught


@given(contents)
def test_the_merge_is_the_posterior_of_the_counted_data(a):
    pool = pool_of(*a)
    merged = pool.merged()
    counted = list(pool.counted())
    data = np.concatenate([np.empty(0), *(DATA[names.index(r.origin)][: r.header.observations] for r in counted)])
    batch = CHARTER.model.fit(data, rng=None).posterior
    np.testing.assert_allclose(merged.posterior.natural["mean"], batch.natural["mean"], rtol=0, atol=1e-9)
    assert merged.observations == len(data)
    assert [entry[2] for entry in merged.entries] == [record.digest for record in counted]


names = [member.id for member in MEMBERS]


def test_an_empty_pool_holds_the_prior():
    assert pool_of().posterior() == Posterior.of_prior(CHARTER.structure)


def test_a_merge_is_made_once_for_each_set():
    pool = pool_of(RECORDS[0, 1, 2])
    first = pool.merged()
    assert pool.merged() is first
    pool.add(RECORDS[0, 1, 2])
    assert pool.merged() is first
    pool.add(RECORDS[1, 1, 2])
    assert pool.merged() is not first


def test_an_answer_is_about_one_set_whatever_comes_in_while_it_is_made(monkeypatch):
    """It once said that a member was counted, and not counted, when its record came during the merge."""
    pool, merge_records = pool_of(RECORDS[0, 1, 2]), pools.merge_records

    def merge_while_others_talk(*arguments):
        pool.add(RECORDS[1, 1, 5])
        return merge_records(*arguments)

    monkeypatch.setattr(pools, "merge_records", merge_while_others_talk)
    answer = answered(pool)
    monkeypatch.undo()
    alone = CHARTER.model.fit(DATA[0][:2], rng=None).posterior
    states = {name: told["state"] for name, told in answer.description["members"].items()}
    assert [*states.values()] == ["counted", "not heard of", "not heard of"]
    assert answer.description["counted"].keys() == {name for name, state in states.items() if state == "counted"}
    np.testing.assert_allclose(answer.posterior.natural["mean"], alone.natural["mean"], rtol=0, atol=1e-12)
    assert answered(pool).description["observations"] == 7
    assert answered(pool).posterior is answered(pool).posterior, "nothing is worked out twice"


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ([], (0, 1, 2), Change.NEWER),
        ([(0, 1, 2)], (0, 2, 5), Change.NEWER),
        ([(0, 1, 2)], (0, 1, 2), Change.KNOWN),
        ([(0, 2, 2)], (0, 1, 5), Change.STALE),
        ([(0, 2, 2)], (0, 2, 5), Change.EQUIVOCATION),
        ([(0, 1, 2), (0, 2, 2)], (0, 1, 5), Change.STALE),
        ([(0, 2, 2), (0, 2, 5)], (0, 3, 5), Change.EXCLUDED),
    ],
)
def test_a_pool_says_what_a_record_did(before, after, change):
    assert pool_of(*(RECORDS[key] for key in before)).add(RECORDS[after]) is change


def test_a_retracted_contribution_does_not_come_back_by_replay():
    pool = pool_of(RECORDS[0, 1, 2], RECORDS[0, 2, 0], RECORDS[0, 1, 2])
    assert list(pool.counted()) == []
    assert pool.version(MEMBERS[0].id) == 2
