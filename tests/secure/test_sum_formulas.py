"""Secure sums by the formulas of their protocol, written again with hashes, HMACs and ciphers alone.

Members of one version must agree to the bit: a change here needs another version of the protocol.
"""

import hashlib
import hmac
import json
from itertools import combinations

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from masked_sums import NAMES, Sum, drawn, public, signing, terms_of

from decbayes.errors import SumRefused
from decbayes.secure import Message, Secrets, Terms, masks, message_from
from decbayes.secure.gathered import Gathered, no_messages, turn
from decbayes.secure.terms import check_message, check_seats, digest_of, one_of_each

PURPOSE = b"decbayes sum 3\0"
NUMBERS = {name: [place, -7, 2**40 * (place - 1), 0, 5, -(2**50)] for place, name in enumerate(NAMES)}


def digest_by_hand(terms):
    plain = {
        "group": terms.group, "round": terms.round, "anchor": terms.anchor, "length": terms.length, "step": terms.step,
        "colluders": terms.colluders, "absent": terms.absent,
        "seats": {name: public(name).hex() for name in terms.seats},
    }  # fmt: skip
    return hashlib.sha256(PURPOSE + json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).digest()


def hkdf(salt, secret, purpose):
    """RFC 5869, one block."""
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, PURPOSE + purpose + b"\1", "sha256")


def chacha(seed, length):
    return np.frombuffer(
        Cipher(algorithms.ChaCha20(seed, bytes(16)), None).encryptor().update(bytes(8 * length)), "<u8"
    )


class ByHand:
    """All that four members with known secrets send, from the formulas."""

    def __init__(self, terms, numbers):
        self.digest, self.names, self.numbers = digest_by_hand(terms), sorted(numbers), numbers
        private = {name: X25519PrivateKey.from_private_bytes(drawn("private", name, 0)) for name in numbers}
        self.public = {name: key.public_key().public_bytes_raw() for name, key in private.items()}
        self.seeds = {}
        for one, other in combinations(self.names, 2):
            shared = private[one].exchange(X25519PublicKey.from_public_bytes(self.public[other]))
            halves = b"".join(sorted((self.public[one], self.public[other])))
            seed = hkdf(self.digest, shared, b"pair\0" + f"{one}\0{other}".encode() + halves)
            self.seeds[one, other] = self.seeds[other, one] = seed

    def piece(self, one, other, of):
        return hkdf(self.digest, self.seeds[one, other], b"piece\0" + of.encode())

    def last(self, name):
        pieces = [np.frombuffer(self.piece(name, other, name), np.uint8) for other in self.names if other != name]
        return np.bitwise_xor.reduce(pieces).tobytes()

    def packet(self, name):
        length = len(self.numbers[name])
        total = np.array(self.numbers[name], dtype=np.int64).view(np.uint64)
        total = total + chacha(hkdf(self.digest, self.last(name), b"last\0" + name.encode()), length)
        for other in self.names:
            if other > name:
                total = total + chacha(self.seeds[name, other], length)
            elif other < name:
                total = total - chacha(self.seeds[name, other], length)
        return total.astype("<u8").tobytes()

    def commitment(self, name):
        return hashlib.sha256(
            PURPOSE + b"commitment\0" + self.digest + name.encode() + b"\0" + self.last(name)
        ).digest()

    def opening(self, name):
        parts = (self.last(name) if other == name else self.piece(name, other, other) for other in self.names)
        return b"".join(parts)


@pytest.mark.parametrize("changed", [{}, {"round": 7, "absent": 1}, {"colluders": 2, "step": 0.5, "group": "another"}])
def test_what_members_send_is_what_the_formulas_say(changed):
    terms = terms_of(**changed)
    assert terms.digest == digest_by_hand(terms)
    made, by_hand = Sum(terms, NUMBERS).begin().mask().open(), ByHand(terms, NUMBERS)
    for name, seat in made.seats.items():
        key, masked, opening = (seat.sent[kind] for kind in ("key", "masked", "opening"))
        assert key.body == by_hand.public[name]
        assert masked.body == by_hand.packet(name)
        assert masked.commitment == by_hand.commitment(name)
        assert opening.body == by_hand.opening(name)
        assert {each.terms for each in (key, masked, opening)} == {terms.digest}
        assert (key.about, key.commitment, opening.commitment) == (b"", b"", b"")


def test_a_message_is_named_by_all_but_its_signature():
    message = Message("masked", b"t" * 32, "north", b"body", b"a" * 32, b"c" * 32, b"s" * 64)
    header = msgspec.msgpack.encode(
        ("masked", b"t" * 32, "north", hashlib.sha256(b"body").digest(), b"a" * 32, b"c" * 32)
    )
    assert message.digest == hashlib.sha256(PURPOSE + header).digest()
    signed = message.signed(lambda content: hashlib.sha512(content).digest())
    assert signed.signature == hashlib.sha512(PURPOSE + message.digest).digest()
    assert message_from(signed.to_bytes()) == signed
    assert Message("key", b"", "a", b"").signature == b""
    together = {name: Message("key", b"", name, name.encode()) for name in "ba"}
    by_name = b"".join(together[name].digest for name in "ab")
    assert digest_of(together) == hashlib.sha256(PURPOSE + by_name).digest()


SIZES = {
    "key": (32, 0, 0),
    "masked": (48, 32, 32),
    "opening": (128, 32, 0),
    "consent": (0, 32, 0),
    "shown": (32, 32, 0),
}


@pytest.mark.parametrize("kind", SIZES)
def test_messages_have_the_sizes_of_their_kind(kind):
    terms = terms_of()

    def checked(body, about, commitment, **changed):
        fields = {"kind": kind, "terms": terms.digest, "seat": "north"} | changed
        message = Message(**fields, body=bytes(body), about=bytes(about), commitment=bytes(commitment))
        check_message(terms, message.signed(signing("north").sign), kind)

    sizes = SIZES[kind]
    checked(*sizes)
    for place in range(3):
        for step in (-1, 1):
            other = [size + step * (place == number) for number, size in enumerate(sizes)]
            if min(other) >= 0:
                with pytest.raises(SumRefused, match="agreed length"):
                    checked(*other)
    other_kind = "key" if kind != "key" else "masked"
    for changed, why in (
        ({"kind": other_kind}, f"a {other_kind} message is not a {kind}"),
        ({"seat": "nobody"}, "not a member"),
        ({"terms": bytes(32)}, "belongs to another sum"),
        ({"seat": "east"}, "not signed by east"),
    ):
        with pytest.raises(SumRefused, match=why):
            checked(*sizes, **changed)
    unsigned = Message(kind, terms.digest, "north", *map(bytes, sizes))
    for signature in (b"", bytes(63), bytes(64), bytes(65)):
        with pytest.raises(SumRefused, match="not signed by north"):
            check_message(terms, message_from(unsigned.signed(lambda _, s=signature: s).to_bytes()), kind)


def test_one_message_of_each_in_the_order_of_names():
    terms = terms_of()
    keys = Sum(terms, NUMBERS).begin().sent("key")
    assert [*one_of_each(terms, keys[::-1], "key")] == sorted(NAMES)
    assert [*one_of_each(terms, [*keys, *keys], "key")] == sorted(NAMES), "the same one twice is one"
    assert [*one_of_each(terms, keys[2:], "key", absent=2)] == [*NAMES[2:]]
    with pytest.raises(SumRefused, match="key message of east, north is missing"):
        one_of_each(terms, keys[2:], "key", absent=1)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"round": 0}, "round must be a whole number from 1 on, not 0"),
        ({"round": True}, "round must be"),
        ({"length": 0}, "length must be"),
        ({"length": 2.0}, "length must be"),
        ({"colluders": 0}, "colluders must be"),
        ({"absent": -1}, "absent must be 0 or 1"),
        ({"absent": True}, "absent must be 0 or 1"),
        ({"step": 2.0**20}, "step must be a power of two"),
        ({"step": "0.5"}, "step must be a power of two"),
    ],
)
def test_terms_that_no_sum_has_are_refused(changed, why):
    with pytest.raises(SumRefused, match=why):
        terms_of(**changed)


def test_terms_at_their_limits():
    usual = Terms("test", 1, {name: public(name) for name in NAMES[::-1]}, "0" * 64, 1)
    assert (usual.step, usual.colluders, usual.absent) == (2.0**-20, 1, 0)
    assert [*usual.seats] == sorted(NAMES)
    assert terms_of(step=2.0**19).step == 2.0**19
    assert terms_of(step=5e-324).length == 6
    assert [terms_of(NAMES[:n]).largest for n in (3, 4)] == [2**53 // 3, 2**51]
    assert terms_of().digest != terms_of(absent=1).digest


def test_a_set_shows_nobody_only_if_enough_are_in_it():
    """Sums over n members of whom f pool what they know leave the sum of n − f: of at least two."""
    for members in range(1, 8):
        for colluders in range(1, 7):
            seats = {str(number): bytes([number]) * 32 for number in range(members)}
            if members >= 3 and members - colluders >= 2:
                check_seats(seats, colluders)
            else:
                with pytest.raises(SumRefused):
                    check_seats(seats, colluders)
    for wrong in (bytes(31), bytes(33), b"\1" * 32):
        with pytest.raises(SumRefused, match="32 bytes"):
            check_seats({"a": wrong, "b": b"\1" * 32, "c": b"\2" * 32}, 1)


def test_who_is_next_follows_from_what_is_there():
    """Every subset of messages of three members: the first kind that is not complete, and whose are missing."""
    names = NAMES[:3]
    for absent in (0, 1):
        terms = terms_of(names, absent=absent)
        for keys, masked, opened in ((k, m, o) for k in range(4) for m in range(4) for o in range(4)):
            there = dict(zip(("key", "masked", "opening"), (keys, masked, opened), strict=True))
            messages = {kind: dict.fromkeys(names[:count], "message") for kind, count in there.items()}
            gathered = Gathered(terms, messages)
            first = next((kind for kind, count in there.items() if count < 3), None)
            assert gathered.waiting_for() == (first, [] if first is None else [*names[there[first] :]])
            assert gathered.is_open == (keys == masked == 3 and opened >= 3 - absent)
            assert gathered.begun == (keys + masked + opened > 0)
            assert gathered.of("key") == ["message"] * keys
            assert gathered.number == 1
    assert no_messages() == {"key": {}, "masked": {}, "opening": {}}
    assert Gathered(terms).showing == {"consent": {}, "shown": {}}


def test_whose_turn_it_is_in_a_line():
    assert turn(2, 3, "masked", ["east", "west"]) == "round 2 of 3: waiting for the masked contribution of east, west"
    assert turn(2, 2, None, []) == "all rounds are open"
    assert turn(1, 1, None, []) == "the only round is open"


def test_secrets_are_drawn_and_joined_whole():
    one = Secrets.drawn().private
    assert len(one) == 32
    assert repr(one) not in repr(Secrets(one))
    assert masks.joined([bytes(32), one]) == one
    assert masks.joined([one, one]) == bytes(32)
    assert masks.joined([b"\1" + bytes(31), bytes(31) + b"\2"]) == b"\1" + bytes(30) + b"\2"
