"""Quantiles of the families' marginals, optionally stretched to a given deviation.

A stretched marginal keeps its mean and its family: shares stay between 0 and 1, precisions positive.
"""

from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, gammainc, gammaincinv, ndtri, stdtrit

from decbayes.families.matrices import Array

# Nodes of the integral over a Gamma distribution, and bisections of a bracket of ± BRACKET deviations.
POINTS, HALVINGS, BRACKET = 48, 32, 12.0
# The least total of α: stretched further, it would not be a distribution.
LEAST_TOTAL = 1e-3


def normal(mean: Array, deviation: Array, probability: float, stretch: Array | float = 1.0) -> Array:
    return np.asarray(mean + deviation * stretch * ndtri(probability))


def student(mean: Array, scale: Array, freedom: ArrayLike, probability: float, stretch: Array | float = 1.0) -> Array:
    return np.asarray(mean + scale * stretch * stdtrit(freedom, probability))


def gamma(shape: Array, rate: Array, probability: float, stretch: Array | float = 1.0) -> Array:
    less = np.square(stretch)
    return np.asarray(gammaincinv(shape / less, probability) / (rate / less))


def beta(share: Array, total: ArrayLike, probability: float, stretch: Array | float = 1.0) -> Array:
    """Quantile of one coordinate of a Dirichlet whose α add up to `total`."""
    evidence = np.maximum((np.asarray(total) + 1.0) / np.square(stretch) - 1.0, LEAST_TOTAL)
    # The share of a single category is 1.
    certain = share >= 1.0
    quantiles = betaincinv(share * evidence, np.where(certain, 1.0, (1.0 - share) * evidence), probability)
    return np.where(certain, 1.0, quantiles)


def product(freedom: ArrayLike, covariance: Array, scales: Array, probability: float) -> Array:
    """Quantile of an entry of a Wishart matrix: Σ x_i x_j over `freedom` draws with this covariance and product of
    scales.

    Σ x_i x_j ~ (s + c) X − (s − c) Y,    X, Y ~ Gamma(freedom / 2, 1)
    """
    half = 0.5 * np.asarray(freedom, dtype=np.float64)
    grow, shrink = np.broadcast_arrays(scales + covariance, np.maximum(scales - covariance, 0.0))
    nodes, weights = unit_nodes()
    others = shrink[..., None] * gammaincinv(half[..., None], nodes)
    reach = BRACKET * np.sqrt(half * (grow**2 + shrink**2))
    low, high = half * (grow - shrink) - reach, half * (grow - shrink) + reach
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        upper = np.maximum(middle[..., None] + others, 0.0) / grow[..., None]
        below = (gammainc(half[..., None], upper) * weights).sum(axis=-1) < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(0.5 * (low + high))


@cache
def unit_nodes() -> tuple[Array, Array]:
    """Nodes and weights of an integral from 0 to 1, denser near both ends, where quantiles are steep."""
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    return 0.5 * (nodes + 1.0), 0.5 * weights


def around(mean: Array, quantile: Array, stretch: Array | float) -> Array:
    """A quantile moved away from the mean, where there is no better way to stretch a marginal."""
    return np.asarray(mean + stretch * (quantile - mean))
