"""What outlives the process: every version that was ever sent is on the disk first (SQLite, WAL, synchronous FULL)."""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

import msgspec

from decbayes.errors import Refused, StoreFailed
from decbayes.network.protocol.charter import Charter
from decbayes.network.protocol.effects import Saved
from decbayes.network.protocol.pool import Proof
from decbayes.network.protocol.record import Envelope, Record, SignedHeader
from decbayes.network.protocol.validation import check_proof, open_header, open_record, verify

# Raised whenever what is written changes, so that an older decbayes leaves a newer store alone.
FORMAT = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS agreement (charter_group TEXT NOT NULL, structure TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS versions (
    origin BLOB NOT NULL, version INTEGER NOT NULL, digest BLOB NOT NULL,
    header BLOB NOT NULL, signature BLOB NOT NULL, body BLOB,
    PRIMARY KEY (origin, version, digest)
) WITHOUT ROWID;
"""
# What is there already is written over: the disk may have damaged it, and it counts as durable from now on.
INSERT = """
INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET header = excluded.header, signature = excluded.signature, body = coalesce(excluded.body, body)
"""
DROP_OLD_BODIES = "UPDATE versions SET body = NULL WHERE origin = ? AND version < ? AND body IS NOT NULL"
ROWS = "SELECT origin, version, header, signature, body, digest FROM versions ORDER BY origin, version, digest"

Item = TypeVar("Item", bound=Saved)
DAMAGED = (
    "It is damaged, or no decbayes store. If it is a store, move it away and start with a new one: the agent will hear "
    "from its neighbours what it has published, and all that they know."
)
ACCESS = "Check that it is a file, and who may write to it and to its folder."
SPACE = "Free some space, or check the disk."
REMEDIES = {
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_CANTOPEN: ACCESS,
    sqlite3.SQLITE_READONLY: ACCESS,
    sqlite3.SQLITE_PERM: ACCESS,
    sqlite3.SQLITE_FULL: SPACE,
    sqlite3.SQLITE_IOERR: SPACE,
}


class SqliteStore:
    """One agent's records in a file. Of earlier versions only the signed headers are kept.

    A store belongs to one running agent; `read_only` opens it beside that agent. What is read is validated again, and
    what does not pass is left out and counted in `damaged`: the agent hears of it anew from its neighbours.
    """

    def __init__(self, path: str | os.PathLike[str], charter: Charter, *, read_only: bool = False) -> None:
        self.path, self.charter, self.damaged = Path(path), charter, 0
        self._lock = None if read_only else locked(self.path)
        with failures(self.path):
            self._connection = sqlite3.connect(address(self.path, read_only), uri=True, isolation_level=None)
            self._check_format()
            if not read_only:
                self._prepare()
            self._check_agreement()

    def put(self, item: Record | Proof) -> None:
        """Make a record or a proof durable, or raise StoreFailed."""
        with failures(self.path), self._transaction() as transaction:
            if isinstance(item, Proof):
                transaction.executemany(INSERT, [row(item.first), row(item.second)])
            else:
                transaction.execute(INSERT, row(item.signed, item.body))
                transaction.execute(DROP_OLD_BODIES, (item.origin, item.version))

    def load(self) -> list[Saved]:
        """Everything that was put, for a new start of the agent."""
        with failures(self.path):
            rows = self._connection.execute(ROWS).fetchall()
        return [item for _, group in groupby(rows, key=lambda row: row[:2]) for item in self._read(list(group))]

    def close(self) -> None:
        self._connection.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> "SqliteStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        with self._transaction() as transaction:
            # A file that may not be written is found out now: this is the one statement that writes at every start.
            transaction.execute(f"PRAGMA user_version = {FORMAT}")
            for statement in filter(str.strip, SCHEMA.split(";")):
                transaction.execute(statement)
            if transaction.execute("SELECT count(*) FROM agreement").fetchone() == (0,):
                transaction.execute("INSERT INTO agreement VALUES (?, ?)", self._agreement)

    @property
    def _agreement(self) -> tuple[str, str]:
        return self.charter.id, self.charter.structure.fingerprint

    def _check_format(self) -> None:
        (found,) = self._connection.execute("PRAGMA user_version").fetchone()
        if found > FORMAT:
            raise StoreFailed(
                f"{self.path} is of a newer decbayes (format {found}; this one knows {FORMAT}). Update decbayes."
            )

    def _check_agreement(self) -> None:
        seen = self._connection.execute("SELECT charter_group, structure FROM agreement").fetchone()
        if seen != self._agreement:
            raise StoreFailed(f"{self.path} belongs to another charter. Each group and model needs a store of its own.")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _read(self, rows: list[tuple[Any, ...]]) -> list[Saved]:
        """The rows of one version: mostly one; two are a proof, unless one of them is damaged."""
        sound = rows if len(rows) == 1 else [row for row in rows if self._unless_damaged(self._header, row)]
        item = self._unless_damaged(self._proof if len(sound) > 1 else self._single, sound) if sound else None
        return [] if item is None else [item]

    def _unless_damaged(self, read: Callable[[Any], Item], rows: Any) -> Item | None:
        try:
            return read(rows)
        except Refused:
            self.damaged += 1
            return None

    def _single(self, rows: list[tuple[Any, ...]]) -> Record | SignedHeader:
        return self._header(rows[0]) if rows[0][4] is None else self._record(rows[0])

    def _header(self, row: tuple[Any, ...]) -> SignedHeader:
        """A header of the past. Its signature was checked when it came in; there may be many thousands of them."""
        signed = open_header(row[2], row[3], self.charter)
        if signed.digest != row[5]:
            raise Refused("digest", "the row is damaged.")
        return signed

    def _proof(self, rows: list[tuple[Any, ...]]) -> Proof:
        proof = Proof(self._header(rows[0]), self._header(rows[1]))
        check_proof(proof, self.charter)
        return proof

    def _record(self, row: tuple[Any, ...]) -> Record:
        content = msgspec.msgpack.encode(Envelope(row[2], row[3], row[4]))
        return verify(open_record(content, self.charter), self.charter)


def row(signed: SignedHeader, body: bytes | None = None) -> tuple[Any, ...]:
    return signed.origin, signed.version, signed.digest, signed.header_bytes, signed.signature, body


def locked(path: Path) -> IO[bytes]:
    """Hold the store for this process: two agents on one store would use the same versions."""
    file = path.with_name(f"{path.name}.lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise StoreFailed(f"{path} is in use by another agent. Every agent needs a store of its own.") from None
    return file


def address(path: Path, read_only: bool) -> str:
    """SQLite writes beside a store even to read it, unless it is told that nobody else has it open."""
    if not read_only:
        return f"{path.absolute().as_uri()}?mode=rwc"
    closed = not path.with_name(f"{path.name}-wal").exists() and not os.access(path.absolute().parent, os.W_OK)
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if closed else ''}"


@contextmanager
def failures(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into one error that says which file is in trouble, and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        # The lower byte is the kind of the error, the rest its details.
        kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        remedy = REMEDIES.get(kind, "Check that the file is a decbayes store.")
        raise StoreFailed(f"{path}: {error}. {remedy}") from error
