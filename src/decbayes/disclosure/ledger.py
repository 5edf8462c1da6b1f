"""The ledger of a site: what has left it, in order, so that nothing can be taken out or changed unseen."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec

from decbayes.errors import DamagedLedger
from decbayes.files import lock
from decbayes.structure import canonical_json

FIRST = "0" * 64


@dataclass(frozen=True)
class Entry:
    """One release: which file, of how many, by whom, why; `before` is the digest of the entry before it.

    `members` are keyed digests of the persons behind the file: two releases can be compared by whoever has the key.

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

    @property
    def digest(self) -> str:
        return hashlib.sha256(canonical_json(asdict(self) | {"members": list(self.members)})).hexdigest()


class Ledger:
    """An append-only file of releases, each line chained to the one before it by a hash.

    Args:
        path: the file; it is made with the first entry.

    >>> ledger = db.disclosure.Ledger("releases.ledger")
    >>> entry = db.disclosure.Entry("2026-01-31", "a.posterior", "0" * 64, "north", "mixture", 200, "Kim")
    >>> ledger.append(entry)
    >>> [released.approver for released in ledger.entries()]
    ['Kim']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def entries(self) -> list[Entry]:
        """All entries, checked: DamagedLedger says which line was changed, is missing, or is only half there."""
        return list(self._checked(self.path.read_bytes() if self.path.exists() else b""))

    def append(self, entry: Entry) -> None:
        """Add an entry behind the last one, on disk before this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            lock(file, wait=True)
            file.seek(0)
            before = list(self._checked(file.read()))
            chained = replace(entry, before=before[-1].digest if before else FIRST)
            file.write(canonical_json(asdict(chained) | {"members": list(chained.members)}) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _checked(self, content: bytes) -> Iterator[Entry]:
        before = FIRST
        lines = content.split(b"\n")
        if lines.pop():
            raise DamagedLedger(f"{self.path}: line {len(lines) + 1} is only half there. {REMEDY}")
        for number, line in enumerate(lines, start=1):
            try:
                entry = msgspec.json.decode(line, type=Entry)
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise DamagedLedger(f"{self.path}: line {number} cannot be read. {REMEDY}") from None
            if entry.before != before:
                raise DamagedLedger(f"{self.path}: line {number} does not follow the line before it. {REMEDY}")
            before = entry.digest
            yield entry


REMEDY = "Restore the file from a backup; nothing is released until then."
