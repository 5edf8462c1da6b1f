"""A pool is a set of signed headers: its union is commutative, associative, idempotent and monotone."""

import numpy as np
import pytest
from groups import gaussian_charter, identities
from hypothesis import given
from hypothesis import strategies as st

from decbayes.network import Change, Pool, sign_record
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
    pool = Pool(CHARTER.structure)
    for record in contents:
        pool.add(record)
    return pool


def union(*pools: Pool) -> Pool:
    total = Pool(CHARTER.structure)
    for pool in pools:
        total.union(pool)
    return total


@given(contents, contents)
def test_union_is_commutative(a, b):
    assert union(pool_of(*a), pool_of(*b)) == union(pool_of(*b), pool_of(*a))


@given(contents, contents, contents)
def test_union_is_associative(a, b, c):
    a, b, c = pool_of(*a), pool_of(*b), pool_of(*c)
    assert union(union(a, b), c) == union(a, union(b, c))


@given(contents)
def test_union_is_idempotent(a):
    assert union(pool_of(*a), pool_of(*a)) == pool_of(*a)


@given(contents, contents)
def test_union_equals_hearing_everything_in_any_order(a, b):
    heard = pool_of(*b, *a)
    both = union(pool_of(*a), pool_of(*b))
    assert both == heard
    assert both.root == heard.root
    assert both.posterior() == heard.posterior()


@given(contents, contents)
def test_union_is_monotone(a, b):
    before, after = pool_of(*a), union(pool_of(*a), pool_of(*b))
    assert before.proofs.keys() <= after.proofs.keys()
    for origin in before.records.keys() - after.proofs.keys():
        assert after.version(origin) >= before.version(origin)


@given(contents)
def test_equal_roots_mean_equal_newest_versions(a):
    pool = pool_of(*a)
    shuffled = pool_of(*reversed(a))
    assert (pool.root == shuffled.root) == (pool.entries() == shuffled.entries())
    assert pool.root == shuffled.root


@given(contents)
def test_what_counts_is_the_newest_version_of_each_honest_origin(a):
    """An oracle that looks at all records at once."""
    expected = {}
    for record in a:
        same = {r.digest for r in a if (r.origin, r.version) == (record.origin, record.version)}
        twofaced = any(len({r.digest for r in a if (r.origin, r.version) == (record.origin, v)}) > 1 for v in (1, 2, 3))
        newest = max(r.version for r in a if r.origin == record.origin)
        if not twofaced and record.version == newest and not record.retraction and len(same) == 1:
            expected[record.origin] = record
    counted = {record.origin: record for record in pool_of(*a).counted()}
    assert counted == expected


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


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ([], (0, 1, 2), Change.NEWER),
        ([(0, 1, 2)], (0, 2, 5), Change.NEWER),
        ([(0, 1, 2)], (0, 1, 2), Change.KNOWN),
        ([(0, 2, 2)], (0, 1, 5), Change.STALE),
        ([(0, 2, 2)], (0, 2, 5), Change.EQUIVOCATION),
        ([(0, 1, 2), (0, 2, 2)], (0, 1, 5), Change.EQUIVOCATION),
        ([(0, 2, 2), (0, 2, 5)], (0, 3, 5), Change.EXCLUDED),
    ],
)
def test_a_pool_says_what_a_record_did(before, after, change):
    assert pool_of(*(RECORDS[key] for key in before)).add(RECORDS[after]) is change


def test_a_retracted_contribution_does_not_come_back_by_replay():
    pool = pool_of(RECORDS[0, 1, 2], RECORDS[0, 2, 0], RECORDS[0, 1, 2])
    assert list(pool.counted()) == []
    assert pool.version(MEMBERS[0].id) == 2
