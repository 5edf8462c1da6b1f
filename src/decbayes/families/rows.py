"""The components of one site in one factor, as merges use them: dense rows, or sparse ones that are never copied."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.families.matrices import Array, Contribution, Indices


class Rows(Protocol):
    """Rows in some order, each the contribution of one component."""

    @property
    def size(self) -> int:
        """How many numbers there are, zeros of sparse rows left out."""

    def times(self, factor: float) -> "Rows":
        """The rows multiplied by a number."""

    def written_out(self) -> Array:
        """The rows as a dense matrix."""

    def add_to(self, total: Array, slots: Indices, components: Indices, sign: float = 1.0) -> None:
        """total[slots] += sign · rows[components], in place; a component below zero is none.

        Costs what the rows hold, not what the total does.
        """


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Rows of a matrix."""

    matrix: Array

    @property
    def size(self) -> int:
        return self.matrix.size

    def times(self, factor: float) -> "DenseRows":
        return DenseRows(factor * self.matrix)

    def written_out(self) -> Array:
        return self.matrix

    def add_to(self, total: Array, slots: Indices, components: Indices, sign: float = 1.0) -> None:
        placed = components >= 0
        total[slots[placed]] += sign * self.matrix[components[placed]]


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

    @property
    def size(self) -> int:
        return len(self.data)

    def times(self, factor: float) -> "SparseRows":
        return replace(self, data=factor * self.data, sums=factor * self.sums)

    def written_out(self) -> Array:
        total = np.zeros((len(self.starts), self.width))
        self.add_to(total, np.arange(len(total)), np.arange(len(total)))
        return total

    def add_to(self, total: Array, slots: Indices, components: Indices, sign: float = 1.0) -> None:
        from decbayes.kernels.rows import add_rows

        add_rows(total, *self.parts, slots, components, sign)


def sparse_rows(contribution: Contribution, order: Indices | None = None) -> SparseRows:
    """The rows of a matrix in the given order, without its zeros."""
    matrix = csr_array(contribution)
    indptr = np.asarray(matrix.indptr, dtype=np.int32)
    indices, data = np.asarray(matrix.indices, dtype=np.int32), np.asarray(matrix.data, dtype=np.float64)
    # reduceat takes one entry of the next row for an empty row, and none may lie past the end.
    sums = np.where(np.diff(indptr) > 0, np.add.reduceat(np.append(data, 0.0), indptr[:-1]), 0.0)
    rows = np.arange(matrix.shape[0]) if order is None else order
    return SparseRows(indptr[:-1][rows], indptr[1:][rows], indices, data, sums[rows], matrix.shape[1])
