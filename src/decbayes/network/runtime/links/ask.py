"""Questions to a running agent: its status, and the merged posterior."""

from dataclasses import replace
from typing import Any

import msgspec
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
        if not has_form(status, StatusForm):
            raise self._incompatible()
        return status

    def posterior(self, *, timeout: float = TIMEOUT_SECONDS) -> Answer:
        payload, description = self._ask("posterior", timeout)
        answer = Answer(from_bytes(payload), description)
        if not is_merge(answer.posterior, self._charter) or not has_form(description, DescriptionForm):
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


class MemberForm(msgspec.Struct):
    in_prior: float = 0
    observations: float = 0
    shards: float = 0
    share: float = 0
    times_median: float = 0
    log_bayes_factor: float = 0
    apart: float = 0
    flags: list[Any] = []


class GroupsForm(msgspec.Struct, frozen=True):
    largest: float = 0
    share: float = 0
    members: float = 0
    change: float = 0
    warnings: list[Any] = []


class MergeForm(msgspec.Struct, kw_only=True):
    """What commands print of a merge, in an agent's status and in its answers."""

    members: dict[str, MemberForm] = {}
    groups: GroupsForm = GroupsForm()
    same_data: list[list[Any]] = []
    stale_notes: list[Any] = []
    overlaps: dict[str, list[float]] = {}
    scores: dict[str, float] = {}
    gain: list[float] = []
    held_back: int = 0
    intervals: str = ""
    per: str = ""


class DescriptionForm(MergeForm, kw_only=True):
    counted: dict[str, Any]
    observations: int
    set: str


class StatusForm(MergeForm, kw_only=True):
    agent: str
    charter: str
    neighbours: list[dict[str, Any]]
    refused: dict[str, Any]
    root: str
    heard: dict[str, Any]


def has_form(description: dict[str, Any], form: type[MergeForm]) -> bool:
    """Whether an answer has everything that commands print, of the right types."""
    try:
        msgspec.convert(description, form)
    except msgspec.ValidationError:
        return False
    return True
