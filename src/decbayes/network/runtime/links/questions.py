"""Sealing with the group's secret of everything that leaves an agent; answers are bound to their questions."""

import json
import os
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import zenoh
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from decbayes.errors import Refused
from decbayes.network.protocol.group.keys import keyed

if TYPE_CHECKING:
    from zenoh import Query


NONCE_BYTES = 12


class Once:
    """The most recent values, to recognise repetitions."""

    def __init__(self, most: int) -> None:
        self._known: set[bytes] = set()
        self._order: deque[bytes] = deque()
        self._most = most

    def new(self, thing: bytes) -> bool:
        """Whether a value is new; it is remembered."""
        if thing in self._known:
            return False
        self._known.add(thing)
        self._order.append(thing)
        if len(self._order) > self._most:
            self._known.discard(self._order.popleft())
        return True


class Seal:
    """Authenticated encryption. Content sealed `about` one thing cannot be opened about another."""

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


TOKEN_BYTES = 16
# The number of tokens remembered; older questions can be replayed, each at the cost of one answer.
MOST_TOKENS = 10_000
# The longest question, and the memory counted for one until it is answered.
QUESTION_BYTES = 1 << 16
# The answer to non-members.
NO_MEMBER = b"Only members are answered: it does not hold the group's secret."


class Asking:
    """The asker's side of one question."""

    def __init__(self, text: str, seal: Seal) -> None:
        self.text, self._seal, self._token = text, seal, os.urandom(TOKEN_BYTES)
        self.attachment = seal.close(self._token, text)

    def opened(self, payload: bytes, attachment: bytes) -> tuple[bytes, Any]:
        """The answer and its description; Refused or ValueError if they do not answer this question."""
        described = self._seal.open(attachment, about(self.text, self._token, "description"))
        return self._seal.open(payload, about(self.text, self._token, "answer")), json.loads(described)

    def refusal(self, payload: bytes) -> str:
        """Why there is no answer."""
        if payload == NO_MEMBER:
            return NO_MEMBER.decode()
        return self._seal.open(payload, about(self.text, self._token, "refusal")).decode(errors="replace")


class Question:
    """The answering side of one question, for any thread. Refused if the asker is not a member."""

    def __init__(self, query: "Query", own_key: str, seal: Seal, tokens: Once) -> None:
        self.text = str(query.key_expr).rpartition("/")[2]
        self._query, self._key, self._seal = query, f"{own_key}/{self.text}", seal
        self._token = seal.open(bytes(query.attachment or b""), self.text)
        if len(self._token) != TOKEN_BYTES or not tokens.new(self._token):
            raise Refused("replay", "a repeated question.")

    def answer(self, payload: bytes, description: dict[str, Any]) -> None:
        attachment = self._closed(json.dumps(description).encode(), "description")
        with suppress(zenoh.ZError), self._query:
            self._query.reply(self._key, self._closed(payload, "answer"), attachment=attachment)

    def refuse(self, why: str) -> None:
        with suppress(zenoh.ZError), self._query:
            self._query.reply_err(self._closed(why.encode(), "refusal"))

    def _closed(self, content: bytes, part: str) -> bytes:
        return self._seal.close(content, about(self.text, self._token, part))


def turn_away(query: "Query") -> None:
    """Answer that the asker is not a member."""
    with suppress(zenoh.ZError), query:
        query.reply_err(NO_MEMBER)


def about(question: str, token: bytes, part: str) -> str:
    return f"{question} {part} {token.hex()}"


def too_long(query: "Query") -> bool:
    """Whether it is too long for a question: it is dropped without an answer, to save memory."""
    parts = (query.attachment, query.payload, str(query.selector))
    return sum(len(part) for part in parts if part is not None) > QUESTION_BYTES
