"""Distributions of rates and scales."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaln, polygamma

from decbayes.families import quantiles
from decbayes.families.family import Family
from decbayes.families.matrices import Array, as_rows, block_width, by_dimension, split
from decbayes.families.registry import positive


@dataclass(frozen=True)
class Gamma(Family):
    """Independent Gamma(a, rate b) in each of D dimensions per row. Columns: a − 1 (D), −b (D). T(x) = (log x, x).

    >>> family = db.families.Gamma()
    >>> family.expected(family.natural(shape=[4.0, 9.0], rate=[2.0, 3.0]))
    array([[2.],
           [3.]])
    """

    parameter_names = ("shape", "rate")

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        first, second = split(natural, 2)
        return first + 1.0, -second

    def row_terms(self, natural: ArrayLike) -> Array:
        shape, rate = self.columns(natural)
        return np.asarray(np.sum(gammaln(shape) - shape * np.log(rate), axis=-1))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        shape, rate = self.columns(natural)
        return np.concatenate([digamma(shape) - np.log(rate), shape / rate], axis=-1)

    def row_covariances(self, natural: ArrayLike) -> Array:
        shape, rate = self.columns(natural)
        return by_dimension([[polygamma(1, shape), 1.0 / rate], [1.0 / rate, shape / rate**2]])

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        shape, rate = self.columns(natural)
        return np.asarray(((shape > 0) & (rate > 0)).all(axis=-1))

    def natural(self, *, shape: ArrayLike, rate: ArrayLike) -> Array:
        first, second = np.broadcast_arrays(*(as_rows(part) for part in (shape, rate)))
        return np.concatenate([first - 1.0, -second], axis=-1)

    def expected(self, natural: ArrayLike) -> Array:
        shape, rate = self.columns(natural)
        return np.asarray(shape / rate)

    def deviation(self, natural: ArrayLike) -> Array:
        shape, rate = self.columns(natural)
        return np.asarray(np.sqrt(shape) / rate)

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> Array:
        shape, rate = self.columns(natural)
        return quantiles.gamma(shape, rate, probability, stretch)

    def statistics(self, value: ArrayLike) -> Array:
        draw = np.asarray(value, dtype=np.float64)
        return np.concatenate([np.log(draw), draw], axis=-1)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        shape, rate = self.columns(natural)
        return np.asarray(rng.standard_gamma(shape, size=(size, *shape.shape)) / rate)

    def dimension(self, width: int) -> int:
        return block_width(self.name, width, 2)

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(shape=positive(rng, components, dimension), rate=positive(rng, components, dimension))

    def apex(self, width: int) -> Array:
        return np.repeat([-1.0, 0.0], self.dimension(width))
