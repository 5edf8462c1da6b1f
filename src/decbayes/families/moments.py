"""Covariances of the statistics of Gaussians and Wishart matrices (∇²A), and divergences from the prior."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from decbayes.base.workers import split_among_threads
from decbayes.families.matrices import Array, Contribution, Indices, dense, flat, outer, stored

if TYPE_CHECKING:
    from decbayes.families.family import Family


# Directions with a smaller eigenvalue do not vary: off-diagonal entries of a symmetric matrix occur twice.
NOTHING = 1e-12


def round_covariances(mean: Array, variance: Array, apart: Array) -> Array:
    """Cov[(x, |x|²)] of N(m, σ²I), (K, D + 1, D + 1); the variance of |x|² is 4σ²|m|² plus `apart`."""
    rows, side = mean.shape
    covariances = np.zeros((rows, side + 1, side + 1))
    covariances[:, :side, :side] = variance[:, None, None] * np.eye(side)
    covariances[:, :side, side] = covariances[:, side, :side] = 2.0 * variance[:, None] * mean
    covariances[:, side, side] = 4.0 * variance * np.sum(mean**2, axis=-1) + apart
    return covariances


def gaussian_covariances(mean: Array, covariance: Array, weight: Array) -> Array:
    """E[Cov[(τx, τxxᵀ) | τ]] of N(m, Σ / τ), (K, D + D², D + D²), where `weight` is E[τ]."""
    w, m, s = weight[:, None, None, None], mean, covariance
    cross = np.einsum("kj,kil->kijl", m, s) + np.einsum("kl,kij->kijl", m, s)
    squares = np.einsum("kac,kbd->kabcd", s, s) + np.einsum("kad,kbc->kabcd", s, s)
    spread = outer(m)
    for one, two in (("ac", "bd"), ("ad", "bc"), ("bc", "ad"), ("bd", "ac")):
        squares += w[..., None] * np.einsum(f"k{one},k{two}->kabcd", spread, s)
    rows, side = mean.shape
    first = np.concatenate([weight[:, None, None] * s, (w * cross).reshape(rows, side, -1)], axis=-1)
    second = np.concatenate(
        [np.swapaxes(first[..., side:], -1, -2), squares.reshape(rows, side * side, side * side)], axis=-1
    )
    return np.concatenate([first, second], axis=-2)


def wishart_covariances(degrees: Array, scale: Array) -> Array:
    """Cov[(½ log|Λ|, Λ)] under Wishart(degrees, scale), (K, 1 + D², 1 + D²)."""
    rows, side = len(scale), scale.shape[-1]
    covariances = np.empty((rows, 1 + side * side, 1 + side * side))
    covariances[:, 0, 0] = 0.25 * polygamma(1, 0.5 * (degrees[:, None] - np.arange(side))).sum(axis=-1)
    covariances[:, 0, 1:] = covariances[:, 1:, 0] = flat(scale)
    entries = np.einsum("kac,kbd->kabcd", scale, scale) + np.einsum("kad,kbc->kabcd", scale, scale)
    covariances[:, 1:, 1:] = degrees[:, None, None] * entries.reshape(rows, side * side, side * side)
    return covariances


def given_precision(mean: Array) -> Array:
    """(K, D² + D + 2, 1 + D²): up to a constant, E[T | Λ] of a Normal-Wishart is this times (½ log|Λ|, Λ)."""
    rows, side = mean.shape
    spread = np.zeros((rows, side * side + side + 2, 1 + side * side))
    spread[:, : 1 + side * side, :] = np.eye(1 + side * side)
    spread[:, 1 + side * side : -1, 1:] = np.einsum("ab,kc->kabc", np.eye(side), mean).reshape(rows, side, side * side)
    spread[:, -1, 1:] = flat(outer(mean))
    return spread


def shifted_covariances(mean: Array, precision: Array, strength: Array) -> Array:
    """E[Cov[(Λμ, μᵀΛμ) | Λ]] with μ | Λ ~ N(m, (κΛ)⁻¹), (K, D + 1, D + 1)."""
    rows, side = mean.shape
    shift = (precision @ mean[..., None])[..., 0]
    covariances = np.empty((rows, side + 1, side + 1))
    covariances[:, :side, :side] = precision / strength[:, None, None]
    covariances[:, :side, side] = covariances[:, side, :side] = 2.0 * shift / strength[:, None]
    covariances[:, side, side] = 2.0 * side / strength**2 + 4.0 * np.sum(mean * shift, axis=-1) / strength
    return covariances


def root_and_inverse(covariance: Array) -> tuple[Array, Array]:
    """L with L Lᵀ = V, and its pseudo-inverse. T is first scaled by its deviations, which may differ by magnitudes."""
    variances = np.diag(covariance)
    # Directions without variation are dropped below, whatever they are divided by.
    scale = np.sqrt(np.where(variances > 0.0, variances, 1.0))
    eigenvalues, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    seen = eigenvalues > NOTHING * len(scale)
    lengths, directions = np.sqrt(eigenvalues[seen]), axes[:, seen]
    return scale[:, None] * directions * lengths, (directions / lengths).T / scale


Orders = Sequence[Indices] | None
"""The order of each site's components; None for the order of the contributions."""


def stacked(contributions: Sequence[Contribution], orders: Orders) -> Array:
    """(sites, K, d)."""
    together = np.array([dense(contribution) for contribution in contributions])
    return together if orders is None else np.take_along_axis(together, np.array(orders)[:, :, None], axis=1)


def row_divergences(family: "Family", prior: Array, contributions: Array) -> Array:
    """KL(q_λ ‖ q_λ0) = Σ_k A_k(λ0) − A_k(λ) − ⟨λ0_k − λ_k, ∇A_k(λ)⟩, for independent row terms."""
    natural = prior + contributions
    inside = family.contains_rows(by_row(natural)).reshape(natural.shape[:2]).all(axis=1)
    valid = natural[inside]
    after = family.row_terms(by_row(valid)).reshape(valid.shape[:2])
    slope = family.expected_statistics(by_row(valid)).reshape(valid.shape)
    divergence = np.zeros(len(natural))
    divergence[inside] = (family.row_terms(prior) - after - ((prior - valid) * slope).sum(axis=2)).sum(axis=1)
    return divergence


def singly(family: "Family", prior: Array, contributions: Sequence[Contribution], orders: Orders) -> Array:
    """The same, one site after another."""
    pairs = zip(contributions, [None] * len(contributions) if orders is None else orders, strict=True)
    sites = [family.rows(contribution, order) for contribution, order in pairs]
    inside = [bool(family.contains_sum(prior, rows).all()) for rows in sites]
    divergences = np.zeros(len(sites))

    def work(part: slice) -> None:
        for number in range(part.start, part.stop):
            divergences[number] = family.divergence(prior, sites[number]) if inside[number] else 0.0

    split_among_threads(work, len(sites), cost=sum(np.size(stored(contribution)) for contribution in contributions))
    return divergences


def weight_divergences(prior: Array, contributions: Array) -> Array:
    """The same for one Dirichlet over all rows, whose columns are α − 1."""
    before = prior[:, 0] + 1.0
    alpha = before + contributions[:, :, 0]
    inside = (alpha > 0.0).all(axis=1)
    valid = alpha[inside]
    sums = valid.sum(axis=1)
    heights = gammaln(before).sum() - gammaln(before.sum()) - gammaln(valid).sum(axis=1) + gammaln(sums)
    divergence = np.zeros(len(alpha))
    divergence[inside] = heights - ((before - valid) * (digamma(valid) - digamma(sums)[:, None])).sum(axis=1)
    return divergence


def by_row(natural: Array) -> Array:
    return natural.reshape(-1, natural.shape[-1])
