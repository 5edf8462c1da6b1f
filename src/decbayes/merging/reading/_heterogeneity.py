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
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc, gammaincc, gammaincinv

from decbayes.families import Array
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
# Quantiles of a simulated variance over which p-values are averaged: more change them by less than a twentieth.
VARIANCES = 20


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
