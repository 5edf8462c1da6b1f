"""Masks: streams of numbers that two members share and that look random to everybody else.

    packet_i = x_i + Σ_{j>i} stream(s_ij) − Σ_{j<i} stream(s_ij) + stream(b_i)     (mod 2⁶⁴)
    b_i = ⊕_j piece(s_ij, i)

s_ij follows from a Diffie-Hellman exchange of i and j (X25519, HKDF); it cancels in the sum of all packets. b_i closes
the packet until i reveals it, or all others reveal their pieces of it, which nobody does before all packets are known.
So a packet that arrives late for an abandoned sum stays closed, and a member that vanishes after masking blocks nobody.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from decbayes.base.extras import require
from decbayes.errors import SumRefused
from decbayes.secure.terms import KEY_BYTES, PURPOSE, Terms

Words = NDArray[np.uint64]
TASK = "A secure sum"


class Secrets(msgspec.Struct, frozen=True):
    """A member's secret for one sum: the private key (X25519) that determines all its masks.

    >>> db.secure.Secrets.drawn() == db.secure.Secrets.drawn()
    False
    """

    private: bytes

    def __repr__(self) -> str:
        return "Secrets(…)"

    @classmethod
    def drawn(cls) -> "Secrets":
        """New secrets from the operating system's entropy."""
        return cls(secrets.token_bytes(KEY_BYTES))


def primitives(name: str) -> Any:
    return require(f"cryptography.hazmat.primitives.{name}", extra="net", task=TASK)


def public_half(private: bytes) -> bytes:
    key = primitives("asymmetric.x25519").X25519PrivateKey.from_private_bytes(private)
    return bytes(key.public_key().public_bytes_raw())


def pair_seed(terms: Terms, private: bytes, member: str, other: str, public: bytes) -> bytes:
    """The seed that two members share for this sum only: it depends on all of the terms."""
    x25519 = primitives("asymmetric.x25519")
    try:
        shared = x25519.X25519PrivateKey.from_private_bytes(private).exchange(
            x25519.X25519PublicKey.from_public_bytes(public)
        )
    except ValueError:
        raise SumRefused(f"The key of {other} is not valid: anybody could compute its masks.") from None
    halves = b"".join(sorted((public_half(private), public)))
    return derived(terms, shared, b"pair\0" + "\0".join(sorted((member, other))).encode() + halves)


def derived(terms: Terms, secret: bytes, purpose: bytes) -> bytes:
    kdf, hashes = primitives("kdf.hkdf"), primitives("hashes")
    hkdf = kdf.HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=terms.digest, info=PURPOSE + purpose)
    return bytes(hkdf.derive(secret))


def stream(seed: bytes, length: int) -> Words:
    """Pseudorandom numbers from a seed. Each seed is used once, so the nonce is fixed."""
    ciphers = primitives("ciphers")
    encryptor = ciphers.Cipher(ciphers.algorithms.ChaCha20(seed, bytes(16)), None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * length)), dtype="<u8")


@dataclass(frozen=True)
class Masks:
    """The masks of one member's packet, and its pieces of all members' last masks; `pairs` are seeds by name."""

    terms: Terms
    member: str
    pairs: Mapping[str, bytes]

    @classmethod
    def of(cls, terms: Terms, member: str, private: bytes, publics: Mapping[str, bytes]) -> "Masks":
        """The masks of a member, from its private key and the public keys of all members."""
        others = {name: public for name, public in publics.items() if name != member}
        return cls(terms, member, {name: pair_seed(terms, private, member, name, key) for name, key in others.items()})

    @property
    def last(self) -> bytes:
        """The seed of the member's last mask."""
        return joined(self._piece(name, self.member) for name in self.pairs)

    def parts(self) -> bytes:
        """The body of an opening: the seed of its last mask and a piece of each other member's, ordered by name."""
        return b"".join(self.last if name == self.member else self._piece(name, name) for name in self.terms.seats)

    def _piece(self, other: str, of: str) -> bytes:
        return derived(self.terms, self.pairs[other], b"piece\0" + of.encode())

    def words(self) -> Words:
        total = last_mask(self.terms, self.member, self.last)
        for other, seed in self.pairs.items():
            mask = stream(seed, self.terms.length)
            total = total + mask if self.member < other else total - mask
        return total


def joined(pieces: Iterable[bytes]) -> bytes:
    words = [int.from_bytes(piece) for piece in pieces]
    return reduce(xor, words, 0).to_bytes(KEY_BYTES)


def unmasked(terms: Terms, member: str, last: bytes, words: Words) -> Words:
    """A member's packet without its last mask; the masks of pairs cancel in the sum."""
    return words - last_mask(terms, member, last)


def last_mask(terms: Terms, member: str, last: bytes) -> Words:
    return stream(derived(terms, last, b"last\0" + member.encode()), terms.length)
