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
from scipy.special import gammaincc

from decbayes.families import Array
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
    own = [alignment.in_slots(site) for site in range(len(evidence))]
    statistic, freedom = np.zeros(evidence.shape[1]), np.zeros(evidence.shape[1])
    between: dict[str, dict[str, Array]] = {}
    for factor in coupled.factors:
        family = merged.structure.families[factor]
        if family.over_components:
            continue
        deviations, means = (family.quantities(part(factor)) for part in (merged.deviation, merged.mean))
        versions = [family.quantities(posterior.mean(factor)) for posterior in own]
        between[factor] = {}
        for name, deviation in deviations.items():
            apart = np.array([values[name] for values in versions]) - means[name]
            compared = Compared(apart, deviation, evidence)
            told = compared.told(means[name] if family.countable else None)
            statistic += summed(np.where(told, compared.statistic, 0.0))
            freedom += summed(np.where(told, compared.freedom, 0.0))
            between[factor][name] = compared.between
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(freedom > 0.0, np.sqrt(statistic / freedom), np.nan)
        probability = np.where(freedom > 0.0, gammaincc(0.5 * freedom, 0.5 * statistic), np.nan)
    return Heterogeneity(ratio, probability, between)


class Compared:
    """All entries of one quantity, (slots, …), at all sites."""

    def __init__(self, apart: Array, deviation: Array, evidence: Array) -> None:
        self.evidence = np.where(evidence >= LEAST_EVIDENCE, evidence, 0.0)
        shape = self.evidence.shape + (1,) * (deviation.ndim - 1)
        share = (self.evidence / np.maximum(self.evidence.sum(axis=0), 1.0)).reshape(shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = np.where(np.isfinite(deviation) & (deviation > 0.0), share / deviation**2, 0.0)
        self.statistic = np.asarray((weights * apart**2).sum(axis=0))
        sites = np.broadcast_to((share > 0.0).sum(axis=0), deviation.shape)
        self.freedom = np.where(weights.sum(axis=0) > 0.0, np.maximum(sites - 1.0, 0.0), 0.0)
        total = weights.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = total - (weights**2).sum(axis=0) / total
            excess = np.maximum(self.statistic - self.freedom, 0.0) / room
        self.between = np.where(self.freedom > 0.0, np.sqrt(excess), np.nan)

    def told(self, shares: Array | None) -> Array:
        """Which entries are looked at: of counts, those seen often enough."""
        if shares is None:
            return np.ones(self.statistic.shape)
        return np.asarray(shares * self.evidence.sum(axis=0)[:, None] >= LEAST_SEEN * len(self.evidence))


def summed(values: Array) -> Array:
    return np.asarray(values.reshape(len(values), -1).sum(axis=1))
