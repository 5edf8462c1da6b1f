"""The components of one agent in one factor, as solvers use them: dense rows, or sparse ones that are never copied."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.families import Array, Contribution, Dirichlet, Family, dense
from decbayes.symmetry import Permutation


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of a sparse matrix in some order: row k has the entries from starts[k] to stops[k]."""

    starts: NDArray[np.int32]
    stops: NDArray[np.int32]
    indices: NDArray[np.int32]
    data: Array
    sums: Array
    width: int

    @property
    def parts(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Array]:
        """The arrays as the kernels expect them."""
        return self.starts, self.stops, self.indices, self.data


Rows: TypeAlias = Array | SparseRows


def rows_of(contribution: Contribution, order: Permutation, family: Family) -> Rows:
    """An agent's components in the given order.

    Dirichlet rows are always sparse ones, because their gain costs what is not zero; all others are dense.
    """
    return sparse_rows(csr_array(contribution), order) if family == Dirichlet() else dense(contribution)[order]


def sparse_rows(matrix: csr_array, order: Permutation) -> SparseRows:
    indptr = np.asarray(matrix.indptr, dtype=np.int32)
    indices, data = np.asarray(matrix.indices, dtype=np.int32), np.asarray(matrix.data, dtype=np.float64)
    # reduceat takes one entry of the next row for an empty row, and none may lie past the end.
    sums = np.where(np.diff(indptr) > 0, np.add.reduceat(np.append(data, 0.0), indptr[:-1]), 0.0)
    return SparseRows(indptr[:-1][order], indptr[1:][order], indices, data, sums[order], matrix.shape[1])


def size(rows: Rows) -> int:
    """How many numbers there are, zeros of sparse rows left out."""
    return len(rows.data) if isinstance(rows, SparseRows) else rows.size


def times(rows: Rows, factor: float) -> Rows:
    """The rows multiplied by a number."""
    if isinstance(rows, SparseRows):
        return replace(rows, data=factor * rows.data, sums=factor * rows.sums)
    return factor * rows


def written_out(rows: Rows) -> Array:
    """The rows as a dense matrix."""
    if not isinstance(rows, SparseRows):
        return rows
    total = np.zeros((len(rows.starts), rows.width))
    add(total, rows, np.arange(len(total)), np.arange(len(total)))
    return total


def add(total: Array, rows: Rows, slots: Permutation, components: Permutation, sign: float = 1.0) -> None:
    """total[slots] += sign · rows[components], in place; a component below zero is none.

    Costs what the rows hold, not what the total does.
    """
    if isinstance(rows, SparseRows):
        from decbayes.kernels.rows import add_rows

        add_rows(total, *rows.parts, slots, components, sign)
    else:
        placed = components >= 0
        total[slots[placed]] += sign * rows[components[placed]]
