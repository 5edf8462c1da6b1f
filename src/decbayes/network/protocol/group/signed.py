"""Signed headers of records, votes and sum messages, in canonical bytes."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Meta

from decbayes.network.protocol.group.keys import AgentId, signed_by

H = TypeVar("H", bound=msgspec.Struct)
Hash = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, Meta(min_length=64, max_length=64)]


@dataclass(frozen=True)
class Signed(ABC, Generic[H]):
    """A header and its signature: it identifies what was signed, and is half of a proof of equivocation."""

    header: H
    signature: bytes

    purpose: ClassVar[bytes]
    """The signed bytes begin with it, so that signatures are not valid for another purpose."""
    begins: ClassVar[bytes] = b""
    """Bytes before the header that the digest covers."""

    @property
    @abstractmethod
    def origin(self) -> AgentId:
        """The agent whose key signed it."""

    @property
    @abstractmethod
    def only_once(self) -> tuple[object, ...]:
        """A value under which an honest key signs only one header."""

    @cached_property
    def header_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self.header)

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(self.begins + self.header_bytes).digest()

    def signed_by(self, public: bytes) -> bool:
        """Whether the owner of this public key has signed it."""
        return signed_by(public, self.digest, self.signature, self.purpose)
