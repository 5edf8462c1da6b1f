"""One site's components in one factor, for merges: dense rows, or sparse ones that are never copied."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.families.matrices import Array, Contribution, Indices

_Number = TypeVar("_Number", bound=np.generic)


class Rows(Protocol):
    """Rows in some order, each the contribution of one component."""

    @property
    def count(self) -> int:
        """The number of rows."""

    @property
    def size(self) -> int:
        """The number of stored entries, without zeros of sparse rows."""

    def times(self, factor: float) -> "Rows":
        """The rows multiplied by a number."""

    def written_out(self) -> Array:
        """The rows as a dense matrix."""

    def add_to(self, total: Array, slots: Indices, components: Indices, sign: float = 1.0) -> None:
        """total[slots] += sign · rows[components], in place; negative components are ignored.

        The cost depends on the rows' entries, not on the size of the total.
        """

    def taken(self, chosen: Indices) -> "Rows":
        """Some of the rows."""

    def joined(self, labels: Indices, count: int) -> "Rows":
        """The sum of the rows of each label."""

    def followed_by(self, others: "Sequence[Rows]") -> "Rows":
        """These rows, then others of the same kind."""

    def shortened(self, entries: int) -> "Rows":
        """The rows with only their largest entries if they are sparse: a cheap approximation."""


@dataclass(frozen=True, eq=False)
class DenseRows:
    """Rows of a matrix."""

    matrix: Array

    @property
    def count(self) -> int:
        return len(self.matrix)

    @property
    def size(self) -> int:
        return self.matrix.size

    def times(self, factor: float) -> "DenseRows":
        return DenseRows(factor * self.matrix)

    def written_out(self) -> Array:
        return self.matrix

    def add_to(self, total: Array, slots: Indices, components: Indices, sign: float = 1.0) -> None:
        placed = components >= 0
        # Several components may share a slot, which a plain += would count once.
        np.add.at(total, slots[placed], sign * self.matrix[components[placed]])

    def taken(self, chosen: Indices) -> "DenseRows":
        return DenseRows(self.matrix[chosen])

    def joined(self, labels: Indices, count: int) -> "DenseRows":
        total = np.zeros((count, self.matrix.shape[1]))
        self.add_to(total, labels, np.arange(len(labels)))
        return DenseRows(total)

    def shortened(self, entries: int) -> "DenseRows":
        return self

    def followed_by(self, others: Sequence[Rows]) -> "DenseRows":
        return DenseRows(np.concatenate([self.matrix, *(other.written_out() for other in others)]))


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
        """The arrays as the kernels expect them; read-only, because kernels are compiled anew for writable ones."""
        return self.starts, self.stops, read_only(self.indices), read_only(self.data)

    @property
    def count(self) -> int:
        return len(self.starts)

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
        from decbayes.kernels.sparse_rows import add_rows

        add_rows(total, *self.parts, slots, components, sign)

    def taken(self, chosen: Indices) -> "SparseRows":
        return replace(self, starts=self.starts[chosen], stops=self.stops[chosen], sums=self.sums[chosen])

    def joined(self, labels: Indices, count: int) -> "SparseRows":
        members = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(count, len(labels)))
        return sparse_rows(csr_array(members @ self.matrix()))

    def followed_by(self, others: Sequence[Rows]) -> "SparseRows":
        parts = [self, *(other for other in others if isinstance(other, SparseRows))]
        begin = np.cumsum([0, *(len(part.data) for part in parts)], dtype=np.int32)
        joined = SparseRows(
            starts=np.concatenate([part.starts + first for part, first in zip(parts, begin[:-1], strict=True)]),
            stops=np.concatenate([part.stops + first for part, first in zip(parts, begin[:-1], strict=True)]),
            indices=np.concatenate([part.indices for part in parts]),
            data=np.concatenate([part.data for part in parts]),
            sums=np.concatenate([part.sums for part in parts]),
            width=self.width,
        )
        return joined.packed()

    def shortened(self, entries: int) -> "SparseRows":
        matrix = self.matrix()
        kept = np.concatenate([np.zeros(0, dtype=np.bool_), *(largest(entries, *row) for row in rows_of(matrix))])
        ends = np.append(0, np.cumsum(np.minimum(np.diff(matrix.indptr), entries)))
        return sparse_rows(csr_array((matrix.data[kept], matrix.indices[kept], ends), shape=matrix.shape))

    def matrix(self) -> csr_array:
        """The rows as a matrix, in their order."""
        packed = self.packed()
        ends = np.append(0, packed.stops)
        return csr_array((packed.data, packed.indices, ends), shape=(packed.count, self.width))

    def packed(self) -> "SparseRows":
        """The same rows, one after another in memory."""
        lengths = (self.stops - self.starts).astype(np.int64)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(self.starts - ends[:-1], lengths) + np.arange(ends[-1])
        starts, stops = ends[:-1].astype(np.int32), ends[1:].astype(np.int32)
        return replace(self, starts=starts, stops=stops, indices=self.indices[entries], data=self.data[entries])


def read_only(array: NDArray[_Number]) -> NDArray[_Number]:
    view = array.view()
    view.flags.writeable = False
    return view


def rows_of(matrix: csr_array) -> Iterator[tuple[Array, NDArray[np.int32]]]:
    """Each row's data and columns."""
    for first, last in pairwise(matrix.indptr.tolist()):
        yield matrix.data[first:last], matrix.indices[first:last]


def largest(count: int, data: Array, columns: NDArray[np.int32]) -> NDArray[np.bool_]:
    """The positions of the largest entries of a row; ties go to the first columns."""
    if len(data) <= count:
        return np.ones(len(data), dtype=np.bool_)
    least = np.partition(data, len(data) - count)[len(data) - count]
    kept, equal = data > least, np.flatnonzero(data == least)
    kept[equal[np.argsort(columns[equal])][: count - int(kept.sum())]] = True
    return np.asarray(kept)


def sparse_rows(contribution: Contribution, order: Indices | None = None) -> SparseRows:
    """The rows of a matrix in the given order, without its zeros."""
    matrix = contribution if isinstance(contribution, csr_array) else csr_array(contribution)
    indptr = np.asarray(matrix.indptr, dtype=np.int32)
    indices, data = np.asarray(matrix.indices, dtype=np.int32), np.asarray(matrix.data, dtype=np.float64)
    # For an empty row reduceat returns the next row's entry, and no start may lie past the end.
    sums = np.where(np.diff(indptr) > 0, np.add.reduceat(np.append(data, 0.0), indptr[:-1]), 0.0)
    rows = np.arange(matrix.shape[0]) if order is None else order
    return SparseRows(indptr[:-1][rows], indptr[1:][rows], indices, data, sums[rows], matrix.shape[1])
