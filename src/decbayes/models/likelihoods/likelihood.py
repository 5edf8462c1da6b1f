"""Likelihoods of a mixture's components, each with its conjugate family.

The log-likelihood of an exponential family is linear in a few functions of x, its features. So a pass over the data is
two matrix products: features times coefficients give the score of every point under every component, and
responsibilities times features give what the points add to the natural parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt, log, pi
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from decbayes.errors import InvalidStructure
from decbayes.families import Array, Family, IsotropicGaussian, IsotropicNormalGamma, MeanAndPrecision, NormalWishart
from decbayes.families.gaussians.gaussian import square_side
from decbayes.families.matrices import flat, folded, mirrored, upper_products

LOG_2_PI = log(2 * pi)


class Likelihood(Protocol):
    """How observations depend on a component's parameters.

    Your own likelihood needs the methods below; it need not inherit from this class.

    >>> likelihood = db.GaussianMixture(2, 1, variance=1.0).likelihood
    >>> sums = likelihood.features(np.array([[1.0], [3.0]])).sum(axis=0, keepdims=True)
    >>> likelihood.contribution(sums)
    array([[ 4., -1.]])
    """

    @property
    def family(self) -> Family: ...

    def features(self, points: Array) -> Array:
        """(N, p): the distinct functions of x in which the log-likelihood is linear; the last one is 1."""

    def coefficients(self, natural: Array) -> Array:
        """(p, K): E[log p(x | θ_k)] = features(x) @ coefficients."""

    def contribution(self, sums: Array) -> Array:
        """(K, d): what sums of features, weighted by responsibilities, add to the natural parameters."""

    def log_predictive(self, natural: Array, points: Array) -> Array:
        """(N, K): log ∫ p(x_n | θ_k) q(θ_k) dθ_k; NaN marks unobserved dimensions of x."""


def check_likelihood(likelihood: Likelihood, prior: Array, points: Array) -> None:
    """Refuse somebody's own likelihood if a method returns another shape: NumPy may stretch it without a word."""
    some = 7  # components: another number than those of points and features
    natural, features = np.tile(prior, (some, 1)), likelihood.features(points)
    if not isinstance(features, np.ndarray) or features.shape[:-1] != (len(points),) or (features[:, -1] != 1.0).any():
        raise InvalidStructure(
            f"{type(likelihood).__name__}.features must return an array, one row per point, whose last column is 1."
        )
    side = features.shape[1]
    for method, returned, shape in (
        ("coefficients", likelihood.coefficients(natural), (side, some)),
        ("contribution", likelihood.contribution(np.tile(features[:1], (some, 1))), natural.shape),
        ("log_predictive", likelihood.log_predictive(natural, points), (len(points), some)),
    ):
        if np.shape(returned) != shape:
            raise InvalidStructure(
                f"{type(likelihood).__name__}.{method} returns the shape {np.shape(returned)}, not {shape} where there "
                f"are {len(points)} points, {some} components and {side} features."
            )


@dataclass(frozen=True)
class KnownVariance:
    """x ~ N(μ_k, σ²I) with σ² known; μ_k has an isotropic Gaussian posterior. Features: x, |x|², 1."""

    variance: float

    @property
    def family(self) -> IsotropicGaussian:
        return IsotropicGaussian()

    def features(self, points: Array) -> Array:
        return np.column_stack([points, np.sum(points**2, axis=1), np.ones(len(points))])

    def coefficients(self, natural: Array) -> Array:
        expected = self.family.expected_statistics(natural)
        mean, square = expected[:, :-1], expected[:, -1:]
        constant = -0.5 * square / self.variance - 0.5 * mean.shape[1] * (LOG_2_PI + log(self.variance))
        slope = np.full((len(mean), 1), -0.5 / self.variance)
        return np.hstack([mean / self.variance, slope, constant]).T

    def contribution(self, sums: Array) -> Array:
        return np.hstack([sums[:, :-2], -0.5 * sums[:, -1:]]) / self.variance

    def log_predictive(self, natural: Array, points: Array) -> Array:
        mean, spread = self.family.columns(natural)
        variance = self.variance + spread
        distance = seen_distances(points, mean)
        return np.asarray(-0.5 * distance / variance - 0.5 * seen(points) * (LOG_2_PI + np.log(variance)))

    def draw(self, parameters: Array, components: NDArray[np.intp], rng: np.random.Generator) -> Array:
        mean = parameters[components]
        return np.asarray(mean + np.sqrt(self.variance) * rng.standard_normal(mean.shape))


@dataclass(frozen=True)
class SphericalCovariance:
    """x ~ N(μ_k, I / τ_k), both unknown: a Normal-Gamma posterior with one τ_k. Features: x, |x|², 1."""

    @property
    def family(self) -> IsotropicNormalGamma:
        return IsotropicNormalGamma()

    def features(self, points: Array) -> Array:
        return np.column_stack([points, np.sum(points**2, axis=1), np.ones(len(points))])

    def coefficients(self, natural: Array) -> Array:
        expected = self.family.expected_statistics(natural)
        log_precision, precision, shift, square = expected[:, :1], expected[:, 1:2], expected[:, 2:-1], expected[:, -1:]
        constant = 0.5 * (shift.shape[1] * (log_precision - LOG_2_PI) - square)
        return np.hstack([shift, -0.5 * precision, constant]).T

    def contribution(self, sums: Array) -> Array:
        first, square, count = sums[:, :-2], sums[:, -2:-1], sums[:, -1:]
        return np.hstack([0.5 * first.shape[1] * count, -0.5 * square, first, -0.5 * count])

    def log_predictive(self, natural: Array, points: Array) -> Array:
        mean, strength, shape, rate = self.family.columns(natural)
        half = 0.5 * seen(points)
        scale = 2 * rate * (1 + 1 / strength)  # as in one dimension, but for D of them at once
        constant = gammaln(shape + half) - gammaln(shape) - half * np.log(pi * scale)
        return np.asarray(constant - (shape + half) * np.log1p(seen_distances(points, mean) / scale))

    def draw(self, parameters: MeanAndPrecision, components: NDArray[np.intp], rng: np.random.Generator) -> Array:
        mean, precision = parameters.mean[components], parameters.precision[components]
        return np.asarray(mean + rng.standard_normal(mean.shape) / np.sqrt(precision)[:, None])


@dataclass(frozen=True)
class FullCovariance:
    """x ~ N(μ_k, Λ_k⁻¹), both unknown: a Normal-Wishart posterior. Features: half of xxᵀ, x, 1."""

    @property
    def family(self) -> NormalWishart:
        return NormalWishart()

    def features(self, points: Array) -> Array:
        return np.column_stack([upper_products(points), points, np.ones(len(points))])

    def coefficients(self, natural: Array) -> Array:
        expected, side = self.family.expected_statistics(natural), square_side(natural.shape[1], extra=2)
        precision = expected[:, 1 : 1 + side * side].reshape(-1, side, side)
        constant = expected[:, :1] - 0.5 * (expected[:, -1:] + side * LOG_2_PI)
        return np.hstack([-0.5 * folded(precision), expected[:, -1 - side : -1], constant]).T

    def contribution(self, sums: Array) -> Array:
        side = (isqrt(8 * sums.shape[1] + 1) - 3) // 2  # the width is side (side + 1) / 2 + side + 1
        half, mean, count = sums[:, : -side - 1], sums[:, -side - 1 : -1], sums[:, -1:]
        return np.hstack([count, -0.5 * flat(mirrored(half, side)), mean, -0.5 * count])

    def log_predictive(self, natural: Array, points: Array) -> Array:
        mean, strength, degrees, inverse_scale = self.family.columns(natural)
        freedom = degrees + 1 - mean.shape[1]
        ratio = 1 + 1 / strength  # the Student-t has the scatter inverse_scale · ratio / freedom
        density = np.empty((len(points), len(mean)))
        patterns, which = np.unique(~np.isnan(points), axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            # A marginal of a Student-t has its block of the scatter and the same degrees of freedom.
            rows, block, side = which.ravel() == number, inverse_scale[:, pattern][:, :, pattern], int(pattern.sum())
            distance = mahalanobis(points[rows][:, pattern], mean[:, pattern], block) / ratio
            log_determinant = np.linalg.slogdet(block)[1] + side * np.log(ratio)
            constant = gammaln(0.5 * (freedom + side)) - gammaln(0.5 * freedom) - 0.5 * side * log(pi)
            density[rows] = constant - 0.5 * log_determinant - 0.5 * (freedom + side) * np.log1p(distance)
        return density

    def draw(self, parameters: MeanAndPrecision, components: NDArray[np.intp], rng: np.random.Generator) -> Array:
        roots = np.linalg.cholesky(np.linalg.inv(parameters.precision))[components]
        mean = parameters.mean[components]
        return np.asarray(mean + np.einsum("nij,nj->ni", roots, rng.standard_normal(mean.shape)))


def counts_of(likelihood: Likelihood, contribution: Array, dimension: int) -> Array:
    """(K, counting columns): the number of observations according to each column that counts them."""
    width = likelihood.features(np.zeros((1, dimension))).shape[1]
    one, others = np.zeros((1, width)), np.ones((1, width))
    one[0, -1], others[0, -1] = 1.0, 0.0
    per_observation = likelihood.contribution(one)[0]
    counting = (per_observation != 0) & (likelihood.contribution(others)[0] == 0)
    return np.asarray(contribution[:, counting] / per_observation[counting])


def largest_contribution(likelihood: Likelihood, value: float, dimension: int) -> Array:
    """(1, d): the most that one observation adds to each column, if all its numbers are within ±`value`.

    Features are products of these numbers, so they are largest at the corners.
    """
    ends = np.full((2, dimension), [[-value], [value]])
    return np.asarray(np.abs(likelihood.contribution(likelihood.features(ends))).max(axis=0, keepdims=True))


def squared_distances(points: Array, centres: Array) -> Array:
    """(N, K): |x_n − m_k|², exact for near points in few dimensions, where the expanded square is not."""
    if points.shape[1] * len(centres) <= 256:
        return np.asarray(np.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=2))
    expanded = np.sum(points**2, axis=1)[:, None] - 2 * points @ centres.T + np.sum(centres**2, axis=1)
    return np.asarray(np.maximum(expanded, 0.0))


def seen_distances(points: Array, centres: Array) -> Array:
    """(N, K): |x_n − m_k|² over the dimensions of x_n that are not NaN."""
    if not np.isnan(points).any():
        return squared_distances(points, centres)
    return np.column_stack([np.nansum((points - centre) ** 2, axis=1) for centre in centres])


def seen(points: Array) -> Array:
    """(N, 1): the number of dimensions of each point that are not NaN."""
    return np.asarray((~np.isnan(points)).sum(axis=1, keepdims=True), dtype=np.float64)


def mahalanobis(points: Array, mean: Array, scatter: Array) -> Array:
    """(N, K): (x_n − m_k)ᵀ S_k⁻¹ (x_n − m_k)."""
    distances = np.empty((len(points), len(mean)))
    for k, (centre, matrix) in enumerate(zip(mean, scatter, strict=True)):
        whitening = np.linalg.inv(np.linalg.cholesky(matrix))
        distances[:, k] = np.sum(((points - centre) @ whitening.T) ** 2, axis=1)
    return distances


def scaled(places: Callable[[Array], Array], points: Array) -> Callable[[Array], Array]:
    """Coordinates with unit variance in all directions, estimated from some of the points."""
    spread = places(points).std(axis=0)
    if not spread.any():
        return places
    return lambda some: np.asarray(places(some)[:, spread > 0] / spread[spread > 0])


def nearest_centres(places: Array, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The nearest of `count` spread-out centres, for each place."""
    return nearest(places, spread_out_centres(places, count, rng))


def nearest(places: Array, centres: Array) -> NDArray[np.intp]:
    return np.asarray(np.argmin(squared_distances(places, centres), axis=1))


def summed(features: Array, labels: NDArray[np.intp], count: int) -> Array:
    """(count, p): sums of the features by label."""
    return np.stack([features[labels == label].sum(axis=0) for label in range(count)])


def spread_out_centres(points: Array, count: int, rng: np.random.Generator) -> Array:
    """Centres drawn from the points, each with probability proportional to its squared distance (k-means++)."""
    chosen = [int(rng.integers(len(points)))]
    distance = squared_distances(points, points[chosen])[:, 0]
    while len(chosen) < min(count, len(points)) and distance.sum() > 0:
        chosen.append(int(rng.choice(len(points), p=distance / distance.sum())))
        distance = np.minimum(distance, squared_distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen]
