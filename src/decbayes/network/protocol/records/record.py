"""A record: one signed version of an agent's evidence, in canonical bytes.

    record  = msgpack [header, signature, body]
    header  = msgpack [protocol, group, structure, epoch, origin, version, previous, shards, marks, observations, units,
                       closed, ids, body digest]
    body    = safetensors of the contribution λ_i − λ0, of a note if the charter asks for them, of a statement on
              the disclosure rules if it has some, and of the resolutions that added words; empty without shards
    digest  = SHA-256(header), which is what the signature covers

`epoch` is the resolution that opened the epoch, or zeros. `previous` is the digest of the version that this one
replaces. A `closed` record is a permanent retraction. `ids` are the origin's names of its components, which it takes
from a merge; the names of slots follow from them.

The header contains the body's hash, so two signed headers prove an equivocation without their bodies. The charter
determines the shapes in the body. Every value has exactly one encoding; all others are refused.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from decbayes.base.tensors import write_arrays
from decbayes.errors import Refused
from decbayes.families import Contribution
from decbayes.files import contribution_arrays
from decbayes.network.protocol.group.charter import PROTOCOL, Charter
from decbayes.network.protocol.group.keys import PURPOSE, AgentId, Identity
from decbayes.network.protocol.group.roster import NOTHING
from decbayes.network.protocol.group.signed import Hash, Signature, Signed
from decbayes.network.protocol.records.notes import Note
from decbayes.network.protocol.records.statements import Statement
from decbayes.posterior import Posterior

ShardId = Annotated[str, Meta(min_length=1, max_length=64)]
Mark = Annotated[bytes, Meta(min_length=16, max_length=16)]
ComponentId = Annotated[str, Meta(max_length=16)]

# The largest header. Headers are read before their signature is checked, and a proof holds two.
HEADER_BYTES = 1 << 20

HIGHEST_VERSION = (1 << 63) - 1
# The name of the resolutions that added words, in a body, and their size.
WORDS, WORDS_BYTES = "words", 32

Entry = tuple[AgentId, int, bytes]
"""Origin, version and digest: an item of a listing."""

Counted = tuple[AgentId, str, int, int]
"""Origin, digest of the contribution, observations and units: everything that a merge depends on."""


class Header(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The header of a record. `shards` and `marks` are strictly increasing, so none occurs twice.

    >>> record.header.version, record.header.shards, record.header.observations
    (1, ('first',), 4)
    """

    protocol: int
    group: Annotated[str, Meta(max_length=64)]
    structure: Hash
    epoch: Hash
    origin: Hash
    version: int
    previous: Hash
    shards: tuple[ShardId, ...]
    marks: tuple[Mark, ...]
    observations: int
    units: int
    closed: bool
    ids: tuple[ComponentId, ...]
    body: Hash

    @property
    def canonical(self) -> bool:
        """Whether all lists are strictly increasing and all names printable."""
        printable = all(name.isprintable() for name in self.shards)
        return printable and rises(self.shards) and rises(self.marks)


def rises(part: Sequence[Any]) -> bool:
    return list(part) == sorted(set(part))


class Envelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    header: Annotated[bytes, Meta(max_length=HEADER_BYTES)]
    signature: Signature
    body: bytes


class SignedHeader(Signed[Header]):
    """A header and its signature: enough to name a version, and half of a proof of equivocation.

    >>> origin, version, digest = record.signed.entry
    >>> origin == identity.id, version
    (True, 1)
    """

    purpose = PURPOSE

    @property
    def origin(self) -> AgentId:
        return self.header.origin

    @property
    def version(self) -> int:
        return self.header.version

    @property
    def entry(self) -> Entry:
        return self.header.origin, self.header.version, self.digest

    @property
    def only_once(self) -> tuple[object, ...]:
        return "record", self.origin, self.version, self.header.epoch


@dataclass(frozen=True, eq=False)
class Record:
    """A signed header with its contribution, either made here or checked (see `verification`).

    >>> record.empty, record.posterior == posterior
    (False, True)
    """

    signed: SignedHeader
    body: bytes
    posterior: Posterior | None
    note: Note | None = None
    statement: Statement | None = None
    words: frozenset[bytes] = frozenset()
    """The resolutions whose words it counts in addition to the original vocabulary."""

    @property
    def header(self) -> Header:
        return self.signed.header

    @property
    def origin(self) -> AgentId:
        return self.signed.header.origin

    @property
    def version(self) -> int:
        return self.signed.header.version

    @property
    def digest(self) -> bytes:
        return self.signed.digest

    @property
    def empty(self) -> bool:
        """Whether it holds no evidence, because there is none yet or it was retracted."""
        return not self.signed.header.shards

    @property
    def merge_key(self) -> Counted:
        """Everything that a merge depends on; versions that differ only in notes have the same key."""
        digest = "" if self.posterior is None else self.posterior.digest
        return self.origin, digest, self.header.observations, self.header.units

    @cached_property
    def content(self) -> bytes:
        """The canonical bytes."""
        return msgspec.msgpack.encode(Envelope(self.signed.header_bytes, self.signed.signature, self.body))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.digest)


def sign_record(
    charter: Charter,
    identity: Identity,
    version: int,
    *,
    posterior: Posterior | None,
    shards: frozenset[str],
    observations: int,
    units: int | None = None,
    marks: frozenset[bytes] = frozenset(),
    previous: bytes = NOTHING,
    closed: bool = False,
    note: Note | None = None,
    statement: Statement | None = None,
) -> Record:
    """Sign a new version of a member's evidence. `units` default to the observations.

    >>> shards = frozenset({"first"})
    >>> second = network.sign_record(charter, identity, 2, posterior=posterior, shards=shards, observations=4)
    >>> second.version
    2
    """
    body = b"" if posterior is None else body_of(charter, posterior.contribution, note, statement)
    header = Header(
        protocol=PROTOCOL,
        group=charter.id,
        structure=bytes.fromhex(charter.founded.fingerprint),
        epoch=charter.opened,
        origin=identity.id,
        version=version,
        previous=previous,
        shards=tuple(sorted(shards)),
        marks=tuple(sorted(marks)),
        observations=observations,
        units=observations if units is None else units,
        closed=closed,
        ids=() if posterior is None else tuple(posterior.ids),
        body=hashlib.sha256(body).digest(),
    )
    digest = hashlib.sha256(msgspec.msgpack.encode(header)).digest()
    beside = (None, None) if posterior is None else (note, statement)
    words = frozenset(charter.words_added)
    return Record(SignedHeader(header, identity.sign(digest)), body, posterior, *beside, words)


def body_of(
    charter: Charter,
    contribution: Mapping[str, Contribution],
    note: Note | None = None,
    statement: Statement | None = None,
) -> bytes:
    """The canonical bytes of the contribution (sparse where the structure is), note, statement and words."""
    arrays = contribution_arrays(contribution) | words_array(charter)
    for part in (note, statement):
        arrays |= {} if part is None else part.arrays()
    return write_arrays(arrays)


def words_array(charter: Charter) -> dict[str, np.ndarray[Any, Any]]:
    """The resolutions that added words, as a record names them; empty if there are none."""
    digests = b"".join(sorted(charter.words_added))
    return {WORDS: np.frombuffer(digests, dtype="<i4")} if digests else {}


def charter_of_words(charter: Charter, arrays: Mapping[str, Any]) -> Charter:
    """The charter with the words that a record counts: those that its origin knew when it signed.

    A record with words that are not in force here is refused until the charter changes.
    """
    named = arrays.get(WORDS)
    digests = b"" if named is None else named.tobytes()
    resolutions = {digests[first : first + WORDS_BYTES] for first in range(0, len(digests), WORDS_BYTES)}
    if not resolutions <= charter.words_added.keys():
        raise Refused("words", "it counts words that this group has not added, or that are not known here yet.")
    if resolutions == charter.words_added.keys():
        return charter
    return charter.with_words_of({digest: charter.words_added[digest] for digest in resolutions})
