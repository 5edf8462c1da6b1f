"""Who an agent is: an Ed25519 key and its hash; and keyed digests of data, which nobody can guess."""

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
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
from scipy.sparse import csr_array, issparse

from decbayes.errors import InvalidKey
from decbayes.inputs.filed import FileMatrix
from decbayes.models.core.points import as_numbers

AgentId = bytes
"""SHA-256 of an agent's public key."""

# A signature says what it signs, so that one made for another purpose can never pass for a record's.
PURPOSE = b"decbayes record 2\0"
LINK = b"decbayes link 2\0"
PUBLIC_BYTES = 32
SECRET = re.compile(rb"-----BEGIN DECBAYES SITE SECRET-----\s+([A-Za-z0-9+/=]+)\s+-----END DECBAYES SITE SECRET-----")


@dataclass(frozen=True)
class Identity:
    """An agent's private key, and the secret under which its site names its shards. Neither leaves the site's machine.

    The secret follows from the first key, and stays when that is replaced: the same data keep their names.
    """

    private: Ed25519PrivateKey
    secret: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if not self.secret:
            own = self.private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
            object.__setattr__(self, "secret", keyed(own, b"decbayes site secret"))

    @classmethod
    def generate(cls, *, after: "Identity | None" = None) -> "Identity":
        """A new key; of a site that had another one before, if that is given."""
        return cls(Ed25519PrivateKey.generate(), b"" if after is None else after.secret)

    @classmethod
    def from_seed(cls, seed: bytes) -> "Identity":
        """The key that belongs to 32 secret bytes; tests and simulations use known ones."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Identity":
        """Read a key that `save` wrote."""
        content = Path(path).read_bytes()
        try:
            private = load_pem_private_key(content, password=None)
        except (ValueError, TypeError) as error:
            raise InvalidKey(f"{path} is not a private key in PEM form: {error}") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise InvalidKey(f"{path} holds another kind of key; `decbayes keygen` makes Ed25519 keys.")
        found = SECRET.search(content)
        return cls(private, b"" if found is None else base64.b64decode(found[1]))

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
    """A digest that nobody can compute, or compare with guesses, without the secret."""
    return hmac.digest(secret, content, "sha256")


def secret_pem(secret: bytes) -> bytes:
    text = base64.b64encode(secret)
    return b"-----BEGIN DECBAYES SITE SECRET-----\n" + text + b"\n-----END DECBAYES SITE SECRET-----\n"


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


def signed_by(public: bytes, digest: bytes, signature: bytes, purpose: bytes = PURPOSE) -> bool:
    """Whether the holder of the key has signed the digest."""
    try:
        public_key(public).verify(signature, purpose + digest)
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=4096)
def public_key(public: bytes) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(public)
    except ValueError as error:
        raise InvalidKey(f"{public.hex()} is not an Ed25519 public key: {error}") from None


MARK_BYTES = 16


def shard_id(data: Any, secret: bytes) -> str:
    """A site's own name for data: the same data twice is the same shard, and nobody else can tell which data it is."""
    return keyed(secret, b"shard" + content_digest(data)).hex()[:32]


def mark(data: Any, secret: bytes) -> bytes:
    """The group's name for data: members who hold the same data find out by it, others learn nothing from it."""
    return keyed(secret, b"mark" + content_digest(data))[:MARK_BYTES]


def content_digest(data: Any) -> bytes:
    """SHA-256 of the observations, in an order that follows from what they are."""
    digest = hashlib.sha256(str("sequences" if are_sequences(data) else np.shape(data)[1:]).encode())
    for row in sorted(rows_of(data)):
        digest.update(row)
    return digest.digest()


def rows_of(data: Any) -> Iterator[bytes]:
    """Each observation's bytes; those of a matrix in files are read some rows at a time."""
    if isinstance(data, FileMatrix):
        return (row for part in data for row in sparse_rows(part))
    if are_sequences(data):
        return (sequence_digest(each) for each in data)
    return sparse_rows(data) if issparse(data) else dense_rows(data)


def are_sequences(data: Any) -> bool:
    return isinstance(data, list) and all(np.ndim(each) == 2 for each in data)


def sequence_digest(steps: Any) -> bytes:
    """A sequence is one observation, of any length."""
    return hashlib.sha256(str(np.shape(steps)).encode() + b"".join(dense_rows(steps))).digest()


def dense_rows(data: Any) -> Iterator[bytes]:
    # Adding zero turns −0.0 into 0.0: equal values, equal bytes.
    values = as_numbers(data) + 0.0
    return (row.tobytes() for row in values.reshape(len(values), -1)) if values.size else iter(())


def sparse_rows(data: Any) -> Iterator[bytes]:
    """Rows of a sparse matrix in one form, whatever integers, order of entries or stored zeros it came with."""
    matrix = csr_array(data, copy=True)
    matrix.data = as_numbers(matrix.data) + 0.0
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    indices, ends = matrix.indices.astype(np.int64), matrix.indptr
    for first, last in pairwise(ends):
        # A row's own digest has one length, so that rows cannot be cut apart in two ways.
        yield hashlib.sha256(indices[first:last].tobytes() + matrix.data[first:last].tobytes()).digest()
