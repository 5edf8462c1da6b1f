"""A site's ledger: everything that has left it, in order, so that no change or omission goes unnoticed."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from decbayes.base.writing import lock
from decbayes.errors import DamagedLedger, NotDisclosed
from decbayes.structure import canonical_json

if TYPE_CHECKING:
    from decbayes.disclosure.budgets import Account
    from decbayes.privacy.releasing import Spending

FIRST = "0" * 64
# The name of a line's own digest, by which a change of the last line is noticed, too.
CHECK = "digest"


@dataclass(frozen=True)
class Spent:
    """What a private release spent of its data set's budget, or a new budget.

    Args:
        data_set: the name of the data set; all its releases add up.
        epsilon, delta: the budget in force.
        mu: the amount spent; 0 if only the budget was set.
        round: the number of the round, from 0.
    """

    data_set: str
    epsilon: float
    delta: float
    mu: float = 0.0
    round: int = 0


@dataclass(frozen=True)
class Entry:
    """One release: its file, numbers of rows and persons, approver and reason; `before` is the previous entry's digest.

    `members` are keyed digests of the persons behind the file, by which the holder of the key can compare releases.

    >>> db.disclosure.Entry("2026-01-31", "a.posterior", "0" * 64, "north", "mixture", 200, "Kim").approver
    'Kim'
    """

    date: str
    file: str
    posterior: str
    site: str
    model: str
    rows: int
    approver: str
    reason: str = ""
    persons: int = 0
    members: tuple[str, ...] = ()
    before: str = FIRST
    private: Spent | None = None

    @property
    def digest(self) -> str:
        return hashlib.sha256(canonical_json(self.plain())).hexdigest()

    def plain(self) -> dict[str, Any]:
        """The entry as plain values, for its line."""
        values = asdict(self) | {"members": list(self.members)}
        if self.private is None:  # older ledgers do not have this field
            del values["private"]
        return values


class Ledger:
    """An append-only file of releases, each line with its own hash and chained to the one before it.

    Args:
        path: the file; the first entry creates it.

    >>> ledger = db.disclosure.Ledger("releases.ledger")
    >>> entry = db.disclosure.Entry("2026-01-31", "a.posterior", "0" * 64, "north", "mixture", 200, "Kim")
    >>> ledger.append(entry)
    >>> [released.approver for released in ledger.entries()]
    ['Kim']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def entries(self) -> list[Entry]:
        """All entries, checked: DamagedLedger says which line was changed, is missing, or is incomplete."""
        return list(self._checked(self.path.read_bytes() if self.path.exists() else b""))

    def append(self, entry: Entry, check: Callable[[list[Entry]], None] = lambda entries: None) -> None:
        """Append an entry, durably; `check` gets all earlier entries and may raise an error to refuse it."""
        if not self.path.exists():
            check([])  # a refusal leaves no empty ledger
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b", buffering=0) as file:
            lock(file, wait=True)
            file.seek(0)
            content = file.read()
            before = list(self._checked(content))
            check(before)
            chained = replace(entry, before=before[-1].digest if before else FIRST)
            line = canonical_json(chained.plain() | {CHECK: chained.digest}) + b"\n"
            try:
                if file.write(line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError as error:
                file.truncate(len(content))  # half a line would stop all later releases
                raise OSError(error.errno, error.strerror, str(self.path)) from None

    def spend(self, spending: "Spending", *, once: bool = False) -> None:
        """Record a private release before it is sent; refused if it exceeds its data set's budget.

        With `once` a release that an interrupted command has recorded already is not recorded again.
        """
        from decbayes.disclosure.budgets import check_spending

        promise, name = spending.privacy, spending.data_set
        spent = Spent(name, promise.epsilon, promise.delta, spending.mu, spending.round)
        entry = Entry(today(), "", spending.release, spending.site, spending.model, 0, "", private=spent)

        if not once or all(known.posterior != spending.release for known in self.entries()):
            self.append(entry, lambda entries: check_spending(self.path, spending, entries))

    def set_budget(self, data_set: str, epsilon: float, delta: float, *, approver: str, reason: str = "") -> None:
        """Set a data set's total budget, and record who decided it.

        >>> ledger = db.disclosure.Ledger("patients.ledger")
        >>> ledger.set_budget("patients", 2.0, 1e-6, approver="Dr Kim")
        >>> [account] = ledger.accounts()
        >>> account.data_set, account.spent
        ('patients', 0.0)
        """
        from decbayes.privacy.accounting import Privacy

        if not approver.strip():
            raise NotDisclosed("A budget needs the name of the person who sets it: --approve NAME.")
        spent = Spent(data_set, Privacy(epsilon, delta).epsilon, delta)
        self.append(Entry(today(), "", "", "", "", 0, approver, reason, private=spent))

    def accounts(self) -> "list[Account]":
        """What each data set may spend, has spent and has left."""
        from decbayes.disclosure.budgets import accounts

        return accounts(self.entries())

    def _checked(self, content: bytes) -> Iterator[Entry]:
        before = FIRST
        lines = content.split(b"\n")
        if lines.pop():
            raise DamagedLedger(f"{self.path}: line {len(lines) + 1} is incomplete. {REMEDY}")
        for number, line in enumerate(lines, start=1):
            try:
                values = msgspec.json.decode(line, type=dict[str, Any])
                check, entry = values.pop(CHECK, ""), msgspec.convert(values, Entry)
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise DamagedLedger(f"{self.path}: line {number} cannot be read. {REMEDY}") from None
            if check != entry.digest:
                raise DamagedLedger(f"{self.path}: line {number} was changed. {REMEDY}")
            if entry.before != before:
                raise DamagedLedger(f"{self.path}: line {number} does not follow the line before it. {REMEDY}")
            before = entry.digest
            yield entry


def today() -> str:
    return datetime.now(UTC).date().isoformat()


REMEDY = "Restore the file from a backup; nothing is released until then."
