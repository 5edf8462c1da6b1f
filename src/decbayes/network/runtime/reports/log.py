"""The log: one JSON object per line, for people and programs; repeated refusals are counted instead of logged."""

import json
import os
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Thread
from typing import IO, Any

from decbayes.network.protocol.group.keys import AgentId

# zenoh's messages about links that it refuses or cannot make; its other messages are for its developers.
CALLS = "zenoh::net::runtime::orchestrator"
LINKS = ("zenoh_link_tls", "zenoh_link_tcp", "zenoh_link_commons", "zenoh_transport")
ZENOH_LEVELS = ",".join(["error", *(f"{module}=warn" for module in LINKS), f"{CALLS}=debug"])
ZENOH_LINE = re.compile(rf"\S+\s+(?:WARN|ERROR)\s(?!.*{CALLS}).*?(?P<module>zenoh\w*)(?:::\w+)*: (?P<text>.*)")
NEIGHBOUR = r"configured peer \w+/(?P<endpoint>\S+?)"
UNREACHABLE = re.compile(rf"\S+\s+DEBUG\s.*{CALLS}: Unable to connect to {NEIGHBOUR}! (?P<why>.*)")
REACHED = re.compile(rf"\S+\s+DEBUG\s.*{CALLS}: Successfully connected to {NEIGHBOUR}")
# Parts of zenoh's errors that users do not need: source locations, internal links, times of retries.
SOURCE = re.compile(r" at /\S+:\d+\.*\]?| on: TransportLinkUnicast.*| Retry in \S+$")
NUMBERS = re.compile(r"\d+")
# zenoh adds this hint to every failed handshake, whatever its cause.
MISLEADING = " Hint: increase the system open file limit."
MOST_WARNINGS = 1000
# Errors of zenoh's TLS library about certificates, and what they mean.
CERTIFICATES = (
    (re.compile("certificate.*UnknownIssuer"), "another authority has signed it"),
    (re.compile("certificate.*(?i:expired|not valid after)"), "it has expired, or this machine's clock is wrong"),
    (re.compile("certificate.*(?i:not ?valid ?(yet|before))"), "it is not valid yet, or this machine's clock is wrong"),
    (re.compile("certificate.*(?i:not ?valid ?for ?name)"), "it is for other hosts"),
)


class Log:
    """Writes lines to a stream. If the stream is full or gone, lines are lost but the agent continues."""

    def __init__(self, stream: IO[str], names: Mapping[AgentId, str]) -> None:
        self._stream, self.names = stream, names
        self._repeated: Counter[tuple[str, str]] = Counter()
        # zenoh's messages about refused links, for the agent to count.
        self.warnings: deque[str] = deque(maxlen=MOST_WARNINGS)
        # Endpoints that cannot be reached, and why.
        self.unreachable: dict[str, str] = {}
        # Called with every line; must return at once.
        self.listener: Callable[[dict[str, Any]], None] = lambda _: None

    @classmethod
    def on_stdout(cls, names: Mapping[AgentId, str]) -> "Log":
        """A log on standard output; zenoh's warnings, which go there too, are diverted."""
        import zenoh

        sys.stdout.flush()
        log = cls(os.fdopen(os.dup(1), "w", encoding="utf-8"), names)
        reading, writing = os.pipe()
        os.dup2(writing, 1)
        os.close(writing)
        os.environ["NO_COLOR"] = "1"
        zenoh.init_log_from_env_or(ZENOH_LEVELS)
        Thread(target=divert, args=(reading, log), daemon=True).start()
        return log

    def __call__(self, event: str, **fields: Any) -> None:
        if event == "refused":
            # Messages about links are logged once per text, since only the text says what was wrong.
            kind = fields["reason"], NUMBERS.sub("", fields["text"]) if fields["reason"] == "link" else ""
            self._repeated[kind] += 1
            if self._repeated[kind] > 1:
                return
        if "origin" in fields:
            fields["member"] = self.names.get(bytes.fromhex(fields["origin"]))
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **fields}
        self._write(line)
        self.listener(line)

    def end_tick(self) -> None:
        """Log the number of repeated refusals since the last call."""
        more: Counter[str] = Counter()
        for (reason, _), count in self._repeated.items():
            more[reason] += count - 1
        self._repeated.clear()
        if more.total():
            self("refused_again", reasons=dict(+more))

    def _write(self, line: dict[str, Any]) -> None:
        try:
            self._stream.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            return


def divert(reading: int, log: Log) -> None:
    with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            understand(line.strip(), log)


def understand(line: str, log: Log) -> None:
    """Keep what a line of zenoh says about links that were refused or could not be made."""
    if (refused := ZENOH_LINE.match(line)) is not None:
        log.warnings.append(plain(refused["text"].replace(MISLEADING, "")))
    elif (call := UNREACHABLE.match(line)) is not None:
        why, before = plain(call["why"]), log.unreachable.get(call["endpoint"], "")
        # Our own port differs each time, so numbers are ignored.
        if NUMBERS.sub("", why) != NUMBERS.sub("", before):
            log.unreachable[call["endpoint"]] = why
    elif (call := REACHED.fullmatch(line)) is not None:
        log.unreachable.pop(call["endpoint"], None)


def plain(error: str) -> str:
    """An error of zenoh without details for developers, and with its meaning."""
    text = SOURCE.sub("", error).replace(": [", ": ")
    meaning = next((meaning for pattern, meaning in CERTIFICATES if pattern.search(text)), "")
    return f"{text} ({meaning})" if meaning else text


SENTENCES = {
    "listening": "this agent listens",
    "linked": "a neighbour with the same charter is linked",
    "other_charter": "a neighbour has another charter ({charter})",
    "other_revision": "a neighbour {why}",
    "published": "this agent publishes its contribution, {observations:,} observations",
    "accepted": "{member} has published its contribution, {observations:,} observations",
    "summed": "this agent has sent its {step} for round {round}, a sum over {seats} members",
    "opened": "round {opened} of {rounds} is open: the sum over all members",
    "excluded": "{member} has signed two things under one number, and is excluded",
    "voted": "{votes} voted: {text} ({motion})",
    "settled": "decided: {text} ({motion})",
    "overruled": "without effect: {text} ({motion}); members who still want it vote again",
    "adopted": "another charter is in force",
    "revoked": "{why}",
    "flagged": "{member} {why}",
    "group": "{why}",
    "stopped": "this agent has stopped",
    "withheld": "data are held back, by the disclosure rules: {why}",
    "awaiting_approval": "a contribution of {observations:,} observations waits for approval",
    "store_failed": "the store fails: {why}",
    "not_merged": "no merge: {why}",
    "refused": "refused ({reason}): {text}",
    "dropped": "{messages:,} messages were dropped",
    "unguarded": "{why}",
    "crowded": "{address} opens more connections than are allowed; {connections:,} were closed",
}


def listed(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def sentence(line: Mapping[str, Any]) -> str:
    """A log line as a sentence; events without one are given by name and reason."""
    event = str(line["event"])
    try:
        return SENTENCES[event].format_map({key: listed(value) for key, value in line.items()})
    except (KeyError, ValueError, TypeError):
        parts = [str(line[key]) for key in ("member", "why", "text") if line.get(key)]
        return ": ".join([event.replace("_", " "), *parts])
