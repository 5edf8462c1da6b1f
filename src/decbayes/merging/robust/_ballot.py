"""Which sites and components count, for how much, and the alignment of those that do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array, Contribution, Family, dense
from decbayes.families.matrices import Indices
from decbayes.merging.aligning import aligned
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import groups_of
from decbayes.merging.base.problem import Number, OnMatch, Solver
from decbayes.merging.base.products import weighted_rows
from decbayes.merging.base.recentring import compared, recentred
from decbayes.merging.grouping.grouping import Grouping
from decbayes.merging.robust._confirmation import Sites, confirmed, lonely, main_party, mostly_confirmed, of_sites
from decbayes.merging.robust._disagreement import (
    HARDLY,
    MISFIT,
    OUTSTANDING,
    beside,
    disagreeing,
    disagreement,
    usual_among,
    with_allowances,
)
from decbayes.merging.robust._large_sites import uncapped, vouched
from decbayes.merging.robust._likeness import LITTLE
from decbayes.merging.robust._slots import SlotWeights, elected, nearest_slots, tolerated_faults, weigh
from decbayes.merging.robust.votes import Group
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Permutation, identity

# Further votes of the others that must count before strangers are left out.
BETTER = 0.5
# A site is flagged if more than this share of its evidence clearly disagrees.
FLAGGED = 0.1
# Strangers are left out only if they disagree with the others by this multiple of what is usual; if all others are
# alike and share nothing with them, by more than is usual.
STRANGE = 10.0
# Weight of the frequency of a component that no other site confirms.
UNCONFIRMED = 0.05
# Weights are rounded to this many digits, because the last bits of logarithms differ between processors.
DIGITS = 6


@dataclass(frozen=True)
class Ballot:
    """Sites in canonical order, and how to merge them."""

    posteriors: Sequence[Posterior]
    sets: Sequence[Mapping[CoupledSet, Permutation]]
    """Per site: the components of each coupled set in canonical order."""
    cap: float
    spare: bool
    judging: bool
    """Whether there are enough sites to recognise a majority; if not, all count in full."""
    components: Number = None
    solver: Solver | str | None = None
    progress: OnMatch | None = field(default=None, repr=False)

    def among(self, sites: Sequence[int]) -> "Ballot":
        return replace(
            self, posteriors=[self.posteriors[site] for site in sites], sets=[self.sets[site] for site in sites]
        )

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        return self._groups(self.judged)

    @cached_property
    def as_sent(self) -> tuple[Group, ...]:
        """The groups in which copies are alike: what is left to compare of honest sites may be alike by chance."""
        same = all(one is other for one, other in zip(self.judged, self.posteriors, strict=True))
        return self.groups if same else self._groups(self.posteriors)

    def _groups(self, posteriors: Sequence[Posterior]) -> tuple[Group, ...]:
        structure, groups = posteriors[0].structure, []
        sets, cap = {tuple(one.factors): one for one in structure.symmetry}, self.cap if self.judging else np.inf
        for names in groups_of(structure):
            rows, coupled = identity(len(structure.prior[names[0]])), sets.get(names)
            order = [rows if coupled is None else of_site[coupled] for of_site in self.sets]
            groups.append(Group.of(posteriors, names, coupled, order, cap))
        return tuple(groups)

    @cached_property
    def judged(self) -> Sequence[Posterior]:
        """The posteriors as they are compared: sites do not disagree by other noise, or in terms that vary."""
        return compared(self.posteriors)

    @property
    def alike(self) -> Sites:
        """Sites whose data as a whole agree with those of most others, however their fits have divided them."""
        free = [group.alike for group in self.groups if group.coupled is not None] if self.judging else []
        return np.all(free, axis=0) if free else np.zeros(len(self.posteriors), dtype=np.bool_)

    def decided(self) -> "Outcome":
        """Which sites count, and for how much. Strangers are left out if they take slots from others or add slots."""
        everybody = self.everybody()
        strangers = everybody.strangers
        if not self.judging or not strangers.any() or (~strangers).sum() < 2:
            return everybody
        without = self.without(strangers)
        apart = self.apart_from(without)
        if everybody.alike_but(strangers) and apart[strangers].mean() > 1.0:
            return without
        strange = strangers & (apart > STRANGE)
        if not strange.any():
            return everybody
        without = without if (strange == strangers).all() else self.without(strange)
        better = (
            without.slots < everybody.slots
            or without.counted_votes.sum() > everybody.counted_votes[[*without.sites]].sum() + BETTER
        )
        return without if better else everybody

    def everybody(self) -> "Outcome":
        return Outcome(self, self.weighed(), tuple(range(len(self.posteriors))))

    def without(self, sites: Sites) -> "Outcome":
        kept = np.flatnonzero(~sites).tolist()
        rest = self.among(kept)
        return Outcome(rest, rest.weighed(), tuple(kept))

    def apart_from(self, rest: "Outcome") -> Array:
        """Per site: how much it disagrees with what the remaining sites found, relative to what is usual."""
        free = [(group, part) for group, part in zip(self.groups, rest.weighed, strict=True) if group.coupled]
        amounts = np.max([beside(group, part, np.array(rest.sites)) for group, part in free], axis=0)
        return np.asarray(amounts / max(usual_among(amounts), MISFIT))

    def weighed(self) -> tuple[SlotWeights, ...]:
        """Elect slots, and weigh each component in its slot."""
        parts = tuple(self._weighed(group) for group in self.groups)
        return parts if self.judging else tuple(replace(part, weights=np.ones(len(part.labels))) for part in parts)

    def _weighed(self, group: Group) -> SlotWeights:
        structure = self.posteriors[0].structure
        if group.coupled is None:
            return weigh(group, group.row, len(structure.prior[group.names[0]]))
        slots = self.slots(group)
        chosen = elected(group, slots, slots if self.spare and structure.resizable else 0)
        voted = weigh(group, nearest_slots(group, chosen), max(slots, len(chosen)))
        return self._aligned(voted, slots) if group.counted and is_vague(group, chosen, slots) else voted

    def _aligned(self, voted: SlotWeights, slots: int) -> SlotWeights:
        """The vote, or an ordinary alignment's slots in its place unless more votes count with the vote.

        If topics usually differ so much that one agrees with several others, the vote silences no site with different
        topics; in an alignment these would take slots that others need.
        """
        scales = [group.scale[group.site] for group in self.groups]
        number = slots if self.posteriors[0].structure.resizable else None
        solver = self.solver or Grouping(passes=0)
        alignment = aligned(self.weighted(self.posteriors, scales, scales), number, solver)[0]
        usual = weigh(voted.group, *slots_in(alignment, voted.group))
        selective = (voted.weights < 0.5)[voted.group.known].any() or voted.slots > slots
        return voted if selective and voted.votes.sum() > usual.votes.sum() + BETTER else usual

    def slots(self, group: Group) -> int:
        """The requested number of slots, or the largest site's number of components."""
        return self.components if isinstance(self.components, int) else max(map(len, group.order))

    def weighted(
        self, posteriors: Sequence[Posterior], weights: Sequence[Array], shares: Sequence[Array]
    ) -> list[Posterior]:
        """All posteriors with components weighted; factors for the frequency of components use `shares`."""
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
    """The result of a ballot: which sites take part, and how much each component counts."""

    ballot: Ballot
    weighed: tuple[SlotWeights, ...]
    """Per group of factors: components in slots, as voted."""
    sites: tuple[int, ...]

    @property
    def slots(self) -> int:
        return sum(part.slots for part in self.weighed)

    @property
    def counted_votes(self) -> Array:
        """Per site: the number of its votes for components that count."""
        free = [part.votes.sum(axis=1) for part in self.weighed if part.group.coupled is not None]
        return np.sum(free, axis=0) if free else np.zeros(len(self.sites))

    @property
    def strangers(self) -> Sites:
        """Sites with most of their evidence in slots that the majority's party does not know."""
        free = [~main_party(part) for part in self.weighed if part.group.coupled is not None]
        return np.asarray(np.any(free, axis=0)) if free else np.zeros(len(self.sites), dtype=np.bool_)

    def alike_but(self, strangers: Sites) -> bool:
        """Whether these few sites share nothing with the others, who nearly all know the same components.

        Sites that clearly disagree need not be told by that.
        """
        few = strangers.sum() <= tolerated_faults(len(strangers)) and not (self.against > FLAGGED)[strangers].all()
        return bool(
            few and all(part.shares_nothing(strangers) for part in self.weighed if part.group.coupled is not None)
        )

    @cached_property
    def allowed(self) -> tuple[SlotWeights, ...]:
        """After allowing for mixtures, joins, components in parts and chance."""
        return tuple(map(with_allowances, self.weighed)) if self.ballot.judging else self.weighed

    @cached_property
    def disagreement(self) -> Array:
        """Per site: how much it disagrees with the others where slots are free, in units of the tolerance."""
        free = [disagreement(part) for part in self.allowed if part.group.coupled is not None]
        return np.max(free, axis=0) if free else np.zeros(len(self.sites))

    @cached_property
    def usual(self) -> float:
        """How much sites disagree that are not faulty."""
        return usual_among(self.disagreement)

    @property
    def misfit(self) -> bool:
        """Whether sites usually disagree by more than chance explains, so that the model does not fit."""
        return self.ballot.judging and self.usual > MISFIT

    @property
    def doubted(self) -> Sites:
        """Sites that may be left out: if the model does not fit, only those that disagree far more than is usual."""
        return np.asarray((self.disagreement > OUTSTANDING * self.usual) | (not self.misfit))

    @cached_property
    def parts(self) -> tuple[SlotWeights, ...]:
        """The weights that count; sites that are not in doubt count in full where slots are free."""
        certain = [~self.doubted[part.group.site] & (part.group.coupled is not None) for part in self.allowed]
        pairs = zip(self.allowed, certain, strict=True)
        return tuple(replace(part, weights=np.where(full, 1.0, part.weights)) for part, full in pairs)

    @property
    def spared(self) -> bool:
        """Whether sites count in full only because the model does not fit."""
        return any((now.weights > before.weights).any() for now, before in zip(self.parts, self.allowed, strict=True))

    @cached_property
    def against(self) -> Array:
        """Per site: the share of its evidence that clearly disagrees, in the group where that is largest."""
        return np.asarray(np.max([of_sites(part.group, disagreeing(part)) for part in self.parts], axis=0))

    @cached_property
    def kept(self) -> Indices:
        """Sites that count: all but those that clearly disagree, unless these are at least half of all sites."""
        flagged = self.against > FLAGGED
        return np.flatnonzero(~flagged | (2 * flagged.sum() >= len(flagged)))

    @cached_property
    def unshared(self) -> list[NDArray[np.bool_]]:
        """Components that only one site has found although it otherwise agrees: each gets its own slot.

        The rest of such a site counts if it is the only one and no larger than most. Similar sites would all know such
        a component, so there it is taken for a fault.
        """
        free = self.ballot.judging and self.ballot.spare and self.ballot.posteriors[0].structure.resizable
        out = ~np.isin(np.arange(len(self.against)), self.kept)
        return [
            lonely(part) & (mostly_confirmed(part) & out)[part.group.site] & (free and part.group.coupled is not None)
            for part in self.parts
        ]

    @cached_property
    def merged(self) -> Indices:
        """Sites that contribute anything to the merge, and those that have no data."""
        groups = [part.group for part in self.parts]
        having = [
            group.site[weights * group.evidence > 0.0] for group, weights in zip(groups, self.weights, strict=True)
        ]
        empty = np.all([np.bincount(group.site, group.evidence, group.sites) == 0.0 for group in groups], axis=0)
        return np.unique(np.concatenate([*having, np.flatnonzero(empty)]))

    @cached_property
    def weights(self) -> list[Array]:
        """How much each component counts."""
        full = [sites[part.group.site] for sites, part in zip(self.vouched, self.parts, strict=True)]
        return self._counted([*map(np.maximum, map(uncapped, self.parts), full)], 1.0)

    @cached_property
    def vouched(self) -> list[Sites]:
        """Large archives that describe the topics of the others best: all of them counts, whoever else has theirs."""
        return [*map(vouched, self.parts)]

    def _counted(self, scales: Sequence[Array], unconfirmed: float) -> list[Array]:
        """Scaled weights of components; left-out sites count only if some are unshared and others confirm the rest."""
        amounts = []
        for scale, part, unshared in zip(scales, self.parts, self.unshared, strict=True):
            site, agreeing = part.group.site, part.weights * (confirmed(part) & (part.weights > 0.5))
            # A single site of usual size: several of them, or a claim of much evidence, would move the others.
            single = np.unique(site[unshared]).size == 1
            partly = np.where(np.isin(site, site[unshared]) & (part.group.scale[site] >= 1.0) & single, agreeing, 0.0)
            counted = np.where(np.isin(site, self.kept), part.weights, np.where(unshared, unconfirmed, partly))
            amount = np.round(scale * counted, DIGITS)
            amounts.append(np.where(amount > 1.0 - HARDLY, 1.0, amount))
        return amounts

    @cached_property
    def alignment(self) -> Alignment:
        """The alignment of the sites that count, with weighted components.

        Frequencies of components use capped evidence, since nobody can check them. Components are put into slots with
        as much evidence as they count with: otherwise slots would hardly see those of a large site.
        """
        ballot = self.ballot
        shares = self._counted([part.group.scale[part.group.site] for part in self.parts], UNCONFIRMED)
        sites = self.merged.tolist()
        # Recentre only sites that count: a lie among the messages would distort the others.
        moved = dict(zip(sites, recentred([ballot.posteriors[site] for site in sites]), strict=True))
        recentred_sites = [moved.get(site, posterior) for site, posterior in enumerate(ballot.posteriors)]
        weighted = ballot.weighted(recentred_sites, self.weights, self.weights)
        posteriors = [weighted[site] for site in sites]
        options = None if ballot.spare else ballot.components, ballot.solver, None, ballot.progress, self._least()
        alignment, _ = aligned(posteriors, *options, centred=True, scattered=self._scattered())
        if not all(map(np.array_equal, self.weights, shares)):
            weighted = ballot.weighted(recentred_sites, self.weights, shares)
            alignment = replace(alignment, posteriors=[weighted[site] for site in sites], compared=posteriors)
        are_moved = any(now is not before for now, before in zip(recentred_sites, ballot.posteriors, strict=True))
        return replace(alignment, sent=[ballot.posteriors[site] for site in sites]) if are_moved else alignment

    def _least(self) -> int:
        """The number of elected slots plus those for single sites, if that is more than was asked for; else 0."""
        further = sum(int(unshared.sum()) for unshared in self.unshared)
        free = [part for part in self.parts if part.group.coupled is not None]
        more = further or any(part.slots > self.ballot.slots(part.group) for part in free)
        return max(part.slots + further for part in free) if more and not self.spared else 0

    def _scattered(self) -> bool:
        """Whether data with a given variance spread farther than that: parts of sites that count do not agree.

        An empty slot takes points far from all others, as in a plain merge.
        """
        free = [part for part in self.parts if part.group.coupled is not None and self.ballot.spare]
        fixed = [part for part in free if any(factor.family.fixed_spread for factor in part.group.factors)]
        return self.ballot.posteriors[0].structure.resizable and any(
            (part.weights < 1.0)[np.isin(part.group.site, self.kept)].any() for part in fixed
        )

    @property
    def spare(self) -> int:
        """Slots beyond those of the largest site, if no number was requested."""
        structures = [posterior.structure for posterior in self.alignment.posteriors]
        return sum(
            self.alignment.structure.components(one) - max(structure.components(one) for structure in structures)
            for one in (structures[0].symmetry if self.ballot.spare else ())
        )

    def standings(self) -> list[tuple[float, float, float, float, float]]:
        """Per site: the shares of its evidence that count, that clearly disagree, that no other site confirms, and that
        agree; and its share of all evidence."""
        counts, alone, agrees, of_all = [], [], [], []
        for part, weights in zip(self.parts, self.weights, strict=True):
            counts.append(of_sites(part.group, weights, nothing=1.0))
            agrees.append(of_sites(part.group, part.weights, nothing=1.0))
            claimed = np.bincount(part.group.site, part.group.evidence, part.group.sites) / part.group.voting
            of_all.append(claimed / max(claimed.sum(), LITTLE))
            unconfirmed = np.where(part.weights > 0.5, ~confirmed(part), lonely(part))
            alone.append(of_sites(part.group, unconfirmed & (part.group.coupled is not None)))
        counted, agreed, evidence = (np.mean(part, axis=0).tolist() for part in (counts, agrees, of_all))
        against, single = self.against.tolist(), np.max(alone, axis=0).tolist()
        return [*zip(counted, against, single, agreed, evidence, strict=True)]

    def by_slot(self) -> Array:
        """Merged sites × slots of all groups: the share of a site's evidence in each slot that counts."""
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
    """Whether components agree with several elected candidates, or slots remain unfilled."""
    agreeing = (group.likeness.weights[:, chosen] > 0.5)[group.known].sum(axis=1)
    return bool(len(chosen) < slots or (agreeing > 1).any())


def slots_in(alignment: Alignment, group: Group, sites: Indices | None = None) -> tuple[Indices, int]:
    """The slot of each of a group's components, or of those of some sites, and the number of slots."""
    orders = group.order if sites is None else [group.order[site] for site in sites]
    if group.coupled is None:
        return np.concatenate(orders), len(alignment.structure.prior[group.names[0]])
    pairs = zip(alignment.slots(group.coupled), orders, strict=True)
    return np.concatenate([slots[labels] for slots, labels in pairs]), alignment.structure.components(group.coupled)


def by_label(amounts: Array, order: Indices) -> Array:
    """Amounts in canonical order, reordered by label."""
    labelled = np.empty_like(amounts)
    labelled[order] = amounts
    return labelled


def weighted_part(family: Family, part: Contribution, weights: Array) -> Contribution:
    """A contribution with components weighted; a transition gets the smaller weight of its two states."""
    if (weights == 1.0).all():
        return part
    return dense(part) * np.minimum(weights[:, None], weights) if family.two_sided else weighted_rows(part, weights)
