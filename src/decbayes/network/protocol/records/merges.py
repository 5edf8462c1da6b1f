"""The merge of records by the charter's rules, and the largest share of one member."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from decbayes.devices import everywhere_alike
from decbayes.errors import DecbayesError
from decbayes.families import Array
from decbayes.merging import Alignment, Influence, Parties, align, reading, robust_merge
from decbayes.merging.alignment import remarks_in_time
from decbayes.merging.base.lineage import ids_of
from decbayes.merging.base.problem import Number
from decbayes.merging.base.products import scaled
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId, short
from decbayes.network.protocol.records.record import Entry, Record
from decbayes.network.protocol.sums import Sums
from decbayes.posterior import Posterior
from decbayes.remarks import Remark


def within_share(units: Array, share: float) -> Array:
    """Factors that scale down each member's evidence so that none has more than its share of the scaled total.

    A member with evidence e gets min(1, C / e), with the largest C ≤ share · Σ_j min(e_j, C). With fewer than 1 / share
    members there is no such C, and all count alike.
    """
    if share >= 1.0:
        return np.ones(len(units))
    rising = np.sort(units)
    # With the largest m members capped, C = share · (C m + evidence of the others).
    for capped in range(len(rising) + 1):
        others = rising[: len(rising) - capped].sum()
        if share * capped >= 1.0:
            break
        level = share * others / (1.0 - share * capped)
        if capped == len(rising) or rising[-capped - 1] <= level:
            return np.asarray(np.minimum(1.0, max(level, rising[0]) / np.maximum(units, 1.0)))
    return np.asarray(np.minimum(1.0, rising[0] / np.maximum(units, 1.0)))


# Errors that malicious numbers may raise; they must not end a thread.
UNCOMPUTABLE = (DecbayesError, ArithmeticError, ValueError)


@dataclass(frozen=True)
class Merged:
    """A merged posterior and the set of versions that it was made from, with its hash.

    >>> pool = network.Pool(charter)
    >>> change = pool.add(record)
    >>> pool.merged().observations, pool.merged().posterior == posterior
    (4, True)
    """

    posterior: Posterior
    entries: tuple[Entry, ...]
    observations: int
    set_hash: str
    alignment: Alignment | None = field(default=None, repr=False, compare=False)
    reasons: Mapping[int, str] = field(default_factory=dict, repr=False, compare=False)
    """Why entries are flagged in a robust merge."""
    counting: int | None = None
    """How many of the observations count in a robust merge; None if all do."""

    @cached_property
    def influence(self) -> Influence | None:
        """The influence of each entry on the merge, and which entries disagree with all others."""
        return None if self.alignment is None else reading.influence(self.alignment)

    @cached_property
    def warnings(self) -> tuple[Remark, ...]:
        return () if self.alignment is None else remarks_in_time(self.alignment)[1]

    @cached_property
    def parties(self) -> Parties | None:
        """Groups of members that the merge depends on; takes as long as a dozen merges."""
        return None if self.alignment is None else reading.parties(self.alignment)

    @property
    def parties_if_known(self) -> Parties | None:
        """The parties if they have been computed already; None otherwise."""
        return self.__dict__.get("parties")

    def flags(self, site: int) -> tuple[str, ...]:
        """Everything that stands out about one entry."""
        influence = () if self.influence is None else self.influence.flags(site, self.warnings)
        return *influence, *([self.reasons[site]] if site in self.reasons else [])

    def names(self, origin: AgentId) -> tuple[str, ...]:
        """The merge's ids for the components of a member's newest version; empty if it is not counted."""
        origins = [entry[0] for entry in self.entries]
        if self.alignment is None or origin not in origins or not self.alignment.structure.resizable:
            return ()
        (coupled,) = self.alignment.structure.symmetry
        ids = ids_of(self.alignment.merged())
        return tuple(ids[slot] for slot in self.alignment.assignments[origins.index(origin)][coupled])


@everywhere_alike()
def merge_records(charter: Charter, records: list[Record], set_hash: str) -> Merged:
    """The merge by the charter's rules. Its bits follow from the set of records alone."""
    entries = entries_of(records)
    observations = sum(record.header.observations for record in records)
    if not records:
        return Merged(Posterior.of_prior(charter.structure), entries, observations, set_hash)
    contributions = contributions_of(charter, records)
    alignment = align(contributions, components=slots_of(charter))
    if not charter.rules.robust:
        return Merged(alignment.merged(), entries, observations, set_hash, alignment)
    robust = robust_merge(contributions, components=slots_of(charter))
    reasons = robust.reasons([short(record.origin) for record in records])
    flagged = {site: reason for site, reason in reasons.items() if robust.sites[site].flagged}
    rows = [record.header.observations for record in records]
    counting = round(sum(count * site.counts for count, site in zip(rows, robust.sites, strict=True)))
    part = counting if counting < observations else None
    return Merged(robust.posterior, entries, observations, set_hash, alignment, flagged, part)


def merged_sum(charter: Charter, sums: Sums) -> Merged:
    """The last sum that was opened, or the prior. The parts of single members are unknown."""
    summed, chain = sums.merged, sums.opened
    if summed is None or chain is None:
        return Merged(Posterior.of_prior(charter.structure), (), 0, "")
    set_hash = chain.sums[len(chain.results) - 1].terms.digest.hex()
    return Merged(summed.posterior, (), round(summed.share.rows), set_hash)


def contributions_of(charter: Charter, records: list[Record]) -> list[Posterior]:
    """Each member's contribution, scaled down to its share."""
    scales = within_share(np.array([record.header.units for record in records], dtype=float), charter.rules.share)
    return [scaled(posterior_of(record), float(scale)) for record, scale in zip(records, scales, strict=True)]


@everywhere_alike()
def in_slots(charter: Charter, records: list[Record]) -> list[Posterior]:
    """Each member's part in the slots of the merge; the merge is their sum."""
    contributions = contributions_of(charter, records)
    if not charter.rules.robust:
        return [*align(contributions, components=slots_of(charter)).relabelled()]
    robust = robust_merge(contributions, components=slots_of(charter))
    nothing = Posterior.of_prior(charter.structure)
    parts = dict(zip(robust.merged, robust.alignment.relabelled(), strict=True))
    return [parts.get(site, nothing) for site in range(len(records))]


def slots_of(charter: Charter) -> Number:
    """The number of slots: that of the model, which members need for their next fits, or the charter's."""
    return "largest" if charter.rules.components == "model" else charter.rules.components


def entries_of(records: list[Record]) -> tuple[Entry, ...]:
    return tuple(record.signed.entry for record in records)


def posterior_of(record: Record) -> Posterior:
    assert record.posterior is not None, "empty records are not counted"
    return record.posterior
