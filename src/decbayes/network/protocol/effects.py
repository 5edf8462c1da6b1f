"""What an agent wants done: it does no input or output itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from decbayes.network.protocol.records.pool import Proof
from decbayes.network.protocol.records.record import Record

Peer = str
"""A neighbour, by whatever name the transport has for it."""


@dataclass(frozen=True)
class Send:
    """Hand a message to a neighbour; it may be lost, late, doubled or out of order.

    >>> network.Send("b", b"hello").peer
    'b'
    """

    peer: Peer
    message: bytes


@dataclass(frozen=True)
class Persist:
    """Write to the disk, and tell the agent how that went: its own versions are sent only once they are durable.

    >>> network.Persist(record).item.version
    1
    """

    item: Record | Proof


@dataclass(frozen=True)
class Report:
    """Something that people may want to know; a line of the log.

    >>> network.Report("linked", {"peer": "b"}).event
    'linked'
    """

    event: str
    fields: dict[str, Any]


Effect = Send | Persist | Report


Saved = Record | Proof
"""What a store gives back: newest records, and proofs."""


class Store(Protocol):
    """Where records outlive the process.

    >>> with network.SqliteStore("a.store", charter) as store:
    ...     store.put([record])
    ...     [item.version for item in store.load()]
    [1]
    """

    def put(self, items: Sequence[Saved]) -> None:
        """Make records and proofs durable, all of them or none, or raise StoreFailed."""
