"""Dirichlet distributions side by side: one per column of a table, and the rows of a transition matrix."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln

from decbayes.families import quantiles
from decbayes.families.dirichlets.dirichlet import (
    DirichletRows,
    log_gamma_variates,
    log_share_covariances,
    share_deviation,
)
from decbayes.families.matrices import Array, Contribution, Indices, dense
from decbayes.families.registry import positive
from decbayes.families.rows import DenseRows, Rows


@dataclass(frozen=True)
class Dirichlets(DirichletRows):
    """Independent Dirichlets per row, over groups of `sizes` columns. Columns: α − 1. T(θ) = log θ.

    The sizes are part of the name, "Dirichlets(2,3*4)" for 2, 3, 3, 3 and 3, so a file defines how to read its rows.

    >>> family = db.families.Dirichlets((2, 3))
    >>> family.name, family.expected(family.natural(alpha=[[3.0, 1.0, 2.0, 1.0, 1.0]]))
    ('Dirichlets(2,3)', array([[0.75, 0.25, 0.5 , 0.25, 0.25]]))
    """

    sizes: tuple[int, ...] = (2, 3)
    categorical = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(map(int, self.sizes)))
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"Dirichlets need groups of one column or more, not {self.sizes}.")

    @property
    def name(self) -> str:
        runs = [(size, len(list(run))) for size, run in groupby(self.sizes)]
        return f"{super().name}({','.join(f'{size}*{times}' if times > 1 else str(size) for size, times in runs)})"

    def laid_out(self, layout: str) -> "Dirichlets":
        runs = [run.partition("*")[::2] for run in layout.split(",")]
        if not all(part.isascii() and part.isdigit() for size, times in runs for part in (size, times or "1")):
            raise ValueError(f"{layout!r} is not a list of group sizes")
        times = [int(times or 1) for _, times in runs]
        if sum(times) > MOST_GROUPS:
            raise ValueError(f"{sum(times):,} groups of columns are more than the {MOST_GROUPS:,} that are read")
        return Dirichlets(tuple(np.repeat([int(size) for size, _ in runs], times).tolist()))

    @cached_property
    def starts(self) -> Indices:
        """The first column of each group."""
        return np.array([0, *accumulate(self.sizes[:-1])], dtype=np.intp)

    def row_terms(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(gammaln(alpha).sum(axis=-1) - gammaln(self.sums(alpha)).sum(axis=-1))

    def expected_statistics(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(digamma(alpha) - self.spread(digamma(self.sums(alpha))))

    def row_covariances(self, natural: ArrayLike) -> Array:
        from scipy.linalg import block_diag

        (alpha,) = self.columns(natural)
        groups = np.split(alpha, self.starts[1:], axis=-1)
        return np.stack([block_diag(*(log_share_covariances(group[k]) for group in groups)) for k in range(len(alpha))])

    def expected(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(alpha / self.spread(self.sums(alpha)))

    def deviation(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return share_deviation(self.expected(natural), self.spread(self.sums(alpha)))

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> Array:
        (alpha,) = self.columns(natural)
        total = self.spread(self.sums(alpha))
        return quantiles.beta(self.expected(natural), total, probability, stretch)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        (alpha,) = self.columns(natural)
        logs = log_gamma_variates(alpha, size, rng)
        return np.exp(logs - self.spread(np.logaddexp.reduceat(logs, self.starts, axis=-1)))

    def dimension(self, width: int) -> int:
        if width != sum(self.sizes):
            raise ValueError(f"{self.name} has {sum(self.sizes)} columns; got {width}.")
        return width

    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        return self.natural(alpha=positive(rng, components, sum(self.sizes)))

    def observations(self, prior: Array, rows: Rows) -> Array:
        """The largest count of all columns, because values may be missing in some."""
        return np.asarray(self.sums(rows.written_out()).max(axis=-1))

    def freedom(self, contribution: Array) -> Array:
        return np.full(len(contribution), float(sum(self.sizes) - len(self.sizes)))

    def gain(self, rest: ArrayLike, contribution: Contribution) -> Array:
        from decbayes.kernels.gain import log_gamma_gain

        (alpha,), added = self.columns(rest), dense(contribution)
        return log_gamma_gain(alpha, added) - log_gamma_gain(self.sums(alpha), self.sums(added))

    def sums(self, values: Array) -> Array:
        """The sum of each group's columns."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=-1))

    def spread(self, values: Array) -> Array:
        """A value per group, repeated for each of its columns."""
        return np.repeat(values, self.sizes, axis=-1)


# More groups than any table has: a file that claims more is refused before memory is allocated.
MOST_GROUPS = 1_000_000


@dataclass(frozen=True)
class Transitions(DirichletRows):
    """One Dirichlet per row: the component that follows k. Columns: α − 1, one per component. T(θ) = log θ.

    Relabelling moves rows *and* columns. A prior that treats components alike has one value on its diagonal and one
    everywhere else.

    >>> family = db.families.Transitions()
    >>> family.expected(family.natural(alpha=[[9.0, 1.0], [2.0, 8.0]]))
    array([[0.9, 0.1],
           [0.2, 0.8]])
    """

    over_components = True
    exclusive = True
    two_sided = True

    def rows(self, contribution: Contribution, order: Indices | None = None) -> DenseRows:
        """Rows and columns are reordered together if there are equally many."""
        matrix = dense(contribution)
        square = order is not None and matrix.shape[0] == matrix.shape[1]
        return DenseRows(matrix if order is None else matrix[np.ix_(order, order)] if square else matrix[order])

    def observations(self, prior: Array, rows: Rows) -> Array:
        """Moves into each component; together with first steps of sequences, these are all its steps."""
        moves = rows.written_out()
        return np.asarray(moves.sum(axis=0 if moves.shape[0] == moves.shape[1] else 1))

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
        """Each row's diagonal entry, then its entries and its column's in order of size."""
        matrix = dense(contribution)
        return np.column_stack([np.diag(matrix), np.sort(matrix, axis=1), np.sort(matrix.T, axis=1)])
