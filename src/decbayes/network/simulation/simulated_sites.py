"""The sites of a simulated network, and their disks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from decbayes.errors import StoreFailed
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.effects import Saved
from decbayes.network.protocol.group.keys import AgentId, Identity
from decbayes.network.protocol.group.motions import Ballot, Proof
from decbayes.network.protocol.records.record import Record
from decbayes.network.protocol.sums import Packet, SumPart
from decbayes.network.simulation.guarantees import Ledger


class Disk:
    """A site's disk, which may be full or wiped."""

    def __init__(self, ledger: Ledger, site: int, owner: AgentId) -> None:
        self.full, self.owner = False, owner
        self.records: dict[AgentId, Record] = {}
        self.proofs: dict[AgentId, Proof] = {}
        self.ballots: dict[bytes, Ballot] = {}
        self.sums: dict[tuple[type, bytes], Packet | SumPart] = {}
        self._ledger, self._site = ledger, site

    def put(self, items: Sequence[Saved]) -> None:
        if self.full:
            raise StoreFailed("the simulated disk is full")
        for item in items:
            if isinstance(item, Proof):
                self.proofs[item.origin] = item
            elif isinstance(item, Ballot):
                self._put_ballot(item)
            elif isinstance(item, Packet | SumPart):
                self.sums[type(item), item.digest] = item
            elif item.origin not in self.records or newer(item, self.records[item.origin]):
                self.records[item.origin] = item
            self._ledger.written(self._site, self.owner, item)

    def _put_ballot(self, ballot: Ballot) -> None:
        """Store a ballot and, as a real store does, drop motions that have lapsed."""
        if not ballot.settled:
            after = ballot.motion.after
            self.ballots = {d: kept for d, kept in self.ballots.items() if kept.settled or kept.motion.after == after}
        self.ballots[ballot.digest] = ballot

    def load(self) -> list[Saved]:
        """All items, predecessors of resolutions first."""
        order = sorted(self.ballots.values(), key=lambda ballot: (not ballot.settled, depth(ballot, self.ballots)))
        return [*self.proofs.values(), *order, *self.records.values(), *self.sums.values()]

    def newest(self) -> Record | None:
        """The owner's newest version."""
        return self.records.get(self.owner)

    def wipe(self) -> None:
        self.records.clear()
        self.proofs.clear()
        self.ballots.clear()
        self.sums.clear()

    def replace(self, backup: Sequence[Saved]) -> None:
        """Replace the content by an old copy."""
        self.wipe()
        self.proofs.update({item.origin: item for item in backup if isinstance(item, Proof)})
        self.records.update({item.origin: item for item in backup if isinstance(item, Record)})
        self.ballots.update({item.digest: item for item in backup if isinstance(item, Ballot)})
        self.sums.update({(type(item), item.digest): item for item in backup if isinstance(item, Packet | SumPart)})


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
