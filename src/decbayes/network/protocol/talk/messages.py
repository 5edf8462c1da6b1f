"""Messages between agents as bytes: small notices are pushed, bodies are pulled."""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from decbayes.errors import Refused
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.decisions import DecisionEntry
from decbayes.network.protocol.group.motions import Ballot, Proof, SignedBytes
from decbayes.network.protocol.group.signed import Hash, Signed
from decbayes.network.protocol.records.record import Entry, Record

# Upper bound of the bytes per entry of a listing.
ENTRY_BYTES = 128
OVERHEAD = 4096
# Records per member in a listing: a member that has replaced its key has one under each.
MOST_KEYS = 2
# The most decisions in a listing: one per day for twenty years.
MOST_DECISIONS = 8192
# The most records, proofs and votes in one message, so that checking them does not keep other neighbours waiting.
MOST_BODIES = 512
# The most items in any message, whatever the charter says: in memory each is far larger than its bytes.
MOST_ITEMS = 1 << 17
Some = Meta(max_length=MOST_ITEMS)


class Digest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=1):
    """“Do you hold what I hold?” The hash of everything, the charter's fingerprint, and the version of decbayes.

    `proof` is a signature of this link's two ends with the key of `member`. The first revision of the protocol did not
    state its number.
    """

    root: Hash
    charter: Hash
    software: Annotated[str, Meta(max_length=64)] = ""
    member: Annotated[bytes, Meta(max_length=32)] = b""
    proof: Annotated[bytes, Meta(max_length=64)] = b""
    revision: Annotated[int, Meta(ge=1, lt=1 << 31)] = 1


class Listing(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=2):
    """Versions, exclusions and decisions that the sender holds: all if `complete`, otherwise only news."""

    entries: Annotated[tuple[tuple[Hash, int, Hash], ...], Some]
    excluded: Annotated[tuple[Hash, ...], Some]
    complete: bool
    decisions: Annotated[tuple[tuple[Hash, Hash], ...], Some] = ()


class Pull(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=3):
    """“Send me your newest records of these origins, or the proofs against them, and these decisions.”"""

    origins: Annotated[tuple[Hash, ...], Some]
    decisions: Annotated[tuple[Hash, ...], Some] = ()


class Batch(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=4):
    """Records, proofs and ballots, each to be checked on its own."""

    records: Annotated[tuple[bytes, ...], Some] = ()
    proofs: Annotated[tuple[tuple[SignedBytes, SignedBytes], ...], Some] = ()
    ballots: Annotated[tuple[bytes, ...], Some] = ()


class Packets(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=5):
    """Sum messages: digests of those that the sender holds and of those that it wants, and some messages.

    `complete`: `held` lists all that it holds.
    """

    held: Annotated[tuple[Hash, ...], Some] = ()
    complete: bool = False
    wanted: Annotated[tuple[Hash, ...], Some] = ()
    packets: Annotated[tuple[bytes, ...], Some] = ()


Message = Digest | Listing | Pull | Batch | Packets

_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
# The first bytes of messages with bodies, the only ones that may be long.
BATCHES = tuple(msgspec.msgpack.encode(message)[:2] for message in (Batch(), Packets()))


def encode(message: Message) -> bytes:
    return msgspec.msgpack.encode(message)


def decode(content: bytes, charter: Charter) -> Message:
    """Decode a message from the network after checking its size."""
    most = message_bytes(charter) if content.startswith(BATCHES) else notice_bytes(charter)
    if len(content) > most:
        raise Refused("size", f"a message of {len(content):,} bytes; at most {most:,} are read.")
    try:
        message = _decoder.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refused("envelope", f"not a message ({error}).") from None
    if isinstance(message, Digest) and not message.software.isprintable():
        raise Refused("envelope", "a digest names software that cannot be printed.")
    records = len(message.records) if isinstance(message, Batch) else 0
    if things_in(message) > MOST_BODIES or records > MOST_KEYS * charter.limits.members:
        raise Refused(
            "size", f"{things_in(message):,} records or votes at once; {MOST_BODIES} are read, one per member."
        )
    return message


def things_in(message: Message) -> int:
    """The number of items in a message that are checked one by one."""
    if isinstance(message, Packets):
        return len(message.packets)
    return len(message.records) + len(message.proofs) + len(message.ballots) if isinstance(message, Batch) else 0


def message_bytes(charter: Charter) -> int:
    """The size of the largest message: one full record, or a listing of all members.

    >>> network.message_bytes(charter) > charter.limits.record_bytes
    True
    """
    return max(charter.limits.record_bytes + OVERHEAD, notice_bytes(charter))


def notice_bytes(charter: Charter) -> int:
    """The size of the largest message without bodies: a listing of all members, under all their keys, and decisions."""
    return (MOST_KEYS * charter.limits.members + MOST_DECISIONS) * ENTRY_BYTES + OVERHEAD


def listing(
    entries: Iterable[Entry], excluded: Iterable[bytes], decisions: Iterable[DecisionEntry] = (), *, complete: bool
) -> bytes:
    return encode(Listing(tuple(entries), tuple(excluded), complete, tuple(decisions)))


def batches(
    records: Iterable[Record], proofs: Iterable[Proof], charter: Charter, ballots: Iterable[Ballot] = ()
) -> list[bytes]:
    """Pack proofs, then ballots in their order, then records into few messages."""
    most = message_bytes(charter) - OVERHEAD
    proven = tuple((signed_bytes(proof.first), signed_bytes(proof.second)) for proof in proofs)
    return [
        *(encode(Batch(proofs=(pair,))) for pair in proven),
        *(encode(Batch(ballots=part)) for part in packed([ballot.content for ballot in ballots], most)),
        *(encode(Batch(part)) for part in packed([record.content for record in records], most)),
    ]


def packed(contents: Iterable[bytes], most: int) -> list[tuple[bytes, ...]]:
    """Divide contents, in order, into parts that fit into one message each."""
    parts: list[tuple[bytes, ...]] = []
    waiting: list[bytes] = []
    size = 0
    for content in contents:
        if waiting and (size + len(content) > most or len(waiting) == MOST_BODIES):
            parts.append(tuple(waiting))
            waiting, size = [], 0
        waiting.append(content)
        size += len(content) + 8
    return [*parts, tuple(waiting)] if waiting else parts


def signed_bytes(signed: Signed[Any]) -> SignedBytes:
    return SignedBytes(signed.header_bytes, signed.signature)
