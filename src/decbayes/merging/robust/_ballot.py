"""Who counts, and for what; the alignment of those who do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainccinv

from decbayes.families import Array, Contribution, Family, dense
from decbayes.families.matrices import Indices
from decbayes.merging.aligning import aligned
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import groups_of
from decbayes.merging.base.problem import Number, OnMatch, Solver
from decbayes.merging.base.products import weighted_rows
from decbayes.merging.base.recentring import recentred
from decbayes.merging.grouping.grouping import Grouping
from decbayes.merging.robust._likeness import GONE, chance, weights_of
from decbayes.merging.robust._slots import (
    UNLIKELY,
    Settled,
    as_mixtures,
    credible,
    elected,
    gathered,
    joins,
    lenient,
    settled,
    uncapped,
)
from decbayes.merging.robust.votes import Group
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Permutation, identity

# Votes of the others that must be heard more for strangers to be left out.
BETTER = 0.5
# A component that counts for less disagrees clearly: it loses more than twice what is tolerated, by so many nats. With
# one or two parameters chance makes twice the tolerance now and then, above all where clusters overlap.
CLEARLY, NATS = 0.25, 3.0
# With so many observations it must be twice that: losses of few vary more than those of many, above all if variances
# are unknown.
FEW = 5.0
# The share of its evidence that must disagree clearly for a site to be flagged.
FLAGGED = 0.1
# A site that shares less of its evidence with others is a stranger.
SHARED = 0.5
# What counts of how often a site has seen something that nobody confirms.
UNCONFIRMED = 0.05
# How often any honest component of a merge may count for less.
MISTAKEN = 0.05
# Weights are rounded to so many digits, since logarithms differ in their last bits between processors.
DIGITS = 6

Sites = NDArray[np.bool_]
"""Some of the sites."""


@dataclass(frozen=True)
class Ballot:
    """Sites in canonical order, and how they are merged."""

    posteriors: Sequence[Posterior]
    sets: Sequence[Mapping[CoupledSet, Permutation]]
    """For each site, the components of each coupled set in canonical order."""
    cap: float
    spare: bool
    judging: bool
    """Whether there are enough sites to tell who is right; else all count in full."""
    components: Number = None
    solver: Solver | str | None = None
    progress: OnMatch | None = field(default=None, repr=False)

    def among(self, sites: Sequence[int]) -> "Ballot":
        """Among some of the sites."""
        return replace(
            self, posteriors=[self.posteriors[site] for site in sites], sets=[self.sets[site] for site in sites]
        )

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        structure = self.posteriors[0].structure
        coupled = {tuple(one.factors): one for one in structure.symmetry}
        return tuple(self._group(names, coupled.get(names)) for names in groups_of(structure))

    def _group(self, names: tuple[str, ...], coupled: CoupledSet | None) -> Group:
        rows = identity(len(self.posteriors[0].structure.prior[names[0]]))
        order = [rows if coupled is None else of_site[coupled] for of_site in self.sets]
        return Group.of(self.posteriors, names, coupled, order, self.cap if self.judging else np.inf)

    def decided(self) -> "Outcome":
        """Who counts, and for what; without the strangers if they take slots that others need, or further ones."""
        everybody = Outcome(self, self.settled(), tuple(range(len(self.posteriors))))
        strangers = everybody.strangers
        if not self.judging or not strangers.any() or 2 * strangers.sum() >= len(strangers):
            return everybody
        kept = np.flatnonzero(~strangers)
        rest = self.among(kept.tolist())
        without = Outcome(rest, rest.settled(), tuple(kept.tolist()))
        better = without.slots < everybody.slots or without.heard.sum() > everybody.heard[kept].sum() + BETTER
        return without if better else everybody

    def settled(self) -> tuple[Settled, ...]:
        """Slots for what most sites know, and what each component counts for in them."""
        parts = tuple(self._settled(group) for group in self.groups)
        return parts if self.judging else tuple(replace(part, weights=np.ones(len(part.labels))) for part in parts)

    def _settled(self, group: Group) -> Settled:
        structure = self.posteriors[0].structure
        if group.coupled is None:
            return settled(group, group.row, len(structure.prior[group.names[0]]))
        slots = self.slots(group)
        chosen = elected(group, slots, slots if self.spare and structure.resizable else 0)
        voted = settled(group, gathered(group, chosen), max(slots, len(chosen)))
        return self._aligned(voted, slots) if group.counted and is_vague(group, chosen, slots) else voted

    def _aligned(self, voted: Settled, slots: int) -> Settled:
        """As in an alignment of all, unless the vote silences some or has further slots, and more votes are heard.

        Where topics of sites usually differ so much that one may be any of several others, sites with topics of their
        own are not silenced. In an alignment they take slots that the others need.
        """
        scales = [group.scale[group.site] for group in self.groups]
        alignment = aligned(self.weighted(self.posteriors, scales, scales), slots, self.solver or Grouping(passes=0))[0]
        first = settled(voted.group, *slots_in(alignment, voted.group))
        selective = (voted.weights < 0.5)[voted.group.known].any() or voted.slots > slots
        return voted if selective and voted.votes.sum() > first.votes.sum() + BETTER else first

    def slots(self, group: Group) -> int:
        """The number of slots that was given, or the largest site's number of components."""
        return self.components if isinstance(self.components, int) else max(map(len, group.order))

    def aligned(self, posteriors: Sequence[Posterior], least: int) -> Alignment:
        components = None if self.spare else self.components
        return aligned(posteriors, components, self.solver, None, self.progress, least)[0]

    def weighted(
        self, posteriors: Sequence[Posterior], weights: Sequence[Array], shares: Sequence[Array]
    ) -> list[Posterior]:
        """All sites' posteriors with each component weighted; what says how frequent components are, by its share."""
        weighted_posteriors = []
        for site, posterior in enumerate(posteriors):
            parts = dict(posterior.contribution)
            for group, *amounts in zip(self.groups, weights, shares, strict=True):
                weight, share = (by_label(amount[group.site == site], group.order[site]) for amount in amounts)
                for name in group.names:
                    family = posterior.structure.families[name]
                    parts[name] = weighted_part(family, parts[name], share if family.over_components else weight)
            changed = any(parts[name] is not part for name, part in posterior.contribution.items())
            weighted_posteriors.append(posterior.lessened(parts) if changed else posterior)
        return weighted_posteriors


@dataclass(frozen=True)
class Outcome:
    """What a robust merge comes to: who takes part, and what each component counts for."""

    ballot: Ballot
    reached: tuple[Settled, ...]
    """What each component counts for in its slot, group after group of factors."""
    sites: tuple[int, ...]

    @property
    def slots(self) -> int:
        return sum(part.slots for part in self.reached)

    @property
    def heard(self) -> Array:
        """For each site, how many of its votes for components are heard."""
        free = [part.votes.sum(axis=1) for part in self.reached if part.group.coupled is not None]
        return np.sum(free, axis=0) if free else np.zeros(len(self.sites))

    @property
    def strangers(self) -> Sites:
        """The sites most of whose evidence is in slots that the party of most sites does not know."""
        free = [~main_party(part) for part in self.reached if part.group.coupled is not None]
        return np.asarray(np.any(free, axis=0)) if free else np.zeros(len(self.sites), dtype=np.bool_)

    @cached_property
    def parts(self) -> tuple[Settled, ...]:
        """With components that are mixtures of slots, or parts of one thing, counted as what they are together."""
        return tuple(map(final, self.reached)) if self.ballot.judging else self.reached

    @cached_property
    def against(self) -> Array:
        """For each site, the share of its evidence that clearly disagrees, in the factors where that is most."""
        return np.asarray(np.max([of_sites(part.group, disagreeing(part)) for part in self.parts], axis=0))

    @cached_property
    def kept(self) -> Indices:
        """The sites that count: those that disagree clearly do not, unless they are as many as the others."""
        flagged = self.against > FLAGGED
        return np.flatnonzero(~flagged | (2 * flagged.sum() >= len(flagged)))

    @cached_property
    def own(self) -> list[NDArray[np.bool_]]:
        """What sites that are left out have found alone, and mostly agree otherwise: it gets slots of its own.

        Not among like sites, which know all slots: there it is in the place of what others know.
        """
        free = self.ballot.judging and self.ballot.spare and self.ballot.posteriors[0].structure.resizable
        out = ~np.isin(np.arange(len(self.against)), self.kept)
        return [
            lonely(part) & (fitting(part) & out)[part.group.site] & (free and part.group.coupled is not None)
            for part in self.parts
        ]

    @cached_property
    def merged(self) -> Indices:
        """The sites of which something is merged."""
        having = [part.group.site[own] for part, own in zip(self.parts, self.own, strict=True)]
        return np.unique(np.concatenate([self.kept, *having]))

    @cached_property
    def weights(self) -> list[Array]:
        """What each component counts for: all evidence that others agree with."""
        scales = [uncapped(part)[part.group.site] for part in self.parts]
        return self._counted(scales, 1.0)

    def _counted(self, scales: Sequence[Array], unconfirmed: float) -> list[Array]:
        """Amounts of components: those of sites that count by their weights, else only what is a site's own."""
        parts = zip(scales, self.parts, self.own, strict=True)
        return [
            rounded(scale * np.where(np.isin(part.group.site, self.kept), part.weights, unconfirmed * own))
            for scale, part, own in parts
        ]

    @cached_property
    def alignment(self) -> Alignment:
        """The alignment of the sites that count, each component as it counts.

        How frequent components are is counted from what they vote with: nobody can check it.
        """
        ballot = self.ballot
        shares = self._counted([part.group.scale[part.group.site] for part in self.parts], UNCONFIRMED)
        sites = self.merged.tolist()
        # Not before: a message that is moved to where a lie is, too, is bent by the lie.
        moved = dict(zip(sites, recentred([ballot.posteriors[site] for site in sites]), strict=True))
        heard = [moved.get(site, posterior) for site, posterior in enumerate(ballot.posteriors)]
        weighted = ballot.weighted(heard, self.weights, shares)
        return ballot.aligned([weighted[site] for site in sites], self._least())

    def _least(self) -> int:
        """The slots that the election has found and those for what single sites know, where these are more."""
        further = sum(int(own.sum()) for own in self.own)
        free = [part for part in self.parts if part.group.coupled is not None]
        more = further or any(part.slots > self.ballot.slots(part.group) for part in free)
        return max(part.slots + further for part in free) if more else 0

    @property
    def spare(self) -> int:
        """Slots beside those of the largest site, if nobody has given a number."""
        structures = [posterior.structure for posterior in self.alignment.posteriors]
        return sum(
            self.alignment.structure.components(one) - max(structure.components(one) for structure in structures)
            for one in (structures[0].symmetry if self.ballot.spare else ())
        )

    def standings(self) -> list[tuple[float, float, float]]:
        """For each site, the shares of its evidence that count, that clearly disagree, and that are its alone."""
        counts, alone = [], []
        for part, weights in zip(self.parts, self.weights, strict=True):
            counts.append(of_sites(part.group, weights, nothing=1.0))
            unconfirmed = np.where(part.weights > 0.5, ~confirmed(part), lonely(part))
            alone.append(of_sites(part.group, unconfirmed & (part.group.coupled is not None)))
        shares = zip(np.mean(counts, axis=0), self.against, np.max(alone, axis=0), strict=True)
        return [(float(counted), float(contradicted), float(single)) for counted, contradicted, single in shares]

    def by_slot(self) -> Array:
        """Merged sites × slots, group after group: how much of the evidence that a site has there counts."""
        by_group = []
        for group, weights in zip(self.ballot.groups, self.weights, strict=True):
            mine = np.isin(group.site, self.merged)
            labels, slots = slots_in(self.alignment, group, self.merged)
            key, size = np.searchsorted(self.merged, group.site[mine]) * slots + labels, len(self.merged) * slots
            total, counted = (
                np.bincount(key, amount[mine] * group.evidence[mine], size) for amount in (np.ones(len(mine)), weights)
            )
            nothing = np.repeat(np.isin(self.merged, self.kept).astype(np.float64), slots)
            by_group.append(np.divide(counted, total, out=nothing, where=total > 0.0).reshape(-1, slots))
        return np.concatenate(by_group, axis=1)


def is_vague(group: Group, chosen: Indices, slots: int) -> bool:
    """Whether some agree with several of the elected, or with so few that slots are left."""
    agreeing = (group.likeness.weights[:, chosen] > 0.5)[group.known].sum(axis=1)
    return bool(len(chosen) < slots or (agreeing > 1).any())


def main_party(part: Settled) -> Sites:
    """The sites that share most of their evidence with others of the party that has grown from the best known slot."""
    known = part.votes > 0.5
    party, before = known[:, known.sum(axis=0).argmax()], -1
    while party.sum() > before:
        before = int(party.sum())
        others = known[party].sum(axis=0) - (known & party[:, None])
        shared = (others[part.group.site, part.labels] > 0) & (part.weights > 0.0)
        close = of_sites(part.group, shared, nothing=1.0) > SHARED
        party = party | close
    return np.asarray(close)


def final(part: Settled) -> Settled:
    if part.group.coupled is None:
        return forgiving(part)
    part = credible(part)
    if part.group.counted and len(part.group.rows) == 1:
        return forgiving(lenient(as_mixtures(part)))
    return joins(forgiving(lenient(part)))


def forgiving(part: Settled) -> Settled:
    """Of many components, some are beyond the tolerance by chance: these count, but do not say what a slot is."""
    group = part.group
    by_chance = gammainccinv(0.5 * group.parameters, MISTAKEN / max(int(group.known.sum()), 1))
    weights = weights_of(part.lost, np.maximum(by_chance / chance(group.parameters), 1.0) * part.tolerance)
    gone = (part.lost > GONE * part.tolerance) | disagreeing(part)
    return replace(part, weights=np.where(gone, part.weights, np.maximum(part.weights, weights)))


def slots_in(alignment: Alignment, group: Group, sites: Indices | None = None) -> tuple[Indices, int]:
    """The slot of each component of a group, or of those of some sites, and how many slots there are."""
    orders = group.order if sites is None else [group.order[site] for site in sites]
    if group.coupled is None:
        return np.concatenate(orders), len(alignment.structure.prior[group.names[0]])
    pairs = zip(alignment.slots(group.coupled), orders, strict=True)
    return np.concatenate([slots[labels] for slots, labels in pairs]), alignment.structure.components(group.coupled)


def disagreeing(part: Settled) -> NDArray[np.bool_]:
    """The components that clearly disagree with the others."""
    clear = (2.0 * part.tolerance + NATS) * (1.0 + FEW / np.maximum(part.group.evidence, 1.0))
    return np.asarray((part.weights < CLEARLY) & (part.lost > clear))


def lonely(part: Settled) -> NDArray[np.bool_]:
    """Those of them that no other site has either."""
    group, likeness = part.group, part.group.likeness
    others = group.site[:, None] != group.site[likeness.candidates]
    agreeing = np.where(others, likeness.weights, 0.0).max(axis=1, initial=0.0)
    return np.asarray(group.known & disagreeing(part) & (agreeing <= 0.5))


def fitting(part: Settled) -> Sites:
    """The sites of which others confirm most, where sites are so unlike that one may have found something alone."""
    shared = of_sites(part.group, confirmed(part) & (part.weights > 0.5))
    return np.asarray((shared > SHARED) & (part.chance(1.0) > UNLIKELY))


def confirmed(part: Settled) -> NDArray[np.bool_]:
    """The components in slots of which another site has something, too."""
    heard = part.votes > 0.5
    return np.asarray((heard.sum(axis=0) - heard)[part.group.site, part.labels] > 0)


def of_sites(group: Group, amounts: ArrayLike, nothing: float = 0.0) -> Array:
    """The mean of amounts over each site's evidence."""
    total = np.bincount(group.site, group.evidence, group.sites)
    sums = np.bincount(group.site, group.evidence * np.asarray(amounts), group.sites)
    return np.asarray(np.divide(sums, total, out=np.full(group.sites, nothing), where=total > 0.0))


def by_label(amounts: Array, order: Indices) -> Array:
    """Amounts of components in canonical order, in the order of their labels."""
    labelled = np.empty_like(amounts)
    labelled[order] = amounts
    return labelled


def rounded(weights: Array) -> Array:
    return np.round(weights, DIGITS)


def weighted_part(family: Family, part: Contribution, weights: Array) -> Contribution:
    """A contribution with each component weighted; a transition as the less of the two that it is between."""
    if (weights == 1.0).all():
        return part
    return dense(part) * np.minimum(weights[:, None], weights) if family.two_sided else weighted_rows(part, weights)
