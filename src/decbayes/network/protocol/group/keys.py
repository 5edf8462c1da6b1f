"""An agent's identity: an Ed25519 key and its hash."""

import base64
import hashlib
import hmac
import os
import re
from dataclasses import dataclass, field
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

from decbayes.base.writing import write_new
from decbayes.errors import InvalidKey

AgentId = bytes
"""SHA-256 of an agent's public key."""

# Signed bytes begin with their purpose, so that no signature is valid for another purpose.
PURPOSE = b"decbayes record 3\0"
LINK = b"decbayes link 3\0"
VOTE = b"decbayes vote 3\0"
PUBLIC_BYTES, SIGNATURE_BYTES = 32, 64
SECRET = re.compile(rb"-----BEGIN DECBAYES SITE SECRET-----\s+([A-Za-z0-9+/=]+)\s+-----END DECBAYES SITE SECRET-----")


@dataclass(frozen=True)
class Identity:
    """An agent's private key, and the secret that makes names for its site's shards. Both stay on the site's machine.

    The secret follows from the first key and survives its replacement, so that data keep their names.

    >>> key = network.Identity.generate()
    >>> key.save("a.key")
    >>> network.Identity.load("a.key").public == key.public
    True
    """

    private: Ed25519PrivateKey
    secret: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if not self.secret:
            seed = self.private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
            object.__setattr__(self, "secret", keyed(seed, b"decbayes site secret"))

    @classmethod
    def generate(cls, *, after: "Identity | None" = None) -> "Identity":
        """A new key; it keeps the secret of the key that it replaces, if given."""
        return cls(Ed25519PrivateKey.generate(), b"" if after is None else after.secret)

    @classmethod
    def from_seed(cls, seed: bytes) -> "Identity":
        """The key derived from 32 secret bytes; for tests and simulations."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Identity":
        """Read a key that `save` wrote."""
        content = Path(path).read_bytes()
        try:
            private = load_pem_private_key(content, password=None)
        except (ValueError, TypeError):
            raise InvalidKey(f"{path} is not a private key, as `decbayes keygen` makes them (PEM).") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise InvalidKey(f"{path} holds another kind of key; `decbayes keygen` makes Ed25519 keys.")
        secret = SECRET.search(content)
        return cls(private, b"" if secret is None else base64.b64decode(secret[1]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key, readable by its owner only; an existing file is never overwritten."""
        write_new(Path(path), private_pem(self.private) + secret_pem(self.secret), private=True)

    @cached_property
    def public(self) -> bytes:
        """The 32 bytes that the charter lists."""
        return self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @cached_property
    def id(self) -> AgentId:
        return agent_id(self.public)

    def sign(self, digest: bytes, purpose: bytes = PURPOSE) -> bytes:
        return self.private.sign(purpose + digest)


def keyed(secret: bytes, content: bytes) -> bytes:
    """A keyed digest: without the secret nobody can compute it or test guesses against it."""
    return hmac.digest(secret, content, "sha256")


def secret_pem(secret: bytes) -> bytes:
    text = base64.b64encode(secret)
    return b"-----BEGIN DECBAYES SITE SECRET-----\n" + text + b"\n-----END DECBAYES SITE SECRET-----\n"


def private_pem(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def agent_id(public: bytes) -> AgentId:
    """The id of an agent: SHA-256 of its public key.

    >>> network.agent_id(identity.public) == identity.id
    True
    """
    return hashlib.sha256(public).digest()


def short(origin: AgentId) -> str:
    """The first digits of an id, for people.

    >>> network.short(identity.id)
    '...'
    """
    return origin.hex()[:8]


def signed_by(public: bytes, digest: bytes, signature: bytes, purpose: bytes = PURPOSE) -> bool:
    """Whether the holder of the key has signed the digest."""
    return len(signature) == SIGNATURE_BYTES and verified(public, signature, purpose + digest)


@lru_cache(maxsize=4096)  # votes and records are checked several times
def verified(public: bytes, signature: bytes, signed: bytes) -> bool:
    try:
        public_key(public).verify(signature, signed)
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=4096)
def public_key(public: bytes) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(public)
    except ValueError as error:
        raise InvalidKey(f"{public.hex()} is not an Ed25519 public key: {error}") from None
