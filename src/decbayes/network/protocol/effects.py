"""What an agent wants done: it does no input or output itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from decbayes.errors import StoreFailed
from decbayes.network.protocol.pool import Proof
from decbayes.network.protocol.record import Record, SignedHeader

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


Saved = Record | SignedHeader | Proof
"""What a store gives back: newest records, headers of earlier versions, proofs."""


class Store(Protocol):
    """Where records outlive the process."""

    def put(self, item: Record | Proof) -> None:
        """Make a record or a proof durable, or raise StoreFailed."""


def persist_first(agent: "Agent", effects: Iterable[Effect], store: Store) -> list[Send | Report]:
    """Carry out all writes, in order, and return what is left to send and to log."""
    waiting = list(effects)
    remaining: list[Send | Report] = []
    while waiting:
        effect = waiting.pop(0)
        if not isinstance(effect, Persist):
            remaining.append(effect)
            continue
        try:
            store.put(effect.item)
        except StoreFailed as error:
            waiting[:0] = agent.on_persist_failed(effect.item, str(error))
        else:
            waiting[:0] = agent.on_persisted(effect.item)
    return remaining
