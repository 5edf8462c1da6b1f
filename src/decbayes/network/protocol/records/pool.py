"""Everything an agent has received: the newest record of each origin, and proofs against origins that signed two.

The state is a join-semilattice, so the union of pools is commutative, associative, idempotent and monotone, and older
versions need not be kept:

1. Only the highest version of an origin counts. It replaces all lower ones.
2. If an origin cheats, one version may have two headers. The two with the lowest digests are kept until a higher
   version replaces them.
3. A proof consists of two such headers. It is never dropped and excludes the origin for good.
4. Decisions, and the votes for pending motions, are sets that only grow.

The roster, the charter in force and the records that count follow from this state. When the charter changes, `renew`
drops the records that the new one refuses, above all those of another epoch.

`union` joins two states and infers nothing. `notice` turns two conflicting headers into a proof, which only grows the
state. Agents do so at once, and proofs spread. A fork that a higher version has replaced everywhere may go unnoticed,
depending on who saw what when, but agents that have exchanged everything agree on it.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from decbayes.errors import Refused
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.decisions import Decisions
from decbayes.network.protocol.group.keys import AgentId
from decbayes.network.protocol.group.motions import Ballot, Proof
from decbayes.network.protocol.group.roster import Roster
from decbayes.network.protocol.records.merges import Merged, entries_of, merge_records, merged_sum
from decbayes.network.protocol.records.notes import Belief, believed
from decbayes.network.protocol.records.record import Counted, Entry, Record, SignedHeader
from decbayes.network.protocol.sums import Packet, SumPart, Sums
from decbayes.posterior import Posterior


@dataclass
class MergeCache:
    """A cache: the last merge with the evidence in it, and the last belief with its merge."""

    merged: tuple[list[Counted], Merged] | None = None
    belief: tuple[Merged, Belief] | None = None


class Change(Enum):
    """The effect of adding a record to a pool.

    >>> pool = network.Pool(charter)
    >>> pool.add(record), pool.add(record)
    (<Change.NEWER: 'newer'>, <Change.KNOWN: 'known'>)
    """

    NEWER = "newer"
    KNOWN = "known"
    STALE = "stale"
    EQUIVOCATION = "equivocation"
    EXCLUDED = "excluded"


class Pool:
    """Origin → newest valid record. Only validated records are ever added.

    >>> pool = network.Pool(charter)
    >>> change = pool.add(record)
    >>> pool.version(identity.id), pool.posterior() == posterior
    (1, True)
    """

    def __init__(self, charter: Charter) -> None:
        self.decisions = Decisions(charter)
        self.charter = self.decisions.charter
        """The charter in force, as of the last `renew`."""
        self.records: dict[AgentId, Record] = {}
        self.rivals: dict[AgentId, SignedHeader] = {}
        self.sums = None if charter.sums is None else Sums(self.decisions)
        """The group's sums, in groups whose members publish nothing else; None in others."""
        self._root: bytes | None = None
        self._evidence_digest: bytes | None = None
        self._cache = MergeCache()

    @property
    def roster(self) -> Roster:
        """The seats and their keys, by the charter and all decisions since."""
        return self.decisions.roster

    @property
    def proofs(self) -> dict[AgentId, Proof]:
        """The proofs against keys that have signed two things under one number."""
        return self.decisions.proofs

    @property
    def outdated(self) -> bool:
        """Whether the charter in force has changed since the records were checked."""
        return self.decisions.charter is not self.charter

    def renew(self, check: Callable[[Record], Record | None]) -> None:
        """Switch to the charter in force; `check` reads a record under it and returns None if it is refused."""
        before, self.charter = self.charter, self.decisions.charter
        if not before.reads_like(self.charter):
            checked = {origin: check(record) for origin, record in self.records.items()}
            self.records = {origin: record for origin, record in checked.items() if record is not None}
            self.rivals = {origin: rival for origin, rival in self.rivals.items() if origin in self.records}
            self._cache = MergeCache()
        self._changed()

    def add(self, record: Record) -> Change:
        """Add a record."""
        if record.origin in self.proofs:
            return Change.EXCLUDED
        change = self._join(record)
        return Change.EQUIVOCATION if self.notice() else change

    def exclude(self, proof: Proof) -> bool:
        """Add a proof: its origin stops counting here and, as the proof spreads, everywhere. True if it is new."""
        news = self.decisions.exclude(proof)
        self._drop_excluded()
        return news

    def vote(self, ballot: Ballot) -> bool:
        """Add votes for a motion; True if any is new."""
        news = self.decisions.add(ballot)
        self._drop_excluded()
        return news

    def _drop_excluded(self) -> None:
        for origin in self.proofs.keys() & self.records.keys():
            del self.records[origin]
            self.rivals.pop(origin, None)
        self._changed()

    def notice(self) -> list[Proof]:
        """Exclude origins that have signed two records under one version, and return the new proofs."""
        proofs = [Proof(self.records[origin].signed, rival) for origin, rival in self.rivals.items()]
        return [proof for proof in proofs if self.exclude(proof)]

    def union(self, other: "Pool") -> None:
        """Add everything from another pool."""
        self.decisions.union(other.decisions)
        self._drop_excluded()
        for origin, record in other.records.items():
            if origin not in self.proofs:
                self._join(record)
                if origin in other.rivals:
                    self._join_rival(other.rivals[origin])

    def add_packet(self, content: bytes) -> tuple[Packet, Proof | None]:
        """Check a member's message to a sum and add it; also returns a proof if the message contradicts another."""
        if self.sums is None:
            raise Refused("envelope", "this group has no sums.")
        chain, packet = self.sums.open_packet(content)
        proof = self.sums.add(chain, packet, self.roster)
        self._changed()
        return packet, proof

    def _restore_packets(self, packets: Iterable[Packet]) -> None:
        """Add stored sum messages in any order in which they can be read; neighbours will resend the others."""
        waiting, before = [*packets], -1
        while len(waiting) != before:
            before, later = len(waiting), []
            for packet in waiting:
                try:
                    self.add_packet(packet.content)
                except Refused as error:
                    later += [packet] if error.reason == "ahead" else []
            waiting = later

    def restore(
        self,
        saved: Iterable[Record | Proof | Ballot | Packet | SumPart],
        check: Callable[[Record], Record | None] | None = None,
    ) -> None:
        """Add a store's items: decisions first, then the records that the charter in force accepts.

        `check` re-reads a record that was read under another charter; without it such records are skipped.
        """
        items = [*saved]
        for item in items:
            if isinstance(item, Proof):
                self.exclude(item)
            elif isinstance(item, Ballot):
                self._restore_ballot(item)
        self.charter = self.decisions.charter
        self._restore_packets(item for item in items if isinstance(item, Packet))
        for record in [item for item in items if isinstance(item, Record)]:
            read = record if self._reads(record) else None if check is None else check(record)
            if read is not None:
                self.add(read)

    def _restore_ballot(self, ballot: Ballot) -> None:
        """Add a stored ballot. If its predecessors are unknown or it has lapsed, it may be voted on again."""
        news = self.decisions.knows(ballot.motion.after) and self.vote(ballot)
        if not news and ballot.digest not in self.decisions.settled:
            self.decisions.lapsed.append(ballot)

    def _reads(self, record: Record) -> bool:
        """Whether a record was read under the charter in force."""
        known = record.posterior is None or record.posterior.structure == self.charter.structure
        return known and record.header.epoch == self.charter.opened

    def knows(self, origin: AgentId, version: int, digest: bytes) -> bool:
        """Whether this version is already in the pool, or too old to matter."""
        newest = self.records.get(origin)
        if origin in self.proofs:
            return True
        return newest is not None and (version < newest.version or (newest.version, newest.digest) == (version, digest))

    def version(self, origin: AgentId) -> int:
        """The newest version of an origin; 0 if it has published nothing."""
        record = self.records.get(origin)
        return 0 if record is None else record.version

    def entries(self) -> list[Entry]:
        """Each seat's newest version under its newest key, including empty ones, ordered by origin."""
        listed = sorted(self.records.items())
        return [(origin, record.version, record.digest) for origin, record in listed if not self.superseded(origin)]

    def superseded(self, origin: AgentId) -> bool:
        """Whether a record under a newer key of the same seat is known, or the key belongs to no seat."""
        seat = self.roster.names.get(origin)
        if seat is None:
            return True
        return self.roster.newest(seat, {*self.records, origin}) != origin

    def excluded(self) -> list[AgentId]:
        """The excluded origins, sorted."""
        return sorted(self.proofs)

    @property
    def root(self) -> bytes:
        """One hash of all newest versions, decisions and exclusions: equal roots mean equal states."""
        if self._root is None:
            digest = hashlib.sha256()
            for origin, version, content in self.entries():
                digest.update(origin + version.to_bytes(8, "little") + content)
            digest.update(self.decisions.root + (b"" if self.sums is None else self.sums.root))
            self._root = digest.digest()
        return self._root

    def as_of_now(self) -> "Pool":
        """A snapshot for a thread that merges and describes it while this pool changes.

        Both share the cache of merges.
        """
        now = Pool(self.decisions.founding)
        now.decisions, now.charter = self.decisions.copy(), self.charter
        now.records, now.rivals, now.sums = dict(self.records), dict(self.rivals), self.sums
        now._cache = self._cache
        return now

    def counted(self) -> Iterator[Record]:
        """The records that a merge counts, ordered by origin: one per member, none of them empty."""
        # Copy both at once, because another thread may ask while records arrive.
        records, now = dict(self.records), self.roster
        for origin, record in sorted(records.items()):
            if not record.empty and now.counts(origin, records):
                yield record

    def merged(self) -> Merged:
        """The merge of all records, computed once per set; in groups that only open sums, the last open sum."""
        if self.sums is not None:
            return merged_sum(self.charter, self.sums)
        records = list(self.counted())
        set_hash = hashlib.sha256(b"".join(record.digest for record in records)).hexdigest()
        keys, before = [record.merge_key for record in records], self._cache.merged
        if before is None or before[0] != keys:
            before = keys, merge_records(self.charter, records, set_hash)
        elif before[1].set_hash != set_hash:
            # Only notes are new, which do not change the merge.
            before = keys, replace(before[1], entries=entries_of(records), set_hash=set_hash)
        self._cache.merged = before
        return before[1]

    @property
    def belief(self) -> Belief | None:
        """The last result of `believed`; None before the first."""
        return None if self._cache.belief is None else self._cache.belief[1]

    def believed(self) -> Belief:
        """The merge, calibrated if all members' notes allow it, and what the notes say about it."""
        merged, before = self.merged(), self._cache.belief
        if before is None or before[0] is not merged:
            before = merged, believed(self.charter, merged, list(self.counted()))
        self._cache.belief = before
        return before[1]

    @property
    def evidence_digest(self) -> bytes:
        """One hash of everything that counts in a merge; notes do not change it."""
        if self._evidence_digest is None:
            counted = [(origin.hex(), *rest) for origin, *rest in (record.merge_key for record in self.counted())]
            summed = b"" if self.sums is None else self.sums.root
            self._evidence_digest = hashlib.sha256(repr(counted).encode() + summed).digest()
        return self._evidence_digest

    def same_data(self) -> list[tuple[AgentId, ...]]:
        """Groups of members whose marks show that they hold the same data set."""
        holders: dict[bytes, set[AgentId]] = defaultdict(set)
        for record in self.counted():
            for mark in record.header.marks:
                holders[mark].add(record.origin)
        return sorted({tuple(sorted(origins)) for origins in holders.values() if len(origins) > 1})

    def posterior(self) -> Posterior:
        """The posterior of all evidence received so far."""
        return self.merged().posterior

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pool):
            return False
        return (self.records, self.rivals, self.decisions) == (other.records, other.rivals, other.decisions)

    __hash__ = None  # type: ignore[assignment]

    def _join(self, record: Record) -> Change:
        """Keep the higher version; of one version, the two lowest digests."""
        known = self.records.get(record.origin)
        if known is not None and record.version < known.version:
            return Change.STALE
        if known is not None and record.digest == known.digest:
            return Change.KNOWN
        if known is not None and record.version == known.version:
            lower, higher = sorted((known, record), key=lambda item: item.digest)
            self.records[record.origin] = lower
            self._join_rival(higher.signed)
            self._changed()
            return Change.EQUIVOCATION
        self.records[record.origin] = record
        self.rivals.pop(record.origin, None)
        self._changed()
        return Change.NEWER

    def _join_rival(self, rival: SignedHeader) -> None:
        known = self.records[rival.origin]
        if rival.version != known.version or rival.digest == known.digest:
            return
        other = self.rivals.get(rival.origin)
        self.rivals[rival.origin] = rival if other is None else min(rival, other, key=lambda header: header.digest)

    def _changed(self) -> None:
        self._root = self._evidence_digest = None
