"""Transitions between components: a row and a column for each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, gammaln, logsumexp

from decbayes.families.dirichlet import log_gamma_variates, share_deviation
from decbayes.families.examples import positive
from decbayes.families.family import Family
from decbayes.families.matrices import Array, Contribution, Indices, dense
from decbayes.families.rows import DenseRows, Rows


@dataclass(frozen=True)
class Transitions(Family):
    """One Dirichlet per row: where component k goes next. Columns: α − 1, one per component. T(θ) = log θ.

    Relabelling moves rows *and* columns. A prior that treats components alike has one number on its diagonal, and one
    everywhere else.
    """

    parameter_names = ("alpha",)
    over_components = True
    exclusive = True
    two_sided = True

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        return (np.asarray(natural, dtype=np.float64) + 1.0,)

    def row_terms(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(gammaln(alpha).sum(axis=-1) - gammaln(alpha.sum(axis=-1)))

    def mean(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(digamma(alpha) - digamma(alpha.sum(axis=-1, keepdims=True)))

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

    def statistics(self, value: ArrayLike) -> Array:
        return np.asarray(np.log(value))

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        (alpha,) = self.columns(natural)
        logs = log_gamma_variates(alpha, size, rng)
        return np.asarray(np.exp(logs - logsumexp(logs, axis=-1, keepdims=True)))

    def dimension(self, width: int) -> int:
        if width < 1:
            raise ValueError("Transitions have a column for each component, at least one.")
        return width

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(alpha=positive(rng, components, dimension))

    def apex(self, width: int) -> Array:
        return np.full(width, -1.0)

    def rows(self, contribution: Contribution, order: Indices | None = None) -> DenseRows:
        """In another order rows and columns move together, where there are as many of them."""
        matrix = dense(contribution)
        square = order is not None and matrix.shape[0] == matrix.shape[1]
        return DenseRows(matrix if order is None else matrix[np.ix_(order, order)] if square else matrix[order])

    def observations(self, prior: Array, rows: Rows) -> Array:
        return np.asarray(rows.written_out().sum(axis=1))

    def exchangeable(self, prior: Array) -> bool:
        return len(prior) == prior.shape[1] and bool((prior == self.resized(prior, len(prior))).all())

    def resized(self, prior: Array, count: int) -> Array:
        stays, leaves = prior[0, 0], prior[0, -1] if prior.shape[1] > 1 else prior[0, 0]
        return np.asarray(np.where(np.eye(count, dtype=np.bool_), stays, leaves))

    def added(self, total: Array, contribution: Contribution, slots: Indices, order: Indices) -> None:
        into = slots[order]
        np.add.at(total, (into[:, None], into[None, :]), dense(contribution)[np.ix_(order, order)])

    def relabelled(self, contribution: Contribution, order: Indices) -> Contribution:
        return dense(contribution)[np.ix_(order, order)]

    def unlabelled(self, contribution: Contribution) -> Contribution:
        """Each row's own entry, then its others and its column's others in order of size."""
        matrix = dense(contribution)
        return np.column_stack([np.diag(matrix), np.sort(matrix, axis=1), np.sort(matrix.T, axis=1)])
