"""Coefficients of a regression and the precision of its noise, both unknown."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaln, polygamma

from decbayes.families import quantiles
from decbayes.families.gaussians.gaussian import diagonal, positive_definite, rank, square_side, symmetric
from decbayes.families.gaussians.precision import MeanAndPrecision, MeanAndPrecisionRows, over_positive
from decbayes.families.matrices import Array, flat, outer
from decbayes.families.moments import gaussian_covariances
from decbayes.families.registry import covariances, positive
from decbayes.families.rows import Rows


@dataclass(frozen=True)
class GaussianGamma(MeanAndPrecisionRows):
    """A vector β in R^D and one precision τ per row: τ ~ Gamma(a, rate b), β | τ ~ N(m, (τΛ)⁻¹).

    Columns: a − 1 + ½D, −b − ½mᵀΛm, Λm (D), −½Λ (D², row by row). T(β, τ) = (log τ, τ, τβ, τββᵀ).

    >>> family = db.families.GaussianGamma()
    >>> natural = family.natural(mean=[[1.0, 2.0]], scaled_precision=[10.0 * np.eye(2)], shape=[8.0], rate=[4.0])
    >>> family.expected(natural)
    MeanAndPrecision(mean=array([[1., 2.]]), precision=array([2.]))
    """

    parameter_names = ("mean", "scaled_precision", "shape", "rate")
    exact_alone = True

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        matrix = np.asarray(natural, dtype=np.float64)
        side = square_side(matrix.shape[-1], extra=2)
        shift = matrix[..., 2 : 2 + side]
        weight = -2.0 * symmetric(matrix[..., 2 + side :].reshape(*matrix.shape[:-1], side, side))
        mean = np.asarray(np.linalg.solve(weight, shift[..., None])[..., 0], dtype=np.float64)
        rate = -matrix[..., 1] - 0.5 * np.sum(shift * mean, axis=-1)
        return mean, weight, matrix[..., 0] + 1.0 - 0.5 * side, rate

    def row_terms(self, natural: ArrayLike) -> Array:
        return log_normaliser(*self.columns(natural)[1:])

    def expected_statistics(self, natural: ArrayLike) -> Array:
        mean, weight, shape, rate = self.columns(natural)
        precision = shape / rate
        square = flat(np.linalg.inv(weight) + precision[..., None, None] * outer(mean))
        first = np.stack([digamma(shape) - np.log(rate), precision], axis=-1)
        return np.concatenate([first, mean * precision[..., None], square], axis=-1)

    def row_covariances(self, natural: ArrayLike) -> Array:
        mean, weight, shape, rate = self.columns(natural)
        expected = shape / rate
        spread = np.concatenate([np.ones((len(mean), 1)), mean, flat(outer(mean))], axis=-1)
        covariances = np.empty((len(mean), spread.shape[-1] + 1, spread.shape[-1] + 1))
        covariances[:, 0, 0] = polygamma(1, shape)
        covariances[:, 0, 1:] = covariances[:, 1:, 0] = spread / rate[:, None]
        covariances[:, 1:, 1:] = outer(spread) * (expected / rate)[:, None, None]
        covariances[:, 2:, 2:] += gaussian_covariances(mean, np.asarray(np.linalg.inv(weight)), expected)
        return covariances

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        return self._inside(natural)[0]

    def defined_terms(self, natural: Array, otherwise: float = np.nan) -> Array:
        inside, (_, weight, shape, rate) = self._inside(natural)
        terms = np.full(len(natural), otherwise)
        terms[inside] = log_normaliser(weight, shape, rate)
        return terms

    def _inside(self, natural: ArrayLike) -> tuple[NDArray[np.bool_], tuple[Array, ...]]:
        """Which rows are in the domain, and their columns: both need the same equations solved."""
        matrix = np.asarray(natural, dtype=np.float64)
        side = square_side(matrix.shape[-1], extra=2)
        weight = -2.0 * symmetric(matrix[..., 2 + side :].reshape(*matrix.shape[:-1], side, side))
        inside = positive_definite(weight) & np.isfinite(matrix).all(axis=-1)
        columns = self.columns(matrix[inside])
        proper = (columns[2] > 0) & (columns[3] > 0)
        inside[inside] = proper
        return inside, tuple(column[proper] for column in columns)

    def natural(self, *, mean: ArrayLike, scaled_precision: ArrayLike, shape: ArrayLike, rate: ArrayLike) -> Array:
        m = np.atleast_2d(np.asarray(mean, dtype=np.float64))
        rows, side = m.shape
        weight = np.broadcast_to(np.asarray(scaled_precision, dtype=np.float64), (rows, side, side))
        a, b = (np.broadcast_to(np.asarray(part, dtype=np.float64), rows)[:, None] for part in (shape, rate))
        shift = (weight @ m[..., None])[..., 0]
        square = np.sum(m * shift, axis=-1, keepdims=True)
        return np.concatenate([a - 1.0 + 0.5 * side, -b - 0.5 * square, shift, flat(-0.5 * symmetric(weight))], axis=-1)

    def deviation(self, natural: ArrayLike) -> MeanAndPrecision:
        _, weight, shape, rate = self.columns(natural)
        variance = diagonal(np.asarray(np.linalg.inv(weight))) * rate[..., None]
        centre = np.sqrt(over_positive(variance, np.broadcast_to(shape[..., None] - 1.0, variance.shape)))
        return MeanAndPrecision(centre, np.sqrt(shape) / rate)

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> MeanAndPrecision:
        mean, weight, shape, rate = self.columns(natural)
        wider = self.stretches(natural, stretch)
        scale = np.sqrt(diagonal(np.asarray(np.linalg.inv(weight))) * (rate / shape)[..., None])
        return MeanAndPrecision(
            quantiles.student(mean, scale, 2.0 * shape[..., None], probability, wider["mean"]),
            quantiles.gamma(shape, rate, probability, wider["precision"]),
        )

    def statistics(self, value: MeanAndPrecision) -> Array:
        beta, tau = value
        first = np.stack([np.log(tau), tau], axis=-1)
        return np.concatenate([first, tau[..., None] * beta, tau[..., None] * flat(outer(beta))], axis=-1)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> MeanAndPrecision:
        mean, weight, shape, rate = self.columns(natural)
        precision = rng.standard_gamma(shape, size=(size, *shape.shape)) / rate
        root = np.linalg.cholesky(np.linalg.inv(weight))
        noise = (root @ rng.standard_normal((size, *mean.shape))[..., None])[..., 0]
        return MeanAndPrecision(mean + noise / np.sqrt(precision)[..., None], precision)

    def dimension(self, width: int) -> int:
        side = square_side(width, extra=2)
        if side < 1:
            raise ValueError(f"Gaussian-Gamma over R^D has D² + D + 2 columns; got {width}.")
        return side

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(
            mean=rng.normal(size=(components, dimension)),
            scaled_precision=covariances(rng, components, dimension),
            shape=positive(rng, components) + 1.0,
            rate=positive(rng, components),
        )

    def freedom(self, contribution: Array) -> Array:
        return np.full(len(contribution), self.dimension(contribution.shape[1]) + 1.0)

    def effective_freedom(self, rows: Rows) -> Array:
        contribution = rows.written_out()
        side = self.dimension(contribution.shape[1])
        return rank(symmetric(contribution[:, 2 + side :].reshape(-1, side, side))) + 1.0

    def observations(self, prior: Array, rows: Rows) -> Array:
        return np.asarray(2.0 * rows.written_out()[:, 0])

    def quadratic(self, contribution: Array, natural: Array) -> tuple[Array, Array]:
        _, _, shape, rate = self.columns(natural)
        side, noise = self.dimension(contribution.shape[1]), rate / shape
        precision = -2.0 * symmetric(contribution[:, 2 + side :].reshape(-1, side, side))
        return contribution[:, 2 : 2 + side] / noise[:, None], precision / noise[:, None, None]

    def squares(self, contribution: Array, natural: Array) -> tuple[Array, Array]:
        _, _, shape, rate = self.columns(natural)
        return 2.0 * contribution[:, 0], -2.0 * contribution[:, 1] * shape / rate

    def residuals(self, contribution: Array, natural: Array) -> tuple[Array, Array]:
        """(K,) and (K,): the degrees of freedom and the sum of squares of residuals, if λ is the posterior of this
        contribution alone; the prior's count as well."""
        _, weight, shape, rate = self.columns(natural)
        side = self.dimension(contribution.shape[1])
        precision = -2.0 * symmetric(contribution[:, 2 + side :].reshape(-1, side, side))
        used = np.trace(np.linalg.solve(weight, precision), axis1=1, axis2=2)
        return 2.0 * shape - used, 2.0 * rate

    def apex(self, width: int) -> Array:
        return np.append(0.5 * self.dimension(width) - 1.0, np.zeros(width - 1))


def log_normaliser(weight: Array, shape: Array, rate: Array) -> Array:
    """A(λ), up to a constant that depends on the dimension only."""
    return np.asarray(gammaln(shape) - shape * np.log(rate) - 0.5 * np.linalg.slogdet(weight)[1])
