"""The durable store: every version is on disk before it is sent (SQLite, WAL, synchronous FULL)."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

import msgspec

from decbayes.base.writing import lock
from decbayes.errors import Refused, StoreFailed
from decbayes.network.protocol.effects import Saved
from decbayes.network.protocol.group.ballots import open_ballot
from decbayes.network.protocol.group.charter import Charter, abbreviated
from decbayes.network.protocol.group.decisions import Decisions
from decbayes.network.protocol.group.keys import Identity, keyed
from decbayes.network.protocol.group.motions import Ballot, Proof
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.protocol.records.record import Envelope, Record
from decbayes.network.protocol.records.verification import check_proof, open_record, open_signed, verify
from decbayes.network.protocol.sums import Packet, SumPart, packet_from, sum_part_from
from decbayes.network.runtime.store._inventory import keep_inventory, vanished_entries

# Increased with every change of the format, so that no version of decbayes misreads a store.
FORMAT = 3
SCHEMA = """
CREATE TABLE IF NOT EXISTS agreement (
    charter_group TEXT NOT NULL, structure TEXT NOT NULL, charter TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS owner (site BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS ballots (
    motion BLOB PRIMARY KEY, after BLOB NOT NULL, settled INTEGER NOT NULL, content BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS records (
    origin BLOB PRIMARY KEY, epoch BLOB NOT NULL, version INTEGER NOT NULL,
    header BLOB NOT NULL, signature BLOB NOT NULL, body BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS proofs (
    origin BLOB PRIMARY KEY,
    header BLOB NOT NULL, signature BLOB NOT NULL, other_header BLOB NOT NULL, other_signature BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS packets (digest BLOB PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS played (terms BLOB PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS shards (name TEXT PRIMARY KEY, shard TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS withdrawn (shard TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, content TEXT NOT NULL, answer TEXT);
"""
# One row per origin, so that a write costs the same after a thousand versions as after one. An equal version is written
# again, because the stored one may be damaged.
PUT_RECORD = """
INSERT INTO records VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (origin) DO UPDATE
SET epoch = excluded.epoch, version = excluded.version, header = excluded.header,
    signature = excluded.signature, body = excluded.body
WHERE excluded.version >= version OR excluded.epoch <> epoch OR typeof(version) <> 'integer'
"""
PUT_PROOF = "INSERT OR REPLACE INTO proofs VALUES (?, ?, ?, ?, ?)"
PUT_BALLOT = "INSERT OR REPLACE INTO ballots VALUES (?, ?, ?, ?)"
PUT_PACKET = "INSERT OR REPLACE INTO packets VALUES (?, ?)"
PUT_PLAYED = "INSERT OR REPLACE INTO played VALUES (?, ?)"
# Motions that were pending under an earlier version have lapsed.
DROP_LAPSED = "DELETE FROM ballots WHERE NOT settled AND after <> ?"

Item = TypeVar("Item")
DAMAGED = (
    "It is damaged, or not a decbayes store. If it is a store, move it away and start with a new one: the agent "
    "will get all published contributions back from its neighbours, including its own."
)
RESTART = (
    "Stop the agent, put the file back if you have it, and start again: without it the agent will get its published "
    "contribution back from its neighbours."
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


Row = tuple[Any, ...]
Read = Callable[[Row, Roster], Item]


class SqliteStore:
    """One agent's records, proofs and ballots in a file.

    A store belongs to one running agent; `read_only` opens it beside that agent. Everything read is validated again;
    invalid entries are skipped and counted in `damaged`, and the agent gets them again from its neighbours. Records of
    another epoch stay until newer ones replace them.

    >>> with network.SqliteStore("a.store", charter) as store:
    ...     store.put([record])
    >>> with network.SqliteStore("a.store", charter) as store:
    ...     [item.version for item in store.load()]
    [1]
    """

    def __init__(self, path: str | os.PathLike[str], charter: Charter, *, read_only: bool = False) -> None:
        self.path, self.charter, self.damaged = Path(path), charter, 0
        self._in_force = charter
        self._unsound: set[bytes] = set()
        self._lock = None if read_only else lock_store(self.path)
        try:
            with failures(self.path):
                if not read_only and not self.path.exists():
                    self.path.touch(mode=0o600)  # SQLite's files beside it become like it
                self.connection = sqlite3.connect(address(self.path, read_only), uri=True, isolation_level=None)
                self._open(read_only)
                self._file = file_at(self.path)
        except StoreFailed:
            self.close()
            raise

    def check_owner(self, identity: Identity) -> None:
        """Refuse another site's store, since the data of both would be published as one.

        The first key that `own`s a store determines its site; a replacement key has the same secret.
        """
        with self.transaction() as transaction:
            owners = transaction.execute("SELECT site FROM owner").fetchall()
        if owners and owners != [(site_of(identity),)]:
            raise StoreFailed(
                f"{self.path} was begun with another key. Start it with that key, with one that replaces it "
                "(`decbayes keygen --after`), or give this key a store of its own."
            )

    def own(self, identity: Identity) -> None:
        """Make it the store of this site if it has none yet; called after all other checks of a start."""
        self.check_owner(identity)
        with self.transaction() as transaction:
            transaction.execute(
                "INSERT INTO owner SELECT ? WHERE NOT EXISTS (SELECT * FROM owner)", (site_of(identity),)
            )

    def put(self, items: Sequence[Saved]) -> None:
        """Make all items durable or none; StoreFailed if that is impossible."""
        with self.transaction() as transaction:
            for item in items:
                if isinstance(item, Proof):
                    transaction.execute(PUT_PROOF, proof_row(item))
                elif isinstance(item, Ballot):
                    self._put_ballot(transaction, item)
                elif isinstance(item, Packet | SumPart):
                    statement = PUT_PACKET if isinstance(item, Packet) else PUT_PLAYED
                    transaction.execute(statement, (item.digest, item.content))
                else:
                    if item.origin in self._unsound:
                        transaction.execute("DELETE FROM records WHERE origin = ?", (item.origin,))
                    transaction.execute(PUT_RECORD, record_row(item))
        self._unsound -= {item.origin for item in items if isinstance(item, Record)}

    @staticmethod
    def _put_ballot(transaction: sqlite3.Connection, ballot: Ballot) -> None:
        after = b"".join(ballot.motion.after)
        if not ballot.settled:
            transaction.execute(DROP_LAPSED, (after,))
        transaction.execute(PUT_BALLOT, (ballot.digest, after, ballot.settled, ballot.content))

    def load(self) -> list[Saved]:
        """Everything that counts under the charter in force, for the start of an agent."""
        with failures(self.path):
            self.damaged = len(vanished_entries(self.connection))
            rows = self.connection.execute("SELECT * FROM records ORDER BY origin").fetchall()
            pairs = self.connection.execute("SELECT * FROM proofs ORDER BY origin").fetchall()
            votes = self.connection.execute(
                "SELECT content, settled FROM ballots ORDER BY settled DESC, motion"
            ).fetchall()
        decisions = Decisions(self.charter)
        ballots = self._ballots(pairs, votes, decisions)
        self._in_force = decisions.charter
        records = self._sound(self._record, rows, decisions.ever)
        return [*decisions.proofs.values(), *ballots, *records, *self._sums()]

    def _sums(self) -> list[Packet | SumPart]:
        """Sum messages and this member's part in sums; empty for groups without sums."""
        if self.charter.sums is None:
            return []
        with failures(self.path):
            packets = self.connection.execute("SELECT content FROM packets").fetchall()
            played = self.connection.execute("SELECT content FROM played").fetchall()
        return [*self._readable(packet_from, packets), *self._readable(sum_part_from, played)]

    def _readable(self, read: Callable[[bytes], Item], rows: Sequence[Row]) -> Iterator[Item]:
        for (content,) in rows:
            try:
                check_blobs(content)
                yield read(content)
            except Refused:
                self.damaged += 1

    def _ballots(self, pairs: Sequence[Row], votes: Sequence[Row], decisions: Decisions) -> list[Ballot]:
        """The valid ballots, predecessors first; proofs are added to `decisions` on the way.

        A proof against a key can be checked only after the resolution that seated the key.
        """
        waiting, proofs, ballots = [*votes], [*pairs], list[Ballot]()
        while True:
            before = len(waiting) + len(proofs)
            proofs = [row for row in proofs if not self._take_proof(row, decisions)]
            waiting = [row for row in waiting if not self._take_ballot(row, decisions, ballots)]
            if len(waiting) + len(proofs) == before:
                # Pending votes with unknown predecessors have lapsed; resolutions cannot lapse.
                self.damaged += len(proofs) + sum(bool(settled) for _, settled in waiting)
                return ballots

    def _take_ballot(self, row: Row, decisions: Decisions, ballots: list[Ballot]) -> bool:
        """Whether a row is done: taken in, or damaged."""
        try:
            check_blobs(row[0])
            ballot = open_ballot(row[0], decisions)
        except Refused as error:
            self.damaged += error.reason != "ahead"
            return error.reason != "ahead"
        decisions.add(ballot)
        ballots.append(ballot)
        return True

    def _take_proof(self, row: Row, decisions: Decisions) -> bool:
        try:
            decisions.exclude(self._proof(row, decisions.roster))
        except Refused:
            return False
        return True

    def close(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> "SqliteStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def check_there(self) -> None:
        """Refuse to continue with a file that was removed or replaced: everything written to it would be lost."""
        if hasattr(self, "_file") and file_at(self.path) != self._file:
            raise StoreFailed(f"{self.path} was removed or replaced while it was in use. {RESTART}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        self.check_there()
        with failures(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def _open(self, read_only: bool) -> None:
        self._check_format()
        if not read_only:
            self._prepare()
        self._check_agreement()

    def _prepare(self) -> None:
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        with self.transaction() as transaction:
            # The one statement that writes at every start: it fails if the file is not writable.
            transaction.execute(f"PRAGMA user_version = {FORMAT}")
            for statement in filter(str.strip, SCHEMA.split(";")):
                transaction.execute(statement)
            keep_inventory(transaction)
            if transaction.execute("SELECT count(*) FROM agreement").fetchone() == (0,):
                transaction.execute("INSERT INTO agreement VALUES (?, ?, ?)", self._agreement)

    @property
    def _agreement(self) -> tuple[str, str, str]:
        return self.charter.id, self.charter.model.structure.fingerprint, self.charter.fingerprint

    def _check_format(self) -> None:
        (version,) = self.connection.execute("PRAGMA user_version").fetchone()
        (tables,) = self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version > FORMAT:
            raise StoreFailed(
                f"{self.path} is of a newer decbayes (format {version}; this one knows {FORMAT}). Update decbayes."
            )
        if version < FORMAT and tables:
            raise StoreFailed(
                f"{self.path} is of an older decbayes (format {version}; this one knows {FORMAT}), or no store at all. "
                "Its records and votes cannot be carried over: move it away, begin a new group with `decbayes charter "
                "new`, and start with a new store. Your data are not in it and count again."
            )

    def _check_agreement(self) -> None:
        seen = self.connection.execute("SELECT charter_group, structure, charter FROM agreement").fetchone()
        if seen is None or seen[:2] != self._agreement[:2]:
            raise StoreFailed(f"{self.path} belongs to another charter. Each group and model needs a store of its own.")
        if seen != self._agreement:
            raise StoreFailed(
                f"{self.path} was begun with another charter of this group ({abbreviated(seen[2])}). The charter's "
                "file stays as it was when the group began; members change it by `decbayes charter propose`."
            )

    def _sound(self, read: Read[Item], rows: Sequence[Row], members: Roster) -> list[Item]:
        """The valid rows; damaged ones are counted, and those of another epoch or of no seat are skipped."""
        records = []
        for row in rows:
            try:
                records.append(read(row, members))
            except Refused as error:
                self.damaged += error.reason not in ("fingerprint", "epoch", "membership", "words", "rules")
                if error.reason == "rules":
                    # It was published before the group agreed on these rules; any version that obeys them replaces it.
                    self._unsound.add(row[0])
        return records

    def _record(self, row: Row, members: Roster) -> Record:
        origin, _, version, *parts = row
        check_blobs(origin, *parts)
        content = msgspec.msgpack.encode(Envelope(*parts))
        record = verify(open_record(content, self._in_force, members), self._in_force)
        if (record.origin, record.version) != (origin, version):
            raise Refused("digest", "the row is damaged.")
        return record

    def _proof(self, row: Row, members: Roster) -> Proof:
        origin, *parts = row
        check_blobs(origin, *parts)
        header, signature, other_header, other_signature = parts
        proof = Proof(
            open_signed(header, signature, self.charter, members),
            open_signed(other_header, other_signature, self.charter, members),
        )
        check_proof(proof, members)
        return proof


def check_blobs(*parts: Any) -> None:
    if not all(isinstance(part, bytes) for part in parts):
        raise Refused("envelope", "the row is damaged.")


def record_row(record: Record) -> Row:
    header = record.header
    return header.origin, header.epoch, header.version, record.signed.header_bytes, record.signed.signature, record.body


def proof_row(proof: Proof) -> Row:
    one, two = sorted((proof.first, proof.second), key=lambda signed: signed.digest)
    return proof.origin, one.header_bytes, one.signature, two.header_bytes, two.signature


def site_of(identity: Identity) -> bytes:
    """How a store identifies a site, the same for all of its keys."""
    return keyed(identity.secret, b"decbayes store")


def file_at(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file at a path; None if there is none."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def lock_store(path: Path) -> IO[bytes]:
    """Lock the store for this process: two agents on one store would use the same versions."""
    file = path.with_name(f"{path.name}.lock").open("wb")
    try:
        lock(file)
    except (BlockingIOError, PermissionError):
        file.close()
        raise StoreFailed(f"{path} is in use by another agent. Every agent needs a store of its own.") from None
    return file


def address(path: Path, read_only: bool) -> str:
    """The store's URI. SQLite writes files beside it even to read it, unless it is declared immutable."""
    if not read_only:
        return f"{path.absolute().as_uri()}?mode=rwc"
    closed = not path.with_name(f"{path.name}-wal").exists() and not os.access(path.absolute().parent, os.W_OK)
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if closed else ''}"


@contextmanager
def failures(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into one that names the file and what to do."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # The lower byte is the kind of the error, the rest its details.
        kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        remedy = ACCESS if path.is_dir() else REMEDIES.get(kind, DAMAGED)
        undecoded = isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode")
        raise StoreFailed(f"{path}: {'a text in it cannot be read' if undecoded else error}. {remedy}") from error
