"""What outlives the process: every version that was ever sent is on the disk first (SQLite, WAL, synchronous FULL)."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec

from decbayes.errors import Refused, StoreFailed
from decbayes.network.charter import Charter
from decbayes.network.effects import Saved
from decbayes.network.pool import Proof
from decbayes.network.record import Envelope, Record, SignedHeader
from decbayes.network.validation import check_proof, open_header, open_record, verify

SCHEMA = """
CREATE TABLE IF NOT EXISTS agreement (charter_group TEXT NOT NULL, structure TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS versions (
    origin BLOB NOT NULL, version INTEGER NOT NULL, digest BLOB NOT NULL,
    header BLOB NOT NULL, signature BLOB NOT NULL, body BLOB,
    PRIMARY KEY (origin, version, digest)
) WITHOUT ROWID;
"""
INSERT = "INSERT OR IGNORE INTO versions VALUES (?, ?, ?, ?, ?, ?)"
DROP_OLD_BODIES = "UPDATE versions SET body = NULL WHERE origin = ? AND version < ? AND body IS NOT NULL"
ROWS = "SELECT origin, version, header, signature, body, digest FROM versions ORDER BY origin, version, digest"


class SqliteStore:
    """One agent's records in a file. Of earlier versions only the signed headers are kept.

    A store belongs to one running agent; `read_only` opens it beside that agent. What is read is validated again, and
    what does not pass is left out and counted in `damaged`: the agent hears of it anew from its neighbours.
    """

    def __init__(self, path: str | os.PathLike[str], charter: Charter, *, read_only: bool = False) -> None:
        self.path, self.charter, self.damaged = Path(path), charter, 0
        self._lock = None if read_only else locked(self.path)
        with failures(self.path):
            mode = "ro" if read_only else "rwc"
            self._connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None
            )
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
            for statement in filter(str.strip, SCHEMA.split(";")):
                transaction.execute(statement)
            if transaction.execute("SELECT count(*) FROM agreement").fetchone() == (0,):
                transaction.execute("INSERT INTO agreement VALUES (?, ?)", self._agreement)

    @property
    def _agreement(self) -> tuple[str, str]:
        return self.charter.id, self.charter.structure.fingerprint

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
        """The rows of one version: mostly one; two are a proof."""
        try:
            if len(rows) > 1:
                return [self._proof(rows)]
            return [self._header(rows[0]) if rows[0][4] is None else self._record(rows[0])]
        except Refused:
            self.damaged += 1
            return []

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


@contextmanager
def failures(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into one error that says which file is in trouble."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreFailed(f"{path}: {error}. Free some space, or check that the file is a decbayes store.") from error
