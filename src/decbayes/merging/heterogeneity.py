"""Whether sites differ by more than chance: each site's version of a component against all sites' together.

A merge takes it that there is one truth. For each entry of a component, with n_i observations of n at site i, its own
mean m_i, all sites' mean m and deviation s:

    Q = Σ_i (m_i − m)² / v_i,    v_i = s² n / n_i                             (about N − 1 where sites differ by chance)
    between² = max(0, (Q − (N − 1)) / (Σ_i 1/v_i − Σ_i 1/v_i² / Σ_i 1/v_i))   (DerSimonian and Laird)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from decbayes.families import Array
from decbayes.posterior import Posterior
from decbayes.symmetry import CoupledSet

if TYPE_CHECKING:
    from decbayes.merging.alignment import Alignment

# Observations that a site must have in a slot to be compared, and that an entry must have in all to be looked at: what
# is rarer is not near normal.
LEAST_EVIDENCE, LEAST_SEEN = 5.0, 5.0
# Sites differ if they are so many times further apart than chance would put them, and chance does so this rarely.
NOTABLE, RARELY = 1.5, 0.01


@dataclass(frozen=True)
class Heterogeneity:
    """Per slot: how many times chance the sites' versions differ, and how probable so much is by chance alone.

    `ratio` is √(Q / what chance makes of it): 1 where sites differ by chance only. `between[factor][quantity]` is the
    standard deviation of the truth from site to site that would explain the rest, entry by entry. Slots that fewer than
    two sites know are NaN. Mean-field deviations are too small where components overlap; give calibrated ones.
    """

    ratio: Array
    probability: Array
    between: Mapping[str, Mapping[str, Array]]

    def differ(self, slot: int) -> bool:
        """Whether that is worth a word: far more than chance, and more than mean field's narrowness explains."""
        return bool(self.ratio[slot] > NOTABLE and self.probability[slot] < RARELY)


def heterogeneity(alignment: "Alignment", coupled: CoupledSet) -> Heterogeneity:
    """The comparison of all sites, for each slot of a coupled set."""
    merged, evidence = alignment.merged(), alignment.shared()[coupled].evidence
    shares = np.where(evidence >= LEAST_EVIDENCE, evidence, 0.0)
    seen = shares.sum(axis=0)
    shares = shares / np.maximum(seen, 1.0)
    told = [name for name in coupled.factors if not merged.structure.families[name].over_components]
    compared = {name: comparisons(merged, name) for name in told}
    for site, share in enumerate(shares):
        own = alignment.in_slots(site)
        for name, entries in compared.items():
            for quantity, value in merged.structure.families[name].quantities(own.mean(name)).items():
                entries[quantity].add(value, share)
    statistic, freedom = np.zeros(len(seen)), np.zeros(len(seen))
    for name, entries in compared.items():
        for each in entries.values():
            often = each.often(seen, len(shares)) if merged.structure.families[name].countable else True
            statistic += summed(np.where(often, each.statistic, 0.0))
            freedom += summed(np.where(often, each.freedom, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(freedom > 0.0, np.sqrt(statistic / freedom), np.nan)
        probability = np.where(freedom > 0.0, gammaincc(0.5 * freedom, 0.5 * statistic), np.nan)
    between = {name: {part: each.between for part, each in entries.items()} for name, entries in compared.items()}
    return Heterogeneity(ratio, probability, between)


def comparisons(merged: Posterior, factor: str) -> dict[str, "Comparison"]:
    """One for each quantity of a factor, before any site is looked at."""
    quantities = merged.structure.families[factor].quantities
    deviations = quantities(merged.deviation(factor))
    return {name: Comparison(mean, deviations[name]) for name, mean in quantities(merged.mean(factor)).items()}


class Comparison:
    """All entries of one quantity, (slots, …), as one site after the other is compared with the merge."""

    def __init__(self, mean: Array, deviation: Array) -> None:
        self.mean = mean
        known = np.isfinite(deviation) & (deviation > 0.0)
        self.precision = np.divide(1.0, deviation**2, out=np.zeros(deviation.shape), where=known)
        self.statistic, self.weight, self.squares, self.sites = (np.zeros(deviation.shape) for _ in range(4))

    def add(self, value: Array, share: Array) -> None:
        """A site's version, and its share of each slot's observations."""
        weight = self.precision * share.reshape(-1, *(1,) * (self.mean.ndim - 1))
        self.statistic += weight * (value - self.mean) ** 2
        self.weight += weight
        self.squares += weight**2
        self.sites += weight > 0.0

    @property
    def freedom(self) -> Array:
        """Q of sites that differ by chance."""
        return np.maximum(self.sites - 1.0, 0.0)

    @property
    def between(self) -> Array:
        """The standard deviation of the truth from site to site."""
        compared = self.freedom > 0.0
        room = self.weight - np.divide(self.squares, self.weight, out=np.zeros(self.weight.shape), where=compared)
        excess = np.maximum(self.statistic - self.freedom, 0.0)
        return np.asarray(np.sqrt(np.divide(excess, room, out=np.full(room.shape, np.nan), where=compared)))

    def often(self, seen: Array, sites: int) -> NDArray[np.bool_]:
        """Which entries of counts were seen often enough to be near normal."""
        return np.asarray(self.mean * seen[:, None] >= LEAST_SEEN * sites)


def summed(values: Array) -> Array:
    return np.asarray(values.reshape(len(values), -1).sum(axis=1))
