"""Transitions between components: a row and a column for each."""

from dataclasses import dataclass

import numpy as np

from decbayes.families.dirichlet import DirichletRows
from decbayes.families.matrices import Array, Contribution, Indices, dense
from decbayes.families.rows import DenseRows, Rows


@dataclass(frozen=True)
class Transitions(DirichletRows):
    """One Dirichlet per row: where component k goes next. Columns: α − 1, one per component. T(θ) = log θ.

    Relabelling moves rows *and* columns. A prior that treats components alike has one number on its diagonal, and one
    everywhere else.
    """

    over_components = True
    exclusive = True
    two_sided = True

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
