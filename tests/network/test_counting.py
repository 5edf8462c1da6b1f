"""What a group counts as evidence and refuses, each by hand-made cases."""

import numpy as np
from groups import charter_of, gaussian_charter, identities

import decbayes as db
from decbayes.network import Limits, Rules, sign_record
from decbayes.network.protocol.records.merges import merge_records
from decbayes.network.protocol.site.evidence import learn, nothing, relearn
from decbayes.network.protocol.talk.messages import OVERHEAD, batches, decode, message_bytes

MEMBERS = identities(5)


def test_the_limits_that_a_group_does_not_mention_are_the_same_for_all_members():
    """They decide which records are accepted: with other ones, members of two versions would merge other sets."""
    assert Limits() == Limits(
        members=1000,
        record_bytes=67_108_864,
        observations=1_000_000_000_000,
        units=1_000_000,
        value=None,
        magnitude=1e15,
        shards=10_000,
        refinements=20,
        versions=20,
        tick_bytes=67_108_864,
        tick_messages=200,
    )


def test_each_large_shard_leaves_its_own_mark():
    charter = gaussian_charter(MEMBERS, rules=Rules(compare=10))
    own = nothing(charter)
    for name, points in (("a", 10), ("b", 9), ("c", 12)):
        data = np.arange(points, dtype=float)[:, None] + len(name)
        own = learn(charter, own, {name: data}, None).evidence
    assert len(own.marks) == 2
    assert (own.shards, own.observations) == ({"a", "b", "c"}, 31)


def record(charter, member, posterior, observations):
    shards = frozenset({"s"})
    return sign_record(charter, member, 1, posterior=posterior, shards=shards, observations=observations)


def test_only_members_of_a_merge_with_components_learn_names(rng):
    means = gaussian_charter(MEMBERS)
    fitted = means.model.fit(np.ones((4, 1))).posterior
    alone = merge_records(means, [record(means, MEMBERS[0], fitted, 4)], "")
    assert alone.names(MEMBERS[0].id) == (), "there is one mean and nothing to name"
    model = db.GaussianMixture(2, 1, variance=1.0)
    clusters = charter_of(model, MEMBERS)
    posterior = model.fit(np.array([[-5.0], [-5.5], [5.0], [5.5]]), rng=rng).posterior
    merged = merge_records(clusters, [record(clusters, MEMBERS[0], posterior, 4)], "")
    assert len(set(merged.names(MEMBERS[0].id))) == 2
    assert merged.names(MEMBERS[1].id) == (), "it is not in the merge"
    assert merge_records(clusters, [], "").names(MEMBERS[0].id) == (), "there is no merge"


def test_refitted_shards_start_from_their_own_evidence_and_not_from_that_of_others(rng):
    """Exact for one mean: own data on the prior, whatever others have said."""
    charter = gaussian_charter(MEMBERS)
    data = np.array([[1.0], [2.0]])
    own = learn(charter, nothing(charter), {"a": data}, None).evidence
    others = [charter.model.fit(np.full((50, 1), value)).posterior for value in (9.0, -3.0)]
    again = relearn(charter, own, {"a": data}, others, rng).evidence
    np.testing.assert_allclose(again.posterior.natural["mean"], charter.model.fit(data).posterior.natural["mean"])
    assert (again.shards, again.observations) == (own.shards, own.observations)


def test_messages_are_as_full_as_they_may_be(rng):
    """Records go into one message as long as they fit with eight bytes to spare for each."""
    charter = gaussian_charter(MEMBERS, dimension=200, record_bytes=5_000, members=5)
    posterior = charter.model.fit(np.ones((1, 200)), rng=rng).posterior
    records = [record(charter, member, posterior, 1) for member in MEMBERS]
    size = len(records[0].content)
    fitting = (message_bytes(charter) - OVERHEAD + 8) // (size + 8)
    messages = batches(records, [], charter)
    held = [len(decode(message, charter).records) for message in messages]
    assert sum(held) == len(records)
    assert all(count == fitting for count in held[:-1])
    assert all(len(message) <= message_bytes(charter) for message in messages)


def test_members_that_the_merge_warns_of_are_flagged(rng):
    """In `status` and on the page as in the remarks of the same merge."""
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1e4)
    charter = charter_of(model, MEMBERS[:3])
    shards = [rng.choice([-8.0, 8.0], (60, 1)) + rng.normal(size=(60, 1)) + far for far in (0.0, 0.0, 90.0)]
    fits = [model.fit(shard, rng=rng).posterior for shard in shards]
    merged = merge_records(charter, [record(charter, *pair, 60) for pair in zip(MEMBERS, fits, strict=False)], "")
    flags = [" ".join(merged.flags(site)) for site in range(3)]
    assert ["in common" in text for text in flags] == [False, False, True]
