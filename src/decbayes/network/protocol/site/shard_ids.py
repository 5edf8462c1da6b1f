"""Names of data: keyed digests of their content, which nobody can guess without the key."""

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from decbayes.inputs.filed import FileMatrix
from decbayes.models.core.points import as_numbers
from decbayes.network.protocol.group.keys import keyed

MARK_BYTES = 16


def shard_id(data: Any, secret: bytes, first: int = 0) -> str:
    """A site's name for data: the same data are the same shard, and nobody else can tell which data they are.

    Counts of words are named by the `first` columns, the original vocabulary, so that documents keep their name when
    words are added. Documents without any of these are named by all their words.
    """
    return keyed(secret, b"shard" + content_digest(data, first)).hex()[:32]


def mark(data: Any, secret: bytes, first: int = 0) -> bytes:
    """The group's name for data, which lets members notice that they hold the same data and tells others nothing."""
    return keyed(secret, b"mark" + content_digest(data, first))[:MARK_BYTES]


def content_digest(data: Any, first: int = 0) -> bytes:
    """SHA-256 of the observations, sorted by content."""
    begun = data if not first or np.shape(data)[1] <= first else FileMatrix.of(first, first_columns(data, first))
    if begun is not data and any(part.count_nonzero() for part in begun):
        return content_digest(begun)
    digest = hashlib.sha256(str("sequences" if are_sequences(data) else np.shape(data)[1:]).encode())
    for row in sorted(rows_of(data)):
        digest.update(row)
    return digest.digest()


def first_columns(data: Any, first: int) -> Iterator[csr_array]:
    parts = data if isinstance(data, FileMatrix) else [data]
    return (csr_array(csr_array(part)[:, :first]) for part in parts)


def rows_of(data: Any) -> Iterator[bytes]:
    """Each observation's bytes; a matrix in files is read in blocks of rows."""
    if isinstance(data, FileMatrix):
        return (row for part in data for row in sparse_rows(part))
    if are_sequences(data):
        return (sequence_digest(sequence) for sequence in data)
    return sparse_rows(data) if issparse(data) else dense_rows(data)


def are_sequences(data: Any) -> bool:
    return isinstance(data, list) and all(np.ndim(sequence) == 2 for sequence in data)


def sequence_digest(steps: Any) -> bytes:
    """The digest of a sequence, which is one observation of any length."""
    return hashlib.sha256(str(np.shape(steps)).encode() + b"".join(dense_rows(steps))).digest()


def dense_rows(data: Any) -> Iterator[bytes]:
    # Adding zero turns −0.0 into 0.0: equal values, equal bytes.
    values = as_numbers(data) + 0.0
    return (row.tobytes() for row in values.reshape(len(values), -1)) if values.size else iter(())


def sparse_rows(data: Any) -> Iterator[bytes]:
    """Rows of a sparse matrix in canonical form, whatever its integer type, order of entries or stored zeros."""
    matrix = csr_array(data, copy=True)
    matrix.data = as_numbers(matrix.data) + 0.0
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    indices, ends = matrix.indices.astype(np.int64), matrix.indptr
    for first, last in pairwise(ends):
        # Digests have a fixed length, so that the rows' concatenation is unambiguous.
        yield hashlib.sha256(indices[first:last].tobytes() + matrix.data[first:last].tobytes()).digest()
