"""Distributions of unknown means and scales: Normal-Gamma and Normal-Wishart."""

from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaln, multigammaln, polygamma

from decbayes.families import quantiles
from decbayes.families.family import Family
from decbayes.families.gaussians.gaussian import GAUSSIAN_BASE, diagonal, positive_definite, square_side, symmetric
from decbayes.families.matrices import Array, as_rows, block_width, by_dimension, flat, outer, split
from decbayes.families.moments import given_precision, shifted_covariances, wishart_covariances
from decbayes.families.registry import covariances, positive
from decbayes.families.rows import Rows


class MeanAndPrecision(NamedTuple):
    """A Gaussian's mean and precision (one number per dimension, or a matrix).

    >>> value = db.families.MeanAndPrecision(mean=np.zeros((1, 2)), precision=np.ones((1, 2)))
    >>> db.families.NormalGamma().statistics(value).shape
    (1, 8)
    """

    mean: Array
    precision: Array


@dataclass(frozen=True)
class MeanAndPrecisionRows(Family):
    """Base of families of an unknown mean and precision, whose columns are mean, strength, shape and rate."""

    own_spread = True
    value_type = MeanAndPrecision
    log_base_per_dimension = GAUSSIAN_BASE

    def expected(self, natural: ArrayLike) -> MeanAndPrecision:
        mean, _, shape, rate = self.columns(natural)
        return MeanAndPrecision(mean, shape / rate)


@dataclass(frozen=True)
class NormalGamma(MeanAndPrecisionRows):
    """Unknown mean μ and precision τ in each of D dimensions per row: τ ~ Gamma(a, rate b), μ | τ ~ N(m, 1 / κτ).

    Columns, D each: a − ½, −b − ½κm², κm, −½κ. T(μ, τ) = (log τ, τ, τμ, τμ²).

    >>> family = db.families.NormalGamma()
    >>> family.expected(family.natural(mean=[[1.0, 2.0]], strength=[[10.0]], shape=[[8.0]], rate=[[4.0, 2.0]]))
    MeanAndPrecision(mean=array([[1., 2.]]), precision=array([[2., 4.]]))
    """

    parameter_names = ("mean", "strength", "shape", "rate")
    term = "normal-gamma"

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        first, second, third, fourth = split(natural, 4)
        strength = -2.0 * fourth
        mean = third / strength
        return mean, strength, first + 0.5, -second - 0.5 * third * mean

    def row_terms(self, natural: ArrayLike) -> Array:
        _, strength, shape, rate = self.columns(natural)
        return np.asarray(np.sum(gammaln(shape) - shape * np.log(rate) - 0.5 * np.log(strength), axis=-1))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        mean, strength, shape, rate = self.columns(natural)
        precision = shape / rate
        blocks = [digamma(shape) - np.log(rate), precision, mean * precision, mean**2 * precision + 1 / strength]
        return np.concatenate(blocks, axis=-1)

    def row_covariances(self, natural: ArrayLike) -> Array:
        mean, strength, shape, rate = self.columns(natural)
        expected = shape / rate
        spread = [np.ones(mean.shape), mean, mean**2]
        # For τ times 1, μ and μ²: first the variation of τ, then that of μ around its mean.
        blocks = [[first * second * expected / rate for second in spread] for first in spread]
        blocks[1][1] = blocks[1][1] + expected / strength
        blocks[1][2] = blocks[2][1] = blocks[1][2] + 2.0 * mean * expected / strength
        blocks[2][2] = blocks[2][2] + 2.0 / strength**2 + 4.0 * mean**2 * expected / strength
        logs = [part / rate for part in spread]
        return by_dimension(
            [[polygamma(1, shape), *logs], *([log, *row] for log, row in zip(logs, blocks, strict=True))]
        )

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        with np.errstate(divide="ignore", invalid="ignore"):
            _, strength, shape, rate = self.columns(natural)
            return np.asarray(((strength > 0) & (shape > 0) & (rate > 0)).all(axis=-1))

    def natural(self, *, mean: ArrayLike, strength: ArrayLike, shape: ArrayLike, rate: ArrayLike) -> Array:
        m, kappa, a, b = np.broadcast_arrays(*(as_rows(part) for part in (mean, strength, shape, rate)))
        return np.concatenate([a - 0.5, -b - 0.5 * kappa * m**2, kappa * m, -0.5 * kappa], axis=-1)

    def deviation(self, natural: ArrayLike) -> MeanAndPrecision:
        _, strength, shape, rate = self.columns(natural)
        return MeanAndPrecision(np.sqrt(over_positive(rate, strength * (shape - 1.0))), np.sqrt(shape) / rate)

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> MeanAndPrecision:
        mean, strength, shape, rate = self.columns(natural)
        wider = self.stretches(natural, stretch)
        scale = np.sqrt(rate / (strength * shape))
        return MeanAndPrecision(
            quantiles.student(mean, scale, 2.0 * shape, probability, wider["mean"]),
            quantiles.gamma(shape, rate, probability, wider["precision"]),
        )

    def statistics(self, value: MeanAndPrecision) -> Array:
        mu, tau = value
        return np.concatenate([np.log(tau), tau, tau * mu, tau * np.square(mu)], axis=-1)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> MeanAndPrecision:
        mean, strength, shape, rate = self.columns(natural)
        precision = rng.standard_gamma(shape, size=(size, *shape.shape)) / rate
        return MeanAndPrecision(mean + rng.standard_normal(precision.shape) / np.sqrt(strength * precision), precision)

    def dimension(self, width: int) -> int:
        return block_width(self.name, width, 4)

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(
            mean=rng.normal(size=(components, dimension)),
            strength=positive(rng, components, dimension),
            shape=positive(rng, components, dimension) + 1.0,
            rate=positive(rng, components, dimension),
        )

    def freedom(self, contribution: Array) -> Array:
        return np.full(len(contribution), 2.0 * self.dimension(contribution.shape[1]))

    def observations(self, prior: Array, rows: Rows) -> Array:
        return np.asarray(-2.0 * rows.written_out()[:, -self.dimension(prior.shape[1]) :].mean(axis=1))

    def apex(self, width: int) -> Array:
        return np.repeat([-0.5, 0.0, 0.0, 0.0], self.dimension(width))


@dataclass(frozen=True)
class NormalWishart(MeanAndPrecisionRows):
    """Unknown mean μ and precision matrix Λ per row: Λ ~ Wishart(n, V), μ | Λ ~ N(m, (κΛ)⁻¹).

    Columns: n − D, −½(V⁻¹ + κmmᵀ) (D², row by row), κm (D), −½κ. T(μ, Λ) = (½ log|Λ|, Λ, Λμ, μᵀΛμ).

    >>> family = db.families.NormalWishart()
    >>> natural = family.natural(mean=[[1.0, 2.0]], strength=[10.0], degrees=[5.0], inverse_scale=5.0 * np.eye(2))
    >>> family.expected(natural)
    MeanAndPrecision(mean=array([[1., 2.]]), precision=array([[[1., 0.],
            [0., 1.]]]))
    """

    parameter_names = ("mean", "strength", "degrees", "inverse_scale")
    term = "normal-Wishart"

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        matrix = np.asarray(natural, dtype=np.float64)
        side = square_side(matrix.shape[-1], extra=2)
        shift, strength = matrix[..., -1 - side : -1], -2.0 * matrix[..., -1]
        mean = shift / strength[..., None]
        scatter = -2.0 * symmetric(matrix[..., 1 : 1 + side * side].reshape(*matrix.shape[:-1], side, side))
        return mean, strength, matrix[..., 0] + side, scatter - strength[..., None, None] * outer(mean)

    def row_terms(self, natural: ArrayLike) -> Array:
        mean, strength, degrees, inverse_scale = self.columns(natural)
        side = mean.shape[-1]
        wishart = multigammaln(0.5 * degrees, side) - 0.5 * degrees * np.linalg.slogdet(inverse_scale)[1]
        return np.asarray(0.5 * degrees * side * log(2) + wishart - 0.5 * side * np.log(strength))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        mean, strength, degrees, inverse_scale = self.columns(natural)
        precision = degrees[..., None, None] * np.linalg.inv(inverse_scale)
        shift = (precision @ mean[..., None])[..., 0]
        log_determinant = expected_log_determinant(degrees, inverse_scale)
        square = mean.shape[-1] / strength + np.sum(mean * shift, axis=-1)
        return np.concatenate([0.5 * log_determinant[..., None], flat(precision), shift, square[..., None]], axis=-1)

    def row_covariances(self, natural: ArrayLike) -> Array:
        mean, strength, degrees, inverse_scale = self.columns(natural)
        scale = np.asarray(np.linalg.inv(inverse_scale), dtype=np.float64)
        side = mean.shape[-1]
        inner = np.zeros((len(mean), side * side + side + 2, side * side + side + 2))
        inner[:, 1 + side * side :, 1 + side * side :] = shifted_covariances(
            mean, degrees[:, None, None] * scale, strength
        )
        spread = given_precision(mean)
        return inner + spread @ wishart_covariances(degrees, scale) @ np.swapaxes(spread, -1, -2)

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, strength, degrees, inverse_scale = self.columns(natural)
            return np.asarray((strength > 0) & (degrees > mean.shape[-1] - 1)) & positive_definite(inverse_scale)

    def natural(self, *, mean: ArrayLike, strength: ArrayLike, degrees: ArrayLike, inverse_scale: ArrayLike) -> Array:
        m = np.atleast_2d(np.asarray(mean, dtype=np.float64))
        rows, side = m.shape
        kappa, n = (np.broadcast_to(np.asarray(part, dtype=np.float64), rows)[:, None] for part in (strength, degrees))
        inverse = np.broadcast_to(np.asarray(inverse_scale, dtype=np.float64), (rows, side, side))
        scatter = flat(inverse + kappa[..., None] * outer(m))
        return np.concatenate([n - side, -0.5 * scatter, kappa * m, -0.5 * kappa], axis=-1)

    def expected(self, natural: ArrayLike) -> MeanAndPrecision:
        mean, _, degrees, inverse_scale = self.columns(natural)
        return MeanAndPrecision(mean, degrees[..., None, None] * np.linalg.inv(inverse_scale))

    def deviation(self, natural: ArrayLike) -> MeanAndPrecision:
        mean, strength, degrees, inverse_scale = self.columns(natural)
        scale = np.asarray(np.linalg.inv(inverse_scale), dtype=np.float64)
        squares = scale**2 + diagonal(scale)[..., :, None] * diagonal(scale)[..., None, :]
        freedom = strength * (degrees - mean.shape[-1] - 1.0)
        centre = np.sqrt(over_positive(diagonal(inverse_scale), freedom[..., None]))
        return MeanAndPrecision(centre, np.sqrt(degrees[..., None, None] * squares))

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> MeanAndPrecision:
        mean, strength, degrees, inverse_scale = self.columns(natural)
        wider = self.stretches(natural, stretch)
        freedom = (degrees - mean.shape[-1] + 1.0)[..., None]
        spread = np.sqrt(diagonal(inverse_scale) / (strength[..., None] * freedom))
        scale = np.asarray(np.linalg.inv(inverse_scale), dtype=np.float64)
        sides = np.sqrt(diagonal(scale)[..., :, None] * diagonal(scale)[..., None, :])
        entries = quantiles.product(degrees[..., None, None], scale, sides, probability)
        return MeanAndPrecision(
            quantiles.student(mean, spread, freedom, probability, wider["mean"]),
            quantiles.around(self.expected(natural).precision, entries, wider["precision"]),
        )

    def statistics(self, value: MeanAndPrecision) -> Array:
        mu, precision = value
        shift = (precision @ mu[..., None])[..., 0]
        log_determinant = np.linalg.slogdet(precision)[1]
        square = np.sum(mu * shift, axis=-1)
        return np.concatenate([0.5 * log_determinant[..., None], flat(precision), shift, square[..., None]], axis=-1)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> MeanAndPrecision:
        mean, strength, degrees, inverse_scale = self.columns(natural)
        root = np.linalg.cholesky(symmetric(np.asarray(np.linalg.inv(inverse_scale))))
        factor = root @ bartlett_factors(degrees, mean.shape[-1], size, rng)
        noise = np.linalg.solve(np.swapaxes(factor, -1, -2), rng.standard_normal((size, *mean.shape))[..., None])
        drawn = mean + noise[..., 0] / np.sqrt(strength)[..., None]
        return MeanAndPrecision(drawn, factor @ np.swapaxes(factor, -1, -2))

    def dimension(self, width: int) -> int:
        side = square_side(width, extra=2)
        if side < 1:
            raise ValueError(f"Normal-Wishart over R^D has D² + D + 2 columns; got {width}.")
        return side

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(
            mean=rng.normal(size=(components, dimension)),
            strength=positive(rng, components),
            degrees=positive(rng, components) + dimension + 2.0,
            inverse_scale=covariances(rng, components, dimension),
        )

    def freedom(self, contribution: Array) -> Array:
        side = self.dimension(contribution.shape[1])
        return np.full(len(contribution), 0.5 * side * (side + 3))

    def observations(self, prior: Array, rows: Rows) -> Array:
        return -2.0 * rows.written_out()[:, -1]

    def apex(self, width: int) -> Array:
        return np.append(-1.0, np.zeros(width - 1))


def over_positive(numerator: Array, denominator: Array) -> Array:
    """The quotient, or infinity where the denominator is not positive and the variance does not exist."""
    quotient = np.full(numerator.shape, np.inf)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient


def expected_log_determinant(degrees: Array, inverse_scale: Array) -> Array:
    """E[log|Λ|] under Wishart(degrees, inverse_scale⁻¹)."""
    side = inverse_scale.shape[-1]
    digammas = digamma(0.5 * (degrees[..., None] - np.arange(side))).sum(axis=-1)
    return np.asarray(digammas + side * log(2) - np.linalg.slogdet(inverse_scale)[1])


def bartlett_factors(degrees: Array, side: int, size: int, rng: np.random.Generator) -> Array:
    """Lower triangular factors L with LLᵀ ~ Wishart(degrees, I), by Bartlett's decomposition."""
    factors = np.tril(rng.standard_normal((size, len(degrees), side, side)), -1)
    diagonal = np.sqrt(rng.chisquare(degrees[:, None] - np.arange(side), size=(size, len(degrees), side)))
    factors[..., np.arange(side), np.arange(side)] = diagonal
    return np.asarray(factors)
