"""Distributions over probabilities: Dirichlet rows, and the mixture weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln, logsumexp, polygamma

from decbayes.devices import device_for
from decbayes.families import quantiles
from decbayes.families.dirichlets._groups import DirichletGroups, DirichletJoins
from decbayes.families.family import Family
from decbayes.families.matrices import Array, Contribution, Indices, dense, is_sparse, smallest
from decbayes.families.moments import Orders, singly, stacked, weight_divergences
from decbayes.families.registry import positive
from decbayes.families.rows import Rows, SparseRows, sparse_rows
from decbayes.families.totals import DirichletTotals, Totals, checked_sparse

# Slots × components × columns above which a GPU is worth its launches.
LARGE = 1_000_000


@dataclass(frozen=True)
class DirichletRows(Family):
    """Base of families with Dirichlet rows: one Dirichlet over all columns. Columns: α − 1. T(θ) = log θ."""

    parameter_names = ("alpha",)

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        return (np.asarray(natural, dtype=np.float64) + 1.0,)

    def row_terms(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(gammaln(alpha).sum(axis=-1) - gammaln(alpha.sum(axis=-1)))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(digamma(alpha) - digamma(alpha.sum(axis=-1, keepdims=True)))

    def row_covariances(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return log_share_covariances(alpha)

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        (alpha,) = self.columns(natural)
        return np.asarray((alpha > 0).all(axis=-1))

    def natural(self, *, alpha: ArrayLike) -> Array:
        return np.atleast_2d(np.asarray(alpha, dtype=np.float64)) - 1.0

    def expected(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(alpha / alpha.sum(axis=-1, keepdims=True))

    def deviation(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return share_deviation(self.expected(natural), alpha.sum(axis=-1, keepdims=True))

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> Array:
        (alpha,) = self.columns(natural)
        total = alpha.sum(axis=-1, keepdims=True)
        return quantiles.beta(self.expected(natural), total, probability, stretch)

    def statistics(self, value: ArrayLike) -> Array:
        return np.asarray(np.log(value))

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        (alpha,) = self.columns(natural)
        logs = log_gamma_variates(alpha, size, rng)
        return np.asarray(np.exp(logs - logsumexp(logs, axis=-1, keepdims=True)))

    def dimension(self, width: int) -> int:
        if width < 1:
            raise ValueError(f"Rows of {self.name} need at least one column.")
        return width

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(alpha=positive(rng, components, dimension))

    def apex(self, width: int) -> Array:
        return np.full(width, -1.0)


@dataclass(frozen=True)
class Dirichlet(DirichletRows):
    """One Dirichlet per row, over the columns.

    Rows are sparse in merges, so gains and divergences cost only the non-zero entries.

    >>> family = db.families.Dirichlet()
    >>> family.expected(family.natural(alpha=[[2.0, 1.0, 1.0]]))
    array([[0.5 , 0.25, 0.25]])
    """

    exclusive = True
    countable = True

    def contains_sum(self, prior: Array, rows: Rows) -> NDArray[np.bool_]:
        if checked_sparse(rows).data.min(initial=0.0) < 0.0:
            return super().contains_sum(prior, rows)
        return np.ones(len(prior), dtype=np.bool_)

    def rows(self, contribution: Contribution, order: Indices | None = None) -> SparseRows:
        return sparse_rows(contribution, order)

    def totals(self, prior: Array) -> Totals:
        device = device_for() if len(prior) * prior.size >= LARGE else None
        if device is None:
            return DirichletTotals(prior)
        from decbayes.families.dirichlets._cuda import GpuDirichletTotals

        return GpuDirichletTotals(device, prior)

    def groups(self, base: Array, slots: int) -> DirichletGroups:
        return DirichletGroups(len(base), slots)

    def joins(self, base: Array, rows: Rows, evidence: Array) -> DirichletJoins:
        return DirichletJoins(rows)

    def tree(self, rows: Rows, fewest: int) -> tuple[Indices, Indices, Array]:
        from decbayes.kernels.trees import grown_tree

        sparse = checked_sparse(rows)
        return grown_tree(*sparse.parts, sparse.sums, sparse.width, fewest)

    def observations(self, prior: Array, rows: Rows) -> Array:
        return checked_sparse(rows).sums

    def effective_freedom(self, rows: Rows) -> Array:
        """The number of words that occur, minus one."""
        sparse = checked_sparse(rows)
        seen = np.concatenate([[0.0], np.cumsum(np.minimum(sparse.data, 1.0))])
        return np.asarray(seen[sparse.stops] - seen[sparse.starts] - np.minimum(sparse.sums, 1.0))

    def divergences(self, prior: Array, contributions: Sequence[Contribution], orders: Orders = None) -> Array:
        return singly(self, prior, contributions, orders)

    def divergence(self, prior: Array, rows: Rows) -> float:
        from decbayes.kernels.special import dirichlet_information

        distinct, sparse = smallest(prior), checked_sparse(rows)
        sums = np.zeros(len(prior)) + (distinct + 1.0).sum(axis=1) * (prior.shape[1] // distinct.shape[1])
        return float(dirichlet_information(prior, *sparse.parts, sparse.sums, sums))

    def gain(self, rest: ArrayLike, contribution: Contribution) -> Array:
        from decbayes.kernels.gain import dirichlet_gain

        sparse = contribution if is_sparse(contribution) else csr_array(dense(contribution))
        return dirichlet_gain(np.ascontiguousarray(rest, dtype=np.float64), sparse)


@dataclass(frozen=True)
class Weights(Family):
    """One Dirichlet over the K components themselves. Column: α − 1 (one coordinate per row). T(θ) = log θ.

    >>> family = db.families.Weights()
    >>> family.expected(family.natural(alpha=[3.0, 1.0]))
    array([0.75, 0.25])
    """

    parameter_names = ("alpha",)
    over_components = True
    exclusive = True
    term = "weight"

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        return (np.asarray(natural, dtype=np.float64)[..., 0] + 1.0,)

    def row_terms(self, natural: ArrayLike) -> Array:
        return np.asarray(gammaln(self.columns(natural)[0]))

    def shared_term(self, natural: ArrayLike) -> float:
        return -float(gammaln(self.columns(natural)[0].sum()))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(digamma(alpha) - digamma(alpha.sum()))[:, None]

    def covariance(self, natural: ArrayLike) -> Array:
        return log_share_covariances(self.columns(natural)[0])

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        return np.asarray(self.columns(natural)[0] > 0)

    def natural(self, *, alpha: ArrayLike) -> Array:
        return np.asarray(alpha, dtype=np.float64).reshape(-1, 1) - 1.0

    def divergences(self, prior: Array, contributions: Sequence[Contribution], orders: Orders = None) -> Array:
        return weight_divergences(prior, stacked(contributions, orders))

    def expected(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(alpha / alpha.sum())

    def deviation(self, natural: ArrayLike) -> Array:
        return share_deviation(self.expected(natural), self.columns(natural)[0].sum())

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> Array:
        total = self.columns(natural)[0].sum()
        return quantiles.beta(self.expected(natural), total, probability, stretch)

    def statistics(self, value: ArrayLike) -> Array:
        return np.asarray(np.log(value))[..., None]

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        logs = log_gamma_variates(self.columns(natural)[0], size, rng)
        return np.asarray(np.exp(logs - logsumexp(logs, axis=-1, keepdims=True)))

    def dimension(self, width: int) -> int:
        if width != 1:
            raise ValueError(f"Weights have one column, the coordinate of each component; got {width}.")
        return 1

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(alpha=positive(rng, components))

    def observations(self, prior: Array, rows: Rows) -> Array:
        return rows.written_out()[:, 0]

    def apex(self, width: int) -> Array:
        return np.full(width, -1.0)


@dataclass(frozen=True)
class Shares(Weights):
    """One Dirichlet over the K components, like `Weights`, but not of observations.

    An example are the shares of topics in the prior of documents. It does not measure a component's evidence.

    >>> family = db.families.Shares()
    >>> family.expected(family.natural(alpha=[3.0, 1.0]))
    array([0.75, 0.25])
    """

    follows = True


def share_deviation(share: Array, total: ArrayLike) -> Array:
    """The deviation of a coordinate with this mean, of a Dirichlet whose α add up to `total`."""
    return np.sqrt(share * (1.0 - share) / (np.asarray(total) + 1.0))


def log_share_covariances(alpha: Array) -> Array:
    """Cov[log θ] of Dirichlets: ψ'(α) on the diagonal, minus ψ'(Σα) everywhere."""
    apart = polygamma(1, alpha)[..., None] * np.eye(alpha.shape[-1])
    return np.asarray(apart - polygamma(1, alpha.sum(axis=-1))[..., None, None])


def log_gamma_variates(shape: Array, size: int, rng: np.random.Generator) -> Array:
    """Logarithms of Gamma(shape, 1) draws, which would underflow themselves if the shape is far below 1."""
    draws = (size, *np.shape(shape))
    boosted = rng.standard_gamma(np.asarray(shape) + 1.0, size=draws)
    return np.asarray(np.log(boosted) - rng.standard_exponential(size=draws) / shape)
