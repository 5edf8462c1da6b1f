"""What a group decides, piece by piece: orders, rosters, what stands, parts of a prior, questions from words."""

import hashlib
import random
from dataclasses import replace
from itertools import chain, combinations
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from groups import ballot_on, gaussian_charter, identities, seated
from summing_groups import SEATS, summing_charter

import decbayes as db
from decbayes.errors import InvalidCharter, InvalidKey, Refused
from decbayes.network import Admit, Amend, Ballot, Extend, Identity, Limits, Proof, Remove, Rotate, Rules
from decbayes.network.protocol.group import keys as keys_module
from decbayes.network.protocol.group.decisions import Decisions, check_opening, open_ballot, votes_hash
from decbayes.network.protocol.group.keys import short, signed_by, write_new
from decbayes.network.protocol.group.motions import Motion, Open, Part, Show, VoteHeader, motion_on, sign_vote
from decbayes.network.protocol.group.openings import (
    after_forgetting,
    check_proper,
    epoch_of,
    opening,
    read_parts,
)
from decbayes.network.protocol.group.proposals import limits_from, question_of, rules_from
from decbayes.network.protocol.group.roster import Roster, Seat, Void, in_order, latest, with_all_keys
from decbayes.network.protocol.group.roster import history_of as all_before
from decbayes.network.protocol.group.standing import Order, fallen

MEMBERS = identities(9)
CHARTER = gaussian_charter(MEMBERS[:5])
SEATED = seated(CHARTER, MEMBERS[:5])
FOUNDED = Roster.founded(CHARTER)
D = [hashlib.sha256(bytes([number])).digest() for number in range(12)]


def some(count):
    return dict([*SEATED.items()][:count])


# ---- orders


def graphs(count, seed):
    """Random resolutions, each after some of those before it, as pairs (digest, those before it)."""
    draw = random.Random(seed)
    for _ in range(count):
        size = draw.randrange(1, 8)
        yield [(D[n], tuple(sorted(draw.sample(D[:n], draw.randrange(min(n, 3) + 1))))) for n in range(size)]


def closure(graph):
    """All that each one comes after, by following every path."""
    direct = dict(graph)

    def before(digest):
        return {*direct[digest]}.union(*(before(each) for each in direct[digest]))

    return {digest: before(digest) for digest, _ in graph}


def test_an_order_says_what_comes_before_after_and_beside():
    for graph in graphs(60, 1):
        ballots = [SimpleNamespace(digest=d, motion=SimpleNamespace(after=after)) for d, after in graph]
        order, behind = Order(ballots), closure(graph)
        for n, (one, _) in enumerate(graph):
            relation = {m: (other in behind[one], one in behind[other]) for m, (other, _) in enumerate(graph)}
            assert order.before[n] == sum(1 << m for m, (before, _) in relation.items() if before)
            assert order.after[n] == sum(1 << m for m, (_, after) in relation.items() if after)
            for among in (mask & (1 << len(graph)) - 1 for mask in (0, 0b1010101, 0b0110110, -1)):
                beside = [m for m, each in relation.items() if not any(each) and m != n and among >> m & 1]
                assert [*order.beside(n, among)] == beside


def test_resolutions_are_applied_in_the_one_order_and_named_by_the_last_ones():
    """Again and again the smallest digest of those whose predecessors are all there."""
    for graph in graphs(60, 2):
        elements = {
            digest: motion_on(Remove("a"), "g", after) for digest, after in random.Random(3).sample(graph, len(graph))
        }
        void = Void(b"k")
        elements[void.digest] = void
        left, expected = dict(graph) | {void.digest: ()}, []
        while left:
            expected.append(min(d for d, after in left.items() if {*after} <= {*expected}))
            del left[expected[-1]]
        assert in_order(elements) == expected
        behind = closure(graph)
        last = {digest for digest, _ in graph if not any(digest in each for each in behind.values())}
        assert latest(elements) == tuple(sorted({*last, void.digest}))
        for digest, _ in graph:
            assert all_before(elements, [digest]).keys() == {digest, *behind[digest]}
        assert all_before(elements, []) == {}
    assert Void(b"k").digest == hashlib.sha256(b"voidk").digest()


# ---- what stands


def made_up(seed):
    """Settled resolutions with voters drawn at random, some of which take a voter's key away; and their oracle."""
    draw = random.Random(seed)
    seats = "abcde"
    keys = {seat: seat.encode() * 32 for seat in seats}
    ballots, needed = [], draw.choice([2, 3])
    (graph,) = graphs(1, seed + 10**6)
    for digest, after in graph:
        question = draw.choice([Remove, Rotate, Rotate, Admit, Amend, Extend, Open])
        question = {
            Remove: lambda: Remove(draw.choice(seats)),
            Rotate: lambda: Rotate(draw.choice(seats), bytes(32)),
            Admit: lambda: Admit("new", bytes(32)),
            Amend: lambda: Amend(Rules(), Limits()),
            Extend: lambda: Extend(("word",)),
            Open: lambda: Open((), (), bytes(32)),
        }[question]()
        voters = draw.sample(seats, draw.randrange(needed, 6))
        votes = {seat: SimpleNamespace(origin=hashlib.sha256(keys[seat]).digest()) for seat in voters}
        motion = SimpleNamespace(after=after)
        ballots.append(SimpleNamespace(digest=digest, motion=motion, question=question, votes=votes))
    roster = SimpleNamespace(seats={seat: SimpleNamespace(key=key) for seat, key in keys.items()}, needed=needed)
    return graph, ballots, roster


def stands_by_hand(graph, ballots, roster):
    """The rules of `standing`, with sets: all that is certain, then all that is certain given that, and so on."""
    behind, by_digest = closure(graph), {ballot.digest: ballot for ballot in ballots}
    ahead = {one: {other for other in by_digest if one in behind[other]} for one in by_digest}
    takes = {d: b.question.seat for d, b in by_digest.items() if isinstance(b.question, Rotate | Remove)}
    against = {
        d: {t for t, seat in takes.items() if seat in b.votes and t != d and t not in behind[d] and d not in behind[t]}
        for d, b in by_digest.items()
    }
    exempt = {d for d, b in by_digest.items() if isinstance(b.question, Open | Extend) or not against[d]}

    def votes_left(d, strikers):
        return len(by_digest[d].votes) - len({takes[t] for t in against[d] & strikers})

    stand, out = set(exempt), set()
    while True:
        stand |= {*chain(*(behind[d] for d in stand))}
        for d in by_digest.keys() - stand - out:
            if votes_left(d, by_digest.keys() - out) >= roster.needed:
                stand.add(d)
                break
            if votes_left(d, stand) < roster.needed and ahead[d] <= out:
                out.add(d)
                break
        else:
            undecided = takes.keys() - stand - out
            if not undecided:
                return out
            stand |= undecided


def test_what_stands_follows_from_the_rules():
    fell = 0
    for seed in range(700):
        graph, ballots, roster = made_up(seed)
        expected = stands_by_hand(graph, ballots, roster)
        assert fallen(ballots, lambda motion, roster=roster: roster) == expected, seed
        fell += bool(expected)
    assert fell > 50


# ---- rosters


def admitted(roster=FOUNDED, name="new", key=MEMBERS[5].public, digest=D[0]):
    return roster.after(Admit(name, key), digest, roster)


def test_a_founded_roster_is_the_charters():
    assert FOUNDED.seats == {f"agent {n}": Seat(f"agent {n}", (MEMBERS[n].public,), bytes(32), True) for n in range(5)}
    assert (FOUNDED.rules, FOUNDED.limits, FOUNDED.disclosure) == (CHARTER.rules, CHARTER.limits, "")
    assert (FOUNDED.opened, FOUNDED.words, FOUNDED.overruled, FOUNDED.shows) == (bytes(32), {}, frozenset(), ())
    assert replace(FOUNDED, overruled=frozenset({b"x"})) == FOUNDED
    for agreement, needed in ((0.5, 3), (0.6, 4), (0.79, 4), (0.8, 5), (0.99, 5)):
        assert replace(FOUNDED, rules=Rules(agreement=agreement)).needed == needed


def test_a_member_is_added_once_and_may_come_back_under_any_key_of_its_own():
    added = admitted()
    assert added.seats["new"] == Seat("new", (MEMBERS[5].public,), D[0])
    assert [*added.seats] == sorted(added.seats)
    assert added.sitting["new"] == MEMBERS[5].id
    assert admitted(added, key=MEMBERS[6].public) is None, "it is there"
    assert admitted(name="other", key=MEMBERS[1].public) is None, "another one's key"
    assert admitted(replace(FOUNDED, void=frozenset({MEMBERS[5].id}))) is None
    assert admitted(replace(FOUNDED, limits=Limits(members=5))) is None
    assert admitted(replace(FOUNDED, limits=Limits(members=6))) is not None
    gone = added.after(Remove("new"), D[1], added)
    assert gone.seats["new"] == replace(added.seats["new"], present=False)
    assert "new" not in gone.sitting
    back = admitted(gone, key=MEMBERS[6].public, digest=D[2])
    assert back.seats["new"] == Seat("new", (MEMBERS[5].public, MEMBERS[6].public), D[2])
    assert back.seats["new"].key == MEMBERS[6].public
    assert admitted(gone, digest=D[2]).seats["new"].keys == (MEMBERS[5].public,)
    assert admitted(gone, name="other") is None, "a key stays its seat's"


def test_somebody_always_sits():
    alone = FOUNDED
    for number in range(1, 5):
        alone = alone.after(Remove(f"agent {number}"), D[number], FOUNDED)
    assert [*alone.sitting] == ["agent 0"]
    assert alone.after(Remove("agent 0"), D[5], FOUNDED) is None
    excluded = replace(FOUNDED, void=frozenset(member.id for member in MEMBERS[1:5]))
    assert [*excluded.sitting] == ["agent 0"]
    assert excluded.after(Remove("agent 0"), D[5], FOUNDED) is None
    assert excluded.after(Remove("agent 1"), D[5], FOUNDED) is not None, "who is excluded may be removed as well"
    two = replace(FOUNDED, void=frozenset(member.id for member in MEMBERS[2:5]))
    assert two.after(Remove("agent 0"), D[5], FOUNDED).sitting.keys() == {"agent 1"}


def test_a_resolution_has_an_effect_only_on_what_is_as_it_was():
    removed = FOUNDED.after(Remove("agent 1"), D[0], FOUNDED)
    back = removed.after(Admit("agent 1", MEMBERS[1].public), D[1], removed)
    for question in (Remove("agent 1"), Rotate("agent 1", MEMBERS[5].public)):
        assert removed.after(question, D[2], FOUNDED) is None, "it is gone"
        assert FOUNDED.after(question, D[2], removed) is None, "it was not there"
        assert back.after(question, D[2], FOUNDED) is None, "it has another seat now"
        assert back.after(question, D[2], back) is not None
        assert (
            FOUNDED.after(type(question)("nobody", *([b"k"] if isinstance(question, Rotate) else [])), D[2], FOUNDED)
            is None
        )
    rotated = FOUNDED.after(Rotate("agent 1", MEMBERS[5].public), D[0], FOUNDED)
    assert rotated.seats["agent 1"].keys == (MEMBERS[1].public, MEMBERS[5].public)
    assert rotated.after(Rotate("agent 1", MEMBERS[6].public), D[2], FOUNDED) is None, "another key came first"
    assert rotated.after(Rotate("agent 1", MEMBERS[6].public), D[2], rotated) is not None
    assert rotated.after(Remove("agent 1"), D[2], FOUNDED) is not None, "a removal is about the seat"
    for known in (MEMBERS[1], MEMBERS[2]):
        assert FOUNDED.after(Rotate("agent 1", known.public), D[2], FOUNDED) is None, "the key is somebody's"


def test_rules_change_if_they_are_as_they_were_and_can_be():
    rules, limits = Rules(agreement=0.7), Limits(members=5)
    changed = FOUNDED.after(Amend(rules, limits, "text"), D[0], FOUNDED)
    assert (changed.rules, changed.limits, changed.disclosure) == (rules, limits, "text")
    assert changed.after(Amend(Rules(agreement=0.8), limits, "text"), D[1], FOUNDED) is None
    assert FOUNDED.after(Amend(FOUNDED.rules, FOUNDED.limits, ""), D[1], FOUNDED) is None, "nothing changes"
    for each in (
        Amend(rules, FOUNDED.limits, ""),
        Amend(FOUNDED.rules, limits, ""),
        Amend(FOUNDED.rules, FOUNDED.limits, "x"),
    ):
        assert FOUNDED.after(each, D[1], FOUNDED) is not None
    assert FOUNDED.after(Amend(rules, Limits(members=4)), D[1], FOUNDED) is None, "five are there"
    auto = Amend(Rules(components="auto"), FOUNDED.limits)
    opened = replace(FOUNDED, opened=D[7])
    assert FOUNDED.after(auto, D[1], FOUNDED) is not None
    assert opened.after(auto, D[1], opened) is None, "an epoch's prior has the model's slots"
    assert opened.after(Amend(rules, FOUNDED.limits), D[1], opened) is not None


def test_epochs_words_and_what_is_shown():
    parts = (Part("agent 1", ("s",), 3, 3), Part("agent 2", ("t", "u"), 3, 3))
    opened = FOUNDED.after(Open(parts, (), bytes(32)), D[0], FOUNDED)
    assert (opened.opened, opened.parts) == (D[0], parts)
    assert opened.counted == {"agent 1": {"s"}, "agent 2": {"t", "u"}}
    assert opened.after(Remove("agent 2"), D[1], opened).counted == {"agent 1": {"s"}}
    assert opened.after(Open(parts, (), bytes(32)), D[1], FOUNDED) is None, "another epoch came first"
    auto = replace(FOUNDED, rules=Rules(components="auto"))
    assert auto.after(Open(parts, (), bytes(32)), D[1], auto) is None
    words = FOUNDED.after(Extend(("b",)), D[1], FOUNDED).after(Extend(("a",)), D[2], FOUNDED)
    assert words.words == {D[1]: ("b",), D[2]: ("a",)}
    one, more, other = Show(D[3], 1, ("a", "b")), Show(D[4], 2, ("a", "b")), Show(D[3], 1, ("a",))
    shown = FOUNDED.after(one, D[5], FOUNDED)
    assert shown.shows == (one,)
    assert shown.after(one, D[6], FOUNDED) is None
    assert shown.after(other, D[6], FOUNDED) is None, "two sets would show more"
    assert shown.after(more, D[6], FOUNDED).shows == (one, more)


def test_records_count_under_the_newest_key_that_is_known():
    roster = FOUNDED.after(Rotate("agent 1", MEMBERS[5].public), D[0], FOUNDED)
    old, new, other = MEMBERS[1].id, MEMBERS[5].id, MEMBERS[2].id
    assert [roster.called(key) for key in (old, new, MEMBERS[8].id)] == ["agent 1", "agent 1", short(MEMBERS[8].id)]
    assert [roster.sits(key) for key in (old, new, other, MEMBERS[8].id)] == [False, True, True, False]
    assert [roster.newest("agent 1", known) for known in ({old}, {old, new}, {new}, {other})] == [old, new, new, None]
    assert [roster.counts(old, known) for known in ({old}, {old, new})] == [True, False]
    assert roster.counts(new, {old, new})
    assert not roster.counts(MEMBERS[8].id, {MEMBERS[8].id})
    assert not roster.counts(new, {old})
    gone = roster.after(Remove("agent 1"), D[1], roster)
    assert not gone.counts(new, {new})
    void = replace(roster, void=frozenset({new}))
    assert void.newest("agent 1", {old, new}) == old
    assert not void.counts(old, {old, new}), "its seat does not count any more"


def test_keys_of_resolutions_that_do_not_stand_are_known_and_do_not_count():
    wider = with_all_keys(
        FOUNDED,
        [
            Rotate("agent 1", MEMBERS[5].public),
            Admit("new", MEMBERS[6].public),
            Remove("agent 2"),
            Admit("x", MEMBERS[0].public),
        ],
    )
    assert wider.seats["agent 1"].keys == (MEMBERS[5].public, MEMBERS[1].public)
    assert wider.seats["new"] == Seat("new", (MEMBERS[6].public,), present=False)
    assert wider.sitting == FOUNDED.sitting
    assert "x" not in wider.seats
    assert with_all_keys(FOUNDED, [Remove("agent 2")]) is FOUNDED


# ---- ballots


def test_decisions_are_asked_for_by_digest_and_name():
    decisions = Decisions(CHARTER)
    few, enough = (
        ballot_on(Remove("agent 3"), some(2), CHARTER),
        ballot_on(Remove("agent 4"), some(3), CHARTER, number=2),
    )
    assert decisions.add(few)
    assert not decisions.add(few), "no news"
    assert decisions.needed(few.motion) == 3
    assert decisions.held(few.digest) == few
    assert decisions.named(few.name) == few
    assert decisions.named("") is None
    assert decisions.named("zz") is None
    pending = decisions.entries()
    assert pending == [(few.digest, votes_hash(few))]
    assert [decisions.wants(entry) for entry in (pending[0], (few.digest, D[0]), (D[1], D[0]))] == [False, True, True]
    before = decisions.root
    copied = decisions.copy()
    assert copied == decisions
    assert copied != 3
    assert decisions.add(enough)
    assert decisions.root != before
    assert copied != decisions
    assert decisions.held(enough.digest).settled
    assert decisions.held(few.digest) is None
    assert decisions.lapsed == [few]
    assert decisions.copy().root == decisions.root
    settled = decisions.entries()[0]
    assert not decisions.wants(settled)
    assert decisions.wants((settled[0], D[0]))
    assert not decisions.add(enough)
    more = Ballot(enough.motion, {"agent 3": sign_vote(enough.motion, "agent 3", MEMBERS[3], 5)})
    assert decisions.add(more)
    assert decisions.settled[enough.digest].votes.keys() == {*some(4)}
    assert decisions.wants(settled)
    again = ballot_on(Remove("agent 4"), some(1), CHARTER, number=9)
    assert decisions.decided_since(again)
    assert not decisions.decided_since(ballot_on(Remove("agent 3"), some(1), CHARTER, number=9))
    assert not decisions.decided_since(ballot_on(Remove("agent 4"), some(1), CHARTER, [enough], number=9))
    assert not decisions.decided_since(ballot_on(Remove("agent 4"), some(1), CHARTER, [few], number=9))
    later = ballot_on(Remove("agent 3"), some(1), CHARTER, number=10)
    assert not decisions.add(later), "put under a version that is not the present one"
    assert not decisions.pending
    assert decisions.motion(Remove("agent 3")) == Motion(
        later.motion.protocol, CHARTER.id, (enough.digest,), Remove("agent 3")
    )
    proof = Proof(*(sign_vote(each.motion, "agent 0", MEMBERS[0], 7) for each in (few, enough)))
    assert decisions.exclude(proof)
    assert not decisions.exclude(proof)
    joined = Decisions(CHARTER)
    joined.union(decisions)
    assert joined == decisions
    assert joined.roster.sitting.keys() == {"agent 1", "agent 2", "agent 3"}


def test_the_lowest_of_two_votes_of_a_seat_is_kept():
    motion = motion_on(Remove("agent 3"), CHARTER.id, ())
    one, two = (Ballot(motion, {"agent 0": sign_vote(motion, "agent 0", MEMBERS[0], n)}) for n in (4, 2))
    for first, second in ((one, two), (two, one)):
        assert first.joined(second).votes["agent 0"].number == 2
    assert one.joined(Ballot(motion, {"agent 1": sign_vote(motion, "agent 1", MEMBERS[1], 1)})).votes.keys() == {
        *some(2)
    }


def test_of_pending_votes_for_epochs_each_voters_newest_counts():
    parts = [(Part("agent 0", (f"s{n}",), n, n),) for n in (1, 2)]
    made = [
        ballot_on(Open(p, (), bytes(32)), some(count), CHARTER, number=n)
        for n, (p, count) in enumerate(zip(parts, (2, 1), strict=True), 1)
    ]
    for order in (made, made[::-1]):
        decisions = Decisions(CHARTER)
        for ballot in order:
            decisions.add(ballot)
        assert decisions.pending[made[0].digest].votes.keys() == {"agent 1"}
        assert decisions.pending[made[1].digest].votes.keys() == {"agent 0"}
        again = ballot_on(Remove("agent 3"), some(1), CHARTER, number=1)
        decisions.add(again)
        assert not decisions.proofs, "a vote that was dropped is no proof against anybody"


HASHES = [bytes(32), 1, bytes(32)]


def refused(content, decisions=None):
    with pytest.raises(Refused) as error:
        open_ballot(content, decisions or Decisions(CHARTER))
    return error.value.reason


def test_ballots_are_taken_in_their_canonical_bytes_alone():
    decisions = Decisions(CHARTER)
    fine = ballot_on(Remove("agent 3"), some(2), CHARTER)
    assert open_ballot(fine.content, decisions) == fine
    assert refused(b"no ballot") == "envelope"
    assert refused(fine.content + b"\0") == "envelope"
    swapped = msgspec.msgpack.decode(fine.content)
    swapped[2] = swapped[2][::-1]
    assert refused(msgspec.msgpack.encode(swapped)) == "envelope"
    for after in ((D[1], D[0]), (D[0], D[0])):
        after = after if after[0] == after[1] else tuple(sorted(after, reverse=True))
        motion = motion_on(Remove("agent 3"), CHARTER.id, after)
        assert refused(Ballot(motion, {"agent 0": sign_vote(motion, "agent 0", MEMBERS[0], 1)}).content) == "envelope"
    other = Motion(99, CHARTER.id, (), Remove("agent 3"))
    assert refused(Ballot(other, {"agent 0": sign_vote(other, "agent 0", MEMBERS[0], 1)}).content) == "group"
    size = len(fine.content)
    for limit, reason in ((size - 1, "size"), (size, None)):
        narrow = Decisions(gaussian_charter(MEMBERS[:5], record_bytes=limit))
        if reason:
            assert refused(fine.content, narrow) == reason
        else:
            assert open_ballot(fine.content, narrow) == fine
    decisions.add(ballot_on(Remove("agent 3"), some(4), CHARTER))
    assert refused(fine.content, decisions) == "replay"
    assert refused(ballot_on(Remove("agent 3"), some(4), CHARTER).content, decisions) == "replay"
    assert open_ballot(ballot_on(Remove("agent 3"), SEATED, CHARTER).content, decisions).votes.keys() == {*SEATED}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"protocol": 99}, "envelope"), ({"group": "another"}, "envelope"), ({"motion": D[0]}, "envelope"),
        ({"number": 0}, "version"), ({"number": 2**63}, "version"), ({"number": 1}, None),
        ({"number": 2**63 - 1}, None),
    ],
)  # fmt: skip
def test_a_vote_is_for_this_motion_under_a_number(changed, reason):
    motion = motion_on(Remove("agent 3"), CHARTER.id, ())
    usual = sign_vote(motion, "agent 0", MEMBERS[0], 5)
    header = msgspec.structs.replace(usual.header, **changed)
    signature = MEMBERS[0].sign(hashlib.sha256(msgspec.msgpack.encode(header)).digest(), keys_module.VOTE)
    content = Ballot(motion, {"agent 0": type(usual)(header, signature)}).content
    if reason:
        assert refused(content) == reason
    else:
        assert open_ballot(content, Decisions(CHARTER)).votes["agent 0"].number == changed["number"]
    unsigned = Ballot(motion, {"agent 0": type(usual)(usual.header, bytes(64))}).content
    assert refused(unsigned) == "signature"


@pytest.mark.parametrize(
    "parts",
    [
        (), (("agent 1", "s", 1, 1), ("agent 0", "t", 1, 1)), (("agent 0", "s", 1, 1), ("agent 0", "t", 1, 1)),
        (("nobody", "s", 1, 1),), (("agent 0", "", 1, 1),), (("agent 0", "ts", 1, 1),), (("agent 0", "ss", 1, 1),),
        (("agent 0", "s", -1, 1),), (("agent 0", "s", 1, -1),),
    ],
)  # fmt: skip
def test_an_epoch_states_parts_of_seats_that_count_each_once(parts):
    question = Open(tuple(Part(seat, tuple(shards), *counts) for seat, shards, *counts in parts), (), bytes(32))
    with pytest.raises(Refused, match="parts of the prior"):
        check_opening(question, FOUNDED)
    everybody = Open(tuple(Part(seat, ("s", "t"), 0, 0) for seat in FOUNDED.sitting), (), bytes(32))
    check_opening(everybody, FOUNDED)


def test_an_epoch_forgets_no_shard_of_the_prior():
    before = FOUNDED.after(Open((Part("agent 1", ("s", "t"), 3, 3),), (), bytes(32)), D[0], FOUNDED)
    for shards, fine in ((("s", "t"), True), (("r", "s", "t"), True), (("s",), False), (("r",), False)):
        question = Open((Part("agent 1", shards, 3, 3),), (), bytes(32))
        if fine:
            check_opening(question, before)
        else:
            with pytest.raises(Refused, match="missing from the next one"):
                check_opening(question, before)
    with pytest.raises(Refused, match="missing from the next one"):
        check_opening(Open((Part("agent 0", ("s",), 3, 3),), (), bytes(32)), before)


def test_questions_that_the_group_cannot_be_asked():
    sums = summing_charter(identities(SEATS))
    members = seated(sums, identities(SEATS)[:1])
    (first, second, *_) = sorted(sums.members)
    shown = Decisions(sums)
    for seats, fine in (
        ((first, second), True),
        (tuple(sorted(sums.members)), True),
        ((second, first), False),
        ((first, first), False),
        (("x",), False),
    ):
        content = ballot_on(Show(D[0], 1, seats), members, sums).content
        if fine:
            assert open_ballot(content, shown).question.seats == seats
        else:
            assert refused(content, shown) == "decision"
    assert refused(ballot_on(Show(D[0], 1, ("agent 1",)), some(1), CHARTER).content) == "decision"
    assert refused(ballot_on(Extend(("word",)), members, sums).content, shown) == "decision"
    rows, body = opening([Part(first, ("s",), 1, 1)], {first: db.Posterior.of_prior(sums.model.structure)}, ())
    assert refused(ballot_on(rows, members, sums, body=body).content, shown) == "decision"
    narrow = Amend(Rules(agreement=0.7), Limits(members=5))
    assert open_ballot(ballot_on(narrow, some(1), CHARTER).content, Decisions(CHARTER)).question == narrow


@pytest.mark.parametrize(
    ("kind", "short", "fine", "long"),
    [
        (Remove, [""], ["x"], ["x" * 257]),
        (Remove, [""], ["x" * 256], ["x" * 257]),
        (Admit, ["x", bytes(31)], ["x", bytes(32)], ["x", bytes(33)]),
        (Rotate, ["x", bytes(31)], ["x", bytes(32)], ["x", bytes(33)]),
        (Extend, [[""]], [["x" * 256]], [["x" * 257]]),
        (Part, ["x", [""], 1, 1], ["x", ["s" * 64], 1, 1], ["x", ["s" * 65], 1, 1]),
        (Open, [[], [], bytes(31)], [[], ["i" * 16], bytes(32)], [[], ["i" * 17], bytes(32)]),
        (Open, [[], [], bytes(31)], [[], [""], bytes(32)], [[], [], bytes(33)]),
        (Show, [bytes(32), 1, []], [bytes(32), 1, ["x"] * 4096], [bytes(32), 1, ["x"] * 4097]),
        (VoteHeader, [3, "", "", *HASHES], [3, "g" * 64, "s", *HASHES], [3, "g" * 65, "s", *HASHES]),
    ],
)  # fmt: skip
def test_what_is_decided_has_a_size(kind, short, fine, long):
    tag = kind.__struct_config__.tag
    head = [] if tag is None else [tag]
    assert isinstance(msgspec.convert([*head, *fine], kind, strict=True), kind)
    for wrong in (short, long):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert([*head, *wrong], kind, strict=True)


def test_a_motion_comes_after_no_more_than_somebody_could_have_settled():
    for count, fine in ((4096, True), (4097, False)):
        plain = [3, "g" * 64, [bytes(32)] * count, ["remove", "x"]]
        if fine:
            assert len(msgspec.convert(plain, Motion).after) == count
        else:
            with pytest.raises(msgspec.ValidationError):
                msgspec.convert(plain, Motion)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert([3, "g" * 65, [], ["remove", "x"]], Motion)


# ---- the prior of an epoch

MODEL = CHARTER.model
PARTS = {f"agent {n}": MODEL.fit(np.full(n + 1, float(n))).posterior for n in range(3)}
ROWS = [Part(seat, (f"shard {seat}",), n + 1, 2 * n + 2) for n, seat in enumerate(PARTS)]


def test_an_opening_is_its_parts_in_the_order_of_seats():
    question, body = opening(ROWS[::-1], PARTS, ("a",))
    assert question == Open(tuple(ROWS), ("a",), hashlib.sha256(body).digest())
    again = read_parts(question, body, MODEL.structure)
    assert [*again] == [*PARTS]
    assert again == PARTS
    with pytest.raises(Refused, match="not the one that was voted on"):
        read_parts(question, body + b" ", MODEL.structure)


def body_with(arrays):
    from decbayes.base.tensors import write_arrays

    body = write_arrays(arrays)
    return Open(tuple(ROWS[:1]), (), hashlib.sha256(body).digest()), body


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"0/contribution/mean/data": np.array([[1.0, -0.5]])}, None),
        ({"0/contribution/mean/data": np.array([[1.0, -0.5]], dtype=np.float32)}, "shape"),
        ({"0/contribution/mean/data": np.array([[1.0, -0.5, 0.0]])}, "shape"),
        ({"0/contribution/mean/data": np.array([[np.nan, -0.5]])}, "shape"),
        ({"0/contribution/mean/data": np.array([[np.inf, -0.5]])}, "shape"),
        ({"1/contribution/mean/data": np.array([[1.0, -0.5]])}, "shape"),
        ({}, "shape"),
        (
            {"0/contribution/mean/data": np.array([[1.0, -0.5]]), "1/contribution/mean/data": np.array([[1.0, -0.5]])},
            "shape",
        ),
        ({"0/contribution/mean/data": np.array([[1.0, 9.0]])}, "shape"),
    ],
)
def test_bodies_hold_finite_parts_of_the_agreed_shape(arrays, reason):
    question, body = body_with(arrays)
    if reason is None:
        (part,) = read_parts(question, body, MODEL.structure).values()
        assert part.contribution["mean"].tolist() == [[1.0, -0.5]]
    else:
        with pytest.raises(Refused) as error:
            read_parts(question, body, MODEL.structure)
        assert error.value.reason == reason


def test_parts_are_proper_whoever_is_removed_later():
    """λ0 has a precision of 1/4, as −1/8: a part may take away half of it beside none like it, and not beside two."""
    prior = MODEL.structure.prior["mean"]
    half = db.Posterior(MODEL.structure, {"mean": np.array([[0.0, -0.5 * prior[0, 1]]])})
    fine = PARTS["agent 2"]
    check_proper([half], MODEL.structure)
    check_proper([fine, fine, fine], MODEL.structure)
    for parts in ([half, fine], [fine, half, fine]):
        with pytest.raises(Refused, match="beside others like it"):
            check_proper(parts, MODEL.structure)


def test_the_prior_in_force_is_of_the_seats_that_count():
    question, _ = opening(ROWS, PARTS, ())
    epoch = epoch_of(question, PARTS, ["agent 0", "agent 2", "agent 9"], MODEL.structure)
    expected = PARTS["agent 0"].contribution["mean"] + PARTS["agent 2"].contribution["mean"]
    np.testing.assert_allclose(epoch.prior.contribution["mean"], expected)
    assert epoch.counted == {"agent 0": ("shard agent 0",), "agent 2": ("shard agent 2",)}
    assert epoch.observations == 1 + 3
    nobody = epoch_of(question, PARTS, [], MODEL.structure)
    assert nobody.prior == db.Posterior.of_prior(MODEL.structure)


@pytest.mark.parametrize(("forgetting", "left"), [(None, 1.0), (0.0, 1.0), (0.25, 0.75)])
def test_forgetting_scales_all_parts_alike(forgetting, left):
    earlier = {seat: PARTS[seat] for seat in ("agent 0", "agent 1")}
    added = {seat: PARTS[seat] for seat in ("agent 1", "agent 2")}
    found = after_forgetting(CHARTER, earlier, added, forgetting)
    assert [*found] == ["agent 0", "agent 1", "agent 2"]
    for seat, part in found.items():
        expected = sum(left * parts[seat].contribution["mean"] for parts in (earlier, added) if seat in parts)
        np.testing.assert_allclose(part.contribution["mean"], expected)


def test_what_cannot_be_forgotten_is_said():
    with pytest.raises(InvalidCharter, match="leave --forgetting out"):
        after_forgetting(CHARTER, {}, PARTS, "learn")
    with pytest.raises(InvalidCharter):
        after_forgetting(CHARTER, PARTS, PARTS, 1.5)
    # Much that is new and unlike what was: hardly anything of that is kept, and all of what is new.
    far = {"agent 0": MODEL.fit(np.full(400, 60.0)).posterior}
    found = after_forgetting(CHARTER, PARTS, far, "learn")
    np.testing.assert_allclose(found["agent 0"].contribution["mean"], far["agent 0"].contribution["mean"], rtol=0.01)
    kept = found["agent 2"].contribution["mean"] / PARTS["agent 2"].contribution["mean"]
    assert (kept < 0.5).all()
    only_old = after_forgetting(CHARTER, PARTS, {}, "learn")
    np.testing.assert_allclose(
        only_old["agent 2"].contribution["mean"], PARTS["agent 2"].contribution["mean"], rtol=0.5
    )


# ---- questions from what people write


def proposed(kind, name="", key="", rules=None, limits=None, words=()):
    return SimpleNamespace(kind=kind, name=name, key=key, rules=rules or {}, limits=limits or {}, words=words)


def test_questions_are_what_people_write():
    key = MEMBERS[5].public
    assert question_of(proposed("add", "new", key.hex()), CHARTER) == Admit("new", key)
    assert question_of(proposed("remove", "agent 1"), CHARTER) == Remove("agent 1")
    assert question_of(proposed("rotate", "agent 1", key.hex()), CHARTER) == Rotate("agent 1", key)
    for wrong, why in (
        (proposed("add", "agent 1", key.hex()), "There is a member named 'agent 1' already"),
        (proposed("remove", "x"), "There is no member 'x'; the members are agent 0, agent 1"),
        (proposed("rotate", "x", key.hex()), "There is no member 'x'"),
        (proposed("dance"), "'dance' cannot be proposed"),
    ):
        with pytest.raises(InvalidCharter, match=why):
            question_of(wrong, CHARTER)


def test_rules_are_changed_by_name_and_the_others_stay():
    charter = replace(CHARTER, rules=Rules(agreement=0.6, robust=True), limits=Limits(members=50, shards=7))
    asked = proposed("rules", rules={"agreement": 0.7}, limits={"shards": 8})
    assert question_of(asked, charter) == Amend(Rules(agreement=0.7, robust=True), Limits(members=50, shards=8), "")
    guarded = replace(charter, disclosure=db.disclosure.Rules(most_levels=30))
    asked = proposed("rules", rules={"agreement": 0.7, "least_cell": 12})
    found = question_of(asked, guarded)
    assert found.rules == Rules(agreement=0.7, robust=True)
    assert msgspec.json.decode(found.disclosure) == db.disclosure.Rules(most_levels=30, least_cell=12).plain()
    for wrong, where in (
        (proposed("rules", rules={"least_cell": -1}), guarded), (proposed("rules", rules={"x": 1}), guarded),
        (proposed("rules", rules={"least_cell": 12}), charter), (proposed("rules", limits={"x": 1}), charter),
    ):  # fmt: skip
        with pytest.raises(InvalidCharter, match=r"^(rules|limits): "):
            question_of(wrong, where)
    assert rules_from({"share": 0.5}) == Rules(share=0.5)
    assert limits_from({"value": 2.0}) == Limits(value=2.0)


# ---- keys


def test_a_key_is_written_once_for_its_owner(tmp_path):
    one = Identity.from_seed(bytes(range(32)))
    assert one.secret == keys_module.keyed(bytes(range(32)), b"decbayes site secret")
    one.save(tmp_path / "a.key")
    assert (tmp_path / "a.key").stat().st_mode & 0o777 == 0o600
    again = Identity.load(tmp_path / "a.key")
    assert (again.public, again.secret, again.id) == (one.public, one.secret, hashlib.sha256(one.public).digest())
    later = Identity.generate(after=one)
    assert later.secret == one.secret
    assert later.public != one.public
    assert Identity.generate().secret != one.secret
    later.save(tmp_path / "b.key")
    assert Identity.load(tmp_path / "b.key").secret == one.secret
    with pytest.raises(FileExistsError):
        one.save(tmp_path / "a.key")
    (tmp_path / "c.key").write_bytes(b"no key")
    with pytest.raises(InvalidKey, match="not a private key"):
        Identity.load(tmp_path / "c.key")
    write_new(tmp_path / "public", b"x")
    assert (tmp_path / "public").stat().st_mode & 0o044 == 0o044
    assert short(D[0]) == D[0].hex()[:8]


def test_a_signature_is_for_one_purpose():
    one, digest = MEMBERS[0], D[0]
    signature = one.sign(digest)
    assert signed_by(one.public, digest, signature)
    assert not signed_by(one.public, digest, signature, keys_module.VOTE)
    assert signed_by(one.public, digest, one.sign(digest, keys_module.VOTE), keys_module.VOTE)
    assert not signed_by(one.public, D[1], signature)
    assert not signed_by(MEMBERS[1].public, digest, signature)
    for wrong in (b"", signature[:-1], signature + b"\0"):
        assert not signed_by(one.public, digest, wrong)
    assert len({*combinations((keys_module.PURPOSE, keys_module.LINK, keys_module.VOTE), 2)}) == 3
