"""The messages of one sum that are at hand, and who has to act next."""

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
    """Who has agreed to show what some members have added, and what these have shown."""

    @property
    def by_kind(self) -> dict[Kind, dict[str, Message]]:
        """All messages, of the sum and of what was shown of it."""
        return {**self.messages, **self.showing}

    @property
    def number(self) -> int:
        return self.terms.round

    @property
    def begun(self) -> bool:
        return any(self.messages.values())

    @property
    def is_open(self) -> bool:
        """Whether all messages are there that it takes: some parts of the opening may be missing."""
        kind, missing = self.waiting_for()
        return kind is None or (kind == "opening" and len(missing) <= self.terms.absent)

    def waiting_for(self) -> tuple[Kind | None, list[str]]:
        """The first kind of message that is not complete, and whose are missing; None if all are there."""
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
    "shown": "numbers in the clear, as was decided,",
}


def turn(number: int, rounds: int, kind: Kind | None, missing: Collection[str]) -> str:
    """Whose turn it is, in a line."""
    if kind is None:
        return "all rounds are open" if rounds > 1 else "the only round is open"
    return f"round {number} of {rounds}: waiting for the {WAITED_FOR[kind]} of {', '.join(missing)}"
