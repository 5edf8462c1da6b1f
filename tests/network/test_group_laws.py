"""What a group decides, piece by piece: orders, rosters, and what stands."""

import hashlib
import random
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

from groups import gaussian_charter, identities, seated

from decbayes.network import Admit, Amend, Extend, Limits, Remove, Rotate, Rules
from decbayes.network.protocol.group.keys import short
from decbayes.network.protocol.group.motions import Open, PriorPart, Show, motion_on
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
    parts = (PriorPart("agent 1", ("s",), 3, 3), PriorPart("agent 2", ("t", "u"), 3, 3))
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
