"""Distributions of probabilities that stand alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, digamma, polygamma

from decbayes.families import quantiles
from decbayes.families.dirichlets.dirichlet import log_gamma_variates, share_deviation
from decbayes.families.family import Family
from decbayes.families.matrices import Array, as_rows, block_width, by_dimension, split
from decbayes.families.registry import positive
from decbayes.families.rows import Rows


@dataclass(frozen=True)
class Beta(Family):
    """Independent Beta(α, β) in each of D dimensions per row.

    Columns: α − 1 (D), β − 1 (D). T(θ) = (log θ, log(1 − θ)). With one dimension parameters and values are (K,).

    >>> family = db.families.Beta()
    >>> family.expected(family.natural(alpha=[8.0, 1.0], beta=[2.0, 1.0]))
    array([0.8, 0.5])
    """

    parameter_names = ("alpha", "beta")
    inclusive = True
    categorical = True
    term = "beta"

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        return tuple(map(squeezed, self._shapes(natural)))

    def row_terms(self, natural: ArrayLike) -> Array:
        return np.asarray(betaln(*self._shapes(natural)).sum(axis=-1))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        alpha, beta = self._shapes(natural)
        total = digamma(alpha + beta)
        return np.concatenate([digamma(alpha) - total, digamma(beta) - total], axis=-1)

    def row_covariances(self, natural: ArrayLike) -> Array:
        alpha, beta = self._shapes(natural)
        shared = polygamma(1, alpha + beta)
        return by_dimension([[polygamma(1, alpha) - shared, -shared], [-shared, polygamma(1, beta) - shared]])

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        alpha, beta = self._shapes(natural)
        return np.asarray(((alpha > 0) & (beta > 0)).all(axis=-1))

    def natural(self, *, alpha: ArrayLike, beta: ArrayLike) -> Array:
        return np.concatenate(np.broadcast_arrays(as_rows(alpha), as_rows(beta)), axis=-1) - 1.0

    def expected(self, natural: ArrayLike) -> Array:
        alpha, beta = self.columns(natural)
        return np.asarray(alpha / (alpha + beta))

    def deviation(self, natural: ArrayLike) -> Array:
        alpha, beta = self.columns(natural)
        return share_deviation(self.expected(natural), alpha + beta)

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> Array:
        alpha, beta = self.columns(natural)
        return quantiles.beta(self.expected(natural), alpha + beta, probability, stretch)

    def statistics(self, value: ArrayLike) -> Array:
        share = np.asarray(value, dtype=np.float64)
        # One-dimensional draws have no axis for the dimension.
        share = share if share.ndim > 2 else share[..., None]
        return np.concatenate([np.log(share), np.log1p(-share)], axis=-1)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        logs = log_gamma_variates(np.stack(self._shapes(natural)), size, rng)
        return squeezed(np.exp(logs[:, 0] - np.logaddexp(logs[:, 0], logs[:, 1])))

    def dimension(self, width: int) -> int:
        return block_width(self.name, width, 2)

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(alpha=positive(rng, components, dimension), beta=positive(rng, components, dimension))

    def apex(self, width: int) -> Array:
        return np.full(width, -1.0)

    def observations(self, prior: Array, rows: Rows) -> Array:
        """Successes in one dimension; in several, all observations (the largest number if values are missing)."""
        alpha, beta = split(rows.written_out(), 2)
        return np.asarray(alpha[:, 0] if alpha.shape[1] == 1 else (alpha + beta).max(axis=1))

    def _shapes(self, natural: ArrayLike) -> tuple[Array, Array]:
        alpha, beta = split(natural, 2)
        return alpha + 1.0, beta + 1.0


def squeezed(values: Array) -> Array:
    """Without the axis of dimensions if there is only one."""
    return np.asarray(values[..., 0] if values.shape[-1] == 1 else values)
