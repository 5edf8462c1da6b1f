"""One member's part in one sum. Each of its three messages is made once, in this order:

    KEY ──── all keys are known ────► MASKED ──── all masked numbers are known ────► OPENING
     │                                   │
     └──────────── given up: secrets are gone, and this sum never opens ◄────────────┘

Rules, each of which `tests/secure/test_broken_sums.py` breaks on purpose:

1. A key belongs to one sum: its members, round, anchor and grid (`Terms`).
2. Numbers are masked once. A repeated request returns the same message; other numbers are refused.
3. Masks are for all members or none, with one signed key of each. Two keys of one member prove that it cheats.
4. Nobody opens before having seen the masked numbers of all members, made with the same keys.
5. A sum that was given up is never opened, and an opened sum is never given up: of two sums over different members, at
   most one opens.
6. A sum opens if all have opened the same masked numbers, or all but one if the terms allow it: then the others' pieces
   replace the missing part. Masked messages commit to their openings.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from decbayes.errors import SumRefused
from decbayes.privacy.grid import Integers
from decbayes.secure.masks import Masks, Secrets, joined, public_half, unmasked
from decbayes.secure.terms import KEY_BYTES, PURPOSE, Message, Sign, Terms, digest_of, one_of_each


@dataclass(frozen=True)
class Seat:
    """A member in one sum, immutable: each step returns the next seat, to be stored before its message is sent.

    Args:
        secrets: its secrets; None once the sum is opened or given up.
        sent: the messages that it has made, by kind.
        keys: the key messages of all members for which it has masked its numbers.
        numbers: a digest of its masked numbers, which never leaves the site.
        given_up: whether it will never open this sum.

    >>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    >>> keys = {name: Ed25519PrivateKey.generate() for name in ("north", "south", "west")}
    >>> publics = {name: key.public_key().public_bytes_raw() for name, key in keys.items()}
    >>> terms = db.secure.Terms("study", 1, publics, anchor="0" * 64, length=2)
    >>> seats = {name: db.secure.Seat.begun(terms, name, key.sign) for name, key in keys.items()}
    >>> offers = [seat.sent["key"] for seat in seats.values()]
    >>> for number, name in enumerate(seats):
    ...     seats[name] = seats[name].masking(np.array([number, 10]), offers, keys[name].sign)
    >>> packets = [seat.sent["masked"] for seat in seats.values()]
    >>> openings = [seat.opening(packets, keys[name].sign).sent["opening"] for name, seat in seats.items()]
    >>> db.secure.opened(terms, packets, openings)
    array([ 3, 30])
    """

    terms: Terms
    name: str
    secrets: Secrets | None = field(repr=False)
    sent: Mapping[str, Message] = field(repr=False)
    keys: Mapping[str, Message] = field(default_factory=dict, repr=False)
    numbers: bytes = field(default=b"", repr=False)
    given_up: bool = False

    @classmethod
    def begun(cls, terms: Terms, name: str, sign: Sign, secrets: Secrets | None = None) -> "Seat":
        """A new seat with its key message. Secrets are drawn unless a test gives them."""
        if name not in terms.seats:
            raise SumRefused(f"{name} is not a member of this sum: it has {', '.join(terms.seats)}.")
        drawn = secrets or Secrets.drawn()
        key = Message("key", terms.digest, name, public_half(drawn.private)).signed(sign)
        return cls(terms, name, drawn, {"key": key})

    def masking(self, steps: Integers, keys: Iterable[Message], sign: Sign) -> "Seat":
        """The seat after masking its numbers, in whole steps of the grid, for the members with these keys."""
        numbers = checked_steps(self.terms, steps)
        fingerprint = hashlib.sha256(numbers.tobytes()).digest()
        if "masked" in self.sent:
            if fingerprint != self.numbers:
                raise SumRefused(
                    f"{self.name} has masked other numbers for this sum. Both together would show how they differ, so "
                    "the first ones stay."
                )
            return self
        offers = one_of_each(self.terms, keys, "key")
        if offers[self.name].digest != self.sent["key"].digest:
            raise SumRefused(f"The key message of {self.name} is not the one that this site has made. {LOST}")
        masks = self._masks(offers)
        message = Message(
            kind="masked",
            terms=self.terms.digest,
            seat=self.name,
            body=(numbers.view(np.uint64) + masks.words()).astype("<u8").tobytes(),
            about=digest_of(offers),
            commitment=committed(self.terms, self.name, masks.last),
        )
        return replace(self, sent={**self.sent, "masked": message.signed(sign)}, keys=offers, numbers=fingerprint)

    def opening(self, packets: Iterable[Message], sign: Sign, *, keep: bool = False) -> "Seat":
        """The seat after opening its part, given the masked numbers of all members.

        With `keep` it keeps its key, so that it knows what it has added and can show it in an audit.
        """
        if "opening" in self.sent:
            return self
        secrets = self._alive()
        if "masked" not in self.sent:
            raise SumRefused(f"{self.name} has not masked its numbers yet: there is nothing to open.")
        given = checked_packets(self.terms, packets)
        if given[self.name].digest != self.sent["masked"].digest:
            raise SumRefused(f"The masked numbers of {self.name} are not those that this site has made. {LOST}")
        parts = self._masks(self.keys).parts()
        message = Message("opening", self.terms.digest, self.name, parts, digest_of(given))
        return replace(self, secrets=secrets if keep else None, sent={**self.sent, "opening": message.signed(sign)})

    @property
    def added(self) -> Integers:
        """The numbers that it has masked, from its packet and key; only for this member."""
        words = np.frombuffer(self.sent["masked"].body, dtype="<u8") - self._masks(self.keys).words()
        return words.view(np.int64)

    def _masks(self, keys: Mapping[str, Message]) -> Masks:
        publics = {name: key.body for name, key in keys.items()}
        return Masks.of(self.terms, self.name, self._alive().private, publics)

    def giving_up(self) -> "Seat":
        """The seat that will never open this sum."""
        if "opening" in self.sent:
            raise SumRefused(
                f"{self.name} has opened its part of this sum. Another sum without one of the members would reveal "
                "that member's numbers, and is not begun. The last open sum is final."
            )
        return replace(self, secrets=None, given_up=True)

    def _alive(self) -> Secrets:
        if self.secrets is None:
            raise SumRefused(f"{self.name} has given up this sum: it stays closed.")
        return self.secrets

    def to_bytes(self) -> bytes:
        """Everything except the terms, to be stored where nobody else can read it."""
        kept = {name: getattr(self, name) for name in Stored.__struct_fields__}
        return msgspec.msgpack.encode(Stored(**kept | {"sent": dict(self.sent), "keys": dict(self.keys)}))

    @classmethod
    def from_bytes(cls, terms: Terms, content: bytes) -> "Seat":
        """The seat from the bytes of `to_bytes`."""
        try:
            stored = msgspec.msgpack.decode(content, type=Stored)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise SumRefused(f"This site's secrets of a sum cannot be read. {LOST}") from None
        fields: dict[str, Any] = {name: getattr(stored, name) for name in stored.__struct_fields__}
        return cls(terms, **fields)


class Stored(msgspec.Struct, frozen=True):
    """A seat as it is stored."""

    name: str
    secrets: Secrets | None
    sent: dict[str, Message]
    keys: dict[str, Message]
    numbers: bytes
    given_up: bool


LOST = "Its secrets may have been lost or restored from a backup; the others can begin again without it."


def committed(terms: Terms, name: str, last: bytes) -> bytes:
    """A commitment to a seed that does not reveal it."""
    return hashlib.sha256(PURPOSE + b"commitment\0" + terms.digest + name.encode() + b"\0" + last).digest()


def checked_steps(terms: Terms, steps: Any) -> Integers:
    """The steps, if they are integers of the agreed number and small enough for an exact sum."""
    numbers = np.asarray(steps)
    if numbers.dtype.kind != "i" or numbers.shape != (terms.length,):
        raise SumRefused(f"{terms.length:,} whole numbers are expected, not {numbers.size:,} of {numbers.dtype}.")
    if max(int(numbers.max()), -int(numbers.min())) > terms.largest:
        raise SumRefused(f"A number is beyond ±{terms.largest * terms.step:,.3g}, where sums are exact. {COARSER}")
    return np.ascontiguousarray(numbers, dtype="<i8")


COARSER = "Agree on a larger step, or on a smaller bound on what a member adds."


def checked_packets(terms: Terms, packets: Iterable[Message]) -> dict[str, Message]:
    """One masked message per member, all made with the same keys."""
    given = one_of_each(terms, packets, "masked")
    if len({packet.about for packet in given.values()}) > 1:
        raise SumRefused(
            "Members have masked their numbers for different keys: somebody has signed two, or a key was exchanged on "
            "its way. Nothing is opened; compare the key messages."
        )
    return given


def opened(terms: Terms, packets: Iterable[Message], openings: Iterable[Message]) -> Integers:
    """The sum of all masked numbers, in steps of the grid, once all members have opened it.

    Args:
        packets: the masked message of each member.
        openings: the opening message of each member.

    >>> publics = {name: bytes([number]) * 32 for number, name in enumerate("abc")}
    >>> db.secure.opened(db.secure.Terms("study", 1, publics, anchor="0" * 64, length=2), [], [])
    Traceback (most recent call last):
    decbayes.errors.SumRefused: The masked message of a, b, c is missing: a sum opens only over all members.
    """
    given = checked_packets(terms, packets)
    parts, about = one_of_each(terms, openings, "opening", terms.absent), digest_of(given)
    fit = {name: part for name, part in parts.items() if fits(terms, part, given[name], about)}
    if len(fit) >= len(terms.seats) - terms.absent:
        parts = fit  # an unfit part counts as missing: otherwise agents that got it first could not open the sum
    for name, part in parts.items():
        if part.about != about:
            raise SumRefused(f"{name} has opened other masked numbers than these: members have seen different ones.")
    total = np.zeros(terms.length, dtype=np.uint64)
    for name, packet in given.items():
        last = (
            piece_of(terms, name, parts[name])
            if name in parts
            else joined(piece_of(terms, name, part) for part in parts.values())
        )
        if committed(terms, name, last) != packet.commitment:
            raise SumRefused(UNFIT.format(name) if name in parts else UNFIT_PIECES.format(name))
        total += unmasked(terms, name, last, np.frombuffer(packet.body, dtype="<u8"))
    steps = total.view(np.int64)
    if max(int(steps.max()), -int(steps.min())) > terms.largest * len(terms.seats):
        raise SumRefused("The sum is beyond what honest members can add up to: somebody has not followed the protocol.")
    return steps


def fits(terms: Terms, part: Message, masked: Message, about: bytes) -> bool:
    """Whether a member's part of the opening belongs to these masked numbers and to its own commitment."""
    return part.about == about and committed(terms, part.seat, piece_of(terms, part.seat, part)) == masked.commitment


UNFIT = "The opening of {} does not belong to its masked numbers: begin again without it."
UNFIT_PIECES = "The opening of {} is missing, and the others' pieces of it do not fit together."


def piece_of(terms: Terms, name: str, part: Message) -> bytes:
    """The piece of one member's last mask in a part of the opening."""
    place = KEY_BYTES * [*terms.seats].index(name)
    return part.body[place : place + KEY_BYTES]
