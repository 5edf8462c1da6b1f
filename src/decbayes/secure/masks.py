"""Masks: streams of numbers that two members share and nobody else can tell from chance.

    packet_i = x_i + Σ_{j>i} stream(s_ij) − Σ_{j<i} stream(s_ij) + stream(b_i)     (mod 2⁶⁴)

s_ij follows from a Diffie-Hellman exchange of i and j (X25519, HKDF); it cancels in the sum of all packets. b_i is
drawn by i alone, who gives it away when all packets are there, and not before. So a packet that comes late to a sum
that was given up stays closed.
"""

import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from decbayes.base.extras import require
from decbayes.errors import SumRefused
from decbayes.privacy.grid import Integers
from decbayes.secure.terms import KEY_BYTES, PURPOSE, Terms

Words = NDArray[np.uint64]
TASK = "A secure sum"


class Secrets(msgspec.Struct, frozen=True):
    """What a member keeps to itself until a sum is over: a private key (X25519), and the seed of its last mask.

    >>> db.secure.Secrets.drawn() == db.secure.Secrets.drawn()
    False
    """

    private: bytes
    last: bytes

    def __repr__(self) -> str:
        return "Secrets(…)"

    @classmethod
    def drawn(cls) -> "Secrets":
        """From the operating system's entropy."""
        return cls(secrets.token_bytes(KEY_BYTES), secrets.token_bytes(KEY_BYTES))


def primitives(name: str) -> Any:
    return require(f"cryptography.hazmat.primitives.{name}", extra="net", task=TASK)


def public_half(private: bytes) -> bytes:
    """The public half of a private X25519 key."""
    key = primitives("asymmetric.x25519").X25519PrivateKey.from_private_bytes(private)
    return bytes(key.public_key().public_bytes_raw())


def pair_seed(terms: Terms, private: bytes, own: str, other: str, public: bytes) -> bytes:
    """The seed that two members share for this sum alone: it depends on all of the terms."""
    x25519 = primitives("asymmetric.x25519")
    try:
        shared = x25519.X25519PrivateKey.from_private_bytes(private).exchange(
            x25519.X25519PublicKey.from_public_bytes(public)
        )
    except ValueError:
        raise SumRefused(f"The key of {other} is none: anybody could compute its masks.") from None
    halves = b"".join(sorted((public_half(private), public)))
    return derived(terms, shared, b"pair\0" + "\0".join(sorted((own, other))).encode() + halves)


def derived(terms: Terms, secret: bytes, purpose: bytes) -> bytes:
    kdf, hashes = primitives("kdf.hkdf"), primitives("hashes")
    made = kdf.HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=terms.digest, info=PURPOSE + purpose)
    return bytes(made.derive(secret))


def stream(seed: bytes, length: int) -> Words:
    """Numbers that follow from the seed and look like chance without it. A seed is used once: the nonce is fixed."""
    ciphers = primitives("ciphers")
    encryptor = ciphers.Cipher(ciphers.algorithms.ChaCha20(seed, bytes(16)), None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * length)), dtype="<u8")


def masked(terms: Terms, own: str, secret: Secrets, publics: Mapping[str, bytes], steps: Integers) -> Words:
    """The numbers under all masks; `publics` are the keys of all members."""
    return steps.view(np.uint64) + last_mask(terms, own, secret.last) + pair_masks(terms, own, secret.private, publics)


def pair_masks(terms: Terms, own: str, private: bytes, publics: Mapping[str, bytes]) -> Words:
    """The masks that a member shares with each other one, which cancel in the sum."""
    words = np.zeros(terms.length, dtype=np.uint64)
    for other, public in publics.items():
        if other == own:
            continue
        mask = stream(pair_seed(terms, private, own, other, public), terms.length)
        words = words + mask if own < other else words - mask
    return words


def unmasked(terms: Terms, own: str, last: bytes, words: Words) -> Words:
    """A member's packet without the mask that it has drawn alone; those of pairs cancel in the sum."""
    return words - last_mask(terms, own, last)


def last_mask(terms: Terms, own: str, last: bytes) -> Words:
    return stream(derived(terms, last, b"last\0" + own.encode()), terms.length)
