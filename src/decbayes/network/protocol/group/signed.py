"""What a key has signed: a header in canonical bytes, of a record, of a vote, or of a message of a sum."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic, TypeVar

import msgspec

from decbayes.network.protocol.group.keys import AgentId, signed_by

H = TypeVar("H", bound=msgspec.Struct)


@dataclass(frozen=True)
class Signed(ABC, Generic[H]):
    """A header and its signature: enough to name what was signed, and half of a proof of equivocation."""

    header: H
    signature: bytes

    purpose: ClassVar[bytes]
    """What the signature is for: one made for another purpose is never valid for this one."""
    begins: ClassVar[bytes] = b""
    """What the digest covers before the header."""

    @property
    @abstractmethod
    def origin(self) -> AgentId:
        """Whose key has signed it."""

    @property
    @abstractmethod
    def only_once(self) -> tuple[object, ...]:
        """What a key may sign but one header under."""

    @cached_property
    def header_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self.header)

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(self.begins + self.header_bytes).digest()

    def signed_by(self, public: bytes) -> bool:
        """Whether this public key's owner has signed it."""
        return signed_by(public, self.digest, self.signature, self.purpose)
