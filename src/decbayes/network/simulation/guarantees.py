"""What must hold in every simulated run, checked after every single event and at the end."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId, short
from decbayes.network.protocol.records.merges import Entry, Merged
from decbayes.network.protocol.records.pool import Pool, Proof
from decbayes.network.protocol.records.record import Record
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.network.simulation.simulated_sites import Site


class Violation(AssertionError):
    """A guarantee of the protocol that was broken."""


class Ledger:
    """What no agent knows: the versions that each origin has made durable, and those that every site has seen.

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

    def replaced(self, site: "Site", backup: Sequence[Record | Proof]) -> None:
        """A site's disk is lost, or an old copy has taken its place."""
        self._written[site.number] = Sight()
        for item in backup:
            self._written[site.number].add(item)

    def started(self, site: "Site") -> None:
        """A site starts: it must know again all that its disk had acknowledged."""
        written = self._written.get(site.number, Sight())
        self._seen[site.number] = Sight(dict(written.versions), set(written.excluded))
        self.check(site)

    def check(self, site: "Site") -> None:
        assert site.agent is not None
        pool, seen = site.agent.pool, self._seen[site.number]
        if site.agent.twin:
            raise Violation(f"site {site.number} takes itself for two")
        if pool.records == seen.newest and pool.proofs.keys() == seen.excluded:
            return
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
        seen.newest = dict(pool.records)

    def _check_record(self, site: "Site", record: Record, seen: "Sight") -> None:
        if record.version < seen.versions.get(record.origin, 0):
            raise Violation(f"site {site.number} went back to version {record.version} of {short(record.origin)}")
        if (record.origin, record.version, record.digest) not in self._genuine:
            raise Violation(f"site {site.number} holds a version of {short(record.origin)} that was never made durable")
        seen.versions[record.origin] = record.version


@dataclass
class Sight:
    """What a site knows, or its disk holds: the highest version of each origin, and who is excluded."""

    versions: dict[AgentId, int] = field(default_factory=dict)
    excluded: set[AgentId] = field(default_factory=set)
    newest: dict[AgentId, Record] = field(default_factory=dict)
    """What it held when it was looked at last."""

    def add(self, item: Record | Proof) -> None:
        if isinstance(item, Proof):
            self.excluded.add(item.origin)
        else:
            self.versions[item.origin] = max(item.version, self.versions.get(item.origin, 0))


def check_agreement(
    sites: Sequence["Site"],
    everybody: Sequence["Site"],
    ledger: Ledger,
    check_merge: Callable[[Merged, list[Any]], None],
) -> None:
    """Connected sites hold the same set and the same bits; each shard counts once; nothing durable is missing."""
    agents = [site.agent for site in sites if site.agent is not None]
    if len({agent.pool.root for agent in agents}) > 1:
        raise Violation(f"sites {[site.number for site in sites]} are connected and hold different sets")
    if len({agent.merged().set_hash + agent.posterior().digest for agent in agents}) > 1:
        raise Violation("the same set was merged into different bits")
    honest = [site for site in sites if site.identity.id not in ledger.traitors]
    pool = agents[0].pool
    for site in honest if len(sites) > 1 else ():
        check_complete(site, pool.records.get(site.identity.id))
    counted = {record.origin: record for record in pool.counted()}
    check_removed(pool, counted.keys(), sites, everybody)
    if not counted.keys() & ledger.traitors:
        check_merge(agents[0].merged(), counted_shards(counted, everybody))


def check_belief(
    sites: Sequence["Site"],
    before: Mapping[int, Posterior],
    ledger: Ledger,
    check_deviations: Callable[[Posterior, Posterior], None],
) -> None:
    """Notes do not change a merge, and sites agree on its calibration.

    If all whose evidence counts have looked at it, it is calibrated.
    """
    agents = {site.number: site.agent for site in sites if site.agent is not None}
    if any(agent.posterior() != before[number] for number, agent in agents.items()):
        raise Violation("looking at a merge has changed it")
    beliefs = [agent.pool.believed() for agent in agents.values()]
    if len({belief.posterior.digest + belief.why for belief in beliefs}) > 1:
        raise Violation("connected sites differ in how far they believe the same merge")
    speaking = {agent.id for agent in agents.values() if agent.id not in ledger.traitors and not agent.retracted}
    counted = {record.origin: record for record in next(iter(agents.values())).pool.counted()}
    belief = beliefs[0]
    if len(agents) > 1 and counted and counted.keys() <= speaking and (belief.why or belief.stale):
        raise Violation(f"all have looked at the merge, and it is not calibrated: {belief.why}")
    check_deviations(next(iter(agents.values())).posterior(), belief.posterior)


def check_complete(site: "Site", record: Record | None) -> None:
    """A running site that hears others has all of its data counted, in its newest durable version."""
    newest = site.disk.newest()
    if newest is not None and (record is None or record.digest != newest.digest):
        raise Violation(f"the newest durable version of site {site.number} is not what counts")
    if record is None and site.shards:
        raise Violation(f"site {site.number} has observed data that nobody has heard of")
    if site.agent is not None and site.agent.retracted and not (record is not None and record.empty):
        raise Violation(f"site {site.number} has retracted its evidence, and it still counts")
    if record is not None and not record.header.closed and set(record.header.shards) != site.shards.keys():
        raise Violation(f"site {site.number} counts {len(record.header.shards)} of {len(site.shards)} shards")


def check_removed(pool: Pool, counted: Set[AgentId], sites: Sequence["Site"], everybody: Sequence["Site"]) -> None:
    """Where all sites are connected: whom more than half of them want removed does not count, and nobody else is."""
    excluded = pool.proofs.keys()
    for subject in everybody if len(sites) == len(everybody) else ():
        voters = sum(wants_removed(site, subject, pool) for site in sites if site.seat not in excluded)
        counts = bool(subject.keys & counted)
        if counts and 2 * voters > len(everybody):
            raise Violation(f"site {subject.number} was removed by {voters} sites, and counts")
        silent = not subject.shards or subject.agent is None or subject.agent.retracted or subject.keys & excluded
        if not counts and not silent and 2 * voters <= len(everybody):
            raise Violation(f"site {subject.number} does not count, though only {voters} want it removed")


def wants_removed(site: "Site", subject: "Site", pool: Pool) -> bool:
    """Whether a site votes for the removal; after its key was replaced, what it said under the old one stands."""
    if site.identity is site.first:
        return site.votes.get(subject.seat) == b""
    last = pool.records.get(site.seat)
    return last is not None and (subject.seat, b"") in last.header.votes


def counted_shards(counted: dict[AgentId, Record], everybody: Sequence["Site"]) -> list[Any]:
    """The data of all shards that count; a site may count under one key only."""
    if any(len(site.keys & counted.keys()) > 1 for site in everybody):
        raise Violation("a site counts under two keys")
    return [
        {**site.withdrawn, **site.shards}[name]
        for site in everybody
        for key in site.keys & counted.keys()
        for name in counted[key].header.shards
    ]
