"""Whatever leaves an agent is sealed with the group's secret: a link, or a certificate, is not enough to read it.

zenoh hands a message to every session that has subscribed to its key, and any session may subscribe to all keys. So
whoever is linked gets the members' talk; only who has the charter can read it, and only such questions are answered.
"""

import os
from collections import deque

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from decbayes.errors import Refused
from decbayes.network.protocol.keys import keyed

NONCE_BYTES = 12


class Once:
    """So many of the last things that were seen, to tell what is heard for the first time."""

    def __init__(self, most: int) -> None:
        self._known: set[bytes] = set()
        self._order: deque[bytes] = deque()
        self._most = most

    def new(self, thing: bytes) -> bool:
        """Whether it was not seen before; it is from now on."""
        if thing in self._known:
            return False
        self._known.add(thing)
        self._order.append(thing)
        if len(self._order) > self._most:
            self._known.discard(self._order.popleft())
        return True


class Seal:
    """Encrypts and authenticates. What is sealed `about` one thing cannot be opened about another."""

    def __init__(self, secret: bytes) -> None:
        self._cipher = ChaCha20Poly1305(keyed(secret, b"seal"))

    def close(self, content: bytes, about: str) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, about.encode())

    def open(self, content: bytes, about: str) -> bytes:
        try:
            return self._cipher.decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], about.encode())
        except (InvalidTag, ValueError):
            raise Refused("stranger", "it does not hold the group's secret.") from None
