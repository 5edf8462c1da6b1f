"""The Normal-Gamma distribution with one precision for all dimensions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaln, polygamma

from decbayes.families import quantiles
from decbayes.families.gaussians.precision import MeanAndPrecision, MeanAndPrecisionRows, over_positive
from decbayes.families.matrices import Array, outer
from decbayes.families.moments import round_covariances
from decbayes.families.registry import positive
from decbayes.families.rows import Rows


@dataclass(frozen=True)
class IsotropicNormalGamma(MeanAndPrecisionRows):
    """Unknown mean μ in R^D and one precision τ for all dimensions per row: τ ~ Gamma(a, rate b), μ | τ ~ N(m, I / κτ).

    Columns: a − 1 + ½D, −b − ½κ|m|², κm (D), −½κ. T(μ, τ) = (log τ, τ, τμ, τ|μ|²).

    >>> family = db.families.IsotropicNormalGamma()
    >>> family.expected(family.natural(mean=[[1.0, 2.0]], strength=[10.0], shape=[8.0], rate=[4.0]))
    MeanAndPrecision(mean=array([[1., 2.]]), precision=array([2.]))
    """

    parameter_names = ("mean", "strength", "shape", "rate")

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        matrix = np.asarray(natural, dtype=np.float64)
        shift, strength = matrix[..., 2:-1], -2.0 * matrix[..., -1]
        mean = shift / strength[..., None]
        rate = -matrix[..., 1] - 0.5 * np.sum(shift * mean, axis=-1)
        return mean, strength, matrix[..., 0] + 1.0 - 0.5 * mean.shape[-1], rate

    def row_terms(self, natural: ArrayLike) -> Array:
        mean, strength, shape, rate = self.columns(natural)
        return np.asarray(gammaln(shape) - shape * np.log(rate) - 0.5 * mean.shape[-1] * np.log(strength))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        mean, strength, shape, rate = self.columns(natural)
        precision = shape / rate
        square = np.sum(mean**2, axis=-1) * precision + mean.shape[-1] / strength
        first = np.stack([digamma(shape) - np.log(rate), precision], axis=-1)
        return np.concatenate([first, mean * precision[..., None], square[..., None]], axis=-1)

    def row_covariances(self, natural: ArrayLike) -> Array:
        mean, strength, shape, rate = self.columns(natural)
        expected = shape / rate
        spread = np.concatenate([np.ones((len(mean), 1)), mean, np.sum(mean**2, axis=-1, keepdims=True)], axis=-1)
        covariances = np.empty((len(mean), mean.shape[-1] + 3, mean.shape[-1] + 3))
        covariances[:, 0, 0] = polygamma(1, shape)
        covariances[:, 0, 1:] = covariances[:, 1:, 0] = spread / rate[:, None]
        covariances[:, 1:, 1:] = outer(spread) * (expected / rate)[:, None, None]
        covariances[:, 2:, 2:] += round_covariances(mean, expected / strength, 2.0 * mean.shape[-1] / strength**2)
        return covariances

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        with np.errstate(divide="ignore", invalid="ignore"):
            _, strength, shape, rate = self.columns(natural)
            return np.asarray((strength > 0) & (shape > 0) & (rate > 0))

    def natural(self, *, mean: ArrayLike, strength: ArrayLike, shape: ArrayLike, rate: ArrayLike) -> Array:
        m = np.atleast_2d(np.asarray(mean, dtype=np.float64))
        rows, side = m.shape
        kappa, a, b = (
            np.broadcast_to(np.asarray(part, dtype=np.float64), rows)[:, None] for part in (strength, shape, rate)
        )
        square = np.sum(m**2, axis=-1, keepdims=True)
        return np.concatenate([a - 1.0 + 0.5 * side, -b - 0.5 * kappa * square, kappa * m, -0.5 * kappa], axis=-1)

    def deviation(self, natural: ArrayLike) -> MeanAndPrecision:
        mean, strength, shape, rate = self.columns(natural)
        centre = np.sqrt(over_positive(rate, strength * (shape - 1.0)))
        return MeanAndPrecision(np.broadcast_to(centre[..., None], mean.shape), np.sqrt(shape) / rate)

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> MeanAndPrecision:
        mean, strength, shape, rate = self.columns(natural)
        wider = self.stretches(natural, stretch)
        scale = np.sqrt(rate / (strength * shape))[..., None]
        return MeanAndPrecision(
            quantiles.student(mean, scale, 2.0 * shape[..., None], probability, wider["mean"]),
            quantiles.gamma(shape, rate, probability, wider["precision"]),
        )

    def statistics(self, value: MeanAndPrecision) -> Array:
        mu, tau = value
        first = np.stack([np.log(tau), tau], axis=-1)
        square = tau * np.sum(np.square(mu), axis=-1)
        return np.concatenate([first, tau[..., None] * mu, square[..., None]], axis=-1)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> MeanAndPrecision:
        mean, strength, shape, rate = self.columns(natural)
        precision = rng.standard_gamma(shape, size=(size, *shape.shape)) / rate
        noise = rng.standard_normal((size, *mean.shape)) / np.sqrt(strength * precision)[..., None]
        return MeanAndPrecision(mean + noise, precision)

    def dimension(self, width: int) -> int:
        if width < 4:
            raise ValueError(f"An isotropic Normal-Gamma over R^D has D + 3 columns, at least 4; got {width}.")
        return width - 3

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(
            mean=rng.normal(size=(components, dimension)),
            strength=positive(rng, components),
            shape=positive(rng, components) + 1.0,
            rate=positive(rng, components),
        )

    def freedom(self, contribution: Array) -> Array:
        return np.full(len(contribution), self.dimension(contribution.shape[1]) + 1.0)

    def observations(self, prior: Array, rows: Rows) -> Array:
        return np.asarray(-2.0 * rows.written_out()[:, -1])

    def apex(self, width: int) -> Array:
        return np.append(0.5 * self.dimension(width) - 1.0, np.zeros(width - 1))
