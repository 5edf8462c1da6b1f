"""Messages of sums, one by one: which sum each belongs to, what is refused, and which of two that contradict stays."""

import msgspec
import pytest
from groups import identities
from summing_groups import SEATS
from summing_listener import CHARTER, KEYS, Listener, key_for, played, sign_of, signed

from decbayes.errors import Refused
from decbayes.network import Admit, Remove, Rotate
from decbayes.network.protocol.sums import Packet, group_sums
from decbayes.network.protocol.sums.chains import better, opens, signed_message
from decbayes.secure import Agreement, Message
from decbayes.secure.gathered import Gathered


def opened_by_all(count):
    """Some rounds are open over all; then one member is removed."""
    listener = Listener()
    for _ in range(count):
        listener.open(listener.sums.now.current.terms)
    return listener, listener.sums.now, listener.decide(Remove("agent_4"))


# ---- which sum a message belongs to


@pytest.mark.parametrize("known", [0, 1, 2])
def test_a_message_of_somebody_who_knew_fewer_open_sums_is_understood(known):
    listener, all_of_them, after = opened_by_all(3)
    fewer = listener.sums.now
    terms = fewer.agreement.next_terms(all_of_them.results[:known])
    chain, gathered = listener.sums.about(after, terms.digest)
    assert chain is not fewer
    assert gathered is chain.current
    assert (gathered.number, chain.inherited, chain.results) == (known + 1, known, all_of_them.results[:known])
    assert listener.hear(key_for(terms), after) is None
    assert [*gathered.messages["key"]] == ["agent_0"]
    assert listener.sums.about(after, terms.digest) == (chain, gathered)
    assert listener.sums.now is fewer, "most rounds decide"
    assert sorted(listener.sums.in_order()) == listener.sums.entries(), "each is told once"


def test_sums_after_fewer_open_ones_go_on_by_themselves():
    listener, all_of_them, after = opened_by_all(2)
    early = listener.sums.now.agreement.next_terms(all_of_them.results[:1])
    listener.open(early, after)
    chain, _ = listener.sums.about(after, early.digest)
    assert (len(chain.results), chain.inherited) == (2, 1)
    assert listener.sums.about(after, chain.current.terms.digest) == (chain, chain.current)
    gone = Message("key", chain.current.terms.digest, "agent_4", bytes(32)).signed(sign_of("agent_4"))
    assert listener.refused(gone, after) == "sum"


def test_a_sum_that_was_opened_over_more_is_not_one_over_fewer():
    listener, all_of_them, after = opened_by_all(2)
    terms = all_of_them.sums[1].terms
    assert listener.sums.about((), terms.digest) == (all_of_them, all_of_them.sums[1])
    assert listener.sums.about(after, terms.digest) == (listener.sums.now, None)
    assert listener.refused(key_for(terms), after) == "ahead"
    assert listener.sums.about(after, bytes(32)) == (listener.sums.now, None)
    assert all_of_them.begun
    assert not listener.sums.now.begun


def test_versions_with_the_same_seats_have_the_same_sums():
    listener = Listener()
    first = listener.sums.now
    listener.decide(Remove("agent_4"))
    again = listener.decide(Admit("agent_4", KEYS[4].public))
    chain, packet = listener.sums.open_packet(Packet(again, key_for(first.current.terms)).content)
    assert chain is first
    assert packet.after == ()


def test_of_sums_over_different_members_the_same_one_counts_whichever_was_heard_first():
    def counted(*order):
        listener, versions = Listener(), {}
        for seat in ("agent_3", "agent_4"):
            versions[seat] = listener.decide(Remove(seat))
            listener.decide(Admit(seat, KEYS[int(seat[-1])].public))
        for seat in order:
            listener.open(listener.sums.chain(versions[seat]).current.terms, versions[seat])
        return listener.sums.opened.keys

    assert counted("agent_3", "agent_4") == counted("agent_4", "agent_3")


# ---- what is refused


def test_a_version_has_one_name():
    listener = Listener()
    first, second = listener.decide(Remove("agent_3"))[0], listener.decide(Remove("agent_4"))[0]
    low, high = sorted([first, second])
    assert listener.sums.knows((low, high))
    assert not listener.sums.knows((high, low))
    assert not listener.sums.knows((low, low))
    assert not listener.sums.knows((bytes(32),))


def test_messages_that_are_too_long_known_or_too_early_are_refused():
    listener = Listener()
    terms, limit = listener.sums.now.current.terms, CHARTER.limits.record_bytes
    for size, reason in ((limit, "envelope"), (limit + 1, "size")):
        with pytest.raises(Refused) as caught:
            listener.sums.open_packet(bytes(size))
        assert caught.value.reason == reason
    consent = Message("consent", terms.digest, "agent_0", b"", bytes(32)).signed(sign_of("agent_0"))
    assert listener.refused(consent) == "ahead", "a sum that is not open"
    key = key_for(terms)
    assert listener.refused(key, (bytes(32),)) == "ahead"
    chain, packet = listener.sums.open_packet(Packet((), key).content)
    for _ in range(2):
        assert listener.sums.add(chain, packet, listener.decisions.roster) is None, "it does not contradict itself"
    assert listener.refused(key) == "replay"


def test_sums_over_many_sets_of_members_that_nobody_has_begun_are_forgotten(monkeypatch):
    monkeypatch.setattr(group_sums, "MOST_CHAINS", 2)
    listener = Listener()
    first = listener.sums.now
    listener.hear(key_for(first.current.terms))
    after = listener.decide(Remove("agent_3"))
    second = listener.sums.now
    assert listener.refused(key_for(second.current.terms), after) == "budget"
    listener.hear(key_for(first.current.terms, "agent_1"))
    listener.decide(Remove("agent_4"))
    third = listener.sums.now
    assert [*listener.sums.chains.values()] == [first, third]


# ---- which of two stays


def two_keys(terms, seat="agent_4"):
    return sorted([key_for(terms, seat), key_for(terms, seat)], key=lambda message: message.digest)


def test_of_two_keys_the_same_one_stays_everywhere_and_both_are_a_proof():
    terms = Listener().sums.now.current.terms
    pair, found = two_keys(terms), set()
    for order in (pair, pair[::-1]):
        listener = Listener()
        listener.hear(key_for(terms))
        assert listener.hear(order[0]) is None
        before = listener.sums.root
        proof = listener.hear(order[1])
        assert proof.origin == KEYS[4].id
        assert (listener.sums.root == before) == (order is pair)
        assert listener.sums.holds(pair[0].digest)
        assert not listener.sums.holds(pair[1].digest)
        assert len(listener.sums.entries()) == 2
        found |= {listener.sums.now.current.messages["key"]["agent_4"].digest}
    assert found == {pair[0].digest}


def whole():
    """A sum with all its messages but the openings, and those."""
    terms = Listener().sums.now.current.terms
    messages = played(terms)
    gathered = Gathered(terms)
    for kind in ("key", "masked"):
        gathered.messages[kind] = {message.seat: message for message in messages[kind]}
    return gathered, {message.seat: message for message in messages["opening"]}


def higher_and_lower(message, **changed):
    """Two others of the same kind, one with a higher digest and one with a lower one."""
    found = {}
    for number in range(64):
        name, length = next(iter(changed.items()))
        other = signed(message, **{name: number.to_bytes(length, "big")})
        found[other.digest > message.digest] = other
    return found[True], found[False]


def test_masked_numbers_that_others_have_opened_stay():
    gathered, openings = whole()
    mine = gathered.messages["masked"]["agent_4"]
    others = higher_and_lower(mine, commitment=32)
    for opened in ([], ["agent_4"]):
        gathered.messages["opening"] = {seat: openings[seat] for seat in opened}
        assert [better(gathered, mine, other) for other in others] == [True, False], "a member's own word is not enough"
        assert [better(gathered, other, mine) for other in others] == [False, True]
    gathered.messages["opening"] = {"agent_0": openings["agent_0"]}
    for other in others:
        assert better(gathered, mine, other)
        assert not better(gathered, other, mine)
        gathered.messages["masked"]["agent_4"] = other
        assert better(gathered, mine, other)
        assert not better(gathered, other, mine)


@pytest.mark.parametrize("wrong", ["body", "about"])
def test_the_opening_that_fits_the_masked_numbers_stays(wrong):
    gathered, openings = whole()
    for other in higher_and_lower(openings["agent_4"], **{wrong: 32}):
        assert better(gathered, openings["agent_4"], other)
        assert not better(gathered, other, openings["agent_4"])
    assert not opens(gathered, gathered.messages["key"]["agent_4"])
    gathered.messages["masked"].pop("agent_4")
    assert not opens(gathered, openings["agent_4"])


def test_a_sum_that_cannot_be_opened_says_so_until_the_right_part_is_there():
    listener = Listener()
    messages = played(listener.sums.now.current.terms)
    rights = [messages["opening"].pop() for _ in range(2)]  # one that fits nothing counts as missing
    for message in sum(messages.values(), [signed(right, body=bytes(32 * SEATS)) for right in rights]):
        listener.hear(message)
    assert listener.sums.describe()["why_not"] == listener.sums.now.broken != ""
    assert listener.sums.merged is None
    assert listener.hear(rights[0]) is not None
    assert listener.sums.now.broken == ""
    assert listener.sums.describe()["opened"] == 1


@pytest.mark.parametrize("error", [ArithmeticError, ValueError])
def test_numbers_that_make_no_posterior_leave_a_sum_closed(error, monkeypatch):
    def fails(*_):
        raise error("made up")

    monkeypatch.setattr(Agreement, "result", fails)
    listener = Listener()
    listener.open(listener.sums.now.current.terms)
    assert listener.sums.now.broken == "made up"
    assert listener.sums.now.results == []


# ---- halves of a proof


def test_half_of_a_proof_is_what_a_key_of_the_seat_has_signed():
    listener = Listener()
    terms = listener.sums.now.current.terms
    key, other = two_keys(terms, "agent_0")
    listener.decide(Rotate("agent_0", identities(SEATS + 1)[-1].public))

    def half(message, content=None):
        return signed_message(content or message.header_bytes, message.signature, listener.decisions.roster)

    assert half(key).origin == KEYS[0].id, "the key that it had"
    assert half(key).only_once == half(other).only_once
    opening = Message("opening", terms.digest, "agent_0", bytes(32), bytes(32)).signed(sign_of("agent_0"))
    elsewhere = Message("key", bytes(32), "agent_0", bytes(32)).signed(sign_of("agent_0"))
    assert len({half(each).only_once for each in (key, opening, elsewhere)}) == 3
    with pytest.raises(Refused, match="no key of this seat"):
        half(signed(key, seat="agent_1"))
    with pytest.raises(Refused, match="no key of this seat"):
        half(key, other.header_bytes)
    assert half(key, b"\xc1") is None
    fields = list(msgspec.msgpack.decode(key.header_bytes))
    assert msgspec.msgpack.encode(fields) == key.header_bytes
    long = b"\xdc\x00" + bytes([len(fields)]) + key.header_bytes[1:]
    with pytest.raises(Refused, match="canonical"):
        half(key, long)
