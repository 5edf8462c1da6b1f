"""Whether sites differ by more than chance: each site's version of a component against all sites' together.

A merge assumes that all sites share the same values. With c_i the contribution of site i to a slot and F the
log-likelihood at its maximum, the statistic is the likelihood ratio

    2D = 2 (Σ_i F(c_i) − F(Σ_i c_i)),    freedom = parameters · (N − 1)

Even for equal sites, the mean of 2D is not its freedom: observations are assigned to components with some error, and
sites may be small. `Chance` is the distribution of 2D by chance, which `db.checking.heterogeneity` simulates. For
each entry of a component, with n_i of n observations at site i, the site's mean m_i, the mean m and deviation s of all
sites, and φ the mean of 2D / freedom by chance:

    Q = Σ_i (m_i − m)² / v_i,    v_i = s² n / n_i                              (about φ (N − 1) by chance)
    between² = max(0, (Q − φ (N − 1)) / (Σ_i 1/v_i − Σ_i 1/v_i² / Σ_i 1/v_i))   (DerSimonian and Laird)

Coefficients of a regression, which have no labels, are compared jointly and one by one. Site i contributes s_i and
P_i; all sites together give m = (Σ P_i)⁻¹ Σ s_i; with r_i = s_i − P_i m

    Q = Σ_i r_iᵀ P_i⁻¹ r_i,    freedom = Σ_i rank P_i − rank Σ_i P_i

and for an entry j alone v_i = 1 / P_ijj, m_i − m = v_i r_ij, with all others fixed:

    Q_j = Σ_i r_ij² / P_ijj,    freedom_j = Σ_i (1 − (P_i (Σ P)⁻¹ P_i)_jj / P_ijj)

The joint test misses a single coefficient that differs among many that do not, and single ones miss many small
differences. Half of the weight is given to each (the Cauchy combination of Liu and Xie, which takes small p-values for
what they are however these depend on each other):

    cot πp = ½ cot πp_joint + ½ mean_j cot πp_j
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, gammaincc, gammaincinv

from decbayes.families import Array, dense
from decbayes.families.rows import Rows
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import Components, bases
from decbayes.merging.base.coupled import leading
from decbayes.merging.grouping.search import SlotSearch
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet

# The fewest observations of a site in a slot to be compared.
LEAST_EVIDENCE = 5.0
# Sites differ if a slot has a p-value below this, divided by the number of slots.
RARELY = 0.05
# Smaller p-values of simulations are not distinguished.
SMALLEST = 0.001
# One site makes the difference if p is below CERTAIN, and without this site alone above ALIKE; of FEWEST sites or more.
CERTAIN, ALIKE, FEWEST = 0.001, 0.1, 4
# A coefficient should vary if it differs by at least this multiple of chance.
NOTABLE = 1.5
# Quantiles of a simulated variance over which p-values are averaged: more change them by less than a twentieth.
VARIANCES = 20
# Larger p-values are not distinguished where several are combined.
MOST_ALIKE = 0.99
# Directions with this much less information than others are ignored.
RANK = 1e-9
# Degrees of freedom of a mean that is known.
KNOWN = 1e9
# An entry with fewer degrees of freedom, but for rounding, is known at one site only.
LEAST_FREEDOM = 1e-6


class Spread(NamedTuple):
    """How far apart the sites' versions of each slot are, and the number of parameters that could differ."""

    statistic: Array
    freedom: Array

    @property
    def relative(self) -> Array:
        """The statistic per degree of freedom; NaN if there is nothing to compare."""
        nothing = np.full(self.freedom.shape, np.nan)
        return np.asarray(np.divide(self.statistic, self.freedom, out=nothing, where=self.freedom > 0.0))


@dataclass(frozen=True)
class Chance:
    """How far versions are apart if sites are the same: `relative` is `mean` times Gamma(shape) / shape.

    The mean is known as from `degrees` degrees of freedom, so `relative / mean` has an F distribution. NaN in slots
    about which nothing is known. If the mean is simulated, `error` is its relative standard error, and the variance is
    known as from `compared` degrees of freedom.
    """

    mean: Array
    shape: Array
    degrees: Array
    error: Array | float = 0.0
    compared: float = np.inf

    @classmethod
    def unknown(cls, slots: int) -> "Chance":
        nothing = np.full(slots, np.nan)
        return cls(nothing, nothing, nothing)

    def of_fewer(self, share: Array) -> "Chance":
        """For this share of the degrees of freedom, as if some sites were left out."""
        return replace(self, shape=self.shape * share)

    def widened(self, times: Array | float, variance: Array | float, degrees: Array | float) -> "Chance":
        """If equal sites are `times` as far apart, as known from `degrees` degrees of freedom, with more variance."""
        known = 1.0 / (1.0 / self.degrees + 1.0 / np.asarray(degrees))
        return replace(self, mean=self.mean * times, shape=self.shape / variance, degrees=known)

    def probability(self, relative: Array) -> Array:
        """The probability of at least this spread: that of an F, averaged over the variances that it may have."""
        times = np.maximum(relative, 0.0) / self.mean
        return np.asarray(np.mean([fdtrc(2.0 * self.shape * u, self.degrees * u, times) for u in self.sharper], axis=0))

    @property
    def sharper(self) -> Array:
        """By which factors the variance may be smaller than its estimate: quantiles of a chi-square per degree."""
        if np.isinf(self.compared):
            return np.ones(1)
        half = 0.5 * self.compared
        return np.asarray(gammaincinv(half, (np.arange(VARIANCES) + 0.5) / VARIANCES) / half)

    def at_most(self, relative: Array) -> Array:
        """A bound that more simulations would hardly exceed: the mean may be two standard errors larger."""
        larger = self.mean * (1.0 + 2.0 * np.asarray(self.error))
        further = gammaincc(self.shape, self.shape * np.maximum(relative, 0.0) / larger)
        known = self.probability(relative)
        return np.asarray(np.where(np.asarray(self.error) > 0.0, np.maximum(further, known), known))


@dataclass(frozen=True, eq=False)
class Heterogeneity:
    """How far the sites' versions of each slot differ, relative to chance; NaN if fewer than two sites support a slot.

    Attributes:
        ratio: per slot, the spread of the versions relative to that of sites that are the same: 1 by chance alone.
        probability: per slot, the probability of at least this spread if sites were the same; for the coefficients of
            a regression, of all of them together or of any by itself.
        between: `[factor][quantity]`, the standard deviation between sites that would explain the excess, entry by
            entry.
        times: `[factor][quantity]`, the ratio of each entry alone.
        terms: coefficients of a regression that should be allowed to vary between sites, the most notable first.
        reason: why there is no p-value, if there is none.
        at_most: per slot, a bound that the probability hardly exceeds if more sites are simulated; None if none were.
        site: the only site without which the coefficients of a regression would not differ; None if there is none.
        halves: whether all sites state how far random halves of their own rows are apart, and equal sites may be as far
            apart as these, so that p-values hold even if the model does not.

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
    reason: str = ""
    at_most: Array | None = None
    site: int | None = None
    halves: bool = False

    def differ(self, slot: int) -> bool:
        """Whether to report a difference, whatever more simulations would show: for equal sites, any slot is reported
        in at most 5 % of all merges.
        """
        largest = self.probability if self.at_most is None else self.at_most
        return bool(largest[slot] * np.isfinite(self.probability).sum() < RARELY)

    def p_text(self, slot: int) -> str:
        """The p-value of a slot, with as many digits as are known."""
        probability = float(self.probability[slot])
        if self.at_most is None:
            return f"= {probability:.2g}"
        return f"about {probability:.1g}" if probability >= SMALLEST else f"below {SMALLEST:g}"

    def provided(self, *further: str) -> str:
        """What a p-value takes for granted, in words."""
        conditions = ["the sites were the same", *further, *([] if self.halves else ["the model held"])]
        *first, last = conditions
        return f"if {', '.join(first)} and {last}" if first else f"if {last}"


def spread_of_components(alignment: Alignment, coupled: CoupledSet) -> Spread:
    """2D and its freedom for each slot of a coupled set."""
    factors, slots = alignment.problem(coupled).factors, alignment.structure.components(coupled)
    versions = Components.of(factors, [rows_of(alignment.in_slots(site), coupled) for site in sites_of(alignment)])
    compared = versions.evidence.reshape(-1, slots) >= LEAST_EVIDENCE
    labels = np.where(compared, np.arange(slots), -1).ravel()
    search = SlotSearch(versions, labels, bases(versions.factors, float(versions.evidence.sum()), slots), slots)
    apart = np.where(compared, search.alone().reshape(-1, slots), 0.0).sum(axis=0)
    together = np.sum([groups.values() for groups in search.slots], axis=0)
    parameters = sum(factor.family.freedom(factor.prior[:1])[0] for factor in versions.factors)
    return Spread(2.0 * (apart - together), parameters * np.maximum(compared.sum(axis=0) - 1.0, 0.0))


def sites_of(alignment: Alignment) -> range:
    return range(len(alignment.posteriors))


def rows_of(posterior: Posterior, coupled: CoupledSet) -> tuple[Rows, ...]:
    """A posterior's components, one matrix per factor that distinguishes them."""
    families, names = posterior.structure.families, leading(posterior.structure, coupled)
    return tuple(families[name].rows(posterior.contribution[name]) for name in names)


def of_components(
    alignment: Alignment,
    coupled: CoupledSet,
    chance: Chance,
    usual: Array | None = None,
    redivided: Alignment | None = None,
    reason: str = "",
) -> Heterogeneity:
    """The comparison of all sites, for each slot of a coupled set.

    `chance` is the distribution of 2D for equal sites, of `redivided` contributions if given. For contributions as sent
    it is `usual` times its freedom on average.
    """
    merged, relative = alignment.merged(), spread_of_components(redivided or alignment, coupled).relative
    evidence = alignment.shared()[coupled].evidence
    shares = np.where(evidence >= LEAST_EVIDENCE, evidence, 0.0)
    shares = shares / np.maximum(shares.sum(axis=0), 1.0)
    names = [name for name in coupled.factors if not merged.structure.families[name].over_components]
    compared = {name: comparisons(merged, name, chance.mean if usual is None else usual) for name in names}
    for site, share in enumerate(shares):
        in_slots = alignment.in_slots(site)
        for name, entries in compared.items():
            for quantity, comparison in entries.items():
                comparison.add(in_slots.mean(name, quantity), share)
    between = {name: {part: entry.between for part, entry in entries.items()} for name, entries in compared.items()}
    times = {name: {part: entry.times for part, entry in entries.items()} for name, entries in compared.items()}
    ratio = np.sqrt(np.maximum(relative, 0.0) / chance.mean)
    found = Heterogeneity(ratio, chance.probability(relative), between, times, reason=reason)
    return replace(found, at_most=chance.at_most(relative)) if np.any(chance.error) else found


class Coefficients(NamedTuple):
    """Each site's contribution about one vector per row: s (sites, K, D) and P (sites, K, D, D)."""

    shifts: Array
    precisions: Array

    @classmethod
    def of(cls, alignment: Alignment, factor: str) -> "Coefficients | None":
        """Contributions to one factor; None if it is not about vectors."""
        merged, family = alignment.merged(), alignment.structure.families[factor]
        dense_parts = [dense(posterior.contribution[factor]) for posterior in alignment.posteriors]
        quadratics = [family.quadratic(part, merged.natural[factor]) for part in dense_parts]
        known = [quadratic for quadratic in quadratics if quadratic is not None]
        return cls(*map(np.array, zip(*known, strict=True))) if known else None

    @property
    def rest(self) -> tuple[Array, Array]:
        """(Σ P_i)⁻¹, and r_i = s_i − P_i m."""
        inverse = np.linalg.pinv(self.precisions.sum(axis=0), hermitian=True)
        common = inverse @ self.shifts.sum(axis=0)[..., None]
        return inverse, self.shifts - (self.precisions @ common)[..., 0]

    def compared(self, inflation: Array) -> "tuple[Spread, Comparison]":
        """All entries jointly, and each by itself; by chance the statistic is `inflation` times its freedom."""
        precisions, (_, rest) = self.precisions, self.rest
        statistic = np.einsum("nkd,nkde,nke->k", rest, np.linalg.pinv(precisions, rcond=RANK, hermitian=True), rest)
        freedom = (ranks(precisions).sum(axis=0) - ranks(precisions.sum(axis=0))).astype(np.float64)
        entries = Comparison(np.zeros(rest.shape[1:]), np.ones(rest.shape[1:]), inflation)
        for site_rest, weight in zip(rest, np.diagonal(precisions, axis1=-2, axis2=-1), strict=True):
            apart = np.divide(site_rest, weight, out=np.zeros(site_rest.shape), where=weight > 0.0)
            entries.add_weighted(apart, weight)
        return Spread(statistic, freedom), entries

    def each(self) -> Spread:
        """(K, D): Q_j of each entry by itself, and its freedom."""
        inverse, rest = self.rest
        weight = np.diagonal(self.precisions, axis1=-2, axis2=-1)
        known = weight > 0.0
        lost = np.einsum("nkde,nked->nkd", self.precisions @ inverse, self.precisions)
        statistic, share = (
            np.divide(part, weight, out=np.zeros(weight.shape), where=known) for part in (rest**2, lost)
        )
        freedom = known.sum(axis=0) - share.sum(axis=0)
        return Spread(statistic.sum(axis=0), np.where(freedom > LEAST_FREEDOM, freedom, 0.0))

    def without_site(self, site: int) -> "Coefficients":
        return Coefficients(np.delete(self.shifts, site, axis=0), np.delete(self.precisions, site, axis=0))

    def without_shared(self, entries: Iterable[int]) -> "Coefficients":
        """The contributions to all other entries, if these ones are not the same thing at all sites."""
        known = self
        for entry in entries:
            known = known.without(entry, np.inf)
            known.shifts[..., entry] = known.precisions[..., entry, :] = known.precisions[..., entry] = 0.0
        return known

    def without(self, entry: int, between: float) -> "Coefficients":
        """The contributions to all other entries, with the sites' deviations in this one integrated out."""
        shifts, precisions = self
        column, shift = precisions[..., entry], shifts[..., entry]
        total = column[..., entry] + 1.0 / between**2
        share = np.divide(1.0, total, out=np.zeros(total.shape), where=total > 0.0)
        less = column[..., :, None] * column[..., None, :] * share[..., None, None]
        return Coefficients(shifts - column * (share * shift)[..., None], precisions - less)


class Chances(NamedTuple):
    """How far coefficients are apart by chance: all together, (K,), and each by itself, (K, D)."""

    joint: Chance
    each: Chance
    times: Array | float = 1.0

    @property
    def inflation(self) -> Array:
        """The mean spread of each entry: of all together, or (K, D) if the model does not hold."""
        mean = self.joint.mean
        return mean if np.ndim(self.times) == 0 else mean[:, None] * self.times

    @classmethod
    def unknown(cls, rows: int) -> "Chances":
        nothing = np.full((rows, 1), np.nan)
        return cls(Chance.unknown(rows), Chance(nothing, nothing, nothing))

    @classmethod
    def of_noise(cls, known: Coefficients, noise: Array, degrees: Array) -> "Chances":
        """Chi-squares times the noise, (K,), that is known as from `degrees` degrees of freedom."""
        joint, each = known.compared(noise)[0].freedom, known.each().freedom
        return cls(Chance(noise, 0.5 * joint, degrees), Chance(noise[:, None], 0.5 * each, degrees[:, None]))

    def probability(self, joint: Spread, each: Spread) -> Array:
        return of_either(self.joint.probability(joint.relative), self.each.probability(each.relative))

    def at_most(self, joint: Spread, each: Spread) -> Array:
        return of_either(self.joint.at_most(joint.relative), self.each.at_most(each.relative))


def of_either(joint: Array, each: Array) -> Array:
    """(K,): the p-value of all entries together or any by itself, from theirs, (K,) and (K, D)."""
    known = np.isfinite(each)
    heights = np.where(known, cotangent(each), 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    both = np.arctan2(1.0, 0.5 * cotangent(joint) + 0.5 * heights) / np.pi
    return np.where(known.any(axis=1), both, joint)


def cotangent(probability: Array) -> Array:
    """cot πp; p-values near one must not outweigh small ones."""
    return np.asarray(1.0 / np.tan(np.pi * np.clip(probability, np.finfo(float).tiny, MOST_ALIKE)))


def of_coefficients(
    alignment: Alignment, factor: str, known: Coefficients, chances: Chances, reason: str = ""
) -> Heterogeneity:
    """The comparison of all sites' versions of one vector per row."""
    (spread, entries), each = known.compared(chances.inflation), known.each()
    quantity = alignment.merged().quantities(factor)[0]
    between, times = {factor: {quantity: entries.between}}, {factor: {quantity: entries.times}}
    ratio = np.sqrt(spread.relative / chances.joint.mean)
    first = Coefficients(known.shifts[:, :1], known.precisions[:, :1])
    tested = bool(np.isfinite(chances.joint.mean[0]))
    terms, site = (to_let_differ(first, chances), decisive(first, chances)) if tested else ((), None)
    found = Heterogeneity(ratio, chances.probability(spread, each), between, times, terms, reason, site=site)
    return replace(found, at_most=chances.at_most(spread, each)) if np.any(chances.joint.error) else found


def to_let_differ(known: Coefficients, chances: Chances) -> tuple[int, ...]:
    """Entries of the first row that should vary: the most significant, then the next one given that, and so on."""
    chosen: list[int] = []
    width = known.shifts.shape[-1]
    while len(chosen) < width:
        spread, entries = known.compared(chances.inflation[:1])
        most = int(np.nanargmax(np.append(entries.times[0], 0.0)))
        rare = chances.at_most(spread, known.each())[0] < RARELY
        if not rare or most in (*chosen, width) or entries.times[0, most] <= NOTABLE:
            break
        chosen.append(most)
        known = known.without(most, float(entries.between[0, most]))
    return tuple(chosen)


def decisive(known: Coefficients, chances: Chances) -> int | None:
    """The only site without which the others would not differ in the first row, if all together clearly do."""
    (joint, _), each = known.compared(chances.joint.mean[:1]), known.each()
    if len(known.shifts) < FEWEST or not chances.at_most(joint, each)[0] < CERTAIN:
        return None
    alike = [site for site in range(len(known.shifts)) if alike_without(known, chances, joint, each, site)]
    return alike[0] if len(alike) == 1 else None


def alike_without(known: Coefficients, chances: Chances, joint: Spread, each: Spread, site: int) -> bool:
    rest = known.without_site(site)
    (joint_rest, _), each_rest = rest.compared(chances.joint.mean[:1]), rest.each()
    fewer = [
        chance.of_fewer(
            np.divide(left.freedom, before.freedom, out=np.ones(left.freedom.shape), where=left.freedom > 0.0)
        )
        for chance, left, before in zip(chances[:2], (joint_rest, each_rest), (joint, each), strict=True)
    ]
    return bool(Chances(fewer[0], fewer[1]).probability(joint_rest, each_rest)[0] > ALIKE)


def ranks(precisions: Array) -> NDArray[np.intp]:
    sizes = np.abs(np.linalg.eigvalsh(precisions))
    return np.asarray((sizes > RANK * sizes.max(axis=-1, keepdims=True, initial=0.0)).sum(axis=-1))


def comparisons(merged: Posterior, factor: str, inflation: Array) -> dict[str, "Comparison"]:
    """An empty comparison for each quantity of a factor."""
    names = merged.quantities(factor)
    return {name: Comparison(merged.mean(factor, name), merged.deviation(factor, name), inflation) for name in names}


class Comparison:
    """All entries of one quantity, (slots, …), compared with the merge site by site."""

    def __init__(self, mean: Array, deviation: Array, inflation: Array) -> None:
        self.mean = mean
        self.inflation = inflation if inflation.shape == mean.shape else inflation.reshape(-1, *(1,) * (mean.ndim - 1))
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
    def expected(self) -> Array:
        """The expected Q if sites differ by chance."""
        return np.asarray(self.inflation * np.maximum(self.sites - 1.0, 0.0))

    @property
    def times(self) -> Array:
        """The spread of the versions relative to chance."""
        expected = self.expected
        out = np.full(expected.shape, np.nan)
        return np.asarray(np.sqrt(np.divide(self.statistic, expected, out=out, where=expected > 0.0)))

    @property
    def between(self) -> Array:
        """The between-site standard deviation of the true values."""
        expected = self.expected
        compared = expected > 0.0
        room = self.weight - np.divide(self.squares, self.weight, out=np.zeros(self.weight.shape), where=compared)
        excess = np.maximum(self.statistic - expected, 0.0)
        return np.asarray(
            np.sqrt(np.divide(excess, room, out=np.full(room.shape, np.nan), where=compared & (room > 0.0)))
        )
