"""Pairwise agreement of components, and how much disagreement chance and usual differences explain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv

from decbayes.families import Array
from decbayes.families.matrices import Indices

if TYPE_CHECKING:
    from decbayes.merging.robust.votes import Group

# Tolerated deviations of chance, and tolerated multiple of the usual loss per observation.
DEVIATIONS, USUAL = 2.5, 2.5
# The usual loss is this quantile of all comparisons: faulty sites are a minority and lose more.
QUARTER = 0.25
# The median of the honest sites among all sites sorted by loss, if the third with the largest losses is faulty.
HONEST = 1.0 / 3.0
# Beyond this multiple of the tolerance a component counts for nothing. With unknown variances losses grow slowly.
GONE = 3.0
# Limits on pairs of components and on numbers compared; the fewest sites that all others are compared with.
MOST_PAIRS, MOST_NUMBERS, FEWEST_SITES = 250_000, 40_000_000, 7
# Numbers compared at once (256 KiB), few enough for the processor's cache.
BLOCK = 1 << 15
# Less evidence than this is none.
LITTLE = 1e-6

Coefficients = tuple[Array, Array]
"""Means and variances of a vector, one row per component."""


class Side(NamedTuple):
    """One side of comparisons: rows of each factor, their evidence, F of each row, and the coefficients in it."""

    rows: Sequence[Array]
    evidence: Array
    peak: Array
    coefficients: Coefficients | None

    def taken(self, places: Indices) -> "Side":
        pair = self.coefficients and (self.coefficients[0][places], self.coefficients[1][places])
        return Side([rows[places] for rows in self.rows], self.evidence[places], self.peak[places], pair)


@dataclass(frozen=True)
class Likeness:
    """How well each component agrees with the candidates: components that sites know, or a sample of them."""

    candidates: Indices
    lost: Array
    """Components × candidates, in nats; infinite where not compared."""
    weights: Array
    """Weight of each component if a candidate were right."""
    usual: float
    """Nats per observation by which components usually differ."""

    @classmethod
    def among(cls, group: "Group") -> "Likeness":
        candidates = chosen_candidates(group)
        # Candidates have at least the median evidence, since little could contradict one with less.
        middle = float(np.median(group.evidence[group.known])) if group.known.any() else 0.0
        louder = np.maximum(middle / np.maximum(group.evidence[candidates], LITTLE), 1.0)
        loud = [louder[:, None] * rows[candidates] for rows in group.rows], louder * group.evidence[candidates]
        all_claimed = group.claims[1] is group.evidence
        components = group.claim_side if all_claimed else group.side((group.rows, group.evidence))
        rest = group.side(loud)
        lost, shared = (np.full((len(group.site), len(candidates)), fill) for fill in (np.inf, 0.0))
        for some, others in comparisons(group, candidates):
            first, second = (pair.ravel() for pair in np.meshgrid(some, others))
            sides = components.taken(first), rest.taken(second)
            lost[first, second] = group.lost(*sides)
            shared[first, second] = in_common(sides[0].evidence, sides[1].evidence)
        usual = usual_loss(group, candidates, lost, shared)
        fewer = np.minimum(group.parameters[:, None], group.parameters[candidates])
        return cls(candidates, lost, weights_of(lost, tolerated(fewer, shared, usual)), usual)


def chosen_candidates(group: "Group") -> Indices:
    """Components that their sites know; if there are many, those of every second site, every third, and so on."""
    pairs = min(MOST_PAIRS, MOST_NUMBERS // max(rows.shape[1] for rows in group.rows))
    most = max(pairs // len(group.site), FEWEST_SITES * max(len(labels) for labels in group.order))
    every = -(-int(group.known.sum()) // most)
    return np.flatnonzero(group.known & (group.site % max(every, 1) == 0))


def comparisons(group: "Group", candidates: Indices) -> list[tuple[Indices, Indices]]:
    """Blocks of components and positions of candidates to compare: all, or those in the same row if slots are fixed."""
    blocks = []
    for row in [None] if group.coupled else np.unique(group.row).tolist():
        components = np.flatnonzero(group.row == row) if row is not None else np.arange(len(group.site))
        places = np.flatnonzero(np.isin(candidates, components))
        at_once = max(1, BLOCK // max(1, len(components) * max(rows.shape[1] for rows in group.rows)))
        blocks += [(components, places[first : first + at_once]) for first in range(0, len(places), at_once)]
    return blocks


def usual_loss(group: "Group", candidates: Indices, lost: Array, shared: Array) -> float:
    """Nats per observation by which components of different sites usually differ (lower quartile).

    Matches are not known yet, so each component is compared with its nearest one. Where slots are fixed, only the
    difference beyond chance counts.
    """
    other = group.known[:, None] & (group.site[:, None] != group.site[candidates]) & np.isfinite(lost)

    def per_observation(losses: Array) -> Array:
        return np.asarray(np.divide(losses, shared, out=np.full(lost.shape, np.inf), where=other))

    if group.coupled is not None:
        rates = per_observation(lost).min(axis=1, initial=np.inf)
        rates = rates[np.isfinite(rates)]
        return float(np.quantile(rates, QUARTER)) if len(rates) else 0.0
    by_chance, half, most = (gammaincinv(0.5 * group.parameters, share) for share in (QUARTER, 0.5, 1.0 - QUARTER))
    compared = other.any(axis=1)
    if not compared.any():
        return 0.0
    # Position of each row's lower quartile.
    last = np.ceil(QUARTER * other[compared].sum(axis=1)).astype(np.intp) - 1

    def excess(chance_loss: Array) -> float:
        rates = per_observation(lost - chance_loss[:, None])[compared]
        quarter = np.take_along_axis(np.sort(rates, axis=1), last[:, None], axis=1)
        return float(np.quantile(quarter, HONEST))

    # If sites are alike, the lower quartile hardly ever exceeds the upper quartile of chance, even if a third are
    # faulty: then no difference is usual.
    if excess(most) <= 0.0:
        return 0.0
    # Two sites differ twice as much as one site does from the mean of many.
    return float((chance(group.parameters) / by_chance).min()) / (2.0 * USUAL) * excess(half)


def tolerated(parameters: Array, shared: ArrayLike, usual: float) -> Array:
    """The loss that chance explains, or a multiple of the usual loss if that is more.

    Sites often differ by more than chance, for example in words: by a loss per observation of the shared evidence.
    """
    return np.asarray(np.maximum(chance(parameters), USUAL * usual * np.asarray(shared)))


def chance(parameters: ArrayLike) -> Array:
    """The mean of ½χ² plus the tolerated deviations."""
    half = 0.5 * np.asarray(parameters)
    return np.asarray(half + DEVIATIONS * np.sqrt(half))


def weights_of(lost: Array, tolerance: Array) -> Array:
    """1 up to the tolerance t, (t / D)² beyond it, and 0 from 3 t on."""
    weights = np.minimum(1.0, tolerance / np.maximum(lost, LITTLE)) ** 2
    return np.where(lost > GONE * tolerance, 0.0, weights)


def agreement(lost: Array, tolerance: Array, parameters: Array) -> Array:
    """1 up to the mean by chance, falling to 0 at the tolerance."""
    average = tolerance * 0.5 * parameters / chance(parameters)
    return np.asarray(np.clip((tolerance - lost) / (tolerance - average), 0.0, 1.0))


def in_common(first: Array, second: Array) -> Array:
    """The evidence that a comparison rests on: half the harmonic mean."""
    return np.asarray(first * second / np.maximum(first + second, LITTLE))
