"""Distributions of discrete latent variables, by their log-odds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, logsumexp, softmax

from decbayes.families.family import Family
from decbayes.families.matrices import Array


@dataclass(frozen=True)
class LogOdds(Family):
    """Outcomes by their probabilities; any finite log-odds are a distribution."""

    parameter_names = ("probability",)

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(natural).all(axis=-1))

    def expected(self, natural: ArrayLike) -> Array:
        return self.columns(natural)[0]

    def deviation(self, natural: ArrayLike) -> Array:
        (probability,) = self.columns(natural)
        return np.sqrt(probability * (1.0 - probability))

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> Array:
        """0 or 1: a discrete outcome has nothing in between."""
        return np.asarray(self.expected(natural) > 1.0 - probability, dtype=np.float64)


@dataclass(frozen=True)
class Bernoulli(LogOdds):
    """One coin per row. Column: its log-odds. T(z) = z.

    >>> family = db.families.Bernoulli()
    >>> family.expected(family.natural(probability=[0.2, 0.9]))
    array([0.2, 0.9])
    """

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        return (np.asarray(expit(np.asarray(natural, dtype=np.float64)[..., 0])),)

    def row_terms(self, natural: ArrayLike) -> Array:
        return np.asarray(np.logaddexp(0.0, np.asarray(natural, dtype=np.float64)[..., 0]))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        return self.columns(natural)[0][..., None]

    def row_covariances(self, natural: ArrayLike) -> Array:
        return (self.deviation(natural) ** 2)[..., None, None]

    def natural(self, *, probability: ArrayLike) -> Array:
        return np.asarray(logit(np.atleast_1d(np.asarray(probability, dtype=np.float64))))[:, None]

    def statistics(self, value: ArrayLike) -> Array:
        return np.asarray(value, dtype=np.float64)[..., None]

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        (probability,) = self.columns(natural)
        return (rng.random((size, *probability.shape)) < probability).astype(np.int64)

    def dimension(self, width: int) -> int:
        if width != 1:
            raise ValueError(f"Bernoulli has one column, the log-odds; got {width}.")
        return 1

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(probability=rng.uniform(0.05, 0.95, size=components))


@dataclass(frozen=True)
class Categorical(LogOdds):
    """One die per row. Columns: log-odds of its C faces, up to a constant per row. T(z) = indicator of the face.

    >>> family = db.families.Categorical()
    >>> family.expected(family.natural(probability=[[0.2, 0.3, 0.5]]))
    array([[0.2, 0.3, 0.5]])
    """

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        return (np.asarray(softmax(np.asarray(natural, dtype=np.float64), axis=-1)),)

    def row_terms(self, natural: ArrayLike) -> Array:
        return np.asarray(logsumexp(np.asarray(natural, dtype=np.float64), axis=-1))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        return self.columns(natural)[0]

    def row_covariances(self, natural: ArrayLike) -> Array:
        (probability,) = self.columns(natural)
        return probability[..., None] * (np.eye(probability.shape[-1]) - probability[..., None, :])

    def natural(self, *, probability: ArrayLike) -> Array:
        return np.log(np.atleast_2d(np.asarray(probability, dtype=np.float64)))

    def statistics(self, value: ArrayLike) -> Array:
        return np.asarray(value, dtype=np.float64)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        matrix = np.asarray(natural, dtype=np.float64)
        perturbed = matrix + rng.gumbel(size=(size, *matrix.shape))
        return np.asarray(perturbed == perturbed.max(axis=-1, keepdims=True), dtype=np.float64)

    def dimension(self, width: int) -> int:
        if width < 1:
            raise ValueError("A categorical distribution needs at least one column.")
        return width

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(probability=rng.dirichlet(np.full(dimension, 2.0), size=components))
