"""Questions to a running agent: its status, and the merged posterior."""

from dataclasses import replace
from typing import Any

import zenoh

from decbayes.errors import Refused, TransportFailed
from decbayes.files import MOST_BYTES, from_bytes
from decbayes.merging.base.compatibility import alike
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.runtime.links.endpoints import Links
from decbayes.network.runtime.links.questions import Asking, Seal
from decbayes.network.runtime.links.transport import explain, open_session, root_key
from decbayes.network.runtime.reports.description import Answer
from decbayes.posterior import Posterior

TIMEOUT_SECONDS = 10.0
# The longest reason of an agent for not answering that is shown.
MOST_CHARACTERS = 500


class Inquiry:
    """A session that asks one agent without taking part in the group's communication."""

    def __init__(self, charter: Charter, links: Links) -> None:
        self._charter, self._endpoint, self._tls = charter, links.connect[0], links.tls is not None
        self._seal = Seal(charter.secret)
        self._session, _ = open_session(
            replace(links, listen=(), discovery="none"), most_bytes=MOST_BYTES, insist=False
        )

    def status(self, *, timeout: float = TIMEOUT_SECONDS) -> dict[str, Any]:
        status = self._ask("status", timeout)[1]
        if not is_status(status):
            raise self._incompatible()
        return status

    def posterior(self, *, timeout: float = TIMEOUT_SECONDS) -> Answer:
        payload, description = self._ask("posterior", timeout)
        answer = Answer(from_bytes(payload), description)
        if not is_merge(answer.posterior, self._charter) or not is_description(description):
            raise self._incompatible()
        return answer

    def close(self) -> None:
        self._session.close()  # type: ignore[no-untyped-call]

    def __enter__(self) -> "Inquiry":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, question: str, timeout: float) -> tuple[bytes, dict[str, Any]]:
        selector, asking = f"{root_key(self._charter)}/ask/*/{question}", Asking(question, self._seal)
        try:
            replies = list(self._session.get(selector, timeout=timeout, attachment=asking.attachment))
        except zenoh.ZError as error:
            raise TransportFailed(explain(str(error), ())) from None
        for reply in replies:
            if reply.ok is not None:
                return self._opened(asking, bytes(reply.ok.payload), bytes(reply.ok.attachment or b""))
            if reply.err is not None:
                raise self._refused(asking, bytes(reply.err.payload))
        group = self._charter.group
        hint = "" if self._tls else " If it uses certificates, this command needs them, too: --tls-authority and so on."
        raise TransportFailed(
            f"No agent of '{group}' answers at {self._endpoint}. Is it running, with this charter?{hint}"
        )

    def _refused(self, asking: Asking, payload: bytes) -> TransportFailed:
        try:
            return TransportFailed(f"The agent at {self._endpoint} says: {asking.refusal(payload)[:MOST_CHARACTERS]}")
        except Refused:
            return self._incompatible()

    def _opened(self, asking: Asking, payload: bytes, attachment: bytes) -> tuple[bytes, dict[str, Any]]:
        try:
            content, description = asking.opened(payload, attachment)
        except (Refused, ValueError, RecursionError):
            raise self._incompatible() from None
        if not isinstance(description, dict):
            raise self._incompatible()
        return content, description

    def _incompatible(self) -> TransportFailed:
        group = self._charter.group
        return TransportFailed(
            f"The program at {self._endpoint} is not an agent of '{group}', or runs an incompatible version."
        )


def is_merge(posterior: Posterior, charter: Charter) -> bool:
    """Whether it has the charter's structure, perhaps with more words, or other components if allowed."""
    merged = posterior.structure
    agreed = charter.over_words_of(merged)
    return merged == agreed or (charter.rules.components != "model" and alike(merged, agreed))


def is_description(description: dict[str, Any]) -> bool:
    """Whether it has the form of a merge's description."""
    kinds = {"counted": dict, "observations": int, "set": str}
    named = all(isinstance(description.get(name), kind) for name, kind in kinds.items())
    return named and tells_members(description) and tells_belief(description)


def is_status(status: dict[str, Any]) -> bool:
    """Whether it has the form of an agent's status."""
    kinds = {"agent": str, "charter": str, "neighbours": list, "refused": dict, "root": str, "heard": dict}
    named = all(isinstance(status.get(name), kind) for name, kind in kinds.items())
    spoken = named and all(isinstance(neighbour, dict) for neighbour in status["neighbours"])
    return spoken and tells_members(status) and tells_belief(status)


def tells_members(description: dict[str, Any]) -> bool:
    """Whether the part about members, if any, has the form that commands print."""
    members, same = description.get("members", {}), description.get("same_data", [])
    if (
        not isinstance(members, dict)
        or not isinstance(same, list)
        or not all(isinstance(member, list) for member in same)
    ):
        return False
    groups = description.get("groups", {})
    if not isinstance(groups, dict) or not isinstance(groups.get("warnings", []), list):
        return False
    if not all(isinstance(groups.get(name, 0), int | float) for name in ("largest", "share", "members", "change")):
        return False
    numbers = ("in_prior", "observations", "shards", "share", "times_median", "log_bayes_factor", "apart")
    return all(
        isinstance(member, dict)
        and isinstance(member.get("flags", []), list)
        and all(isinstance(member.get(name, 0), int | float) for name in numbers)
        for member in members.values()
    )


def tells_belief(description: dict[str, Any]) -> bool:
    """Whether the part about calibration, if any, has the form that commands print."""
    shares, scores = description.get("overlaps", {}), description.get("scores", {})
    if not isinstance(shares, dict) or not isinstance(scores, dict) or not all(map(is_list, shares.values())):
        return False
    gain = description.get("gain", [])
    whole = (
        is_list(description.get("stale_notes", []))
        and is_list(gain)
        and isinstance(description.get("held_back", 0), int)
    )
    numbers = [*scores.values(), *(gain if whole else ()), *(x for overlaps in shares.values() for x in overlaps)]
    texts = [description.get("intervals", ""), description.get("per", "")]
    return whole and all(isinstance(x, int | float) for x in numbers) and all(isinstance(x, str) for x in texts)


def is_list(value: object) -> bool:
    return isinstance(value, list)
