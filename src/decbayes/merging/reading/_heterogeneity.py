"""Whether sites differ by more than chance: each site's version of a component against all sites' together.

A merge assumes that all sites share the same values. For each entry of a component, with n_i of n observations at site
i, the site's mean m_i, and the mean m and deviation s of all sites:

    Q = Σ_i (m_i − m)² / v_i,    v_i = s² n / n_i                             (about N − 1 if sites differ by chance)
    between² = max(0, (Q − (N − 1)) / (Σ_i 1/v_i − Σ_i 1/v_i² / Σ_i 1/v_i))   (DerSimonian and Laird)

Coefficients of a regression, which have no labels, are compared jointly. Site i contributes s_i and P_i; all sites
together give m = (Σ P_i)⁻¹ Σ s_i; with r_i = s_i − P_i m

    Q = Σ_i r_iᵀ P_i⁻¹ r_i                         (about Σ_i rank P_i − rank Σ_i P_i if sites differ by chance)

and for an entry j alone v_i = 1 / P_ijj, m_i − m = v_i r_ij, with all others fixed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from decbayes.errors import StructureMismatch
from decbayes.families import Array, dense
from decbayes.merging.alignment import Alignment
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet

# Observations that a site needs in a slot to be compared, and that an entry needs in total: rarer entries are not close
# to normal.
LEAST_EVIDENCE, LEAST_SEEN = 5.0, 5.0
# Sites differ if their spread is this many times that of chance, with a p-value below this.
NOTABLE, RARELY = 1.5, 0.01
# Directions with this much less information than others are ignored.
RANK = 1e-9


@dataclass(frozen=True)
class Heterogeneity:
    """How far the sites' versions of each slot differ, relative to chance; NaN if fewer than two sites support a slot.

    Attributes:
        ratio: per slot √(Q / its expectation if sites were the same): 1 where sites differ by chance only.
        probability: per slot, the probability of at least this Q if sites were the same.
        between: `[factor][quantity]`, the standard deviation between sites that would explain the excess, entry by
            entry.
        times: `[factor][quantity]`, the ratio of each entry alone.
        terms: coefficients of a regression that should be allowed to vary between sites, the most notable first.

    >>> times = {"mean": {"value": np.array([[1.1]])}}
    >>> alike = db.merging.Heterogeneity(np.array([1.1]), np.array([0.3]), {"mean": {"value": np.zeros((1, 1))}}, times)
    >>> alike.differ(0)
    False
    """

    ratio: Array
    probability: Array
    between: Mapping[str, Mapping[str, Array]]
    times: Mapping[str, Mapping[str, Array]]
    terms: tuple[int, ...] = ()

    def differ(self, slot: int) -> bool:
        """Whether to report a difference: far more than chance, and more than narrow mean-field intervals explain."""
        return bool(self.ratio[slot] > NOTABLE and self.probability[slot] < RARELY)


def heterogeneity(alignment: Alignment, calibrated: Posterior | None = None) -> Mapping[CoupledSet, Heterogeneity]:
    """Whether the sites' versions of each slot differ by more than chance, and by how much.

    Coefficients of regressions are compared too. They have no labels, and their key is a coupled set of their own.

    Args:
        alignment: what `align` returns.
        calibrated: the merge with calibrated intervals (`db.calibrate`). Without it, mean-field intervals are used:
            these are too narrow where components overlap, and similar sites then seem to differ.

    >>> model = db.GaussianMixture(1, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> sites = [model.fit(rng.normal(mean, size=(50, 1)), rng=rng).posterior for mean in (0.0, 0.0, 3.0)]
    >>> (differences,) = db.merging.heterogeneity(db.align(sites)).values()
    >>> differences.differ(0)
    True
    """
    merged, structure = alignment.merged(), alignment.structure
    if calibrated is not None and replace(calibrated, calibration=None) != merged:
        raise StructureMismatch("This is not the merge of these posteriors; calibrate what `merged()` gives.")
    by_set = {coupled: of_components(alignment, coupled, calibrated or merged) for coupled in structure.symmetry}
    relabelled = {name for coupled in structure.symmetry for name in coupled.factors}
    others = {name: of_coefficients(alignment, name) for name in structure.families if name not in relabelled}
    return by_set | {CoupledSet((name,)): comparison for name, comparison in others.items() if comparison is not None}


def of_components(alignment: Alignment, coupled: CoupledSet, merged: Posterior) -> Heterogeneity:
    """The comparison of all sites, for each slot of a coupled set; `merged` may be calibrated."""
    evidence = alignment.shared()[coupled].evidence
    shares = np.where(evidence >= LEAST_EVIDENCE, evidence, 0.0)
    seen = shares.sum(axis=0)
    shares = shares / np.maximum(seen, 1.0)
    names = [name for name in coupled.factors if not merged.structure.families[name].over_components]
    compared = {name: comparisons(merged, name) for name in names}
    for site, share in enumerate(shares):
        in_slots = alignment.in_slots(site)
        for name, entries in compared.items():
            for quantity, comparison in entries.items():
                comparison.add(in_slots.mean(name, quantity), share)
    statistic, freedom = np.zeros(len(seen)), np.zeros(len(seen))
    for name, entries in compared.items():
        for entry in entries.values():
            often = entry.often(seen, len(shares)) if merged.structure.families[name].countable else True
            statistic += summed(np.where(often, entry.statistic, 0.0))
            freedom += summed(np.where(often, entry.freedom, 0.0))
    between = {name: {part: entry.between for part, entry in entries.items()} for name, entries in compared.items()}
    times = {name: {part: entry.times for part, entry in entries.items()} for name, entries in compared.items()}
    return Heterogeneity(*against_chance(statistic, freedom), between, times)


def of_coefficients(alignment: Alignment, factor: str) -> Heterogeneity | None:
    """The comparison of all sites' versions of one vector per row; None for other factors."""
    merged, family = alignment.merged(), alignment.structure.families[factor]
    dense_parts = [dense(posterior.contribution[factor]) for posterior in alignment.posteriors]
    quadratics = [family.quadratic(part, merged.natural[factor]) for part in dense_parts]
    contributions = [quadratic for quadratic in quadratics if quadratic is not None]
    if not contributions:
        return None
    shifts, precisions = (
        np.array([shift for shift, _ in contributions]),
        np.array([precision for _, precision in contributions]),
    )
    tested, entries = compared_at_once(shifts, precisions)
    quantity = merged.quantities(factor)[0]
    between, times = {factor: {quantity: entries.between}}, {factor: {quantity: entries.times}}
    return Heterogeneity(*tested, between, times, to_let_differ(shifts[:, :1], precisions[:, :1]))


def compared_at_once(shifts: Array, precisions: Array) -> tuple[tuple[Array, Array], "Comparison"]:
    """Compare (sites, K, D) and (sites, K, D, D) contributions: all entries jointly, and each entry alone."""
    common = np.linalg.pinv(precisions.sum(axis=0), hermitian=True) @ shifts.sum(axis=0)[..., None]
    rest = shifts - (precisions @ common)[..., 0]
    statistic = np.einsum("nkd,nkde,nke->k", rest, np.linalg.pinv(precisions, rcond=RANK, hermitian=True), rest)
    freedom = (ranks(precisions).sum(axis=0) - ranks(precisions.sum(axis=0))).astype(np.float64)
    entries = Comparison(np.zeros(rest.shape[1:]), np.ones(rest.shape[1:]))
    for site_rest, weight in zip(rest, np.diagonal(precisions, axis1=-2, axis2=-1), strict=True):
        entries.add_weighted(np.divide(site_rest, weight, out=np.zeros(site_rest.shape), where=weight > 0.0), weight)
    return against_chance(statistic, freedom), entries


def to_let_differ(shifts: Array, precisions: Array) -> tuple[int, ...]:
    """Entries of the first row that should vary: the most significant, then the next one given that it varies, …"""
    chosen: list[int] = []
    while len(chosen) < shifts.shape[-1]:
        (_, probability), entries = compared_at_once(shifts, precisions)
        most = int(np.nanargmax(np.append(entries.times[0], 0.0)))
        if not probability[0] < RARELY or most in (*chosen, shifts.shape[-1]) or entries.times[0, most] <= NOTABLE:
            break
        chosen.append(most)
        # The sites' contributions to all other entries, with their own parts of this one integrated out.
        column, shift = precisions[..., most], shifts[..., most]
        share = 1.0 / (column[..., most] + 1.0 / entries.between[0, most] ** 2)
        shifts = shifts - column * (share * shift)[..., None]
        precisions = precisions - column[..., :, None] * column[..., None, :] * share[..., None, None]
    return tuple(chosen)


def ranks(precisions: Array) -> NDArray[np.intp]:
    return np.asarray(np.linalg.matrix_rank(precisions, rtol=RANK, hermitian=True))


def against_chance(statistic: Array, freedom: Array) -> tuple[Array, Array]:
    """The ratio to chance and the p-value; NaN if there is nothing to compare."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(freedom > 0.0, np.sqrt(statistic / freedom), np.nan)
        probability = np.where(freedom > 0.0, gammaincc(0.5 * freedom, 0.5 * statistic), np.nan)
    return ratio, probability


def comparisons(merged: Posterior, factor: str) -> dict[str, "Comparison"]:
    """An empty comparison for each quantity of a factor."""
    names = merged.quantities(factor)
    return {name: Comparison(merged.mean(factor, name), merged.deviation(factor, name)) for name in names}


class Comparison:
    """All entries of one quantity, (slots, …), compared with the merge site by site."""

    def __init__(self, mean: Array, deviation: Array) -> None:
        self.mean = mean
        known = np.isfinite(deviation) & (deviation > 0.0)
        self.precision = np.divide(1.0, deviation**2, out=np.zeros(deviation.shape), where=known)
        self.statistic, self.weight, self.squares, self.sites = (np.zeros(deviation.shape) for _ in range(4))

    def add(self, value: Array, share: Array) -> None:
        """Add a site's version, given its share of each slot's observations."""
        self.add_weighted(value, self.precision * share.reshape(-1, *(1,) * (self.mean.ndim - 1)))

    def add_weighted(self, value: Array, weight: Array) -> None:
        """Add a site's version, given its 1 / v."""
        self.statistic += weight * (value - self.mean) ** 2
        self.weight += weight
        self.squares += weight**2
        self.sites += weight > 0.0

    @property
    def freedom(self) -> Array:
        """The expected Q if sites differ by chance."""
        return np.maximum(self.sites - 1.0, 0.0)

    @property
    def times(self) -> Array:
        """The spread of the versions relative to chance."""
        return against_chance(self.statistic, self.freedom)[0]

    @property
    def between(self) -> Array:
        """The between-site standard deviation of the true values."""
        compared = self.freedom > 0.0
        room = self.weight - np.divide(self.squares, self.weight, out=np.zeros(self.weight.shape), where=compared)
        excess = np.maximum(self.statistic - self.freedom, 0.0)
        return np.asarray(np.sqrt(np.divide(excess, room, out=np.full(room.shape, np.nan), where=compared)))

    def often(self, seen: Array, sites: int) -> NDArray[np.bool_]:
        """Which entries of counts are frequent enough to be close to normal."""
        return np.asarray(self.mean * seen[:, None] >= LEAST_SEEN * sites)


def summed(values: Array) -> Array:
    return np.asarray(values.reshape(len(values), -1).sum(axis=1))
