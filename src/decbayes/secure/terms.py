"""The terms of one secure sum, and the signed messages that its members exchange."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import frexp
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from decbayes.base.arguments import is_number
from decbayes.base.extras import require
from decbayes.errors import SumRefused
from decbayes.privacy.grid import LARGEST
from decbayes.structure import canonical_json

Kind = Literal["key", "masked", "opening", "consent", "shown"]
"""The three messages of a sum, and the two of an audit (`audit.py`)."""
Sign = Callable[[bytes], bytes]
"""Signs bytes with a seat's private key (Ed25519)."""

PURPOSE = b"decbayes sum 3\0"
FEWEST = 3
KEY_BYTES, SIGNATURE_BYTES = 32, 64


@dataclass(frozen=True)
class Terms:
    """The terms of one sum: members, round, anchor and grid. Masks depend on all of them.

    Args:
        group: the name or fingerprint of the agreement.
        round: the number of the round, from 1.
        seats: the public key (Ed25519, 32 bytes) of each member, by name. The sum opens only over all of them.
        anchor: the digest of the posterior whose slots the numbers are in.
        length: the number of numbers that each member adds.
        step: the grid, a power of two. Members add integer multiples of it, so that the sum is exact.
        colluders: the number of members that may pool their knowledge without learning anything about any other.
        absent: how many parts of the opening may be missing, 0 or 1: together all others can open one member's last
            mask. Safe only if no larger set can have a sum of the same round.

    >>> keys = {name: bytes([number]) * 32 for number, name in enumerate("abc")}
    >>> terms = db.secure.Terms("study 12", 1, keys, anchor="0" * 64, length=5)
    >>> terms.largest * terms.step > 1e8
    True
    """

    group: str
    round: int
    seats: Mapping[str, bytes]
    anchor: str
    length: int
    step: float = 2.0**-20
    colluders: int = 1
    absent: int = 0

    def __post_init__(self) -> None:
        seats = {str(name): bytes(key) for name, key in sorted(self.seats.items())}
        object.__setattr__(self, "seats", MappingProxyType(seats))
        check_numbers(self)
        check_seats(seats, self.colluders)

    @property
    def largest(self) -> int:
        """The most steps, up or down, that a member may add, so that the sum of all is exact."""
        return LARGEST // len(self.seats)

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(PURPOSE + canonical_json(self.plain())).digest()

    def plain(self) -> dict[str, Any]:
        seats = {name: key.hex() for name, key in self.seats.items()}
        return {**{name: getattr(self, name) for name in PLAIN}, "seats": seats}


PLAIN = ("group", "round", "anchor", "length", "step", "colluders", "absent")


def check_numbers(terms: Terms) -> None:
    whole = {"round": terms.round, "length": terms.length, "colluders": terms.colluders}
    for name, value in whole.items():
        if type(value) is not int or value < 1:
            raise SumRefused(f"{name} must be a whole number from 1 on, not {value!r}.")
    if type(terms.absent) is not int or terms.absent not in (0, 1):
        raise SumRefused(f"absent must be 0 or 1, not {terms.absent!r}.")
    if not is_number(terms.step) or not 0.0 < terms.step <= 1e6 or frexp(terms.step)[0] != 0.5:
        raise SumRefused(f"step must be a power of two, such as 2**-20, not {terms.step!r}.")


def check_seats(seats: Mapping[str, bytes], colluders: int) -> None:
    """Refuse sets of members whose sum would reveal a single member's numbers."""
    if any(len(key) != KEY_BYTES for key in seats.values()) or len(set(seats.values())) < len(seats):
        raise SumRefused(f"Each member needs a public key of its own, {KEY_BYTES} bytes, as `decbayes keygen` prints.")
    if len(seats) < FEWEST:
        raise SumRefused(
            f"A sum needs at least {FEWEST} members, not {len(seats)}: of two, each would learn the other's."
        )
    if len(seats) < colluders + 2:
        raise SumRefused(
            f"{colluders} of {len(seats)} members could together learn the numbers of the last one. At least "
            f"{colluders + 2} members are needed, or fewer colluders must be assumed."
        )


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, dict=True):
    """A member's message: a `key` for masks, its `masked` numbers, or its part of the `opening`.

    `about` is the digest of all keys that the numbers are masked for, or of all masked numbers that are opened.
    `commitment` is part of masked messages and fixes the opening beforehand.

    >>> db.secure.Message("key", bytes(32), "north", bytes(32)).signed(lambda content: bytes(64)).kind
    'key'
    """

    kind: Kind
    terms: bytes
    seat: str
    body: bytes
    about: bytes = b""
    commitment: bytes = b""
    signature: bytes = b""

    @property
    def header_bytes(self) -> bytes:
        """Everything except the signature, with the hash of the body: two of these prove that a seat cheats."""
        body = hashlib.sha256(self.body).digest()
        return msgspec.msgpack.encode((self.kind, self.terms, self.seat, body, self.about, self.commitment))

    @cached_property
    def digest(self) -> bytes:
        """The digest of everything except the signature."""
        return hashlib.sha256(PURPOSE + self.header_bytes).digest()

    def signed(self, sign: Sign) -> "Message":
        return msgspec.structs.replace(self, signature=sign(PURPOSE + self.digest))

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self)


def message_from(content: bytes) -> Message:
    """Read a message from untrusted bytes; anything else is refused.

    >>> message = db.secure.Message("key", bytes(32), "north", bytes(32))
    >>> db.secure.message_from(message.to_bytes()) == message
    True
    """
    try:
        return msgspec.msgpack.decode(content, type=Message)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        raise SumRefused("it is damaged, or not a message of a secure sum.") from None


def check_message(terms: Terms, message: Message, kind: Kind) -> None:
    """Refuse a message unless its seat has signed it for this sum and it has the right size."""
    if message.kind != kind:
        raise SumRefused(f"a {message.kind} message is not a {kind} message.")
    if message.seat not in terms.seats:
        raise SumRefused("its sender is not a member of this sum.")
    if message.terms != terms.digest:
        raise SumRefused("it belongs to another sum: other members, another round, another anchor or another grid.")
    sizes = {
        "key": (KEY_BYTES, 0, 0),
        "masked": (8 * terms.length, 32, 32),
        "opening": (KEY_BYTES * len(terms.seats), 32, 0),
        "consent": (0, 32, 0),
        "shown": (KEY_BYTES, 32, 0),
    }
    if (len(message.body), len(message.about), len(message.commitment)) != sizes[kind]:
        raise SumRefused("its numbers do not have the agreed length.")
    if not signed_by(terms.seats[message.seat], message):
        raise SumRefused(f"it is not signed by {message.seat}.")


def signed_by(public: bytes, message: Message) -> bool:
    return len(message.signature) == SIGNATURE_BYTES and verified(public, message.signature, message.digest)


@lru_cache(maxsize=4096)  # a site checks each message several times
def verified(public: bytes, signature: bytes, digest: bytes) -> bool:
    ed25519 = require("cryptography.hazmat.primitives.asymmetric.ed25519", extra="net", task="A secure sum")
    invalid = require("cryptography.exceptions", extra="net", task="A secure sum").InvalidSignature
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(signature, PURPOSE + digest)
    except (ValueError, invalid):
        return False
    return True


def one_of_each(terms: Terms, messages: Iterable[Message], kind: Kind, absent: int = 0) -> dict[str, Message]:
    """The checked messages of one kind, one per seat, ordered by name; at most `absent` may be missing."""
    given: dict[str, Message] = {}
    for message in messages:
        try:
            check_message(terms, message, kind)
        except SumRefused as error:
            raise SumRefused(f"The {kind} message of {message.seat!r} is refused: {error}") from None
        if given.setdefault(message.seat, message).digest != message.digest:
            raise SumRefused(
                f"{message.seat} has signed two different {kind} messages for one sum. Both together prove it. Nothing "
                "is opened; begin again without this member."
            )
    missing = sorted(terms.seats.keys() - given.keys())
    if len(missing) > absent:
        raise SumRefused(f"The {kind} message of {', '.join(missing)} is missing: a sum opens only over all members.")
    return {name: given[name] for name in terms.seats if name in given}


def digest_of(messages: Mapping[str, Message]) -> bytes:
    """One digest of one message per seat."""
    return hashlib.sha256(PURPOSE + b"".join(messages[name].digest for name in sorted(messages))).digest()
