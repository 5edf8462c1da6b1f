"""The matrices that families work on: one row per component, dense or sparse."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Scalar = TypeVar("Scalar", bound=np.generic)


class SparseMatrix(Protocol):
    """The part of `scipy.sparse.csr_array` that is used here; SciPy has no types for it."""

    shape: tuple[int, int]
    dtype: np.dtype[np.float64]
    nnz: int
    data: Array
    indices: NDArray[np.int32]
    indptr: NDArray[np.int32]

    def toarray(self) -> Array: ...
    def sum(self, axis: int) -> Array: ...
    def __getitem__(self, key: Any) -> "SparseMatrix": ...
    def __add__(self, other: Any) -> Any: ...
    def __radd__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __rsub__(self, other: Any) -> Any: ...


Contribution: TypeAlias = Array | SparseMatrix
"""λ − λ0 of one factor, (K, d); sparse if the structure says so."""

Value: TypeAlias = Array | tuple[Array, ...]
"""A parameter θ, or its mean: an array, or a named tuple of arrays if there are several quantities."""


def is_sparse(matrix: Contribution) -> "TypeIs[SparseMatrix]":
    return bool(issparse(matrix))


def dense(matrix: Contribution) -> Array:
    """The matrix itself, or a sparse one written out.

    >>> from scipy.sparse import csr_array
    >>> db.families.dense(csr_array([[0.0, 2.0]]))
    array([[0., 2.]])
    """
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix, dtype=np.float64)


def as_rows(values: ArrayLike) -> Array:
    """A (K, D) matrix; a vector is K components of one dimension."""
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else np.atleast_2d(array)


def stored(matrix: Contribution) -> Array:
    """The stored numbers of a matrix, without the zeros of a sparse one."""
    return matrix.data if is_sparse(matrix) else matrix


def smallest(matrix: Array) -> Array:
    """A matrix without broadcast repetitions: a prior may store equal rows or columns only once."""
    return matrix[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in matrix.strides)]


def by_dimension(blocks: Sequence[Sequence[Array]]) -> Array:
    """(K, sD, sD) from s × s blocks of (K, D): statistics of D independent dimensions."""
    sides = np.eye(blocks[0][0].shape[-1])
    rows = [np.concatenate([block[..., None] * sides for block in row], axis=-1) for row in blocks]
    return np.asarray(np.concatenate(rows, axis=-2))


def outer(vectors: Array) -> Array:
    return vectors[..., :, None] * vectors[..., None, :]


def flat(matrices: Array) -> Array:
    # −1 is ambiguous for a matrix without rows.
    return matrices.reshape(*matrices.shape[:-2], matrices.shape[-2] * matrices.shape[-1])


def upper(matrices: NDArray[Scalar]) -> NDArray[Scalar]:
    """(…, D (D + 1) / 2): the entries of symmetric matrices on and above their diagonals, row by row."""
    first, second = np.triu_indices(matrices.shape[-1])
    return matrices[..., first, second]


def folded(matrices: Array) -> Array:
    """The same with off-diagonal entries doubled, so that folded(A) · upper(B) is the sum of all A ∘ B."""
    first, second = np.triu_indices(matrices.shape[-1])
    return np.where(first == second, 1.0, 2.0) * upper(matrices)


def mirrored(halves: NDArray[Scalar], side: int) -> NDArray[Scalar]:
    """(…, D, D): the symmetric matrices with these upper halves."""
    first, second = np.triu_indices(side)
    whole = np.empty((*halves.shape[:-1], side, side), dtype=halves.dtype)
    whole[..., first, second] = whole[..., second, first] = halves
    return whole


def upper_products(vectors: Array) -> Array:
    """(…, D (D + 1) / 2): the upper half of vvᵀ."""
    first, second = np.triu_indices(vectors.shape[-1])
    return vectors[..., first] * vectors[..., second]


def split(natural: ArrayLike, parts: int) -> tuple[Array, ...]:
    """The columns split into this many blocks of equal width."""
    matrix = np.asarray(natural, dtype=np.float64)
    width, rest = divmod(matrix.shape[-1], parts)
    if rest:
        raise ValueError(f"{matrix.shape[-1]} columns are not {parts} blocks of equal width.")
    return tuple(matrix[..., first * width : (first + 1) * width] for first in range(parts))


def block_width(name: str, width: int, parts: int) -> int:
    """The width of each of this many equal blocks; ValueError unless the columns form such blocks."""
    if width < parts or width % parts:
        raise ValueError(f"{name} has {parts} columns per dimension; {width} columns are not a multiple of it.")
    return width // parts


def frozen_dense(contribution: Any) -> Array:
    # Adding zero turns −0.0 into 0.0, so that equal values have equal bytes.
    matrix = np.ascontiguousarray(dense(contribution)) + 0.0
    matrix.flags.writeable = False
    return matrix


def frozen_sparse(contribution: Any) -> csr_array:
    """A CSR matrix with sorted indices, without duplicates or explicit zeros, read-only."""
    matrix = csr_array(contribution, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.indptr, matrix.indices = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def arrays(contribution: Contribution) -> dict[str, np.ndarray[Any, Any]]:
    """A contribution's little-endian arrays: one if dense, three if sparse."""
    if is_sparse(contribution):
        return {
            "data": contribution.data.astype("<f8"),
            "indices": contribution.indices.astype("<i4"),
            "indptr": contribution.indptr.astype("<i4"),
        }
    return {"data": np.asarray(contribution).astype("<f8")}
