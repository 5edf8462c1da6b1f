"""Orders to a running agent: written into its store, carried out once, and answered there.

Anyone who may write the store's file may give orders; nothing listens for them. Orders to a stopped agent are carried
out at its next start.
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

# How long to wait for the answer to an order, and for a locked database.
PATIENCE_SECONDS = 30.0
BUSY_SECONDS = 10.0


class Observe(msgspec.Struct, frozen=True, tag=True):
    """Fit a file's data, and publish them in addition to earlier data."""

    path: str


class Withdraw(msgspec.Struct, frozen=True, tag=True):
    """Withdraw a file's data: the rest is fitted again, so that no trace of them is left."""

    path: str


class Replace(msgspec.Struct, frozen=True, tag=True):
    """Withdraw a file's data and publish another file's instead, in one version."""

    path: str
    by: str


class Retract(msgspec.Struct, frozen=True, tag=True):
    """Retract all own evidence, for good."""


class Propose(msgspec.Struct, frozen=True, tag=True):
    """Propose something, which is also a vote for it.

    Kinds: "add", "remove" and "rotate" for seats, change "rules", add "words", open an "epoch", "show" what members
    have added to sums.
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
    """Take in resolutions and votes from a file that another member has exported."""

    path: str


class Approve(msgspec.Struct, frozen=True, tag=True):
    """Publish the evidence that awaits approval, if its digest begins like this one."""

    name: str
    reason: str = ""
    digest: str = ""


Order = Observe | Withdraw | Replace | Retract | Propose | Vote | Take | Approve


def give(path: str | os.PathLike[str], order: Order) -> int:
    """Write an order into an agent's store, and return its number."""
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


def unanswered(store: SqliteStore) -> list[tuple[int, Order]]:
    """The unanswered orders, oldest first; unreadable ones are answered at once."""
    store.check_there()  # others write orders into the file with this name
    with failures(store.path):
        rows = store.connection.execute("SELECT number, content FROM orders WHERE answer IS NULL ORDER BY number")
        rows_left = [(int(number), content) for number, content in rows.fetchall()]
    orders = []
    for number, content in rows_left:
        try:
            orders.append((number, msgspec.json.decode(content, type=Order)))
        except (msgspec.MsgspecError, TypeError, ValueError):
            answer(store, number, "not done: this is not an order")
    return orders


def answer(store: SqliteStore, number: int, text: str) -> None:
    with store.transaction() as transaction:
        transaction.execute("UPDATE orders SET answer = ? WHERE number = ?", (text, number))


def observed_files(store: SqliteStore) -> dict[str, str]:
    """The files that the agent was ordered to observe, and the names of their shards."""
    with failures(store.path):
        return dict(store.connection.execute("SELECT name, shard FROM shards ORDER BY name").fetchall())


def withdrawn_shards(store: SqliteStore) -> frozenset[str]:
    """The withdrawn shards, which are skipped if the agent is started with their files."""
    with failures(store.path):
        return frozenset(shard for (shard,) in store.connection.execute("SELECT shard FROM withdrawn").fetchall())


def remember(store: SqliteStore, path: str, shard: str) -> None:
    """Note that a file's data count: they are observed again at each start."""
    with store.transaction() as transaction:
        transaction.execute("INSERT OR REPLACE INTO shards VALUES (?, ?)", (path, shard))
        transaction.execute("DELETE FROM withdrawn WHERE shard = ?", (shard,))


def forget(store: SqliteStore, shard: str) -> None:
    """Note that a shard was withdrawn."""
    with store.transaction() as transaction:
        transaction.execute("DELETE FROM shards WHERE shard = ?", (shard,))
        transaction.execute("INSERT OR REPLACE INTO withdrawn VALUES (?)", (shard,))


def text_of(order: Order) -> str:
    return msgspec.json.encode(order).decode()
