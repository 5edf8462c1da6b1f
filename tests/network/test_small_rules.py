"""Small rules of the protocol that histories seldom test by themselves."""

from dataclasses import replace
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from groups import charter_of, gaussian_charter, identities, later_charter
from hypothesis import given
from hypothesis import strategies as st

import decbayes as db
from decbayes.errors import InvalidCharter, Refused
from decbayes.network import Charter, Proof, Rules, open_record, sign_record, verify
from decbayes.network.protocol.group.ballots import PROTOCOL, check_vote
from decbayes.network.protocol.group.decisions import voters_hash
from decbayes.network.protocol.group.motions import Name
from decbayes.network.protocol.group.openings import check_proper
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.protocol.limits import Allowance
from decbayes.network.protocol.records.accounts import next_epoch
from decbayes.network.protocol.records.merges import within_share
from decbayes.network.protocol.records.notes import information_on
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.verification import check_proof
from decbayes.network.protocol.site.adding import AddingMember
from decbayes.network.protocol.site.evidence import learn, nothing, reconcile
from decbayes.network.protocol.site.member import Member
from decbayes.network.protocol.talk.gossip import PATIENCE, Gossip, lacks
from decbayes.network.protocol.talk.guests import Guests
from decbayes.network.protocol.talk.messages import Digest, Listing, Packets, decode
from decbayes.network.protocol.talk.sum_gossip import MOST_ASKED, SumGossip
from decbayes.network.runtime.reports.description import members, set_description
from decbayes.posterior import Posterior

MEMBERS = identities(2)
CHARTER = gaussian_charter(MEMBERS)
OURS = b"us" * 16, 5, b"a" * 32


def record(version, value=1.0):
    posterior = CHARTER.model.fit(np.array([value]), rng=None).posterior
    return sign_record(CHARTER, MEMBERS[0], version, posterior=posterior, shards=frozenset("a"), observations=1)


@pytest.mark.parametrize(
    ("theirs", "lacking"),
    [
        (None, True),
        ((4, b"a" * 32), True),
        ((5, b"a" * 32), False),
        ((5, b"b" * 32), True),  # the other half of a contradiction
        ((6, b"b" * 32), False),
    ],
)
def test_a_neighbour_lacks_what_is_newer_and_what_contradicts_its_own(theirs, lacking):
    assert lacks(theirs, OURS) == lacking


def test_a_longer_way_to_write_the_same_record_is_refused():
    content = record(5).content
    assert content[0] == 0x93, "an array of three, in one byte"
    with pytest.raises(Refused) as refusal:
        open_record(b"\xdc\x00\x03" + content[1:], CHARTER)
    assert refusal.value.reason == "envelope"


def test_only_two_headers_that_differ_prove_anything():
    first, second, later = record(5).signed, record(5, 2.0).signed, record(6).signed
    check_proof(Proof(first, second), CHARTER)
    for other in (first, later):
        with pytest.raises(Refused, match="do not contradict"):
            check_proof(Proof(first, other), CHARTER)
    assert Proof(first, second).digest == Proof(second, first).digest


def test_pools_with_other_versions_have_other_hashes():
    pools = [Pool(CHARTER) for _ in range(3)]
    for pool, held in zip(pools, (record(5), record(6), record(5, 2.0)), strict=True):
        pool.add(held)
    assert len({pool.root for pool in pools}) == 3


def evidence_of(charter, **shards):
    """What an agent stands for that has observed these shards."""
    own = nothing(charter)
    for name, data in shards.items():
        own = learn(charter, own, {name: np.array(data)[:, None]}, None).evidence
    return own


def test_two_halves_of_what_an_agent_has_observed_count_once_each():
    """After a lost disk it has observed some shards anew, and hears from others of a version with other ones."""
    charter = gaussian_charter(identities(2))
    new, old = evidence_of(charter, a=[1.0, 2.0]), evidence_of(charter, b=[5.0, 6.0, 7.0])
    both = reconcile(new, old)
    assert (both.shards, both.observations, both.units) == ({"a", "b"}, 5, 5)
    whole = charter.model.fit(np.array([1.0, 2.0, 5.0, 6.0, 7.0])[:, None]).posterior
    np.testing.assert_allclose(both.posterior.natural["mean"], whole.natural["mean"], atol=1e-12)


def test_of_what_cannot_be_told_apart_nothing_counts_twice():
    charter = gaussian_charter(identities(2))
    some, more = evidence_of(charter, a=[1.0]), evidence_of(charter, a=[1.0], b=[2.0])
    other = evidence_of(charter, b=[2.0], c=[3.0])
    assert reconcile(some, more) is more
    assert reconcile(more, some) is more
    assert reconcile(more, other) is more, "they share a shard, and hold others: their sum would count it twice"
    assert reconcile(some, nothing(charter)) is some


def test_a_contribution_must_fit_every_slot_that_it_may_be_put_into():
    """An epoch's prior may know much of one slot and nothing of another; components may change places."""
    model = db.GaussianMixture(2, 1, variance=1.0)
    charter, structure = charter_of(model, identities(2)), model.structure
    known = {"weights": np.array([[99.0], [0.0]]), "components": np.array([[0.0, -50.0], [0.0, 0.0]])}
    later = later_charter(charter, Posterior(structure, known))
    taken = {"weights": np.array([[-0.5], [1.5]]), "components": np.array([[0.0, 0.25], [0.0, -0.75]])}
    lie = Posterior(later.structure, taken)
    record = sign_record(later, identities(2)[0], 1, posterior=lie, shards=frozenset({"s"}), observations=1)
    with pytest.raises(Refused) as refused:
        verify(open_record(record.content, later), later)
    assert refused.value.reason == "domain", "in the other slot it would leave less than nothing"


def said(guests, peer):
    """What an agent says of itself to a neighbour."""
    return Digest(bytes(32), bytes(32), "", *guests.introduce(peer))


def test_who_is_shown_its_own_proof_has_met_nobody():
    """Whoever sends back what it was told would otherwise pass for the very agent that told it."""
    one, two = Guests(CHARTER, MEMBERS[0], "one"), Guests(CHARTER, MEMBERS[1], "two")
    with pytest.raises(Refused, match="has not shown"):
        one.recognise("two", said(one, "two"), Roster.founded(CHARTER))
    assert one.members == {}
    one.recognise("two", said(two, "one"), Roster.founded(CHARTER))
    assert one.members == {"two": MEMBERS[1].id}


def test_a_neighbour_that_comes_back_is_known_again():
    one, two = Guests(CHARTER, MEMBERS[0], "one"), Guests(CHARTER, MEMBERS[1], "two")
    for _ in range(2):
        one.recognise("two", said(two, "one"), Roster.founded(CHARTER))
        assert one.admit("two", Roster.founded(CHARTER))
        one.forget("two")
        with pytest.raises(Refused, match="which member"):
            one.admit("two", Roster.founded(CHARTER))


def test_a_neighbour_that_shows_another_member_is_that_one():
    """A key that was replaced: what was seen before does not stand in the way."""
    one = Guests(CHARTER, MEMBERS[0], "one")
    for member in MEMBERS:
        one.recognise("two", said(Guests(CHARTER, member, "two"), "one"), Roster.founded(CHARTER))
        assert one.members == {"two": member.id}


@given(
    st.integers(1, 5),
    st.integers(0, 10),
    st.lists(st.one_of(st.just("tick"), st.tuples(st.sampled_from("ab"), st.integers(0, 12)))),
)
def test_an_allowance_is_a_bucket_that_never_overflows(each_tick, more, events):
    """Against a bucket for each: it holds the most at first and after any number of quiet ticks, and never more."""
    most = each_tick + more
    allowance, buckets = Allowance(each_tick, most), dict.fromkeys("ab", most)
    for event in events:
        if event == "tick":
            allowance.refill()
            buckets = {who: min(most, left + each_tick) for who, left in buckets.items()}
            continue
        who, amount = event
        assert allowance.has(who) == (buckets[who] > 0)
        assert allowance.spend(who, amount) == (buckets[who] > 0)
        buckets[who] -= amount if buckets[who] > 0 else 0


def test_so_much_is_spent_in_a_long_time_and_no_more():
    allowance, spent = Allowance(1, 4), 0
    allowance.spend("loud", 3)
    for _ in range(100):
        allowance.refill()
    while allowance.spend("loud", 1):
        spent += 1
    assert spent == 4, "a hundred quiet ticks save up no more than the most"


def asked(gossip, *entries):
    """What an agent pulls when a neighbour lists these versions."""
    sends = gossip.answer("two", Listing(entries, (), complete=False))
    return [origin for send in sends for origin in decode(send.message, CHARTER).origins]


def test_one_version_that_is_refused_for_good_blocks_no_other():
    gossip = Gossip(Pool(CHARTER), np.random.default_rng(0), "", lambda peer: (b"", b""))
    origin, other = (member.id for member in MEMBERS)
    gossip.give_up((origin, 5, b"a" * 32))
    assert asked(gossip, (origin, 5, b"a" * 32)) == [], "it is refused whoever sends it"
    assert asked(gossip, (origin, 4, b"c" * 32)) == [origin]
    assert asked(gossip, (origin, 5, b"b" * 32)) == [origin], "the other half of a contradiction"
    assert asked(gossip, (origin, 6, b"a" * 32)) == [origin], "a later version"
    assert asked(gossip, (other, 5, b"a" * 32)) == [other], "and of somebody else"
    assert asked(gossip, (other, 5, b"a" * 32)) == [], "asked for just now"


def test_in_a_robust_group_a_member_that_disagrees_hardly_counts_and_is_flagged_for_it():
    keys = identities(5)
    pools = {}
    for robust in (False, True):
        charter = gaussian_charter(keys, rules=Rules(robust=robust))
        pools[robust] = Pool(charter)
        for number, key in enumerate(keys):
            points = np.full((20, 1), 30.0 if number == 2 else 0.05 * number)
            held = {"posterior": charter.model.fit(points).posterior, "shards": frozenset("a"), "observations": 20}
            pools[robust].add(sign_record(charter, key, 1, **held))
    told = {robust: members(pool, pool.merged()) for robust, pool in pools.items()}
    assert [pool.merged().observations for pool in pools.values()] == [100, 100]
    assert all(isinstance(pool.merged().set_hash, str) and len(pool.merged().entries) == 5 for pool in pools.values())
    assert (
        abs(pools[True].merged().posterior.mean("mean").item())
        < 0.2
        < 5.0
        < pools[False].merged().posterior.mean("mean").item()
    )
    assert [any("is left out" in flag for flag in each["flags"]) for each in told[True].values()] == [
        number == 2 for number in range(5)
    ]
    assert not any("is left out" in flag for each in told[False].values() for flag in each["flags"])
    descriptions = [set_description(pool.merged(), pool) for pool in pools.values()]
    assert [(each["observations"], each.get("counting")) for each in descriptions] == [(100, None), (100, 80)]


def test_whoever_has_one_observation_counts_with_it():
    np.testing.assert_array_equal(within_share(np.array([1.0, 1.0]), 0.3), 1.0)


@pytest.mark.parametrize("share", [0.2, 0.4, 0.7, 1.0])
def test_no_member_counts_with_more_than_its_share_of_all(share):
    """min(1, C / e) with the largest C ≤ share · Σ min(e, C), by trying; all alike if no such C is above the least."""
    for units in ([30.0, 40.0, 900.0, 35.0], [5.0] * 6, [1.0, 1.0, 1000.0], [7.0, 80.0, 90.0, 100.0, 8.0, 9.0]):
        found = within_share(np.array(units), share)
        fits = [c for c in np.linspace(0.0, 1000.0, 20_001)[1:] if c <= share * sum(min(e, c) for e in units) + 1e-9]
        level = max([*fits, min(units)])
        np.testing.assert_allclose(found, [min(1.0, level / e) for e in units], atol=0.011)
        if share == 1.0:
            np.testing.assert_array_equal(found, 1.0)


def test_after_fifty_questions_in_vain_a_version_is_overdue_once():
    gossip = Gossip(Pool(CHARTER), np.random.default_rng(0), "", lambda peer: (b"", b""))
    entry, overdue = (MEMBERS[0].id, 5, b"a" * 32), []
    for _ in range(120):
        gossip._remember([entry], [])
        overdue.append(len(gossip.overdue))
    assert (overdue[48], overdue[49], overdue[-1]) == (0, 1, 1)
    gossip._remember([(MEMBERS[0].id, 6, b"a" * 32)], [])
    assert gossip._vain[MEMBERS[0].id][1] == 1, "another version is asked for anew"


def test_an_excluded_member_leaves_the_pool_and_its_hash():
    pool, held = Pool(CHARTER), record(5)
    pool.add(held)
    before = pool.root, pool.evidence_digest
    assert pool.exclude(Proof(held.signed, record(5, 2.0).signed))
    assert list(pool.counted()) == []
    assert pool.root != before[0]
    assert pool.evidence_digest != before[1]


@pytest.mark.parametrize("number", [0, -1, 1 << 63])
def test_votes_have_numbers_that_a_store_can_hold(number):
    ballot = SimpleNamespace(motion=SimpleNamespace(group=CHARTER.id), digest=b"d" * 32)
    fine = SimpleNamespace(protocol=PROTOCOL, group=CHARTER.id, motion=b"d" * 32, number=(1 << 63) - 1)
    check_vote(SimpleNamespace(header=fine), ballot)
    with pytest.raises(Refused) as refusal:
        check_vote(SimpleNamespace(header=SimpleNamespace(**vars(fine) | {"number": number})), ballot)
    assert refusal.value.reason == "version"


@pytest.mark.parametrize("other", [{"protocol": PROTOCOL + 1}, {"group": bytes(32)}, {"motion": bytes(32)}])
def test_a_vote_is_for_one_motion_of_one_group_in_one_protocol(other):
    ballot = SimpleNamespace(motion=SimpleNamespace(group=CHARTER.id), digest=b"d" * 32)
    fine = {"protocol": PROTOCOL, "group": CHARTER.id, "motion": b"d" * 32, "number": 1}
    with pytest.raises(Refused) as refusal:
        check_vote(SimpleNamespace(header=SimpleNamespace(**fine | other)), ballot)
    assert refusal.value.reason == "envelope"


def test_of_sums_a_neighbour_is_told_what_it_lacks_if_it_has_listed_all_that_it_has():
    ours = [bytes([number]) * 32 for number in range(3)]
    sums = SumGossip(SimpleNamespace(holds=ours.__contains__, in_order=lambda: ours), np.random.default_rng(0))
    (told,) = sums.answer("peer", Packets((ours[1],), complete=True))
    assert decode(told.message, CHARTER).held == (ours[0], ours[2])
    assert sums.answer("peer", Packets((ours[1],))) == sums.answer("peer", Packets(tuple(ours), complete=True)) == []


def test_what_is_settled_is_not_asked_for_again():
    decisions = Pool(CHARTER).decisions
    ballot = SimpleNamespace(votes={"a": None, "b": None})
    entry = b"s" * 32, voters_hash(ballot)
    assert decisions.wants(entry)
    decisions.settled[entry[0]] = ballot
    assert not decisions.wants(entry)
    assert decisions.wants((entry[0], voters_hash(SimpleNamespace(votes={"a": None}))))


@pytest.mark.parametrize("text", ["", "a\nb", "a\x1b[2J"])
def test_groups_and_members_have_printable_names(text):
    for changed in ({"group": text}, {"members": {text: MEMBERS[0].public}}):
        with pytest.raises(InvalidCharter, match="is not a name"):
            replace(CHARTER, **changed)


def test_no_two_groups_have_one_id_by_chance():
    """128 random bits."""
    settings = {"group": "g", "secret": bytes(32), "model_name": "GaussianMean", "members": CHARTER.members}
    first, second = (Charter(settings=CHARTER.settings, **settings).id for _ in range(2))
    assert first != second
    assert len(bytes.fromhex(first)) == 16


def test_where_a_merge_is_no_sum_nobody_says_how_it_depends_on_their_data():
    data, clusters = np.arange(30.0)[:, None], db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    several = replace(charter_of(clusters, MEMBERS), rules=Rules(intervals=True))
    settings = (several, True), (replace(several, rules=Rules(intervals=True, robust=True)), False)
    # Intervals of a single mean are exact.
    for charter, known in (*settings, (gaussian_charter(MEMBERS, rules=Rules(intervals=True)), False)):
        found = information_on(charter, charter.model.fit(data, rng=0).posterior, data)
        assert (found is not None) == known


def test_neighbours_who_list_what_does_not_exist_fill_no_memory():
    """What was asked for, of records and of sums, and what was given up, each up to its own limit."""
    gossip = Gossip(Pool(CHARTER), np.random.default_rng(0), "", lambda peer: (b"", b""))
    most = 4 * CHARTER.limits.members
    entries = [(number.to_bytes(32, "big"), 1, bytes(32)) for number in range(most + 1)]
    for number, entry in enumerate(entries, 1):
        gossip.give_up(entry)
        assert len(gossip._hopeless) == (number if number <= most else 0)
    held = SimpleNamespace(holds=lambda digest: False, in_order=list)
    sums = SumGossip(held, np.random.default_rng(0))
    digests = [number.to_bytes(32, "big") for number in range(MOST_ASKED + 2)]
    (asked,) = sums.answer("peer", Packets(tuple(digests[:-1])))
    assert decode(asked.message, CHARTER).wanted == tuple(digests[:-1])
    assert sums.answer("peer", Packets(tuple(digests[:3]))) == [], "asked for just now; and now forgotten"
    assert len(sums._asked) == 0
    assert len(sums.answer("peer", Packets(tuple(digests[:3])))) == 1


def test_what_was_asked_for_is_asked_again_when_patience_ends():
    sums = SumGossip(SimpleNamespace(holds=lambda digest: False, in_order=list), np.random.default_rng(0))
    listed, asked = Packets((bytes(32),)), []
    for _ in range(2 * PATIENCE + 1):
        asked.append(len(sums.answer("peer", listed)))
        sums.tick([])
    assert asked == [1, *([0] * (PATIENCE - 1))] * 2 + [1]


def test_a_part_of_a_prior_is_proper_beside_others_like_it():
    """λ0 + n c must be in the domain: the prior of the mean has a precision of its own, which a part may take from."""
    structure = CHARTER.model.structure
    (name,) = structure.families
    precision = -2.0 * structure.prior[name][0, -1]

    def part(share):
        contribution = np.zeros_like(structure.prior[name])
        contribution[0, -1] = 0.5 * share * precision  # takes so much of the prior's precision
        return Posterior(structure, {name: contribution})

    check_proper([part(0.4), part(0.4)], structure)
    check_proper([part(0.9)], structure)
    with pytest.raises(Refused, match="domain"):
        check_proper([part(0.6), part(0.6)], structure)


def test_the_next_epochs_prior_states_whose_units_it_holds():
    pool = Pool(CHARTER)
    for member, units in zip(MEMBERS, (3, 5), strict=True):
        posterior = CHARTER.model.fit(np.ones(units), rng=None).posterior
        pool.add(sign_record(CHARTER, member, 1, posterior=posterior, shards=frozenset("a"), observations=units))
    question, _ = next_epoch(pool)
    assert sorted((part.observations, part.units) for part in question.parts) == [(3, 3), (5, 5)]


@pytest.mark.parametrize(("length", "fits"), [(0, False), (1, True), (256, True), (257, False)])
def test_names_of_seats_have_a_length(length, fits):
    content = msgspec.msgpack.encode("n" * length)
    if fits:
        assert msgspec.msgpack.decode(content, type=Name) == "n" * length
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(content, type=Name)


def test_who_data_are_about_is_told_to_whoever_learns_from_them(monkeypatch):
    """Where nothing is summed secretly, a member learns like any other: with the shard and the persons it was given."""
    told = {}
    monkeypatch.setattr(Member, "learn", lambda self, data, **options: told.update(options))
    member = AddingMember.__new__(AddingMember)
    member.part = None
    member.learn("data", shard="s", persons="persons", rng="rng")
    assert told == {"shard": "s", "persons": "persons", "rng": "rng"}


def test_a_neighbour_is_told_of_whom_it_has_not_excluded_and_of_nothing_that_it_has():
    pool = Pool(CHARTER)
    pool.exclude(Proof(record(5).signed, record(5, 2.0).signed))
    gossip = Gossip(pool, np.random.default_rng(0), "", lambda peer: (b"", b""))
    (told,) = gossip.answer("two", Listing((), (), complete=True))
    assert decode(told.message, CHARTER).excluded == (MEMBERS[0].id,)
    assert gossip.answer("two", Listing((), (MEMBERS[0].id,), complete=True)) == []


def test_members_that_hold_the_same_data_set_are_those_with_the_same_mark():
    """One of four has a data set of its own; of the others each pair shares one, and one pair two."""
    keys = identities(4)
    charter = gaussian_charter(keys)
    pool, posterior = Pool(charter), charter.model.fit(np.array([1.0]), rng=None).posterior
    marks = [("ab", "ac"), ("ab", "bc", "twice"), ("ac", "bc", "twice"), ("own",)]
    for key, held in zip(keys, marks, strict=True):
        options = {"marks": tuple(mark.encode().ljust(32, b".") for mark in held)}
        pool.add(sign_record(charter, key, 1, posterior=posterior, shards=frozenset("s"), observations=1, **options))
    a, b, c = (key.id for key in keys[:3])
    assert pool.same_data() == sorted(tuple(sorted(pair)) for pair in ((a, b), (a, c), (b, c)))
