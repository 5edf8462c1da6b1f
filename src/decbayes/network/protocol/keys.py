"""Who an agent is: an Ed25519 key, and the hash of its public half as its id."""

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from decbayes.errors import InvalidKey

AgentId = bytes
"""SHA-256 of an agent's public key."""

# A signature says what it signs, so that one made for another purpose can never pass for a record's.
PURPOSE = b"decbayes record 1\0"
PUBLIC_BYTES = 32


@dataclass(frozen=True)
class Identity:
    """An agent's private key. It never leaves the agent's machine."""

    private: Ed25519PrivateKey

    @classmethod
    def generate(cls) -> "Identity":
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> "Identity":
        """The key that belongs to 32 secret bytes; tests and simulations use known ones."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Identity":
        """Read a key that `save` wrote."""
        try:
            private = load_pem_private_key(Path(path).read_bytes(), password=None)
        except (ValueError, TypeError) as error:
            raise InvalidKey(f"{path} is not a private key in PEM form: {error}") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise InvalidKey(f"{path} holds another kind of key; `decbayes keygen` makes Ed25519 keys.")
        return cls(private)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key, readable by its owner only; an existing file is never overwritten."""
        write_new(Path(path), private_pem(self.private), private=True)

    @cached_property
    def public(self) -> bytes:
        """The 32 bytes that the charter lists."""
        return self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @cached_property
    def id(self) -> AgentId:
        return agent_id(self.public)

    def sign(self, digest: bytes) -> bytes:
        return self.private.sign(PURPOSE + digest)


def private_pem(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_new(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file that must not exist yet, durably and whole or not at all; a private one is its owner's alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def agent_id(public: bytes) -> AgentId:
    return hashlib.sha256(public).digest()


def short(origin: AgentId) -> str:
    """An id as people read it."""
    return origin.hex()[:8]


def signed_by(public: bytes, digest: bytes, signature: bytes) -> bool:
    """Whether the holder of the key has signed the digest."""
    try:
        public_key(public).verify(signature, PURPOSE + digest)
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=4096)
def public_key(public: bytes) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(public)
    except ValueError as error:
        raise InvalidKey(f"{public.hex()} is not an Ed25519 public key: {error}") from None
