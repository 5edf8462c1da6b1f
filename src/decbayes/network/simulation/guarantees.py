"""The guarantees of the protocol, checked after every event of a simulation and at its end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from decbayes.network.protocol.effects import Saved
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId, agent_id, short
from decbayes.network.protocol.group.motions import Ballot, Extend, Open, Proof, Remove, Rotate, Vote
from decbayes.network.protocol.records.accounts import accounts
from decbayes.network.protocol.records.notes import obstacle
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.record import Entry, Record
from decbayes.network.protocol.site.evidence import fitted_part
from decbayes.network.simulation.recount import Recount
from decbayes.network.simulation.recount import Violation as Violation
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.network.simulation.simulated_sites import SimulatedSite


class Ledger:
    """A global view that no agent has: which versions and votes each origin has made durable, and what sites have seen.

    After each event it checks:

    1. Versions never regress at any site.
    2. Nobody holds a version or a vote that its origin had not made durable first.
    3. No honest origin uses a version twice or is excluded, and nobody excluded comes back.
    4. Settled resolutions stay settled, and the charter in force is that of an independent recount.
    5. The posterior counts each shard of a counting seat once, in the prior or in a record.
    """

    def __init__(self, charter: Charter) -> None:
        self.charter = charter
        self.traitors: set[AgentId] = set()
        self.sites: Sequence[SimulatedSite] = ()
        self._versions: dict[tuple[AgentId, bytes, int], bytes] = {}
        self._genuine: set[Entry] = set()
        self._votes: set[bytes] = set()
        self._stolen: set[bytes] = set()
        self._seen: dict[int, Snapshot] = {}
        self._written: dict[int, Snapshot] = {}
        self._recount = Recount(charter)

    def written(self, site: int, owner: AgentId, item: Saved) -> None:
        """Note that a site has written to its disk; its own records and votes may now be sent."""
        self._written.setdefault(site, Snapshot()).add(item)
        if isinstance(item, Ballot):
            self._votes |= {vote.digest for vote in item.votes.values() if vote.origin == owner}
        elif isinstance(item, Record) and item.origin == owner:
            self._issue(item)

    def _issue(self, record: Record) -> None:
        known = self._versions.setdefault((record.origin, record.header.epoch, record.version), record.digest)
        if known != record.digest and record.origin not in self.traitors:
            raise Violation(f"{short(record.origin)} has used version {record.version} twice")
        self._genuine.add((record.origin, record.version, record.digest))

    def betray(self, signed: Record | Vote) -> None:
        """Note that a traitor has signed something else under a number that it has used."""
        self.traitors.add(signed.origin)
        if isinstance(signed, Record):
            self._genuine.add((signed.origin, signed.version, signed.digest))
        else:
            self._votes.add(signed.digest)

    def steal(self, vote: Vote) -> None:
        """Note that a thief has signed a vote with a replaced key."""
        self._votes.add(vote.digest)
        self._stolen.add(vote.digest)

    def replaced(self, site: "SimulatedSite", backup: Sequence[Saved]) -> None:
        """Note that a site's disk is lost, or replaced by an old copy."""
        self._written[site.number] = Snapshot()
        for item in backup:
            self._written[site.number].add(item)

    def started(self, site: "SimulatedSite") -> None:
        """Check a starting site: it must know everything that its disk had acknowledged."""
        written = self._written.get(site.number, Snapshot())
        assert site.agent is not None
        opened = site.agent.charter.opened
        versions = {origin: version for origin, version in written.versions.items() if written.epochs[origin] == opened}
        self._seen[site.number] = Snapshot(versions, {}, set(written.excluded), set(written.settled), opened)
        self.check(site)

    def check(self, site: "SimulatedSite") -> None:
        assert site.agent is not None
        pool, seen = site.agent.pool, self._seen[site.number]
        if site.agent.twin:
            raise Violation(f"site {site.number} takes itself for a twin")
        if pool.records == seen.newest and pool.root == seen.root:
            return
        self._check_decisions(site, pool, seen)
        if pool.charter.opened != seen.opened:
            seen.opened, seen.versions, seen.newest = pool.charter.opened, {}, {}
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
        # A traitor's record may repeat shards of the prior; it is refused once its seat counts again.
        known = (seen.versions.keys() & pool.roster.keys.keys()) - seen.excluded - self.traitors
        if known - pool.records.keys():
            raise Violation(f"site {site.number} has lost what it knew of an origin")
        self._check_accounts(site, pool)
        seen.newest, seen.root = dict(pool.records), pool.root

    def _check_record(self, site: "SimulatedSite", record: Record, seen: "Snapshot") -> None:
        if record.version < seen.versions.get(record.origin, 0):
            raise Violation(f"site {site.number} went back to version {record.version} of {short(record.origin)}")
        if (record.origin, record.version, record.digest) not in self._genuine:
            raise Violation(f"site {site.number} holds a version of {short(record.origin)} that was never made durable")
        seen.versions[record.origin] = record.version

    def _check_decisions(self, site: "SimulatedSite", pool: Pool, seen: "Snapshot") -> None:
        """Check that votes were really cast, resolutions stay, and the charter in force follows from them."""
        decisions = pool.decisions
        for ballot in [*decisions.settled.values(), *decisions.pending.values()]:
            for vote in ballot.votes.values():
                if vote.digest not in self._votes:
                    raise Violation(f"site {site.number} holds a vote of {vote.seat} that was never made durable")
        if seen.settled - decisions.settled.keys():
            raise Violation(f"site {site.number} has forgotten a resolution")
        seen.settled |= decisions.settled.keys()
        self._check_thefts(site, pool)
        count, roster, charter = self._recount(decisions.settled, {*decisions.proofs}), pool.roster, pool.charter
        if count.voters != dict(roster.sitting):
            raise Violation(f"site {site.number} has other seats than its resolutions give")
        if (charter.rules, charter.limits, charter.opened) != (*count.terms[:2], count.epoch):
            raise Violation(f"site {site.number} has other rules or another epoch than its resolutions give")
        if {*charter.words} != count.words.union(charter.vocabulary):
            raise Violation(f"site {site.number} counts other words than its resolutions give")
        in_prior = {seat: frozenset(shards) for seat, shards in count.in_prior.items() if seat in count.voters}
        if in_prior != dict(charter.counted):
            raise Violation(f"site {site.number} has other shards in its prior than its resolutions give")

    def _check_thefts(self, site: "SimulatedSite", pool: Pool) -> None:
        """Check that no resolution is in force that a stolen vote has settled, where the theft is known.

        Exceptions are resolutions that others built on before they knew, and those that strike out the new key in turn.
        """
        settled, overruled, fallen = pool.decisions.settled, pool.decisions.overruled, pool.decisions.fallen
        seizures = {d: b for d, b in settled.items() if isinstance(b.question, Remove | Rotate) and d not in fallen}
        for digest in settled.keys() - overruled:
            ballot = settled[digest]
            stolen = {vote.origin for vote in ballot.votes.values() if vote.digest in self._stolen}
            known = [other for d, other in seizures.items() if taken_key(other, pool) in stolen and d != digest]
            known = [other for other in known if beside(other, ballot, settled)]
            # The site may not know of other thefts.
            left = len(ballot.votes) - len({taken_key(other, pool) for other in known})
            if left >= pool.decisions.needed(ballot.motion) or isinstance(ballot.question, Open | Extend):
                continue
            gone_on = any(follows(other, ballot, settled) for other in settled.values())
            mutual = digest in seizures and any(self._depends_on_taken_keys(other, seizures, pool) for other in known)
            if known and not gone_on and not mutual:
                raise Violation(f"site {site.number} lets a stolen vote decide: {ballot.text}")

    def _depends_on_taken_keys(self, ballot: Ballot, seizures: Mapping[bytes, Ballot], pool: Pool) -> bool:
        """Whether a resolution, and all that come after it, need votes of keys that others take away beside it."""
        settled = pool.decisions.settled
        later = [other for other in settled.values() if follows(other, ballot, settled)]
        if not all(self._depends_on_taken_keys(other, seizures, pool) for other in later):
            return False
        rivals = [other for other in seizures.values() if other is not ballot and beside(other, ballot, settled)]
        votes = {vote.origin for vote in ballot.votes.values()} - {taken_key(other, pool) for other in rivals}
        return len(votes) < pool.decisions.needed(ballot.motion)

    def _check_accounts(self, site: "SimulatedSite", pool: Pool) -> None:
        """Check that the posterior's observations are those of distinct shards of present seats."""
        counted = accounts(pool)
        if counted.wrong:
            raise Violation(f"site {site.number}: {counted.wrong[0]}")
        records = records_of(pool)
        for other in self.sites:
            prior, record = prior_shards(pool, other), record_of(records, other)
            in_record = () if record is None else record.header.shards
            if other.keys & self.traitors or not {*prior, *in_record} <= other.everything.keys():
                continue  # it has invented data
            if {*prior}.intersection(in_record):
                raise Violation(f"site {site.number} counts a shard of {other.seat} twice")
            data = [fitted_part(pool.charter, other.everything[shard]) for shard in (*prior, *in_record)]
            actual = sum(map(self.charter.model.count, data))
            stated = counted.prior.get(other.seat, 0) + counted.records.get(other.seat, 0)
            if actual != stated:
                raise Violation(f"site {site.number} counts {stated} observations of {other.seat}, which are {actual}")


@dataclass
class Snapshot:
    """What a site knows, or its disk holds: the highest version per origin, exclusions and settled resolutions."""

    versions: dict[AgentId, int] = field(default_factory=dict)
    epochs: dict[AgentId, bytes] = field(default_factory=dict)
    excluded: set[AgentId] = field(default_factory=set)
    settled: set[bytes] = field(default_factory=set)
    opened: bytes = bytes(32)
    newest: dict[AgentId, Record] = field(default_factory=dict)
    """Its records at the last check."""
    root: bytes = b""

    def add(self, item: Saved) -> None:
        if isinstance(item, Proof):
            self.excluded.add(item.origin)
        elif isinstance(item, Ballot):
            self.settled |= {item.digest} if item.settled else set()
        elif isinstance(item, Record):
            same = self.epochs.get(item.origin) == item.header.epoch
            self.versions[item.origin] = max(item.version, self.versions.get(item.origin, 0) if same else 0)
            self.epochs[item.origin] = item.header.epoch


def check_same_merge(
    sites: Sequence["SimulatedSite"],
    everybody: Sequence["SimulatedSite"],
    ledger: Ledger,
    check_posterior: Callable[[Posterior, list[Any]], None],
) -> None:
    """Check that connected sites have the same set and the same bits, each shard counts once, and none is missing."""
    agents = [site.agent for site in sites if site.agent is not None]
    if len({agent.pool.root for agent in agents}) > 1:
        raise Violation(f"sites {[site.number for site in sites]} are connected and hold different sets")
    if len({agent.merged().set_hash + agent.posterior().digest for agent in agents}) > 1:
        raise Violation("the same set was merged into different bits")
    pool = agents[0].pool
    sitting = {*pool.roster.sitting.values()} - ledger.traitors
    for site in [site for site in sites if site.identity.id in sitting] if len(sites) > 1 else ():
        check_complete(site, pool)
    in_prior = {origin for origin, seat in pool.roster.names.items() if seat in pool.charter.counted}
    if not (in_prior | records_of(pool).keys()) & ledger.traitors:
        check_posterior(agents[0].posterior(), counted_data(pool, everybody))


def check_belief(
    sites: Sequence["SimulatedSite"],
    before: Mapping[int, Posterior],
    ledger: Ledger,
    check_deviations: Callable[[Posterior, Posterior], None],
) -> None:
    """Check that notes do not change a merge, and that sites agree on its calibration.

    Once all sites whose evidence counts have published notes, all notes must have arrived, and the merge must be
    calibrated if its model can be.
    """
    agents = {site.number: site.agent for site in sites if site.agent is not None}
    if any(agent.posterior() != before[number] for number, agent in agents.items()):
        raise Violation("notes have changed a merge")
    beliefs = [agent.pool.believed() for agent in agents.values()]
    if len({belief.posterior.digest + belief.why for belief in beliefs}) > 1:
        raise Violation("connected sites disagree on the calibration of the same merge")
    speaking = {agent.id for agent in agents.values() if agent.id not in ledger.traitors and not agent.retracted}
    counted = records_of(next(iter(agents.values())).pool)
    belief = beliefs[0]
    charter = next(iter(agents.values())).charter
    missing = belief.stale or (belief.why and not obstacle(charter))
    if charter.epoch is None and len(agents) > 1 and counted and counted.keys() <= speaking and missing:
        raise Violation(f"all members have published notes, but the merge is not calibrated: {belief.why}")
    check_deviations(next(iter(agents.values())).posterior(), belief.posterior)


def taken_key(ballot: Ballot, pool: Pool) -> AgentId:
    """The key that a rotation or a removal takes away."""
    assert isinstance(ballot.question, Remove | Rotate)
    return agent_id(pool.decisions.roster_at(ballot.motion.after).seats[ballot.question.seat].key)


def follows(later: Ballot, earlier: Ballot, settled: Mapping[bytes, Ballot]) -> bool:
    """Whether a resolution comes after another one, directly or not."""
    before, waiting = set[bytes](), [*later.motion.after]
    while waiting:
        digest = waiting.pop()
        if digest not in before and digest in settled:
            before.add(digest)
            waiting += settled[digest].motion.after
    return earlier.digest in before


def beside(one: Ballot, other: Ballot, settled: Mapping[bytes, Ballot]) -> bool:
    """Whether neither of two resolutions comes after the other."""
    return not follows(one, other, settled) and not follows(other, one, settled)


def check_complete(site: "SimulatedSite", pool: Pool) -> None:
    """Check that all data of a connected site count, in its newest durable version or in the prior."""
    newest, record = site.disk.newest(), pool.records.get(site.identity.id)
    current = newest is not None and newest.header.epoch == pool.charter.opened
    if newest is not None and current and (record is None or record.digest != newest.digest):
        raise Violation(f"the newest durable version of site {site.number} is not what counts")
    missing = site.shards.keys() - {*prior_shards(pool, site)}
    if record is None and missing:
        raise Violation(f"site {site.number} has observed data that no site knows")
    if site.agent is not None and site.agent.retracted and not (record is not None and record.empty):
        raise Violation(f"site {site.number} has retracted its evidence, and it still counts")
    if record is not None and not record.header.closed and {*record.header.shards} != missing:
        raise Violation(f"site {site.number} counts {len(record.header.shards)} of {len(missing)} shards")


def prior_shards(pool: Pool, site: "SimulatedSite") -> tuple[str, ...]:
    return () if pool.charter.epoch is None else pool.charter.epoch.counted.get(site.seat, ())


def records_of(pool: Pool) -> dict[AgentId, Record]:
    """The records that count, by the key that signed them."""
    return {record.origin: record for record in pool.counted()}


def record_of(records: Mapping[AgentId, Record], site: "SimulatedSite") -> Record | None:
    """The site's record among those that count; it may count under one key only."""
    counting = [records[key] for key in site.keys if key in records]
    if len(counting) > 1:
        raise Violation("a site counts under two keys")
    return counting[0] if counting else None


def counted_data(pool: Pool, sites: Sequence["SimulatedSite"]) -> list[Any]:
    """The data of all shards that count, site by site."""
    records, data = records_of(pool), []
    for site in sites:
        record = record_of(records, site)
        names = (*prior_shards(pool, site), *(() if record is None else record.header.shards))
        data += [site.everything[name] for name in names]
    return data
