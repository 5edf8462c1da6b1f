"""Bytes that nobody should send: random ones, and genuine ones with damage."""

from collections.abc import Callable, Sequence

import numpy as np

Damage = Callable[[bytearray, np.random.Generator], None]


def random_bytes(rng: np.random.Generator, *, longest: int = 600) -> bytes:
    return rng.bytes(int(rng.integers(longest)))


def damaged(contents: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """One of the contents, with one to three changes of any kind."""
    content = bytearray(contents[int(rng.integers(len(contents)))])
    for _ in range(int(rng.integers(1, 4))):
        DAMAGES[int(rng.integers(len(DAMAGES)))](content, rng)
    return bytes(content)


def unhashed(content: bytes) -> bytes:
    """A file without the hash by which any damage is found, as anybody can write it."""
    return content.replace(b'"sha256"', b'"nohash"', 1)


def flip_a_bit(content: bytearray, rng: np.random.Generator) -> None:
    if content:
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))


def overwrite(content: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(content) + 1))
    noise = rng.bytes(int(rng.integers(1, 9)))
    content[start : start + len(noise)] = noise


def cut_off(content: bytearray, rng: np.random.Generator) -> None:
    del content[int(rng.integers(len(content) + 1)) :]


def cut_out(content: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(content) + 1))
    del content[start : start + int(rng.integers(1, 33))]


def insert(content: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(content) + 1))
    content[start:start] = rng.bytes(int(rng.integers(1, 33)))


def repeat(content: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(content) + 1))
    content[start:start] = content[start : start + int(rng.integers(1, 65))]


def claim_a_lot(content: bytearray, rng: np.random.Generator) -> None:
    """A length prefix of up to four gibibytes, in MessagePack's or safetensors' way."""
    start = int(rng.integers(len(content) + 1))
    prefix = (b"\xc6", b"\xdd", b"\xdb", b"")[int(rng.integers(4))]
    content[start:start] = prefix + int(rng.integers(1 << 32)).to_bytes(4, "big")


DAMAGES: tuple[Damage, ...] = (flip_a_bit, overwrite, cut_off, cut_out, insert, repeat, claim_a_lot)
