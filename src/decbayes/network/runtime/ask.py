"""Questions to a running agent: what it knows, and the merged posterior."""

import json
from dataclasses import replace
from typing import Any

import zenoh

from decbayes.errors import TransportFailed
from decbayes.files import MOST_BYTES, from_bytes
from decbayes.network.protocol.charter import Charter
from decbayes.network.runtime.links import Links
from decbayes.network.runtime.stored import Answer
from decbayes.network.runtime.transport import explain, open_session, root_key

TIMEOUT_SECONDS = 10.0


class Inquiry:
    """A session that asks one agent; it takes no part in the group's talk."""

    def __init__(self, charter: Charter, links: Links) -> None:
        self._charter, self._endpoint = charter, links.connect[0]
        self._session, _ = open_session(
            replace(links, listen=(), discovery="none"), most_bytes=MOST_BYTES, insist=False
        )

    def status(self, *, timeout: float = TIMEOUT_SECONDS) -> dict[str, Any]:
        return self._ask("status", timeout)[1]

    def posterior(self, *, timeout: float = TIMEOUT_SECONDS) -> Answer:
        payload, description = self._ask("posterior", timeout)
        answer = Answer(from_bytes(payload), description)
        if answer.posterior.structure != self._charter.model.structure or not is_description(description):
            raise self._odd()
        return answer

    def close(self) -> None:
        self._session.close()  # type: ignore[no-untyped-call]

    def __enter__(self) -> "Inquiry":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, question: str, timeout: float) -> tuple[bytes, dict[str, Any]]:
        selector = f"{root_key(self._charter)}/ask/*/{question}"
        try:
            replies = list(self._session.get(selector, timeout=timeout))
        except zenoh.ZError as error:
            raise TransportFailed(explain(str(error), ())) from None
        for reply in replies:
            if reply.ok is not None:
                return bytes(reply.ok.payload), self._described(bytes(reply.ok.attachment or b"{}"))
            if reply.err is not None:
                raise TransportFailed(f"The agent at {self._endpoint} says: {printable(bytes(reply.err.payload))}")
        group = self._charter.group
        raise TransportFailed(f"No agent of '{group}' answers at {self._endpoint}. Is it running, with this charter?")

    def _described(self, attachment: bytes) -> dict[str, Any]:
        try:
            description = json.loads(attachment)
        except (ValueError, RecursionError):
            raise self._odd() from None
        if not isinstance(description, dict):
            raise self._odd()
        return description

    def _odd(self) -> TransportFailed:
        group = self._charter.group
        return TransportFailed(f"What answers at {self._endpoint} is no agent of '{group}', or has another decbayes.")


def is_description(description: dict[str, Any]) -> bool:
    """Whether it is of the form that `describe` gives."""
    kinds = {"counted": dict, "observations": int, "set": str}
    return all(isinstance(description.get(name), kind) for name, kind in kinds.items())


def printable(text: bytes) -> str:
    """What somebody says, fit for a terminal."""
    return "".join(filter(str.isprintable, text.decode(errors="replace")[:500]))
