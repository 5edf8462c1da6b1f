"""What an agent has heard: the newest record of each origin, and proofs against those who signed two.

The state is a growing set of signed headers; everything else follows from it. So a union of pools is commutative,
associative, idempotent and monotone, whatever the origins do:

- the newest version of an origin counts, alone; its body replaces all earlier ones;
- two headers of one origin with one version are a proof, and exclude the origin for good;
- a retraction is an empty newest version, kept like any other.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from decbayes.merging import merge
from decbayes.network.protocol.keys import AgentId
from decbayes.network.protocol.record import Record, SignedHeader
from decbayes.posterior import Posterior
from decbayes.structure import Structure

Entry = tuple[AgentId, int, bytes]
"""Origin, version and digest: how agents tell each other what they hold."""


@dataclass(frozen=True)
class Proof:
    """Two headers that one origin signed under one version: whoever sees them knows that it cannot be trusted."""

    first: SignedHeader
    second: SignedHeader

    @property
    def origin(self) -> AgentId:
        return self.first.origin

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(b"".join(sorted((self.first.digest, self.second.digest)))).digest()


@dataclass(frozen=True)
class Merged:
    """A merged posterior, and the set it was made from: who counted, with which version, and the set's hash."""

    posterior: Posterior
    entries: tuple[Entry, ...]
    observations: int
    set_hash: str


class Change(Enum):
    """What a record did to a pool."""

    NEWER = "newer"
    KNOWN = "known"
    STALE = "stale"
    EQUIVOCATION = "equivocation"
    EXCLUDED = "excluded"


class Pool:
    """Origin → newest valid record. Only validated records are ever added."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.records: dict[AgentId, Record] = {}
        self.history: dict[AgentId, dict[int, SignedHeader]] = {}
        self.proofs: dict[AgentId, Proof] = {}
        self._root: bytes | None = None
        self._merged: Merged | None = None

    def add(self, record: Record) -> Change:
        """Take a record in."""
        if record.origin in self.proofs:
            return Change.EXCLUDED
        if self.knows(record.origin, record.version, record.digest):
            return Change.KNOWN
        if self.see(record.signed):
            return Change.EQUIVOCATION
        newest = self.records.get(record.origin)
        if newest is not None and newest.version > record.version:
            return Change.STALE
        self.records[record.origin] = record
        self._root = None
        return Change.NEWER

    def exclude(self, proof: Proof) -> bool:
        """Take a proof in: its origin counts no more, here and, as the proof spreads, everywhere."""
        if proof.origin in self.proofs:
            return False
        self.proofs[proof.origin] = proof
        self.records.pop(proof.origin, None)
        self.history.pop(proof.origin, None)
        self._root = None
        return True

    def see(self, signed: SignedHeader) -> bool:
        """Keep a signed header; True if it contradicts one that is known, which excludes the origin."""
        if signed.origin in self.proofs:
            return False
        known = self.history.setdefault(signed.origin, {}).setdefault(signed.version, signed)
        return known.digest != signed.digest and self.exclude(Proof(known, signed))

    def union(self, other: "Pool") -> None:
        """Take in all that another pool holds."""
        for proof in other.proofs.values():
            self.exclude(proof)
        for record in other.records.values():
            self.add(record)
        for signed in [signed for versions in other.history.values() for signed in versions.values()]:
            self.see(signed)

    def restore(self, saved: Iterable[Record | SignedHeader | Proof]) -> None:
        """Take in what a store has kept."""
        for item in saved:
            match item:
                case Record():
                    self.add(item)
                case SignedHeader():
                    self.see(item)
                case Proof():
                    self.exclude(item)

    def knows(self, origin: AgentId, version: int, digest: bytes) -> bool:
        """Whether that very version has been seen, or can no longer matter."""
        known = self.history.get(origin, {}).get(version)
        return origin in self.proofs or (known is not None and known.digest == digest)

    def version(self, origin: AgentId) -> int:
        """The newest version of an origin; 0 if nothing has been heard of it."""
        record = self.records.get(origin)
        return 0 if record is None else record.version

    def entries(self) -> list[Entry]:
        """All newest versions, retractions included, in the order of origins."""
        return [(origin, record.version, record.digest) for origin, record in sorted(self.records.items())]

    @property
    def root(self) -> bytes:
        """One hash of all newest versions and exclusions: equal roots, equal state."""
        if self._root is None:
            digest = hashlib.sha256()
            for origin, version, content in self.entries():
                digest.update(origin + version.to_bytes(8, "little") + content)
            for origin in sorted(self.proofs):
                digest.update(b"excluded" + origin)
            self._root = digest.digest()
        return self._root

    def counted(self) -> Iterator[Record]:
        """The records that a merge counts, in the order of origins: each origin once, and no retractions."""
        return (record for _, record in sorted(self.records.items()) if not record.retraction)

    def merged(self) -> Merged:
        """Merge on demand, once for each set of records."""
        records = list(self.counted())
        set_hash = hashlib.sha256(b"".join(record.digest for record in records)).hexdigest()
        if self._merged is None or self._merged.set_hash != set_hash:
            self._merged = merge_records(self.structure, records, set_hash)
        return self._merged

    def posterior(self) -> Posterior:
        """The posterior of everybody's data heard of so far."""
        return self.merged().posterior

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pool) and (self.records, self._seen(), self.proofs.keys()) == (
            other.records,
            other._seen(),
            other.proofs.keys(),
        )

    __hash__ = None  # type: ignore[assignment]

    def _seen(self) -> set[tuple[AgentId, int]]:
        return {(origin, version) for origin, versions in self.history.items() for version in versions}


def merge_records(structure: Structure, records: list[Record], set_hash: str) -> Merged:
    posteriors = [record.posterior for record in records if record.posterior is not None]
    merged = merge(posteriors) if posteriors else Posterior.of_prior(structure)
    entries = tuple((record.origin, record.version, record.digest) for record in records)
    return Merged(merged, entries, sum(record.header.observations for record in records), set_hash)
