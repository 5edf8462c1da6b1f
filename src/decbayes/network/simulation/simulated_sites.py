"""The sites of a simulated network, and their disks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from decbayes.errors import StoreFailed
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.effects import Saved
from decbayes.network.protocol.group.keys import AgentId, Identity
from decbayes.network.protocol.records.pool import Proof
from decbayes.network.protocol.records.record import Record
from decbayes.network.simulation.guarantees import Ledger


class Disk:
    """A site's disk: keeps what is current, unless it is full or wiped."""

    def __init__(self, ledger: Ledger, site: int, owner: AgentId) -> None:
        self.full, self.owner = False, owner
        self.records: dict[AgentId, Record] = {}
        self.proofs: dict[AgentId, Proof] = {}
        self._ledger, self._site = ledger, site

    def put(self, items: Sequence[Saved]) -> None:
        if self.full:
            raise StoreFailed("the simulated disk is full")
        for item in items:
            if isinstance(item, Proof):
                self.proofs[item.origin] = item
            elif item.origin not in self.records or item.version > self.records[item.origin].version:
                self.records[item.origin] = item
            self._ledger.written(self._site, self.owner, item)

    def load(self) -> list[Saved]:
        return [*self.proofs.values(), *self.records.values()]

    def newest(self) -> Record | None:
        """The owner's newest version."""
        return self.records.get(self.owner)

    def wipe(self) -> None:
        self.records.clear()
        self.proofs.clear()

    def replace(self, backup: Sequence[Saved]) -> None:
        """An old copy takes the place of what was there."""
        self.wipe()
        self.proofs.update({item.origin: item for item in backup if isinstance(item, Proof)})
        self.records.update({item.origin: item for item in backup if isinstance(item, Record)})


@dataclass
class Site:
    """A place with data, a key and a disk, where an agent runs or not."""

    number: int
    identity: Identity
    disk: Disk
    first: Identity = field(init=False)
    shards: dict[str, Any] = field(default_factory=dict)
    withdrawn: dict[str, Any] = field(default_factory=dict)
    votes: dict[AgentId, bytes] = field(default_factory=dict)
    backup: Sequence[Saved] = ()
    agent: Agent | None = None
    starts: int = 0
    keys: set[AgentId] = field(default_factory=set)
    """All that it has ever signed with."""

    def __post_init__(self) -> None:
        self.first = self.identity

    @property
    def name(self) -> str:
        return str(self.number)

    @property
    def seat(self) -> AgentId:
        """The key under which the charter lists it."""
        return self.first.id
