"""What an agent wants done: it does no input or output itself."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from decbayes.errors import StoreFailed
from decbayes.network.protocol.pool import Proof
from decbayes.network.protocol.record import Record

if TYPE_CHECKING:
    from decbayes.network.protocol.agent import Agent

Peer = str
"""A neighbour, by whatever name the transport has for it."""


@dataclass(frozen=True)
class Send:
    """Hand a message to a neighbour; it may be lost, late, doubled or out of order."""

    peer: Peer
    message: bytes


@dataclass(frozen=True)
class Persist:
    """Write to the disk, and tell the agent how that went: its own versions are sent only once they are durable."""

    item: Record | Proof


@dataclass(frozen=True)
class Report:
    """Something that people may want to know; a line of the log."""

    event: str
    fields: dict[str, Any]


Effect = Send | Persist | Report


Saved = Record | Proof
"""What a store gives back: newest records, and proofs."""


class Store(Protocol):
    """Where records outlive the process."""

    def put(self, items: Sequence[Saved]) -> None:
        """Make records and proofs durable, all of them or none, or raise StoreFailed."""


def persist_first(agent: "Agent", effects: Iterable[Effect], store: Store) -> list[Send | Report]:
    """Carry out all writes, and return what is left to send and to log.

    Writes that come together are made together: one wait for the disk, not one for each.
    """
    waiting, remaining = list(effects), list[Send | Report]()
    while writes := [effect.item for effect in waiting if isinstance(effect, Persist)]:
        remaining += [effect for effect in waiting if not isinstance(effect, Persist)]
        waiting = write(agent, writes, store)
    return remaining + [effect for effect in waiting if not isinstance(effect, Persist)]


def write(agent: "Agent", items: Sequence[Saved], store: Store) -> list[Effect]:
    """Make items durable, and what the agent wants done about how that went."""
    try:
        store.put(items)
    except StoreFailed as error:
        return [effect for item in items for effect in agent.on_persist_failed(item, str(error))]
    return [effect for item in items for effect in agent.on_persisted(item)]
