"""Whether coefficients of a regression differ between sites by more than chance.

Coefficients have no labels, and are compared jointly and one by one. Site i contributes s_i and
P_i; all sites together give m = (Σ P_i)⁻¹ Σ s_i; with r_i = s_i − P_i m

    Q = Σ_i r_iᵀ P_i⁻¹ r_i,    freedom = Σ_i rank P_i − rank Σ_i P_i

and for an entry j alone v_i = 1 / P_ijj, m_i − m = v_i r_ij, with all others fixed:

    Q_j = Σ_i r_ij² / P_ijj,    freedom_j = Σ_i (1 − (P_i (Σ P)⁻¹ P_i)_jj / P_ijj)

The joint test misses a single coefficient that differs among many that do not, and single ones miss many small
differences. Half of the weight is given to each (the Cauchy combination of Liu and Xie, which takes small p-values for
what they are however these depend on each other):

    cot πp = ½ cot πp_joint + ½ mean_j cot πp_j
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array, dense
from decbayes.merging.alignment import Alignment
from decbayes.merging.reading._heterogeneity import RARELY, Chance, Comparison, Heterogeneity, Spread

# One site makes the difference if p is below CERTAIN, and without this site alone above ALIKE; of FEWEST sites or more.
CERTAIN, ALIKE, FEWEST = 0.001, 0.1, 4
# A coefficient should vary if it differs by at least this multiple of chance.
NOTABLE = 1.5
# Larger p-values are not distinguished where several are combined.
MOST_ALIKE = 0.99
# Directions with this much less information than others are ignored.
RANK = 1e-9
# Degrees of freedom of a mean that is known.
KNOWN = 1e9
# An entry with fewer degrees of freedom, but for rounding, is known at one site only.
LEAST_FREEDOM = 1e-6


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
