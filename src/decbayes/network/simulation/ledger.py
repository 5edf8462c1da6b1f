"""What must hold in every simulated run, checked after every single event and at the end."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from decbayes.network.protocol.charter import Charter
from decbayes.network.protocol.keys import AgentId, short
from decbayes.network.protocol.pool import Entry, Merged, Proof
from decbayes.network.protocol.record import Record

if TYPE_CHECKING:
    from decbayes.network.simulation.simulator import Site


class Violation(AssertionError):
    """A guarantee of the protocol that was broken."""


class Ledger:
    """The truth that no agent knows: which versions each origin has made durable, and what every site has seen.

    After each event: versions never regress at any site; nobody holds a version that its origin had not made durable
    first; no origin uses a version twice; no honest origin is excluded; nobody excluded comes back.
    """

    def __init__(self, charter: Charter) -> None:
        self.charter = charter
        self.traitors: set[AgentId] = set()
        self._versions: dict[tuple[AgentId, int], bytes] = {}
        self._genuine: set[Entry] = set()
        self._seen: dict[int, Sight] = {}
        self._written: dict[int, Sight] = {}

    def written(self, site: int, owner: AgentId, item: Record | Proof) -> None:
        """A site has written to its disk; if the record is its own, it may now be sent."""
        self._written.setdefault(site, Sight()).add(item)
        if isinstance(item, Record) and item.origin == owner:
            self._issue(item)

    def _issue(self, record: Record) -> None:
        known = self._versions.setdefault((record.origin, record.version), record.digest)
        if known != record.digest and record.origin not in self.traitors:
            raise Violation(f"{short(record.origin)} has used version {record.version} twice")
        self._genuine.add((record.origin, record.version, record.digest))

    def betray(self, record: Record) -> None:
        """A traitor has signed another record under a version that it has used."""
        self.traitors.add(record.origin)
        self._genuine.add((record.origin, record.version, record.digest))

    def wiped(self, site: "Site") -> None:
        """A site's disk is lost."""
        self._written.pop(site.number, None)

    def started(self, site: "Site") -> None:
        """A site starts: it must know again all that its disk had acknowledged."""
        written = self._written.get(site.number, Sight())
        self._seen[site.number] = Sight(dict(written.versions), set(written.excluded))
        self.check(site)

    def check(self, site: "Site") -> None:
        assert site.agent is not None
        pool, seen = site.agent.pool, self._seen[site.number]
        for origin, record in pool.records.items():
            if seen.newest.get(origin) is not record:
                self._check_record(site, record, seen)
        if pool.proofs.keys() - self.traitors:
            raise Violation(f"site {site.number} has excluded an honest origin")
        if seen.excluded - pool.proofs.keys():
            raise Violation(f"site {site.number} has taken an excluded origin back")
        seen.excluded |= pool.proofs.keys()
        if pool.records.keys() & pool.proofs.keys():
            raise Violation(f"site {site.number} counts an excluded origin")
        if seen.versions.keys() - pool.records.keys() - seen.excluded:
            raise Violation(f"site {site.number} has lost what it knew of an origin")

    def _check_record(self, site: "Site", record: Record, seen: "Sight") -> None:
        if record.version < seen.versions.get(record.origin, 0):
            raise Violation(f"site {site.number} went back to version {record.version} of {short(record.origin)}")
        if (record.origin, record.version, record.digest) not in self._genuine:
            raise Violation(f"site {site.number} holds a version of {short(record.origin)} that was never made durable")
        seen.versions[record.origin], seen.newest[record.origin] = record.version, record


@dataclass
class Sight:
    """What a site knows, or its disk holds: the highest version of each origin, and who is excluded."""

    versions: dict[AgentId, int] = field(default_factory=dict)
    excluded: set[AgentId] = field(default_factory=set)
    newest: dict[AgentId, Record] = field(default_factory=dict)

    def add(self, item: Record | Proof) -> None:
        if isinstance(item, Proof):
            self.excluded.add(item.origin)
        else:
            self.versions[item.origin] = max(item.version, self.versions.get(item.origin, 0))


def check_agreement(sites: Sequence["Site"], everybody: Sequence["Site"], ledger: Ledger) -> None:
    """Connected sites hold the same set and the same bits; each shard counts once; nothing durable is missing."""
    agents = [site.agent for site in sites if site.agent is not None]
    if len({agent.pool.root for agent in agents}) > 1:
        raise Violation(f"sites {[site.number for site in sites]} are connected and hold different sets")
    if len({agent.merged().set_hash + agent.posterior().digest for agent in agents}) > 1:
        raise Violation("the same set was merged into different bits")
    honest = [site for site in sites if site.identity.id not in ledger.traitors]
    for site in honest if len(sites) > 1 else ():
        check_complete(site, agents[0].pool.records.get(site.identity.id))
    counted = {record.origin: record for record in agents[0].pool.counted()}
    if not counted.keys() & ledger.traitors:
        check_batch(agents[0].merged(), counted, everybody)


def check_complete(site: "Site", record: Record | None) -> None:
    """A running site that hears others has all of its data counted, in its newest durable version."""
    newest = site.disk.newest()
    if newest is not None and (record is None or record.digest != newest.digest):
        raise Violation(f"the newest durable version of site {site.number} is not what counts")
    if record is None and site.shards:
        raise Violation(f"site {site.number} has observed data that nobody has heard of")
    if site.agent is not None and site.agent.retracted and not (record is not None and record.retraction):
        raise Violation(f"site {site.number} has retracted its evidence, and it still counts")
    if record is not None and not record.retraction and set(record.header.shards) != site.shards.keys():
        raise Violation(f"site {site.number} counts {len(record.header.shards)} of {len(site.shards)} shards")


def check_batch(merged: Merged, counted: dict[AgentId, Record], everybody: Sequence["Site"]) -> None:
    """For the conjugate Gaussian the merge is the posterior of all counted data at once, each shard once."""
    points = [
        np.ravel(site.shards[name])
        for site in everybody
        if site.identity.id in counted
        for name in counted[site.identity.id].header.shards
    ]
    pooled = np.concatenate(points) if points else np.empty(0)
    if merged.observations != len(pooled):
        raise Violation(f"{merged.observations} observations are counted of {len(pooled)}")
    structure = merged.posterior.structure
    variance = structure.model["variance"]
    expected = structure.prior["mean"] + np.array([[pooled.sum() / variance, -0.5 * len(pooled) / variance]])
    if not np.allclose(merged.posterior.natural["mean"], expected, rtol=0, atol=1e-9):
        raise Violation("the merged posterior is not that of all data at once")
