"""The sums over one set of seats, round after round, as far as their messages are known."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import msgspec
from msgspec import Meta

from decbayes.errors import DecbayesError, Refused
from decbayes.network.protocol.group.keys import AgentId, agent_id
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.protocol.group.signed import Hash, Signed
from decbayes.posterior import Posterior
from decbayes.secure.agreement import Agreement, Merged
from decbayes.secure.gathered import Gathered
from decbayes.secure.seat import fits, opened
from decbayes.secure.terms import PURPOSE, Kind, Message, digest_of

# Errors that malicious numbers may raise.
IMPOSSIBLE = (DecbayesError, ArithmeticError, ValueError)


@dataclass
class Chain:
    """The sums over the seats of one version of the charter; each round's merge is the anchor of the next.

    The first `inherited` sums were opened over more members, before some of these were removed.
    """

    agreement: Agreement
    after: tuple[bytes, ...]
    sums: list[Gathered] = field(default_factory=list)
    results: list[Merged] = field(default_factory=list)
    broken: str = ""
    """Why the last sum cannot be opened although all parts are open."""

    def __post_init__(self) -> None:
        self.inherited = len(self.results)
        self._begin()

    def _begin(self) -> None:
        if len(self.results) < self.agreement.rounds:
            self.sums.append(Gathered(self.agreement.next_terms(self.results)))

    @property
    def begun(self) -> bool:
        """Whether a sum over exactly these members has begun."""
        return any(gathered.begun for gathered in self.sums[self.inherited :])

    @cached_property
    def keys(self) -> tuple[bytes, ...]:
        """The sorted public keys of its members, which identify the set."""
        return tuple(sorted(self.agreement.members.values()))

    @property
    def current(self) -> Gathered | None:
        """The sum that is not open yet; None if all are."""
        return self.sums[-1] if len(self.results) < len(self.sums) else None

    @property
    def before(self) -> Posterior:
        """The last merge, or the first anchor."""
        return self.results[-1].posterior if self.results else self.agreement.anchor

    def name_of(self, key: bytes) -> str:
        """The member with this public key; empty if none."""
        return next((name for name, public in self.agreement.members.items() if public == key), "")

    def gathered(self, terms: bytes) -> Gathered | None:
        """The sum with these terms; None if it has not begun."""
        return next((one for one in self.sums if one.terms.digest == terms), None)

    def add(self, message: Message) -> Message | None:
        """Add a valid message; returns the previous message in its place, if any."""
        gathered = self.gathered(message.terms)
        assert gathered is not None
        slot = gathered.by_kind[message.kind]
        known = slot.get(message.seat)
        if known is None or not better(gathered, known, message):
            slot[message.seat] = message
            self._open()
        return known

    def _open(self) -> None:
        """Open the last sum if it is complete, and begin the next one."""
        current = self.current
        if current is None or not current.is_open:
            return
        try:
            steps = opened(current.terms, current.of("masked"), current.of("opening"))
            merged = self.agreement.result(steps, self.results, current.terms)
        except IMPOSSIBLE as error:
            self.broken = str(error)
            return
        self.broken = ""
        self.results.append(merged)
        self._begin()


def keys_of(gathered: Gathered) -> tuple[bytes, ...]:
    """The public keys of a sum's members."""
    return tuple(sorted(gathered.terms.seats.values()))


def better(gathered: Gathered, known: Message, other: Message) -> bool:
    """Whether `known` is kept rather than `other`: the one that others have opened, else the lower digest.

    Agents with the same messages from the others decide alike, whichever of the two came first.
    """
    fits = [opens(gathered, message) for message in (known, other)]
    return fits[0] > fits[1] or (fits[0] == fits[1] and known.digest <= other.digest)


def opens(gathered: Gathered, message: Message) -> bool:
    """Whether a message is consistent with the parts that others have opened."""
    masked = gathered.messages["masked"]
    if message.kind == "masked":
        others = {part.about for seat, part in gathered.messages["opening"].items() if seat != message.seat}
        return digest_of({**masked, message.seat: message}) in others
    sent = masked.get(message.seat) if message.kind == "opening" else None
    return sent is not None and fits(gathered.terms, message, sent, digest_of(masked))


class SumHeader(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The signed part of a message: `Message.header_bytes`."""

    kind: Kind
    terms: Hash
    seat: Annotated[str, Meta(max_length=256)]
    body: Hash
    about: Annotated[bytes, Meta(max_length=32)]
    commitment: Annotated[bytes, Meta(max_length=32)]


@dataclass(frozen=True)
class SignedMessage(Signed[SumHeader]):
    """The header of a message, its signature and its signer: half of a proof."""

    signer: AgentId

    purpose = begins = PURPOSE

    @property
    def origin(self) -> AgentId:
        return self.signer

    @property
    def only_once(self) -> tuple[object, ...]:
        return "sum", self.origin, self.header.terms, self.header.kind


_headers = msgspec.msgpack.Decoder(SumHeader)


def signed_message(content: bytes, signature: bytes, roster: Roster) -> SignedMessage | None:
    """The signed header in these bytes, under any key of its seat; None if they are not a header."""
    try:
        header = _headers.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if msgspec.msgpack.encode(header) != content:
        raise Refused("envelope", "not the canonical bytes of a message of a sum.")
    seat = roster.seats.get(header.seat)
    for key in () if seat is None else seat.keys:
        signed = SignedMessage(header, signature, agent_id(key))
        if signed.signed_by(key):
            return signed
    raise Refused("signature", "no key of this seat has signed this.")
