"""What an agent wants done: it does no input or output itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from decbayes.network.protocol.group.motions import Ballot, Proof
from decbayes.network.protocol.records.record import Record
from decbayes.network.protocol.sums.heard import Packet
from decbayes.network.protocol.sums.part import Played

Peer = str
"""A neighbour, by the name that the transport uses."""


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
    """Write to the disk, and report the result to the agent: its own versions are sent only once they are durable.

    >>> network.Persist(record).item.version
    1
    """

    item: Record | Proof | Ballot | Packet | Played


@dataclass(frozen=True)
class Report:
    """An event for people to read: a line of the log.

    >>> network.Report("linked", {"peer": "b"}).event
    'linked'
    """

    event: str
    fields: dict[str, Any]


Effect = Send | Persist | Report


Saved = Record | Proof | Ballot | Packet | Played
"""What a store gives back: newest records, proofs, ballots on what was decided or is pending; where only sums are
opened, the members' messages, and this member's own part with its secrets."""


class Store(Protocol):
    """Storage that keeps records when the process ends.

    >>> with network.SqliteStore("a.store", charter) as store:
    ...     store.put([record])
    ...     [item.version for item in store.load()]
    [1]
    """

    def put(self, items: Sequence[Saved]) -> None:
        """Make records, proofs and ballots durable, all of them or none, or raise StoreFailed."""
