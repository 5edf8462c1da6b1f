"""A family from outside the package: one class and one line that registers it.

`conftest.py` imports this file, so that everything that is tested for all families is tested for this one.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from decbayes.families import Family, register


@dataclass(frozen=True)
class InverseGamma(Family):
    """1 / x ~ Gamma(a, rate b) in each of D dimensions per row. Columns: −a − 1 (D), −b (D). T(x) = (log x, 1 / x)."""

    parameter_names = ("shape", "scale")

    def columns(self, natural):
        first, second = np.split(np.asarray(natural, dtype=float), 2, axis=-1)
        return -first - 1.0, -second

    def row_terms(self, natural):
        shape, scale = self.columns(natural)
        return (gammaln(shape) - shape * np.log(scale)).sum(axis=-1)

    def expected_statistics(self, natural):
        shape, scale = self.columns(natural)
        return np.concatenate([np.log(scale) - digamma(shape), shape / scale], axis=-1)

    def contains_rows(self, natural):
        shape, scale = self.columns(natural)
        return ((shape > 0) & (scale > 0)).all(axis=-1)

    def natural(self, *, shape, scale):
        return np.concatenate([-np.asarray(shape) - 1.0, -np.asarray(scale)], axis=-1)

    def expected(self, natural):
        shape, scale = self.columns(natural)
        return np.where(shape > 1, scale / np.where(shape > 1, shape - 1, 1), np.inf)

    def deviation(self, natural):
        shape, _ = self.columns(natural)
        return np.where(shape > 2, self.expected(natural) / np.sqrt(np.where(shape > 2, shape - 2, 1)), np.inf)

    def statistics(self, value):
        return np.concatenate([np.log(value), 1 / value], axis=-1)

    def sample(self, natural, size, rng):
        shape, scale = self.columns(natural)
        return scale / rng.standard_gamma(shape, size=(size, *shape.shape))

    def dimension(self, width):
        if width < 2 or width % 2:
            raise ValueError(f"InverseGamma has two columns per dimension; here are {width}.")
        return width // 2

    def example(self, components, dimension, rng):
        size = components, dimension
        return self.natural(shape=rng.uniform(6.0, 9.0, size), scale=rng.uniform(0.5, 3.0, size))

    def apex(self, width):
        return np.repeat([-1.0, 0.0], width // 2)


register(InverseGamma())
