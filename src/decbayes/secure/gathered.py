"""The known messages of one sum, and who has to act next."""

from collections.abc import Collection
from dataclasses import dataclass, field

from decbayes.secure.terms import Kind, Message, Terms

KINDS: tuple[Kind, ...] = ("key", "masked", "opening")
SHOWING: tuple[Kind, ...] = ("consent", "shown")


def no_messages(kinds: tuple[Kind, ...] = KINDS) -> dict[Kind, dict[str, Message]]:
    return {kind: {} for kind in kinds}


@dataclass
class Gathered:
    """The valid messages of one sum, by kind and member."""

    terms: Terms
    messages: dict[Kind, dict[str, Message]] = field(default_factory=no_messages)
    showing: dict[Kind, dict[str, Message]] = field(default_factory=lambda: no_messages(SHOWING))
    """Messages of an audit: consents, and the keys shown."""

    @property
    def by_kind(self) -> dict[Kind, dict[str, Message]]:
        """All messages, of the sum and of its audit."""
        return {**self.messages, **self.showing}

    @property
    def number(self) -> int:
        return self.terms.round

    @property
    def begun(self) -> bool:
        return any(self.messages.values())

    @property
    def is_open(self) -> bool:
        """Whether enough messages are known to open the sum: parts of the opening may be missing."""
        kind, missing = self.waiting_for()
        return kind is None or (kind == "opening" and len(missing) <= self.terms.absent)

    def waiting_for(self) -> tuple[Kind | None, list[str]]:
        """The first kind of message that is incomplete, and the members it waits for; None if all are known."""
        for kind in KINDS:
            missing = [name for name in self.terms.seats if name not in self.messages[kind]]
            if missing:
                return kind, missing
        return None, []

    def of(self, kind: Kind) -> list[Message]:
        return list(self.messages[kind].values())


WAITED_FOR: dict[Kind, str] = {
    "key": "key",
    "masked": "masked contribution",
    "opening": "part of the opening",
    "consent": "consent to an audit",
    "shown": "unmasked numbers, as decided,",
}


def turn(number: int, rounds: int, kind: Kind | None, missing: Collection[str]) -> str:
    """A line that says whose turn it is."""
    if kind is None:
        return "all rounds are open" if rounds > 1 else "the only round is open"
    return f"round {number} of {rounds}: waiting for the {WAITED_FOR[kind]} of {', '.join(missing)}"
