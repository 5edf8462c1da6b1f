"""Word counts of documents: checked on the way in."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from decbayes.arguments import real_array
from decbayes.errors import InvalidData

LARGEST = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Counts:
    """Documents as a CSR matrix over the words that occur in them.

    `words` are the vocabulary's numbers of these words: what a fit costs depends on its data, not on the vocabulary.
    """

    data: NDArray[np.int32]
    columns: NDArray[np.int32]
    offsets: NDArray[np.int64]
    words: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def tokens(self) -> int:
        return int(self.data.sum(dtype=np.int64))

    def frequencies(self) -> NDArray[np.float64]:
        """How often each of the words occurs."""
        return np.bincount(self.columns, weights=self.data, minlength=len(self.words)).astype(np.float64)

    def document(self, number: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The columns and the counts of one document."""
        span = slice(self.offsets[number], self.offsets[number + 1])
        return self.columns[span], self.data[span]

    def lengths(self) -> NDArray[np.int64]:
        """How many different words each document has."""
        return np.diff(self.offsets)


def as_counts(data: Any, vocabulary: int) -> Counts:
    """Documents × words counts, sparse or dense, as `Counts`; refuses what no document can hold."""
    matrix = checked_matrix(data, vocabulary)
    words, columns = present_words(matrix.indices, vocabulary)
    return Counts(matrix.data.astype(np.int32, copy=False), columns, matrix.indptr.astype(np.int64), words)


def checked_matrix(data: Any, vocabulary: int) -> csr_array:
    """A CSR matrix of positive integers without duplicate entries."""
    try:
        counts = widened(data)
        check_shape(counts.shape, vocabulary)
        matrix = csr_array(counts)
    except (TypeError, ValueError) as error:
        raise InvalidData(f"Counts must be a matrix of numbers, one row per document: {error}") from None
    check_columns(matrix, vocabulary)
    check_values(matrix)
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy() if issparse(data) else matrix
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        check_values(matrix)
    return matrix


def widened(data: Any) -> Any:
    """Counts in a type that SciPy knows and whose duplicate entries can be added up without overflow."""
    if not issparse(data):
        array = real_array(data)
        return array.astype(np.float64 if array.dtype.kind == "f" else np.int64, copy=False)
    whole = data.dtype.kind in "bui"
    return data.astype(np.int64) if whole and not getattr(data, "has_canonical_format", False) else data


def check_shape(shape: tuple[int, ...], vocabulary: int) -> None:
    if len(shape) != 2 or shape[1] != vocabulary:
        raise InvalidData(
            f"The counts have shape {shape}; the model expects (documents, {vocabulary}), one column per word of "
            "its vocabulary. Count the words of new documents with that same vocabulary."
        )


def check_columns(matrix: csr_array, vocabulary: int) -> None:
    if matrix.nnz and not 0 <= matrix.indices.min() <= matrix.indices.max() < vocabulary:
        raise InvalidData(
            f"The counts name the word number {matrix.indices.max()}; the vocabulary has {vocabulary} words."
        )


def check_values(matrix: csr_array) -> None:
    values = matrix.data
    if values.dtype.kind not in "buif":
        raise InvalidData(f"Counts must be integers, not {values.dtype}.")
    if not len(values):
        return
    if not np.isfinite(values).all():
        raise InvalidData(
            "The counts hold NaN or infinite values. (`hold_out` marks a dense matrix with NaN; give it a sparse one.)"
        )
    if values.min() < 0 or values.max() > LARGEST:
        raise InvalidData(f"Counts must be between 0 and {LARGEST}; some are not.")
    if values.dtype.kind == "f" and (values != np.rint(values)).any():
        raise InvalidData("Counts must be integers; weighted words (tf-idf, say) are not counts.")


def present_words(indices: NDArray[Any], vocabulary: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The words that occur, in order, and each index's place among them."""
    occurs = np.zeros(vocabulary, dtype=bool)
    occurs[indices] = True
    words = np.flatnonzero(occurs)
    places = np.zeros(vocabulary, dtype=np.int32)
    places[words] = np.arange(len(words), dtype=np.int32)
    return words, places[indices]
