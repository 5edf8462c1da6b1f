"""Questions, motions and signed votes, as canonical bytes.

    motion  = msgpack [protocol, group, the resolutions that it comes after, question]
    vote    = msgpack [protocol, group, seat, key, number, digest of the motion], signed
    ballot  = msgpack [motion, body, votes]; the body is the prior of a new epoch, and empty otherwise

1. A motion is a question put under one version of the charter, named by its latest resolutions. From these follow the
   seats, their keys, and the number of votes needed.
2. Members that want the same under the same version sign the same motion; nobody has to propose it first.
3. A member numbers its votes. Two votes with one number prove that its key cannot be trusted.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from decbayes.network.protocol.group.charter import PROTOCOL
from decbayes.network.protocol.group.keys import VOTE, AgentId, Identity, short
from decbayes.network.protocol.group.signed import Hash, Signature, Signed
from decbayes.network.protocol.limits import Limits, Rules

Key = Annotated[bytes, Meta(min_length=32, max_length=32)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
# The most resolutions that a motion may directly come after; honest ones have a few.
MOST_LATEST = 4096
SHOWN_WORDS = 3


class Admit(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="admit"):
    """Give a seat to a new member, or its seat back to one that was removed.

    >>> str(network.Admit("b", bytes(32)))
    'add b with the key 00000000…'
    """

    seat: Name
    key: Key

    def __str__(self) -> str:
        return f"add {self.seat} with the key {self.key.hex()[:8]}…"


class Remove(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="remove"):
    """Take a member's seat away: its evidence stops counting, in records and in the prior.

    >>> str(network.Remove("b"))
    'remove b'
    """

    seat: Name

    def __str__(self) -> str:
        return f"remove {self.seat}"


class Rotate(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="rotate"):
    """Replace a seat's key. Its shards stay its own.

    >>> str(network.Rotate("b", bytes(32)))
    'replace the key of b by 00000000…'
    """

    seat: Name
    key: Key

    def __str__(self) -> str:
        return f"replace the key of {self.seat} by {self.key.hex()[:8]}…"


class Amend(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="amend"):
    """Replace the rules, the limits and the disclosure rules (JSON; empty for none).

    >>> str(network.Amend(network.Rules(robust=True), charter.limits))
    'change the rules'
    """

    rules: Rules
    limits: Limits
    disclosure: str = ""

    def __str__(self) -> str:
        return "change the rules"


class Extend(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="words"):
    """Add words to the vocabulary. Earlier contributions count none of them.

    >>> str(network.Extend(("nurse", "ward")))
    'add 2 words to the vocabulary: nurse, ward'
    """

    words: tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...]

    def __str__(self) -> str:
        more = ", …" if len(self.words) > SHOWN_WORDS else ""
        count = f"{len(self.words):,} word{'s' if len(self.words) > 1 else ''}"
        return f"add {count} to the vocabulary: {', '.join(self.words[:SHOWN_WORDS])}{more}"


class PriorPart(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A seat's part of an epoch's prior: the shards in it and their numbers of observations and units."""

    seat: Name
    shards: tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...]
    observations: int
    units: int


class Open(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="open"):
    """Open a new epoch: the current merge becomes the prior. Its numbers, seat by seat, are in the body."""

    parts: tuple[PriorPart, ...]
    ids: tuple[Annotated[str, Meta(max_length=16)], ...]
    body: Hash

    def __str__(self) -> str:
        count = sum(part.observations for part in self.parts)
        return f"open a new epoch with {count:,} observations of {len(self.parts)} members in its prior"


class Show(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="show"):
    """Ask members to show what they added to the sums up to an open one; each must have voted for it, too.

    >>> str(network.Show(bytes(32), 2, ("east", "west")))
    'show what east, west have added to the sums up to round 2'
    """

    terms: Hash
    round: int
    seats: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MOST_LATEST)]

    def __str__(self) -> str:
        return f"show what {', '.join(self.seats)} have added to the sums up to round {self.round}"


Question = Admit | Remove | Rotate | Amend | Extend | Open | Show


class Motion(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A question, put under the charter that follows from the resolutions in `after` and all before them."""

    protocol: int
    group: Annotated[str, Meta(max_length=64)]
    after: Annotated[tuple[Hash, ...], Meta(max_length=MOST_LATEST)]
    question: Question

    @property
    def content(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.content).digest()


class VoteHeader(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The content of a vote: a seat, its key, the number of the vote, and the motion."""

    protocol: int
    group: Annotated[str, Meta(max_length=64)]
    seat: Name
    voter: Hash
    number: int
    motion: Hash


class Vote(Signed[VoteHeader]):
    """A signed vote."""

    purpose = VOTE

    @property
    def origin(self) -> AgentId:
        return self.header.voter

    @property
    def seat(self) -> str:
        return self.header.seat

    @property
    def number(self) -> int:
        return self.header.number

    @property
    def only_once(self) -> tuple[object, ...]:
        return "vote", self.origin, self.number


@dataclass(frozen=True)
class Proof:
    """Two headers that one key signed under one number, which proves that it cannot be trusted.

    >>> other = network.sign_record(charter, identity, 1, posterior=None, shards=frozenset(), observations=0)
    >>> network.Proof(record.signed, other.signed).origin == identity.id
    True
    """

    first: Signed[Any]
    second: Signed[Any]

    @property
    def origin(self) -> AgentId:
        return self.first.origin

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(b"".join(sorted((self.first.digest, self.second.digest)))).digest()


@dataclass(frozen=True)
class Ballot:
    """A motion, its body and the votes for it, by seat. With enough votes it is a resolution.

    >>> agent = network.Agent(charter, identity, rng=np.random.default_rng(0))
    >>> (persist,) = agent.propose(network.Admit("b", network.Identity.generate().public))
    >>> [*persist.item.votes], persist.item.settled
    (['a'], False)
    """

    motion: Motion
    votes: Mapping[str, Vote]
    body: bytes = field(default=b"", repr=False)
    settled: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "votes", MappingProxyType(dict(sorted(self.votes.items()))))

    @cached_property
    def digest(self) -> bytes:
        """The motion's digest, the same whichever votes an agent has."""
        return self.motion.digest

    @property
    def question(self) -> Question:
        return self.motion.question

    @property
    def text(self) -> str:
        return str(self.question)

    @property
    def name(self) -> str:
        """The motion's name for people: the first digits of its digest."""
        return short(self.digest)

    @cached_property
    def content(self) -> bytes:
        """The canonical bytes."""
        votes = tuple(SignedBytes(vote.header_bytes, vote.signature) for vote in self.votes.values())
        return msgspec.msgpack.encode(BallotBytes(self.motion.content, self.body, votes))

    def joined(self, other: "Ballot") -> "Ballot":
        """The votes of both ballots; the lowest vote of a seat that has voted twice."""
        both = dict(self.votes)
        for seat, vote in other.votes.items():
            both[seat] = min(both.get(seat, vote), vote, key=lambda one: (one.number, one.digest, one.signature))
        return Ballot(self.motion, both, self.body)


class SignedBytes(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    header: Annotated[bytes, Meta(max_length=1 << 20)]
    signature: Signature


class BallotBytes(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    motion: bytes
    body: bytes
    votes: tuple[SignedBytes, ...]


def motion_on(question: Question, group: str, after: tuple[bytes, ...]) -> Motion:
    return Motion(PROTOCOL, group, after, question)


def sign_vote(motion: Motion, seat: str, identity: Identity, number: int) -> Vote:
    header = VoteHeader(PROTOCOL, motion.group, seat, identity.id, number, motion.digest)
    return Vote(header, identity.sign(hashlib.sha256(msgspec.msgpack.encode(header)).digest(), VOTE))
