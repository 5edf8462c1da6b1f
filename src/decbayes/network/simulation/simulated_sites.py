"""The sites of a simulated network, and their disks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from decbayes.errors import StoreFailed
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.effects import Saved
from decbayes.network.protocol.group.keys import AgentId, Identity
from decbayes.network.protocol.group.motions import Ballot, Proof
from decbayes.network.protocol.records.record import Record
from decbayes.network.protocol.sums import Packet, SumPart
from decbayes.network.simulation.guarantees import Ledger

Item = TypeVar("Item")


class Disk:
    """A site's disk, which may be full or wiped."""

    def __init__(self, ledger: Ledger, site: int, owner: AgentId) -> None:
        self.full, self.owner = False, owner
        self._items: dict[tuple[type, bytes], Saved] = {}
        self._ledger, self._site = ledger, site

    def put(self, items: Sequence[Saved]) -> None:
        if self.full:
            raise StoreFailed("the simulated disk is full")
        for item in items:
            if isinstance(item, Ballot) and not item.settled:
                self._drop_lapsed(item.motion.after)
            known = self._items.get(key_of(item))
            if not (isinstance(item, Record) and isinstance(known, Record)) or newer(item, known):
                self._items[key_of(item)] = item
            self._ledger.written(self._site, self.owner, item)

    def _drop_lapsed(self, after: tuple[bytes, ...]) -> None:
        """As a real store does: motions that were pending under another version have lapsed."""
        lapsed = [ballot for ballot in self._of(Ballot) if not ballot.settled and ballot.motion.after != after]
        for ballot in lapsed:
            del self._items[key_of(ballot)]

    def load(self) -> list[Saved]:
        """All items, predecessors of resolutions first."""
        ballots = {ballot.digest: ballot for ballot in self._of(Ballot)}
        order = sorted(ballots.values(), key=lambda ballot: (not ballot.settled, depth(ballot, ballots)))
        sums = [item for item in self._items.values() if isinstance(item, Packet | SumPart)]
        return [*self._of(Proof), *order, *self._of(Record), *sums]

    def newest(self) -> Record | None:
        """The owner's newest version."""
        return next((record for record in self._of(Record) if record.origin == self.owner), None)

    def replace(self, backup: Sequence[Saved] = ()) -> None:
        """Replace the content by an old copy, or by nothing."""
        self._items = {key_of(item): item for item in backup}

    def _of(self, kind: type[Item]) -> list[Item]:
        return [item for item in self._items.values() if isinstance(item, kind)]


def key_of(item: Saved) -> tuple[type, bytes]:
    return type(item), item.origin if isinstance(item, Record | Proof) else item.digest


def newer(record: Record, known: Record) -> bool:
    return record.header.epoch != known.header.epoch or record.version > known.version


def depth(ballot: Ballot, known: Mapping[bytes, Ballot]) -> int:
    """The length of the longest chain of resolutions that ends with a ballot."""
    return 1 + max((depth(known[digest], known) for digest in ballot.motion.after if digest in known), default=0)


@dataclass
class SimulatedSite:
    """A site with data, a key and a disk; its agent may run or not."""

    number: int
    identity: Identity
    disk: Disk
    seat: str
    """The name of its seat."""
    first: Identity = field(init=False)
    shards: dict[str, Any] = field(default_factory=dict)
    withdrawn: dict[str, Any] = field(default_factory=dict)
    backup: Sequence[Saved] = ()
    agent: Agent | None = None
    starts: int = 0
    keys: set[AgentId] = field(default_factory=set)
    """The ids of all keys that it has ever signed with."""

    def __post_init__(self) -> None:
        self.first = self.identity

    @property
    def name(self) -> str:
        return str(self.number)

    @property
    def everything(self) -> dict[str, Any]:
        """All data that it ever had, by shard."""
        return {**self.withdrawn, **self.shards}
