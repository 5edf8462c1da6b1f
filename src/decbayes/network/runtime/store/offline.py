"""Reading stores of agents that may not run, and files of decisions for groups without links."""

import os
from pathlib import Path
from typing import Any

import msgspec

from decbayes.base.writing import write_whole
from decbayes.errors import InvalidFile, StoreFailed
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.motions import Proof
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.record import Record
from decbayes.network.runtime.reports.description import Answer, answered
from decbayes.network.runtime.store._inventory import listed_entries
from decbayes.network.runtime.store.sqlite import SqliteStore
from decbayes.posterior import Posterior

FILE_OF_BALLOTS = "decbayes decisions 3"
# The largest file of decisions: it may hold the prior of an epoch, but no records.
MOST_FILE_BYTES = 1 << 30


def stored(path: str | os.PathLike[str], charter: Charter) -> Answer:
    """The merged posterior in an agent's store, whether the agent runs or not, with a note on damaged entries."""
    pool, damage = stored_pool_and_damage(path, charter)
    if not charter.rules.robust:
        _ = pool.merged().parties
    answer = answered(pool)
    return Answer(answer.posterior, answer.description | ({"damaged": damage} if damage["entries"] else {}))


def stored_parts(path: str | os.PathLike[str], charter: Charter) -> dict[str, Posterior]:
    """Each member's contribution in an agent's store, by name."""
    pool = stored_pool(path, charter)
    if pool.charter.epoch is not None:
        raise StoreFailed("A later epoch's parts lack the evidence of earlier ones; only the whole is available.")
    if pool.sums is not None:
        shown = {one.member: one.share.posterior for one in pool.sums.audited() if one.share is not None}
        if not shown:
            raise StoreFailed("Nobody has shown what it has added to the sums (`decbayes charter propose show`).")
        return shown
    records = pool.counted()
    return {pool.roster.called(record.origin): record.posterior for record in records if record.posterior is not None}


def stored_pool(path: str | os.PathLike[str], charter: Charter) -> Pool:
    return stored_pool_and_damage(path, charter)[0]


def stored_pool_and_damage(path: str | os.PathLike[str], charter: Charter) -> tuple[Pool, dict[str, Any]]:
    """A store's pool, the number of damaged or missing entries, and the members with unread ones."""
    if not Path(path).exists():
        raise StoreFailed(f"There is no store {path}.")
    pool = Pool(charter)
    with SqliteStore(path, charter, read_only=True) as store:
        saved = store.load()
        pool.restore(saved)
        read = {item.origin for item in saved if isinstance(item, Record | Proof)}
        # Without damage, unread entries belong to an earlier epoch.
        unread = {origin for _, origin in listed_entries(store.connection)} - read if store.damaged else set()
        members = sorted(pool.roster.called(origin) for origin in unread if origin in pool.roster.names)
        return pool, {"entries": store.damaged, "members": members}


class BallotFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Resolutions and votes as a file, for groups without links."""

    decbayes: str
    ballots: tuple[bytes, ...]


def write_ballots(path: str | os.PathLike[str], pool: Pool) -> int:
    """Write all settled and pending motions of a pool to a file; returns their number."""
    ballots = tuple(ballot.content for ballot in pool.decisions.in_order())
    write_whole(Path(path), msgspec.msgpack.encode(BallotFile(FILE_OF_BALLOTS, ballots)))
    return len(ballots)


def read_ballots(path: Path) -> tuple[bytes, ...]:
    """The ballots in a file, in order and unchecked."""
    if path.stat().st_size > MOST_FILE_BYTES:
        raise InvalidFile(f"{path} has more than {MOST_FILE_BYTES:,} bytes; files of decisions are smaller.")
    try:
        file = msgspec.msgpack.decode(path.read_bytes(), type=BallotFile)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        file = None
    if file is None or file.decbayes != FILE_OF_BALLOTS:
        raise InvalidFile(f"{path} holds no decisions of this version. `decbayes charter export` writes such a file.")
    return file.ballots
