"""Groups of sites that decide a merge together: reported only, nothing is excluded.

Flags on single sites miss sites that agree on the same wrong thing, none of them large or alone. So candidate groups of
up to a third of the sites are left out in turn, and the merge is repeated. A group that lies changes it by far more
than other groups of its size. So does a group of honest sites with different data: the figures say where to look, not
who is right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from decbayes.families import Array
from decbayes.families.matrices import stored
from decbayes.merging.aligning import align
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import group_evidence, groups_of
from decbayes.merging.reading._influence import influence
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

# A merge depends on a group if leaving it out changes the merge by MUCH deviations. The group stands out if that is
# also UNUSUAL times the change without other groups of its size; otherwise the merge is unstable, whoever is left out.
MUCH, UNUSUAL = 5.0, 2.0
# With fewer sites, no group of two or more is less than half of them.
FEWEST = 5
# Groups that are left out in turn: those that might stand out, and others of their size for comparison.
CANDIDATES, OTHERS = 4, 3
# Larger merges, in numbers, are not repeated this often.
MOST_NUMBERS = 1 << 20
# Components with a smaller share of the evidence are not compared, because their values are hardly known.
LITTLE = 0.02
# A site supports a slot if at least this share of its evidence is there.
SUPPORTS = 0.02


@dataclass(frozen=True)
class Party:
    """Sites that were left out together.

    Attributes:
        sites: their numbers.
        share: their share of all evidence.
        change: how far the component that changes most moves without them, in its posterior deviations.
        usual: the largest such change without other groups of the same size.

    >>> db.merging.Party(sites=(0, 1, 2), share=0.6, change=190.0, usual=2.0).stands_out
    True
    """

    sites: tuple[int, ...]
    share: float
    change: float
    usual: float

    @property
    def stands_out(self) -> bool:
        """Whether the merge depends on this group, and more than on other groups."""
        return self.change > MUCH and self.change > UNUSUAL * self.usual


@dataclass(frozen=True)
class Parties:
    """The groups of sites that a merge depends on.

    Attributes:
        evidence: each site's evidence, relative to the median site's.
        largest: the number of sites in a third.
        share: the share of all evidence of the largest third of the sites.
        groups: the groups that were left out, largest change first; empty if not computed.

    >>> found = db.merging.Parties(np.array([4.0, 1.0, 1.0]), 1, 0.67, (db.merging.Party((0,), 0.67, 190.0, 2.0),))
    >>> print(*found.remarks(["a", "b", "c"]))  # doctest: +ELLIPSIS
    Without a (1 of 3 sites) the merge changes by 190 posterior standard deviations. Without other groups of ...
    """

    evidence: Array
    largest: int
    share: float
    groups: tuple[Party, ...]

    @property
    def change(self) -> float:
        """The largest change of the merge without a group, in deviations."""
        return max((group.change for group in self.groups), default=0.0)

    @property
    def outstanding(self) -> tuple[Party, ...]:
        """The groups on which the merge depends more than on others."""
        return tuple(group for group in self.groups if group.stands_out)

    def remarks(self, names: Sequence[str] | None = None) -> tuple[Remark, ...]:
        """A warning about the group that the merge depends on most, or about a merge that depends on several."""
        sites = len(self.evidence)
        if self.outstanding:
            return (remark_on(self.outstanding[0], sites, names),)
        if self.change <= MUCH:
            return ()
        return (
            Remark(
                "unsteady",
                f"The merge depends on which sites take part: without some group of up to {self.largest} of {sites} "
                f"sites it changes by {self.change:,.0f} posterior standard deviations.",
                f"{ROBUST[0].upper()}{ROBUST[1:]}, and see which sites it names.",
            ),
        )


ROBUST = "merge with robust=True (`--robust`; in a charter `--rule robust=true`)"


def remark_on(group: Party, sites: int, names: Sequence[str] | None) -> Remark:
    members = [names[site] if names else f"site {site}" for site in group.sites]
    return Remark(
        "group",
        f"Without {', '.join(members)} ({len(members)} of {sites} sites) the merge changes by {group.change:,.0f} "
        "posterior standard deviations.",
        f"They may have seen something else, or be wrong together: compare their data with the others', and {ROBUST}.",
        f"Without other groups of this size it changes by at most {group.usual:,.1f}. These have {group.share:.0%} of "
        "all evidence.",
    )


def parties(alignment: Alignment) -> Parties:
    """Which groups of up to a third of the sites a merge depends on, found by leaving them out.

    Args:
        alignment: what `align` returns.

    >>> model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> means = (0.0, 0.1, -0.1, 0.05, 0.0, 0.1, 0.0, 6.0, 6.1)
    >>> sites = [model.fit(np.full((20, 1), mean)).posterior for mean in means]
    >>> db.merging.parties(db.align(sites)).outstanding[0].sites
    (7, 8)
    """
    sites = influence(alignment)
    largest = len(sites.evidence) // 3
    return Parties(
        evidence=sites.times_median,
        largest=largest,
        share=float(np.sort(sites.share)[len(sites.share) - largest :].sum()),
        groups=left_out(alignment, sites.evidence) if is_small(alignment) else (),
    )


def is_small(alignment: Alignment) -> bool:
    """Whether there are enough sites for groups, and few enough numbers to merge a dozen times."""
    posteriors = alignment.posteriors
    if not FEWEST <= len(posteriors) <= MOST_NUMBERS:
        return False
    first = sum(stored(part).size for part in posteriors[0].contribution.values())
    return first * len(posteriors) <= MOST_NUMBERS


def left_out(alignment: Alignment, by_slot: Array) -> tuple[Party, ...]:
    """Each candidate group, and how far the merge moves without it."""
    evidence, groups = by_slot.sum(axis=1), []
    merged, usual = alignment.merged(), {}
    for group in list(candidates(alignment, by_slot))[:CANDIDATES]:
        if len(group) not in usual:
            others = usual_groups(len(evidence), group)
            usual[len(group)] = max(change_without(alignment, merged, other) for other in others)
        change = change_without(alignment, merged, group)
        groups.append(Party(group, float(evidence[[*group]].sum() / evidence.sum()), change, usual[len(group)]))
    return tuple(sorted(groups, key=lambda party: -party.change))


def candidates(alignment: Alignment, by_slot: Array) -> Iterator[tuple[int, ...]]:
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


def neighbours(alignment: Alignment, by_slot: Array, most: int) -> Iterator[tuple[int, ...]]:
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


def usual_groups(sites: int, group: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Groups of the same size among the other sites."""
    others = [site for site in range(sites) if site not in group]
    starts = np.linspace(0, max(len(others) - len(group), 0), OTHERS).astype(int)
    return sorted({tuple(others[start : start + len(group)]) for start in starts})


def change_without(alignment: Alignment, merged: Posterior, group: tuple[int, ...]) -> float:
    """How far the merge is from that without a group where it is farthest, in the deviations of the latter."""
    rest = [posterior for site, posterior in enumerate(alignment.posteriors) if site not in group]
    structure = alignment.structure
    size = structure.components(structure.symmetry[0]) if structure.resizable else None
    whole, without = SlotValues(merged), SlotValues(align(rest, components=size).merged())
    changes = [
        min(without.distance(slot, whole.means[other]) for other in whole.rivals(slot))
        for slot in range(len(without.means))
        if without.known[slot]
    ]
    return max(changes, default=0.0)


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

    def rivals(self, slot: int) -> range:
        """The slots that might hold the same component in another merge: those of its coupled set."""
        return self._sets[slot]

    def distance(self, slot: int, mean: Array) -> float:
        return self.between(slot, self.means[slot], mean)

    def between(self, slot: int, one: Array, other: Array) -> float:
        """The root mean square difference of two means, in the deviations of a slot."""
        wide = self._deviations[slot]
        return float(np.sqrt(np.mean(((one - other) / np.where(wide > 0.0, wide, 1.0)) ** 2)))


def joined(parts: Iterator[Array]) -> Array:
    return np.concatenate([np.ravel(part) for part in parts])
