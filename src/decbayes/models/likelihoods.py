"""Gaussian likelihoods of a mixture's components, each with its conjugate family.

A likelihood gives E[log p(x | θ_k)] under the posterior of θ_k, the sum of sufficient statistics that responsibilities
add to the natural parameters, and the predictive density with θ_k integrated out.
"""

from dataclasses import dataclass
from math import log, pi
from typing import Protocol

import numpy as np
from scipy.special import gammaln

from decbayes.families import Array, Family, IsotropicGaussian, IsotropicNormalGamma, NormalGamma, NormalWishart
from decbayes.families.precision import expected_log_determinant

LOG_2_PI = log(2 * pi)


class Likelihood(Protocol):
    """How observations depend on a component's parameters."""

    @property
    def family(self) -> Family: ...

    def expected_log(self, natural: Array, points: Array) -> Array:
        """(N, K): E[log p(x_n | θ_k)]."""

    def statistics(self, responsibilities: Array, points: Array) -> Array:
        """(K, d): Σ_n r_nk u(x_n), what the points add to the natural parameters."""

    def log_predictive(self, natural: Array, points: Array) -> Array:
        """(N, K): log ∫ p(x_n | θ_k) q(θ_k) dθ_k."""


@dataclass(frozen=True)
class KnownVariance:
    """x ~ N(μ_k, σ²I) with σ² known; μ_k has an isotropic Gaussian posterior."""

    variance: float

    @property
    def family(self) -> IsotropicGaussian:
        return IsotropicGaussian()

    def expected_log(self, natural: Array, points: Array) -> Array:
        mean, spread = self.family.columns(natural)
        certain = self._log_normal(points, mean, np.full(len(mean), self.variance))
        return np.asarray(certain - 0.5 * mean.shape[1] * spread / self.variance)

    def statistics(self, responsibilities: Array, points: Array) -> Array:
        shift = responsibilities.T @ points / self.variance
        return np.column_stack([shift, -0.5 * responsibilities.sum(axis=0) / self.variance])

    def log_predictive(self, natural: Array, points: Array) -> Array:
        mean, spread = self.family.columns(natural)
        return self._log_normal(points, mean, self.variance + spread)

    def _log_normal(self, points: Array, mean: Array, variance: Array) -> Array:
        distance = squared_distances(points, mean)
        return np.asarray(-0.5 * distance / variance - 0.5 * points.shape[1] * (LOG_2_PI + np.log(variance)))


@dataclass(frozen=True)
class DiagonalCovariance:
    """x ~ N(μ_k, diag(1 / τ_k)), both unknown: a Normal-Gamma posterior in each dimension."""

    @property
    def family(self) -> NormalGamma:
        return NormalGamma()

    def expected_log(self, natural: Array, points: Array) -> Array:
        mean, strength, *_ = self.family.columns(natural)
        log_precision, precision, *_ = np.split(self.family.mean(natural), 4, axis=1)
        constant = 0.5 * np.sum(log_precision - precision * mean**2 - 1 / strength - LOG_2_PI, axis=1)
        return np.asarray(-0.5 * points**2 @ precision.T + points @ (precision * mean).T + constant)

    def statistics(self, responsibilities: Array, points: Array) -> Array:
        counts = np.repeat(0.5 * responsibilities.sum(axis=0)[:, None], points.shape[1], axis=1)
        return np.hstack([counts, -0.5 * (responsibilities.T @ points**2), responsibilities.T @ points, -counts])

    def log_predictive(self, natural: Array, points: Array) -> Array:
        mean, strength, shape, rate = self.family.columns(natural)
        scale = rate * (1 + 1 / strength)  # twice the rate of the Student-t with 2·shape degrees of freedom
        constant = gammaln(shape + 0.5) - gammaln(shape) - 0.5 * np.log(2 * pi * scale)
        density = np.empty((len(points), len(mean)))
        for k in range(len(mean)):
            square = np.log1p((points - mean[k]) ** 2 / (2 * scale[k]))
            density[:, k] = np.sum(constant[k] - (shape[k] + 0.5) * square, axis=1)
        return density


@dataclass(frozen=True)
class SphericalCovariance:
    """x ~ N(μ_k, I / τ_k), both unknown: a Normal-Gamma posterior with one precision for all dimensions."""

    @property
    def family(self) -> IsotropicNormalGamma:
        return IsotropicNormalGamma()

    def expected_log(self, natural: Array, points: Array) -> Array:
        mean, strength, *_ = self.family.columns(natural)
        log_precision, precision = self.family.mean(natural)[:, :2].T
        constant = mean.shape[1] * (log_precision - 1 / strength - LOG_2_PI)
        return np.asarray(0.5 * (constant - precision * squared_distances(points, mean)))

    def statistics(self, responsibilities: Array, points: Array) -> Array:
        counts = responsibilities.sum(axis=0)
        squares = responsibilities.T @ np.sum(points**2, axis=1)
        first = [0.5 * points.shape[1] * counts, -0.5 * squares]
        return np.column_stack([*first, responsibilities.T @ points, -0.5 * counts])

    def log_predictive(self, natural: Array, points: Array) -> Array:
        mean, strength, shape, rate = self.family.columns(natural)
        half = 0.5 * mean.shape[1]
        scale = 2 * rate * (1 + 1 / strength)  # as for one dimension, but the density has D of them at once
        constant = gammaln(shape + half) - gammaln(shape) - half * np.log(pi * scale)
        return np.asarray(constant - (shape + half) * np.log1p(squared_distances(points, mean) / scale))


@dataclass(frozen=True)
class FullCovariance:
    """x ~ N(μ_k, Λ_k⁻¹), both unknown: a Normal-Wishart posterior."""

    @property
    def family(self) -> NormalWishart:
        return NormalWishart()

    def expected_log(self, natural: Array, points: Array) -> Array:
        mean, strength, degrees, inverse_scale = self.family.columns(natural)
        distance = mahalanobis(points, mean, inverse_scale)
        log_determinant = expected_log_determinant(degrees, inverse_scale)
        constant = log_determinant - mean.shape[1] * (1 / strength + LOG_2_PI)
        return np.asarray(0.5 * (constant - degrees * distance))

    def statistics(self, responsibilities: Array, points: Array) -> Array:
        counts = responsibilities.sum(axis=0)[:, None]
        scatter = [(points * column[:, None]).T @ points for column in responsibilities.T]
        flat = np.reshape(scatter, (len(counts), -1))
        return np.hstack([counts, -0.5 * flat, responsibilities.T @ points, -0.5 * counts])

    def log_predictive(self, natural: Array, points: Array) -> Array:
        mean, strength, degrees, inverse_scale = self.family.columns(natural)
        side = mean.shape[1]
        freedom = degrees + 1 - side
        ratio = 1 + 1 / strength  # the Student-t has the scatter inverse_scale · ratio / freedom
        distance = mahalanobis(points, mean, inverse_scale) / ratio
        log_determinant = np.linalg.slogdet(inverse_scale)[1] + side * np.log(ratio)
        constant = gammaln(0.5 * (freedom + side)) - gammaln(0.5 * freedom) - 0.5 * (side * log(pi) + log_determinant)
        return np.asarray(constant - 0.5 * (freedom + side) * np.log1p(distance))


def squared_distances(points: Array, centres: Array) -> Array:
    """(N, K): |x_n − m_k|², exact for near points as the expanded square is not."""
    if points.shape[1] * len(centres) <= 256:
        return np.asarray(np.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=2))
    expanded = np.sum(points**2, axis=1)[:, None] - 2 * points @ centres.T + np.sum(centres**2, axis=1)
    return np.asarray(np.maximum(expanded, 0.0))


def mahalanobis(points: Array, mean: Array, scatter: Array) -> Array:
    """(N, K): (x_n − m_k)ᵀ S_k⁻¹ (x_n − m_k)."""
    distances = np.empty((len(points), len(mean)))
    for k, (centre, matrix) in enumerate(zip(mean, scatter, strict=True)):
        whitening = np.linalg.inv(np.linalg.cholesky(matrix))
        distances[:, k] = np.sum(((points - centre) @ whitening.T) ** 2, axis=1)
    return distances
