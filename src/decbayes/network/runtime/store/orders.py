"""Orders to a running agent: written into its store, carried out once, and answered there.

Whoever may write the store's file may give orders; nothing listens for them. An order that is given while the agent is
down is done at its next start.
"""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from decbayes.errors import StoreFailed
from decbayes.network.runtime.store.sqlite import SqliteStore, failures

# How long whoever gives an order waits for the answer.
PATIENCE_SECONDS = 30.0
BUSY_SECONDS = 10.0


class Observe(msgspec.Struct, frozen=True, tag=True):
    """Fit a file's data, and publish it beside what counts already."""

    path: str


class Withdraw(msgspec.Struct, frozen=True, tag=True):
    """Withdraw a file's data: the rest is fitted again, and no trace of it is left."""

    path: str


class Replace(msgspec.Struct, frozen=True, tag=True):
    """Withdraw a file's data and publish another file's instead, in one version."""

    path: str
    by: str


class Retract(msgspec.Struct, frozen=True, tag=True):
    """Withdraw all own evidence, for good."""


class Propose(msgspec.Struct, frozen=True, tag=True):
    """Propose something, which is to vote for it.

    The kinds: "add", "remove" and "rotate" for seats, change "rules", add "words", open an "epoch", "show" what
    members have added to sums.
    """

    kind: str
    name: str = ""
    key: str = ""
    rules: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    forgetting: float | str | None = None
    words: tuple[str, ...] = ()
    seats: tuple[str, ...] = ()
    round: int = 0
    approver: str = ""


class Vote(msgspec.Struct, frozen=True, tag=True):
    """Vote for a pending motion, by the beginning of its name; `approver` lets this site's numbers be shown."""

    motion: str
    approver: str = ""


class Take(msgspec.Struct, frozen=True, tag=True):
    """Take in the resolutions and votes of a file that another member's store has given."""

    path: str


class Approve(msgspec.Struct, frozen=True, tag=True):
    """Publish the evidence that waits for approval, if its digest begins like this one."""

    name: str
    reason: str = ""
    digest: str = ""


Order = Observe | Withdraw | Replace | Retract | Propose | Vote | Take | Approve


def give(path: str | os.PathLike[str], order: Order) -> int:
    """Write an order into an agent's store; its number there."""
    if not Path(path).exists():
        raise StoreFailed(f"There is no store {path}.")
    with failures(Path(path)), closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection, connection:
        inserted = connection.execute("INSERT INTO orders (content) VALUES (?)", (text_of(order),))
        return int(inserted.lastrowid or 0)


def answer_to(path: str | os.PathLike[str], number: int, *, timeout: float = PATIENCE_SECONDS) -> str | None:
    """The agent's answer; None if it does not answer in time."""
    deadline = time.monotonic() + timeout
    with failures(Path(path)), closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
        while True:
            row = connection.execute("SELECT answer FROM orders WHERE number = ?", (number,)).fetchone()
            if row is not None and row[0] is not None:
                return str(row[0])
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.1)


def waiting(store: SqliteStore) -> list[tuple[int, Order]]:
    """The orders that have not been answered, oldest first; one that cannot be read is answered at once."""
    store.check_there()  # orders go into the file that has the name
    with failures(store.path):
        rows = store.connection.execute("SELECT number, content FROM orders WHERE answer IS NULL ORDER BY number")
        unanswered = [(int(number), content) for number, content in rows.fetchall()]
    orders = []
    for number, content in unanswered:
        try:
            orders.append((number, msgspec.json.decode(content, type=Order)))
        except (msgspec.MsgspecError, TypeError, ValueError):
            answer(store, number, "not done: this is not an order")
    return orders


def answer(store: SqliteStore, number: int, text: str) -> None:
    with store.transaction() as transaction:
        transaction.execute("UPDATE orders SET answer = ? WHERE number = ?", (text, number))


def observed_files(store: SqliteStore) -> dict[str, str]:
    """The files that the agent was told to observe, and the names of their shards."""
    with failures(store.path):
        return dict(store.connection.execute("SELECT name, shard FROM shards ORDER BY name").fetchall())


def withdrawn(store: SqliteStore) -> frozenset[str]:
    """Withdrawn shards: they do not count again if the agent is started with their files."""
    with failures(store.path):
        return frozenset(shard for (shard,) in store.connection.execute("SELECT shard FROM withdrawn").fetchall())


def remember(store: SqliteStore, path: str, shard: str) -> None:
    """A file's data counts: it is observed at the next start too, without being named again."""
    with store.transaction() as transaction:
        transaction.execute("INSERT OR REPLACE INTO shards VALUES (?, ?)", (path, shard))
        transaction.execute("DELETE FROM withdrawn WHERE shard = ?", (shard,))


def forget(store: SqliteStore, shard: str) -> None:
    """A shard was withdrawn."""
    with store.transaction() as transaction:
        transaction.execute("DELETE FROM shards WHERE shard = ?", (shard,))
        transaction.execute("INSERT OR REPLACE INTO withdrawn VALUES (?)", (shard,))


def text_of(order: Order) -> str:
    return msgspec.json.encode(order).decode()
