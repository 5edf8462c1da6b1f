"""Statements in records: which disclosure rules were obeyed, and who approved the release."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from decbayes.disclosure import Rules
from decbayes.errors import InvalidFile, InvalidRules, Refused
from decbayes.network.protocol.group.charter import Charter
from decbayes.structure import canonical_json

NAME = "disclosure/statement"
MOST_BYTES = 8192
LONGEST_NAME, LONGEST_REASON = 100, 1000


@dataclass(frozen=True)
class Approval:
    """Who approved the release of evidence from its site, why and when."""

    approver: str
    reason: str = ""
    date: str = ""

    @property
    def proper(self) -> bool:
        """Whether there is a name, and all texts are printable and short."""
        texts = (self.approver, self.reason, self.date)
        short = len(self.approver) <= LONGEST_NAME >= len(self.date) and len(self.reason) <= LONGEST_REASON
        return bool(self.approver.strip()) and short and all(text.isprintable() for text in texts)


@dataclass(frozen=True)
class Statement:
    """The rules that a record obeys, and its approval if one is required. The origin signs both with the record."""

    rules: Rules
    approval: Approval | None = None

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The statement as part of a record's body: JSON, padded to whole integers."""
        statement: dict[str, Any] = {"rules": self.rules.plain()}
        if self.approval is not None:
            statement |= {
                "approver": self.approval.approver,
                "reason": self.approval.reason,
                "date": self.approval.date,
            }
        content = canonical_json(statement)
        return {NAME: np.frombuffer(content + b" " * (-len(content) % 4), dtype="<i4")}


class StatementFields(msgspec.Struct, forbid_unknown_fields=True):
    rules: dict[str, Any]
    approver: str = ""
    reason: str = ""
    date: str = ""


def statement_from(arrays: Mapping[str, Any]) -> Statement | None:
    """The statement in a record's arrays; None if there is none."""
    if NAME not in arrays:
        return None
    part = arrays[NAME]
    if part.ndim != 1 or part.dtype != np.dtype("<i4") or part.nbytes > MOST_BYTES:
        raise InvalidFile("the statement on disclosure is not a short text.")
    try:
        statement = msgspec.json.decode(part.tobytes(), type=StatementFields)
        rules = Rules.of(statement.rules)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidRules, TypeError):
        raise InvalidFile("the statement on disclosure cannot be read.") from None
    approval = Approval(statement.approver, statement.reason, statement.date) if statement.approver else None
    if approval is not None and not approval.proper:
        raise InvalidFile("the statement on disclosure has a name or a reason that cannot be printed.")
    return Statement(rules, approval)


def check_statement(statement: Statement | None, charter: Charter) -> None:
    """Refuse evidence that does not state that it obeys the charter's disclosure rules; errors quote no data."""
    rules = charter.disclosure
    if rules is None:
        return
    if statement is None:
        raise Refused("rules", "it does not say which disclosure rules it obeys.")
    looser = [name for name in statement.rules.looser_than(rules) if name != "approval"]
    if looser:
        raise Refused("rules", f"it obeys looser disclosure rules than the charter's: {', '.join(looser)}.")
    if rules.approval and statement.approval is None:
        raise Refused("rules", "nobody at its site has approved it.")
