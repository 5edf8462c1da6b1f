"""Gaussians over R^D with an isotropic, a diagonal or a full covariance."""

from abc import abstractmethod
from dataclasses import dataclass
from math import isqrt, log, pi
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decbayes.families import quantiles
from decbayes.families.family import Family
from decbayes.families.matrices import Array, Contribution, block_width, by_dimension, dense, flat, outer, split
from decbayes.families.moments import gaussian_covariances, round_covariances
from decbayes.families.registry import covariances, positive
from decbayes.families.rows import Rows

# Sites are compared only in directions with at least this precision: that of eight binary rows, or two events.
LEAST_KNOWN = 2.0
# Directions of smaller precision, relative to the best known one, come from rounding.
ROUNDING = 1e-9


GAUSSIAN_BASE = -0.5 * log(2 * pi)  # log h per dimension


@dataclass(frozen=True)
class GaussianRows(Family):
    """Base of Gaussian families, whose first column is the mean."""

    log_base_per_dimension = GAUSSIAN_BASE

    def expected(self, natural: ArrayLike) -> Array:
        return self.columns(natural)[0]

    @abstractmethod
    def deviation(self, natural: ArrayLike) -> Array: ...

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> Array:
        return quantiles.normal(self.expected(natural), self.deviation(natural), probability, stretch)


@dataclass(frozen=True)
class IsotropicGaussian(GaussianRows):
    """N(m, σ²I) per row. Columns: η = m / σ² (D of them), ν = −1 / 2σ². T(x) = (x, |x|²).

    >>> family = db.families.IsotropicGaussian()
    >>> family.expected(family.natural(mean=[[1.0, 2.0]], variance=[4.0]))
    array([[1., 2.]])
    """

    parameter_names = ("mean", "variance")
    fixed_spread = True
    exact_alone = True
    term = "isotropic Gaussian"

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        matrix = np.asarray(natural, dtype=np.float64)
        eta, nu = matrix[..., :-1], matrix[..., -1]
        return -0.5 * eta / nu[..., None], -0.5 / nu

    def row_terms(self, natural: ArrayLike) -> Array:
        matrix = np.asarray(natural, dtype=np.float64)
        eta, nu = matrix[..., :-1], matrix[..., -1]
        return np.asarray(-np.sum(eta**2, axis=-1) / (4 * nu) - 0.5 * eta.shape[-1] * np.log(-2 * nu))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        mean, variance = self.columns(natural)
        square = np.sum(mean**2, axis=-1) + mean.shape[-1] * variance
        return np.concatenate([mean, square[..., None]], axis=-1)

    def row_covariances(self, natural: ArrayLike) -> Array:
        mean, variance = self.columns(natural)
        return round_covariances(mean, variance, 2.0 * mean.shape[-1] * variance**2)

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        return np.asarray(np.asarray(natural)[..., -1] < 0)

    def natural(self, *, mean: ArrayLike, variance: ArrayLike) -> Array:
        centre = np.atleast_2d(np.asarray(mean, dtype=np.float64))
        variances = np.broadcast_to(np.asarray(variance, dtype=np.float64), centre.shape[:-1])
        return np.concatenate([centre / variances[..., None], -0.5 / variances[..., None]], axis=-1)

    def deviation(self, natural: ArrayLike) -> Array:
        mean, variance = self.columns(natural)
        return np.broadcast_to(np.sqrt(variance)[..., None], mean.shape)

    def statistics(self, value: ArrayLike) -> Array:
        point = np.asarray(value, dtype=np.float64)
        return np.concatenate([point, np.sum(point**2, axis=-1, keepdims=True)], axis=-1)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        mean, variance = self.columns(natural)
        return mean + np.sqrt(variance)[..., None] * rng.standard_normal((size, *mean.shape))

    def dimension(self, width: int) -> int:
        if width < 2:
            raise ValueError(f"An isotropic Gaussian over R^D has D + 1 columns, at least 2; got {width}.")
        return width - 1

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(mean=rng.normal(size=(components, dimension)), variance=positive(rng, components))

    def observations(self, prior: Array, rows: Rows) -> Array:
        """The precision as a multiple of the prior's."""
        return np.asarray(rows.written_out()[:, -1] / prior[:, -1])

    def gain(self, rest: ArrayLike, contribution: Contribution) -> Array:
        start, added = np.asarray(rest, dtype=np.float64), dense(contribution)
        nu = start[:, -1:] + added[:, -1]
        # |η + η'|² of all pairs is one matrix product, without a (K, K, D) array.
        squares = np.sum(start[:, :-1] ** 2, axis=1)[:, None] + np.sum(added[:, :-1] ** 2, axis=1)
        squares += 2.0 * (start[:, :-1] @ added[:, :-1].T)
        nu[nu >= 0] = np.nan
        terms = -squares / (4 * nu) - 0.5 * (start.shape[1] - 1) * np.log(-2 * nu)
        return np.asarray(terms - self._row_constants(start)[:, None])


@dataclass(frozen=True)
class DiagonalGaussian(GaussianRows):
    """N(m, diag(σ²)) per row. Columns: η = m / σ² (D), ν = −1 / 2σ² (D). T(x) = (x, x²).

    >>> family = db.families.DiagonalGaussian()
    >>> family.expected(family.natural(mean=[[1.0, 2.0]], variance=[[4.0, 1.0]]))
    array([[1., 2.]])
    """

    parameter_names = ("mean", "variance")
    term = "diagonal Gaussian"

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        eta, nu = split(natural, 2)
        return -0.5 * eta / nu, -0.5 / nu

    def row_terms(self, natural: ArrayLike) -> Array:
        eta, nu = split(natural, 2)
        return np.asarray(np.sum(-(eta**2) / (4 * nu) - 0.5 * np.log(-2 * nu), axis=-1))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        mean, variance = self.columns(natural)
        return np.concatenate([mean, mean**2 + variance], axis=-1)

    def row_covariances(self, natural: ArrayLike) -> Array:
        mean, variance = self.columns(natural)
        cross = 2.0 * mean * variance
        return by_dimension([[variance, cross], [cross, 2.0 * variance**2 + 2.0 * mean * cross]])

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        return np.asarray((split(natural, 2)[1] < 0).all(axis=-1))

    def natural(self, *, mean: ArrayLike, variance: ArrayLike) -> Array:
        centre = np.atleast_2d(np.asarray(mean, dtype=np.float64))
        variances = np.broadcast_to(np.asarray(variance, dtype=np.float64), centre.shape)
        return np.concatenate([centre / variances, -0.5 / variances], axis=-1)

    def deviation(self, natural: ArrayLike) -> Array:
        return np.sqrt(self.columns(natural)[1])

    def statistics(self, value: ArrayLike) -> Array:
        point = np.asarray(value, dtype=np.float64)
        return np.concatenate([point, point**2], axis=-1)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        mean, variance = self.columns(natural)
        return mean + np.sqrt(variance) * rng.standard_normal((size, *mean.shape))

    def dimension(self, width: int) -> int:
        return block_width(self.name, width, 2)

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(
            mean=rng.normal(size=(components, dimension)), variance=positive(rng, components, dimension)
        )


@dataclass(frozen=True)
class FullGaussian(GaussianRows):
    """N(m, Σ) per row. Columns: Σ⁻¹m (D), −½Σ⁻¹ (D², row by row). T(x) = (x, xxᵀ).

    Only the symmetric part of the D² columns matters; `natural` writes a symmetric matrix.

    >>> family = db.families.FullGaussian()
    >>> family.expected(family.natural(mean=[[1.0, 2.0]], covariance=[[[2.0, 1.0], [1.0, 2.0]]]))
    array([[1., 2.]])
    """

    parameter_names = ("mean", "covariance")

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        shift, precision = self._shift_and_precision(natural)
        covariance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        return (covariance @ shift[..., None])[..., 0], covariance

    def row_terms(self, natural: ArrayLike) -> Array:
        shift, precision = self._shift_and_precision(natural)
        square = np.sum(shift * np.linalg.solve(precision, shift[..., None])[..., 0], axis=-1)
        return np.asarray(0.5 * square - 0.5 * np.linalg.slogdet(precision)[1])

    def expected_statistics(self, natural: ArrayLike) -> Array:
        mean, covariance = self.columns(natural)
        return np.concatenate([mean, flat(covariance + outer(mean))], axis=-1)

    def row_covariances(self, natural: ArrayLike) -> Array:
        mean, covariance = self.columns(natural)
        return gaussian_covariances(mean, covariance, np.ones(len(mean)))

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        return positive_definite(self._shift_and_precision(natural)[1])

    def natural(self, *, mean: ArrayLike, covariance: ArrayLike) -> Array:
        centre = np.atleast_2d(np.asarray(mean, dtype=np.float64))
        size = centre.shape[-1]
        precision = np.linalg.inv(np.broadcast_to(np.asarray(covariance, dtype=np.float64), (len(centre), size, size)))
        shift = (precision @ centre[..., None])[..., 0]
        return np.concatenate([shift, flat(-0.5 * symmetric(precision))], axis=-1)

    def deviation(self, natural: ArrayLike) -> Array:
        return np.sqrt(diagonal(self.columns(natural)[1]))

    def statistics(self, value: ArrayLike) -> Array:
        point = np.asarray(value, dtype=np.float64)
        return np.concatenate([point, flat(outer(point))], axis=-1)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        mean, covariance = self.columns(natural)
        root = np.linalg.cholesky(covariance)
        return mean + (root @ rng.standard_normal((size, *mean.shape))[..., None])[..., 0]

    def dimension(self, width: int) -> int:
        side = square_side(width, extra=0)
        if side < 1:
            raise ValueError(f"A full Gaussian over R^D has D + D² columns; got {width}.")
        return side

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(
            mean=rng.normal(size=(components, dimension)), covariance=covariances(rng, components, dimension)
        )

    def effective_freedom(self, rows: Rows) -> Array:
        return rank(self._shift_and_precision(rows.written_out())[1])

    def quadratic(self, contribution: Array, natural: Array) -> tuple[Array, Array]:
        """Drops directions of very low precision: with few rows the likelihood is far from Gaussian there."""
        shift, precision = self._shift_and_precision(contribution)
        weights, directions = np.linalg.eigh(precision)
        known = directions * (weights >= LEAST_KNOWN)[..., None, :]
        along = known @ np.swapaxes(known, -1, -2)
        return (along @ shift[..., None])[..., 0], symmetric(along @ precision @ along)

    def _shift_and_precision(self, natural: ArrayLike) -> tuple[Array, Array]:
        matrix = np.asarray(natural, dtype=np.float64)
        side = square_side(matrix.shape[-1], extra=0)
        block = matrix[..., side:].reshape(*matrix.shape[:-1], side, side)
        return matrix[..., :side], -2.0 * symmetric(block)


def square_side(width: int, *, extra: int) -> int:
    """D with width = D + D² + extra, or 0 if there is none."""
    side = (isqrt(max(0, 4 * (width - extra) + 1)) - 1) // 2
    return side if side > 0 and side + side * side + extra == width else 0


def rank(precisions: Array) -> Array:
    """The number of directions that each precision matrix is about."""
    sizes = np.abs(np.linalg.eigvalsh(precisions))
    return np.asarray((sizes > ROUNDING * sizes.max(axis=-1, keepdims=True)).sum(axis=-1).astype(float))


def symmetric(matrices: Array) -> Array:
    return np.asarray(0.5 * (matrices + np.swapaxes(matrices, -1, -2)))


def diagonal(matrices: Array) -> Array:
    return np.asarray(np.diagonal(matrices, axis1=-2, axis2=-1))


def positive_definite(matrices: Array) -> NDArray[np.bool_]:
    """Which of the symmetric matrices are finite, have only positive eigenvalues, and are invertible.

    Rounding can give a singular matrix of large numbers tiny positive eigenvalues; its determinant is then 0.
    """
    finite = np.asarray(np.isfinite(matrices).all(axis=(-2, -1)))
    finite_ones = np.where(finite[..., None, None], matrices, -np.eye(matrices.shape[-1]))
    positive = np.linalg.eigvalsh(finite_ones)[..., 0] > 0
    return np.asarray(positive & (np.linalg.slogdet(finite_ones)[0] > 0))
