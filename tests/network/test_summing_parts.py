"""What one member does about messages of sums that it hears, one by one: over whom it opens its part, and when."""

import hashlib
from dataclasses import replace

import pytest
from summing_listener import CHARTER, KEYS, VECTOR, Listener, key_for, sign_of, signed

from decbayes.errors import SumRefused
from decbayes.network import Admit, Remove, Show
from decbayes.network.protocol.sums import Participation, SumPart
from decbayes.network.protocol.sums.participation import HALF, LOST, OTHERS
from decbayes.secure import Message, Seat
from decbayes.secure.anchored import Share
from decbayes.secure.audit import about_shown
from decbayes.secure.terms import digest_of


class Taker(Listener):
    """The agent of the first member, with messages of the others."""

    def __init__(self):
        super().__init__()
        self.part = Participation(KEYS[0], self.sums)
        self.part.synced = True
        self.seats = {}

    def act(self):
        """What it does next, once it is stored: the kind of message, and how many members the sum has."""
        due = self.part.due()
        if due is None:
            stored = self.part.step(ready=True)
        else:
            stored = self.part.mask(due, Share.of_steps(CHARTER.model.structure, VECTOR, due.terms.step), ("data",))
        sent = [] if stored is None else self.part.written(stored)
        for packet in sent:
            self.hear(packet.message, packet.after)
        return [(packet.message.kind, len(stored.keys)) for packet in sent]

    def masked_by_all(self):
        """All have masked their numbers for the sum at hand, and nobody has opened a part."""
        chain = self.sums.now
        terms, after = chain.current.terms, self.decisions.version
        seats = {name: Seat.begun(terms, name, sign_of(name)) for name in terms.seats if name != "agent_0"}
        for kind, steps in (("key", None), ("masked", VECTOR)):
            if steps is not None:
                keys = chain.current.of("key")
                seats = {name: seat.masking(steps, keys, sign_of(name)) for name, seat in seats.items()}
            for seat in seats.values():
                self.hear(seat.sent[kind], after)
            assert self.act() == [(kind, len(terms.seats))]
        self.seats[chain.keys] = seats
        return chain

    def opens(self, chain, name, **changed):
        """Another member opens its part of a sum."""
        opening = self.seats[chain.keys][name].opening(chain.sums[0].of("masked"), sign_of(name)).sent["opening"]
        self.hear(signed(opening, **changed), chain.after)

    def is_back(self):
        return self.decide(Admit("agent_4", KEYS[4].public))


def masked_over_two_sets():
    """All have masked for all, and for all but one, who is back now."""
    taker = Taker()
    every = taker.masked_by_all()
    taker.decide(Remove("agent_4"))
    fewer = taker.masked_by_all()
    taker.is_back()
    assert taker.sums.now is every
    return taker, every, fewer


@pytest.mark.parametrize("order", [1, -1])
def test_a_round_is_opened_over_one_set_whatever_others_open(order):
    taker, _, fewer = masked_over_two_sets()
    assert taker.act() == [("opening", 5)]
    taker.opens(fewer, "agent_1")
    taker.sums.chains = dict([*taker.sums.chains.items()][::order])
    assert taker.act() == []
    taker.decide(Remove("agent_4"))
    assert taker.act() == []
    assert taker.part.why_not == HALF
    assert "agent_0" not in fewer.sums[0].messages["opening"]


def test_a_round_that_a_present_member_has_opened_comes_before_the_one_in_force():
    taker, every, fewer = masked_over_two_sets()
    taker.opens(fewer, "agent_1")
    assert taker.act() == [("opening", 4)]
    assert taker.act() == []
    for name in ("agent_2", "agent_3"):
        taker.opens(fewer, name)
    assert len(taker.sums.opened.keys) == 4
    assert taker.act() == []
    assert "agent_0" not in every.sums[0].messages["opening"]


@pytest.mark.parametrize(("seat", "changed"), [("agent_4", {}), ("agent_1", {"about": bytes(32)})])
def test_nobody_who_is_gone_or_has_opened_other_numbers_keeps_a_round_going(seat, changed):
    taker = Taker()
    every = taker.masked_by_all()
    taker.opens(every, seat, **changed)
    taker.decide(Remove("agent_4"))
    assert taker.act() == [("key", 4)]


def test_a_part_that_is_opened_before_all_have_masked_keeps_no_round_going():
    taker = Taker()
    every = taker.sums.now
    opening = Message("opening", every.current.terms.digest, "agent_1", bytes(32 * 5), digest_of({}))
    taker.hear(opening.signed(sign_of("agent_1")))
    taker.decide(Remove("agent_4"))
    assert taker.act() == [("key", 4)]


def test_only_sums_that_are_open_are_shown_once_enough_have_agreed():
    taker = Taker()
    every = taker.masked_by_all()
    one = every.sums[0]
    after = taker.decide(Show(one.terms.digest, 1, ("agent_0",)))
    assert [taker.act(), taker.act()] == [[("opening", 5)], []], "it is not open"
    assert taker.refused(consent_of(taker, "agent_1"), after) == "ahead"
    for name in ("agent_1", "agent_2", "agent_3"):
        taker.opens(every, name)
    assert [taker.act(), taker.act()] == [[("key", 5)], [("consent", 5)]]
    for name in ("agent_1", "agent_2"):
        taker.hear(consent_of(taker, name), after)
        assert taker.act() == []
    taker.hear(consent_of(taker, "agent_3"), after)
    assert taker.act() == [("shown", 5)]
    assert taker.act() == []
    (found,) = taker.sums.audited()
    assert found.share.steps(one.terms.step).tolist() == VECTOR.tolist()
    false = Message("shown", one.terms.digest, "agent_1", bytes(range(32)), bytes(32)).signed(sign_of("agent_1"))
    assert taker.refused(false, after) == "sum"


def consent_of(taker, name):
    one = taker.sums.now.sums[0]
    about = about_shown(one.terms, one.of("masked"), ["agent_0"])
    return Message("consent", one.terms.digest, name, b"", about).signed(sign_of(name))


def test_numbers_for_another_sum_are_not_masked():
    taker = Taker()
    assert taker.act() == [("key", 5)]
    terms = taker.sums.now.current.terms
    for name in [*terms.seats][1:]:
        taker.hear(key_for(terms, name))
    due = taker.part.due()
    share = Share.of_steps(CHARTER.model.structure, VECTOR, terms.step)
    assert taker.part.mask(replace(due, terms=replace(terms, round=2)), share, ()) is None
    stored = taker.part.mask(due, share, ("data",))
    taker.part.written(*taker.part._parts.values())
    assert taker.part.due() is None, "its key is stored, and these are being written"
    assert taker.part.mask(due, share, ("data",)) is None
    assert taker.part.step(ready=True) is None
    assert [packet.message.kind for packet in taker.part.written(stored)] == ["masked"]


def test_what_a_store_keeps_of_a_version_that_is_not_known_yet_is_not_sent():
    assert Taker().part.restore(SumPart((bytes(32),), bytes(32), 1, (), b"")) == []


def test_a_member_without_its_store_begins_nothing_over_others_once_it_is_known_to_have_opened():
    taker = Taker()
    opening = Message("opening", taker.sums.now.current.terms.digest, "agent_0", bytes(32 * 5), bytes(32))
    taker.hear(opening.signed(sign_of("agent_0")))
    taker.decide(Remove("agent_4"))
    assert taker.act() == []
    assert taker.part.why_not == LOST


def test_a_key_is_made_once():
    taker = Taker()
    assert taker.part.step(ready=False) is None, "it has no data"
    stored = taker.part.step(ready=True)
    assert taker.part.step(ready=True) is None, "it is being written"
    (packet,) = taker.part.written(stored)
    assert taker.part.step(ready=True) is stored, "it was stored and not sent"
    assert taker.part.written(stored) == [packet]
    taker.hear(packet.message)
    assert taker.part.step(ready=True) is None
    assert taker.part.written(stored) == []


def test_a_member_that_has_not_heard_of_the_sums_it_has_opened_begins_none_of_them_again():
    taker = Taker()
    every, after = taker.sums.now.keys, taker.decide(Remove("agent_4"))
    for number, keys in ((1, every), (2, taker.sums.now.keys)):
        taker.part.restore(SumPart(after, bytes([number] * 32), number, keys, b"", opened=True))
    assert taker.act() == []
    assert taker.part.why_not == OTHERS


def test_a_sum_says_how_far_each_member_is_and_what_is_open():
    taker = Taker()
    sums = taker.sums
    assert [sums.state_of(name) for name in ("agent_0", "nobody")] == ["not heard of", "not adding up"]
    assert taker.act() == [("key", 5)]
    assert sums.state_of("agent_0") == "key sent"
    assert (sums.opened, sums.merged, sums.up_to(bytes(32))) == (None, None, None)
    with pytest.raises(SumRefused, match="there is nothing to show"):
        sums.to_show(["agent_0"])
    taker = Taker()
    sums, every = taker.sums, taker.masked_by_all()
    assert sums.state_of("agent_1") == "masked"
    about = sums.describe()
    assert (about["opened"], about["round"], about["waiting_for"]) == (0, 1, "opening")
    assert about["missing"] == [f"agent_{n}" for n in range(5)]
    assert (about["why_not"], "members" in about, "audit" in about) == ("", False, False)
    assert taker.act() == [("opening", 5)]
    assert sums.state_of("agent_0") == "opened"
    for name in ("agent_1", "agent_2", "agent_3"):
        taker.opens(every, name)
    one = every.sums[0]
    assert sums.opened is every
    assert sums.merged is every.results[-1]
    assert sums.up_to(one.terms.digest) == (every, [one])
    assert sums.state_of("agent_0") == "not heard of", "in the next round"
    about = sums.describe()
    assert (about["opened"], about["round"], about["waiting_for"], len(about["members"])) == (1, 2, "key", 5)
    assert about["rows"] == every.results[-1].share.rows
    assert sums.to_show([]) == Show(one.terms.digest, 1, tuple(f"agent_{n}" for n in range(5)))
    assert sums.to_show(["agent_1"], 1).seats == ("agent_1",)
    for wrong, number in ((["agent_1"], 2), (["agent_1", "agent_2", "agent_3"], 1)):
        with pytest.raises(SumRefused):
            sums.to_show(wrong, number)
    assert [*sums.in_order()] == [message.digest for kind in one.by_kind.values() for message in kind.values()]
    assert sums.entries() == sorted(sums.in_order())
    assert sums.root == hashlib.sha256(b"".join(sums.entries())).digest()
    own = taker.part.own_share(one.terms.digest)
    assert own.steps(one.terms.step).tolist() == VECTOR.tolist()
    with pytest.raises(SumRefused, match="not open here"):
        taker.part.own_share(bytes(32))
    assert taker.part.shards == ("data",)
