"""Lines of the log in a few words, for people who look at the page."""

from collections.abc import Mapping
from typing import Any

SENTENCES = {
    "listening": "this agent listens",
    "linked": "a neighbour with the same charter is linked",
    "other_charter": "a neighbour has another charter ({charter})",
    "published": "this agent publishes what {observations:,} observations say",
    "accepted": "{member} has published what {observations:,} observations say",
    "excluded": "{member} has signed two records under one version, and is excluded",
    "flagged": "{member} {why}",
    "stopped": "this agent has stopped",
    "store_failed": "the store fails: {why}",
    "not_merged": "no merge: {why}",
    "refused": "refused ({reason}): {text}",
    "dropped": "{messages:,} messages were dropped",
}


def sentence(line: Mapping[str, Any]) -> str:
    """What happened; of events without a sentence their name, and why."""
    event = str(line["event"])
    try:
        return SENTENCES[event].format_map(line)
    except (KeyError, ValueError, TypeError):
        told = [str(line[key]) for key in ("member", "why", "text") if line.get(key)]
        return ": ".join([event.replace("_", " "), *told])
