"""The effects that an agent asks its host to carry out, since it does no I/O itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from decbayes.network.protocol.group.motions import Ballot, Proof
from decbayes.network.protocol.records.record import Record
from decbayes.network.protocol.sums.group_sums import Packet
from decbayes.network.protocol.sums.participation import SumPart

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


Saved = Record | Proof | Ballot | Packet | SumPart
"""What a store holds: the newest records, proofs, settled and pending ballots; in groups that only open sums also the
members' messages, and this member's part with its secrets."""


@dataclass(frozen=True)
class Persist:
    """Write an item to disk and report the result to the agent, which sends its own versions only once durable.

    >>> network.Persist(record).item.version
    1
    """

    item: Saved


@dataclass(frozen=True)
class Report:
    """An event for people to read: a line of the log.

    >>> network.Report("linked", {"peer": "b"}).event
    'linked'
    """

    event: str
    fields: dict[str, Any]


Effect = Send | Persist | Report


class Store(Protocol):
    """Storage that outlives the process.

    >>> with network.SqliteStore("a.store", charter) as store:
    ...     store.put([record])
    ...     [item.version for item in store.load()]
    [1]
    """

    def put(self, items: Sequence[Saved]) -> None:
        """Make all items durable or none; StoreFailed if that is impossible."""
