"""Sites and groups of sites that decide a merge: reported only, nothing is excluded.

Flags on single sites miss sites that agree on the same wrong thing, none of them large or alone. So each site and
candidate groups of up to a third of the sites are left out in turn, and the merge is repeated. A group that lies
changes it by far more than other groups of its size. So does a group of honest sites with different data: the figures
say where to look, not who is right. If a part of a group explains the change, the part is named.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from decbayes.base.arguments import check_kind
from decbayes.base.display import estimates_of
from decbayes.families import Array
from decbayes.families.matrices import stored
from decbayes.merging.aligning import align
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import group_evidence, groups_of
from decbayes.merging.reading._influence import influence
from decbayes.merging.remarking import are_budgets
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

# A merge depends on a group if leaving it out moves a parameter by MUCH deviations, and by CHANCE times what chance
# would: without a group that holds nearly all data, any merge moves far. The group stands out if that is also UNUSUAL
# times the change without other groups of its size; otherwise the merge is unstable, whoever is left out.
MUCH, CHANCE, UNUSUAL = 5.0, 7.0, 2.0
# A site belongs to a group if the change without the group owes more than this part of an equal share to it.
LEAST_PART = 0.5
# With fewer sites, no group of two or more is less than half of them.
FEWEST = 5
# Groups that are left out in turn, besides single sites: those that might stand out, and others for comparison.
CANDIDATES, OTHERS = 4, 3
# Larger merges, in numbers, are not repeated this often.
MOST_NUMBERS = 1 << 20
# Components with a smaller share of the evidence are not compared, because their values are hardly known.
LITTLE = 0.02
# A site supports a slot if at least this share of its evidence is there.
SUPPORTS = 0.02

Sites = tuple[int, ...]
"""Numbers of sites."""
Values = tuple[Array, Array]
"""Means and deviations."""


@dataclass(frozen=True)
class Party:
    """Sites that were left out together.

    Attributes:
        sites: their numbers.
        share: their share of all evidence.
        change: how far the parameter that changes most moves without them, in its posterior deviations in the merge;
            parameters of components, in the larger of their deviations in both merges.
        usual: the largest such change without other groups of the same size that were tried.
        clear: the change of those parameters that move by far more than chance would make them.
        tried: the number of these other groups; they have no site of this one.

    >>> db.merging.Party(sites=(0, 1, 2), share=0.6, change=190.0, usual=2.0, clear=190.0, tried=3).stands_out
    True
    """

    sites: Sites
    share: float
    change: float
    usual: float
    clear: float
    tried: int

    @property
    def stands_out(self) -> bool:
        """Whether the merge depends on this group, and more than on other groups."""
        return self.clear > MUCH and self.clear > UNUSUAL * self.usual

    def explains(self, whole: "Party") -> bool:
        """Whether these are some sites of a larger group that stand out alone, with nearly as large a change."""
        part = self.stands_out and set(self.sites) < set(whole.sites)
        return part and self.clear >= nearly(whole.clear, len(whole.sites))


@dataclass(frozen=True, eq=False)
class Parties:
    """The groups of sites that a merge depends on.

    Attributes:
        evidence: each site's evidence, relative to the median site's.
        largest: the number of sites in a third.
        share: the share of all evidence of the largest third of the sites.
        groups: the sites and groups that were left out, largest change first; empty if not computed. Of topics, whose
            values depend on every site, only groups that stand out.
        refined: whether the posteriors are of a round, which a robust merge cannot judge.

    >>> group = db.merging.Party((0,), 0.67, 190.0, 2.0, 190.0, 2)
    >>> found = db.merging.Parties(np.array([4.0, 1.0, 1.0]), 1, 0.67, (group,))
    >>> print(*found.remarks(["a", "b", "c"]))  # doctest: +ELLIPSIS
    Without a (1 of 3 sites) the merge changes by 190 posterior standard deviations. No other site changes it by ...
    """

    evidence: Array
    largest: int
    share: float
    groups: tuple[Party, ...]
    refined: bool = False

    @property
    def change(self) -> float:
        """The largest change of the merge without a site or a group that was tried, in deviations."""
        return max((group.change for group in self.groups), default=0.0)

    @property
    def outstanding(self) -> tuple[Party, ...]:
        """The groups on which the merge depends more than on others, unless a part of the group explains it."""
        return tuple(
            group for group in self.groups if group.stands_out and not any(part.explains(group) for part in self.groups)
        )

    def remarks(self, names: Sequence[str] | None = None) -> tuple[Remark, ...]:
        """A warning about the group that the merge depends on most, or about a merge that depends on several."""
        sites = len(self.evidence)
        if self.outstanding:
            return (remark_on(self.outstanding[0], sites, names, self.refined),)
        clear = max((group.clear for group in self.groups), default=0.0)
        if clear <= MUCH:
            return ()
        return (
            Remark(
                "unsteady",
                f"The merge depends on which sites take part: without some group of up to {self.largest} of {sites} "
                f"sites it changes by {clear:,.0f} posterior standard deviations.",
                f"{ROBUST[self.refined]}, and see which sites it names.",
            ),
        )


ROBUST = (
    "Merge with robust=True (`--robust`; in a charter `--rule robust=true`)",
    "Merge the sites' first files robustly (`--robust`)",
)
"""What to do about sites that may be wrong, before and after rounds."""


def remark_on(group: Party, sites: int, names: Sequence[str] | None, refined: bool) -> Remark:
    several = len(group.sites) > 1
    who = "They may have seen something else, or be wrong together" if several else "It may have seen something else"
    members = [names[site] if names else f"site {site}" for site in group.sites]
    return Remark(
        "group",
        f"Without {', '.join(members)} ({len(members)} of {sites} sites) the merge changes by {group.change:,.0f} "
        "posterior standard deviations.",
        f"{who}: compare {'their' if several else 'its'} data with the others'. {ROBUST[refined]}.",
        f"{f'None of {group.tried} other groups of this size that were tried' if several else 'No other site'} "
        f"changes it by more than {group.usual:,.1f}. {'These sites have' if several else 'This one has'} "
        f"{group.share:.0%} of all evidence.",
        sites=group.sites,
    )


def parties(alignment: Alignment) -> Parties:
    """Which groups of up to a third of the sites a merge depends on, found by leaving them out.

    >>> model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> means = (0.0, 0.1, -0.1, 0.05, 0.0, 0.1, 0.0, 6.0, 6.1)
    >>> sites = [model.fit(np.full((20, 1), mean)).posterior for mean in means]
    >>> db.merging.parties(db.align(sites)).outstanding[0].sites
    (7, 8)
    """
    check_kind(Alignment, alignment=alignment)
    sites = influence(alignment)
    largest = len(sites.evidence) // 3
    found = Parties(
        evidence=sites.times_median,
        largest=largest,
        share=float(np.sort(sites.share)[len(sites.share) - largest :].sum()),
        groups=left_out(alignment, sites.evidence) if is_small(alignment) else (),
        refined=alignment.decided == "rounds",
    )
    if not are_budgets(alignment.structure):
        return found
    # Without any site, counts are divided among slots in another way, and topics of random parts of one archive move by
    # dozens of deviations: only a group that moves them far more than others says something.
    return replace(found, groups=tuple(group for group in found.outstanding if len(group.sites) > 1))


def is_small(alignment: Alignment) -> bool:
    """Whether there are enough sites for groups, and few enough numbers to merge a dozen times."""
    posteriors = alignment.posteriors
    if not FEWEST <= len(posteriors) <= MOST_NUMBERS:
        return False
    first = sum(stored(part).size for part in posteriors[0].contribution.values())
    return first * len(posteriors) <= MOST_NUMBERS


def left_out(alignment: Alignment, by_slot: Array) -> tuple[Party, ...]:
    """Each site, each candidate group and the part of it that explains its change, and how far the merge moves."""
    evidence = by_slot.sum(axis=1)
    without = cache(partial(change_without, alignment, alignment.merged()))
    groups: list[Sites] = [(site,) for site in range(len(evidence))]
    most_alone = sorted(range(len(evidence)), key=lambda site: -without((site,)).largest)
    for group in [*candidates(alignment, by_slot)][:CANDIDATES]:
        groups += [group, needed(group, without)] if without(group).clear > MUCH else [group]
    groups = [*dict.fromkeys(groups)]
    several = [group for group in groups if len(group) > 1]
    tried = dict.fromkeys([*groups, *(other for group in several for other in usual_groups(most_alone, group))])
    found = []
    for group in groups:
        others = [other for other in tried if len(other) == len(group) and not set(other) & set(group)]
        share, usual = float(evidence[[*group]].sum() / evidence.sum()), max(without(one).largest for one in others)
        found.append(Party(group, share, without(group).largest, usual, without(group).clear, len(others)))
    return tuple(sorted(found, key=lambda party: -party.change))


def needed(group: Sites, without: Callable[[Sites], "Movement"]) -> Sites:
    """The sites of a group to which its change is due: others are dropped, those that change the merge least first."""
    enough = nearly(without(group).clear, len(group))
    for site in sorted(group, key=lambda site: without((site,)).largest):
        fewer = tuple(other for other in group if other != site)
        if fewer and without(fewer).clear >= enough:
            group = fewer
    return group


def nearly(change: float, sites: int) -> float:
    """A change that is at most a small part of one site's share smaller, if all of a group have equal shares."""
    return (1.0 - LEAST_PART / sites) * change


def candidates(alignment: Alignment, by_slot: Array) -> Iterator[Sites]:
    """Groups that might stand out: sole supporters of a slot, sites that agree far from the rest, the largest sites."""
    sites = len(by_slot)
    most, seen = sites // 3, set()
    evidence = by_slot.sum(axis=1)
    supports = by_slot > SUPPORTS * evidence[:, None]
    few = [slot for slot in np.argsort(-by_slot.sum(axis=0)) if 2 <= supports[:, slot].sum() <= most]
    alone = [tuple(np.flatnonzero(supports[:, slot]).tolist()) for slot in few]
    large = tuple(sorted(np.argsort(-evidence, kind="stable")[:most].tolist()))
    for group in (*alone[:2], *neighbours(alignment, by_slot, most), large):
        if 1 < len(group) <= most and group not in seen:
            seen.add(group)
            yield group


def neighbours(alignment: Alignment, by_slot: Array, most: int) -> Iterator[Sites]:
    """In the two slots where a site is farthest from the merge: that site, and the sites that are closer to it."""
    merged = SlotValues(alignment.merged())
    sites = [SlotValues(alignment.in_slots(site)).means for site in range(len(by_slot))]
    apart = np.array([[merged.distance(slot, mean) for slot, mean in enumerate(means)] for means in sites])
    apart = np.where(by_slot > SUPPORTS * by_slot.sum(axis=1, keepdims=True), apart, 0.0)
    for slot in np.argsort(-apart.max(axis=0))[:2].tolist():
        seed = int(apart[:, slot].argmax())
        near = [merged.between(slot, means[slot], sites[seed][slot]) for means in sites]
        group = {seed, *(site for site in range(len(sites)) if near[site] < apart[site, slot])}
        if len(group) <= most:
            yield tuple(sorted(group))


def usual_groups(most_alone: Sequence[int], group: Sites) -> list[Sites]:
    """Groups of the same size among the other sites: from those that change the merge most alone to the least."""
    others = [site for site in most_alone if site not in group]
    starts = np.linspace(0, len(others) - len(group), OTHERS).astype(int)
    return [tuple(sorted(others[start : start + len(group)])) for start in starts]


class Movement(NamedTuple):
    """The largest movement of a parameter in its posterior deviation: of any, and of those beyond chance."""

    largest: float
    clear: float

    @classmethod
    def between(cls, whole: Values, rest: Values, unit: Array) -> "Movement":
        """By chance, a mean moves by about √(v' − v) without some of the data, if v' is its variance then."""
        (mean, deviation), (other, wider) = whole, rest
        apart = np.abs(mean - other)
        moved = apart / np.where(unit > 0.0, unit, 1.0)
        clear = apart > CHANCE * np.sqrt(np.maximum(wider**2 - deviation**2, 0.0))
        return cls(float(moved.max(initial=0.0)), float(moved[clear].max(initial=0.0)))


def change_without(alignment: Alignment, merged: Posterior, group: Sites) -> Movement:
    """How far the parameters of a merge move if a group is left out."""
    # As sent, if all of it counts: a merge without the group moves first broadcasts to another centre.
    given = alignment.posteriors if alignment.counted == "in part" else alignment.sent or alignment.posteriors
    rest = [posterior for site, posterior in enumerate(given) if site not in group]
    structure = alignment.structure
    size = structure.components(structure.symmetry[0]) if structure.resizable else None
    without = align(rest, components=size).merged()
    if not structure.symmetry and estimates_of(merged):
        whole_shown = shown(merged)
        return Movement.between(whole_shown, shown(without), whole_shown[1])
    whole, remaining = SlotValues(merged), SlotValues(without)
    changes = [remaining.moved(slot, whole) for slot in range(len(remaining.means)) if remaining.known[slot]]
    return Movement(*(max(part, default=0.0) for part in zip(*changes, strict=True))) if changes else Movement(0.0, 0.0)


def shown(posterior: Posterior) -> Values:
    """Means and deviations of coefficients in the units of the data."""
    means, deviations = np.array([(one.mean, one.deviation) for one in estimates_of(posterior)]).T
    return means, deviations


class SlotValues:
    """A posterior's means and deviations in each slot, of everything but the weights."""

    def __init__(self, posterior: Posterior) -> None:
        structure = posterior.structure
        self.means: list[Array] = []
        self._deviations: list[Array] = []
        self._sets: list[range] = []
        self.known: list[bool] = []
        for names in groups_of(structure):
            described = [name for name in names if not structure.families[name].over_components] or [*names]
            evidence, first = group_evidence(posterior, names), len(self.means)
            relabelled = any(set(names) <= set(coupled.factors) for coupled in structure.symmetry)
            for row in range(len(evidence)):
                self.means.append(joined(posterior.mean(name)[row] for name in described))
                self._deviations.append(joined(posterior.deviation(name)[row] for name in described))
                self._sets.append(
                    range(first, first + len(evidence)) if relabelled else range(first + row, first + row + 1)
                )
                self.known.append(bool(evidence[row] > LITTLE * evidence.sum()))

    def moved(self, slot: int, whole: "SlotValues") -> Movement:
        """How far the parameters of a slot are from those of the nearest component of the merge of all sites.

        In the larger of their deviations: those of words without counts say little about how far these may move.
        """
        nearest = min(whole._sets[slot], key=lambda other: self.distance(slot, whole.means[other]))
        unit = np.maximum(whole._deviations[nearest], self._deviations[slot])
        return Movement.between(whole.values(nearest), self.values(slot), unit)

    def values(self, slot: int) -> Values:
        return self.means[slot], self._deviations[slot]

    def distance(self, slot: int, mean: Array) -> float:
        return self.between(slot, self.means[slot], mean)

    def between(self, slot: int, one: Array, other: Array) -> float:
        """The root mean square difference of two means, in the deviations of a slot."""
        wide = self._deviations[slot]
        return float(np.sqrt(np.mean(((one - other) / np.where(wide > 0.0, wide, 1.0)) ** 2)))


def joined(parts: Iterator[Array]) -> Array:
    return np.concatenate([np.ravel(part) for part in parts])
