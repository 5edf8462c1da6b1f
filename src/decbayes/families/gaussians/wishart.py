"""Distributions of precision matrices."""

from dataclasses import dataclass
from math import isqrt, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import multigammaln

from decbayes.families import quantiles
from decbayes.families.family import Family
from decbayes.families.gaussians.gaussian import diagonal, positive_definite, symmetric
from decbayes.families.gaussians.precision import bartlett_factors, expected_log_determinant
from decbayes.families.matrices import Array, flat
from decbayes.families.moments import wishart_covariances
from decbayes.families.registry import covariances, positive


@dataclass(frozen=True)
class Wishart(Family):
    """An unknown precision matrix Λ ~ Wishart(n, V) per row. Columns: n − D − 1, −½V⁻¹ (D², row by row).

    T(Λ) = (½ log|Λ|, Λ).

    >>> family = db.families.Wishart()
    >>> family.expected(family.natural(degrees=[4.0], inverse_scale=2.0 * np.eye(2)))
    array([[[2., 0.],
            [0., 2.]]])
    """

    parameter_names = ("degrees", "inverse_scale")

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        matrix = np.asarray(natural, dtype=np.float64)
        side = self.dimension(matrix.shape[-1])
        inverse_scale = -2.0 * symmetric(matrix[..., 1:].reshape(*matrix.shape[:-1], side, side))
        return matrix[..., 0] + side + 1.0, inverse_scale

    def row_terms(self, natural: ArrayLike) -> Array:
        degrees, inverse_scale = self.columns(natural)
        side = inverse_scale.shape[-1]
        wishart = multigammaln(0.5 * degrees, side) - 0.5 * degrees * np.linalg.slogdet(inverse_scale)[1]
        return np.asarray(0.5 * degrees * side * log(2) + wishart)

    def expected_statistics(self, natural: ArrayLike) -> Array:
        degrees, inverse_scale = self.columns(natural)
        log_determinant = expected_log_determinant(degrees, inverse_scale)
        return np.concatenate([0.5 * log_determinant[..., None], flat(self.expected(natural))], axis=-1)

    def row_covariances(self, natural: ArrayLike) -> Array:
        degrees, inverse_scale = self.columns(natural)
        return wishart_covariances(degrees, np.asarray(np.linalg.inv(inverse_scale), dtype=np.float64))

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        degrees, inverse_scale = self.columns(natural)
        return np.asarray(degrees > inverse_scale.shape[-1] - 1) & positive_definite(inverse_scale)

    def natural(self, *, degrees: ArrayLike, inverse_scale: ArrayLike) -> Array:
        n = np.atleast_1d(np.asarray(degrees, dtype=np.float64))
        inverse = np.asarray(inverse_scale, dtype=np.float64)
        side = inverse.shape[-1]
        return np.concatenate(
            [n[:, None] - side - 1.0, -0.5 * flat(np.broadcast_to(inverse, (len(n), side, side)))], axis=-1
        )

    def expected(self, natural: ArrayLike) -> Array:
        degrees, inverse_scale = self.columns(natural)
        return np.asarray(degrees[..., None, None] * np.linalg.inv(inverse_scale))

    def deviation(self, natural: ArrayLike) -> Array:
        degrees, inverse_scale = self.columns(natural)
        scale = np.asarray(np.linalg.inv(inverse_scale), dtype=np.float64)
        squares = scale**2 + diagonal(scale)[..., :, None] * diagonal(scale)[..., None, :]
        return np.asarray(np.sqrt(degrees[..., None, None] * squares))

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> Array:
        degrees, inverse_scale = self.columns(natural)
        scale = np.asarray(np.linalg.inv(inverse_scale), dtype=np.float64)
        sides = np.sqrt(diagonal(scale)[..., :, None] * diagonal(scale)[..., None, :])
        entries = quantiles.product(degrees[..., None, None], scale, sides, probability)
        return quantiles.around(self.expected(natural), entries, self.stretches(natural, stretch)["value"])

    def statistics(self, value: ArrayLike) -> Array:
        precision = np.asarray(value, dtype=np.float64)
        return np.concatenate([0.5 * np.linalg.slogdet(precision)[1][..., None], flat(precision)], axis=-1)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        degrees, inverse_scale = self.columns(natural)
        root = np.linalg.cholesky(symmetric(np.asarray(np.linalg.inv(inverse_scale))))
        factor = root @ bartlett_factors(degrees, inverse_scale.shape[-1], size, rng)
        return np.asarray(factor @ np.swapaxes(factor, -1, -2))

    def dimension(self, width: int) -> int:
        side = isqrt(max(width - 1, 0))
        if side < 1 or side * side != width - 1:
            raise ValueError(f"Wishart over D × D matrices has D² + 1 columns; got {width}.")
        return side

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(
            degrees=positive(rng, components) + dimension + 2.0, inverse_scale=covariances(rng, components, dimension)
        )

    def freedom(self, contribution: Array) -> Array:
        side = self.dimension(contribution.shape[1])
        return np.full(len(contribution), 0.5 * side * (side + 1))

    def observations(self, prior: Array, rows: Any) -> Array:
        return np.asarray(rows.written_out()[:, 0])

    def apex(self, width: int) -> Array:
        return np.append(-2.0, np.zeros(width - 1))
