"""A record: one version of what one agent's data has to say, signed, in canonical bytes.

    record  = msgpack [header, signature, body]
    header  = msgpack [protocol, group, structure, prior, origin, version, shards, observations, body digest]
    body    = safetensors of the contribution λ_i − λ0; empty in a retraction
    digest  = SHA-256(header), which is what the signature covers

The header names the body by its hash, so two signed headers prove an equivocation without their bodies. The shapes in
the body are the charter's, never the message's. Every value has one encoding; all others are refused.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import msgspec
from msgspec import Meta

from decbayes.files import contribution_arrays, write_arrays
from decbayes.network.protocol.charter import PROTOCOL, Charter
from decbayes.network.protocol.keys import AgentId, Identity
from decbayes.posterior import Posterior

Hash = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, Meta(min_length=64, max_length=64)]
ShardId = Annotated[str, Meta(min_length=1, max_length=64)]

HIGHEST_VERSION = (1 << 63) - 1


class Header(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a record says about itself. `shards` rise strictly, so that no shard is named twice."""

    protocol: int
    group: Annotated[str, Meta(max_length=64)]
    structure: Hash
    prior: Hash
    origin: Hash
    version: int
    shards: tuple[ShardId, ...]
    observations: int
    body: Hash


class Envelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    header: bytes
    signature: Signature
    body: bytes


@dataclass(frozen=True)
class SignedHeader:
    """A header and its signature: enough to name a version, and half of a proof of equivocation."""

    header: Header
    signature: bytes

    @property
    def origin(self) -> AgentId:
        return self.header.origin

    @property
    def version(self) -> int:
        return self.header.version

    @cached_property
    def header_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self.header)

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(self.header_bytes).digest()


@dataclass(frozen=True, eq=False)
class Record:
    """A signed header with its contribution. Whoever has one has made it or checked it (see `validation`)."""

    signed: SignedHeader
    body: bytes
    posterior: Posterior | None

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
    def retraction(self) -> bool:
        """Whether it says: do not count me any more."""
        return not self.signed.header.shards

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
) -> Record:
    """A new version of an agent's contribution; without a posterior, its retraction."""
    body = b"" if posterior is None else body_of(posterior)
    header = Header(
        protocol=PROTOCOL,
        group=charter.id,
        structure=bytes.fromhex(charter.model.structure.fingerprint),
        prior=bytes.fromhex(charter.structure.fingerprint),
        origin=identity.id,
        version=version,
        shards=tuple(sorted(shards)),
        observations=observations,
        body=hashlib.sha256(body).digest(),
    )
    digest = hashlib.sha256(msgspec.msgpack.encode(header)).digest()
    return Record(SignedHeader(header, identity.sign(digest)), body, posterior)


def body_of(posterior: Posterior) -> bytes:
    """The contribution's canonical bytes, sparse where the structure is."""
    return write_arrays(contribution_arrays(posterior))
