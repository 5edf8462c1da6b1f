"""Word counts of documents, checked on input; and vocabularies in column order."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from decbayes.base.arguments import names_of, real_array
from decbayes.base.workers import gathered, split_among_threads, thread_count
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.inputs.chunks import each_chunk, is_chunked
from decbayes.inputs.filed import FileArray, Folder

Vocabulary = Iterable[str] | Mapping[str, int] | Mapping[int, str]


def words_in_order(vocabulary: Vocabulary) -> tuple[str, ...]:
    """The words in column order, from a list, from {word: column} (scikit-learn's `CountVectorizer`, not in that order)
    or from {column: word} (gensim's `Dictionary`).
    """
    if not isinstance(vocabulary, Mapping):
        return tuple(map(str, names_of(vocabulary=vocabulary)))
    by_column = dict(map(column_and_word, vocabulary.items()))
    if sorted(by_column) != list(range(len(vocabulary))):
        raise InvalidStructure(f"The vocabulary's columns are not 0 to {len(vocabulary) - 1}, each of them once.")
    return tuple(by_column[column] for column in range(len(by_column)))


def column_and_word(item: tuple[Any, Any]) -> tuple[int, str]:
    key, value = item
    return (index(value), key) if isinstance(key, str) else (index(key), str(value))


LARGEST = np.iinfo(np.int32).max

# Size of a block: Ctrl-C is handled between blocks, and blocks of files are read into memory.
BLOCK_ENTRIES, BLOCK_DOCUMENTS = 1 << 19, 1 << 14
# Up to this many entries, the positions of each word are cached between passes (128 MiB).
MOST_KEPT = 1 << 24
# From this many entries on, all threads check the counts.
MANY = 1 << 22


@dataclass(frozen=True)
class Places:
    """Where each word occurs in a block: entries and documents of word w, from starts[w] to starts[w + 1]."""

    starts: NDArray[np.int64]
    entries: NDArray[np.int32]
    documents: NDArray[np.int32]

    @classmethod
    def unsorted(cls, part: "CountBlock", words: int) -> "Places":
        """Allocate space for the entries of each word."""
        starts = np.append(0, np.cumsum(np.bincount(part.columns, minlength=words)))
        return cls(starts, *(np.empty(len(part.data), dtype=np.int32) for _ in range(2)))


@dataclass(frozen=True)
class Counts:
    """Documents as a CSR matrix over the words that occur in them, in memory or in files.

    `words` are their numbers in the vocabulary: the cost of a fit depends on its data, not on the vocabulary.
    """

    data: NDArray[np.int32] | FileArray
    columns: NDArray[np.int32] | FileArray
    offsets: NDArray[np.int64]
    words: NDArray[np.int64]
    folder: Folder | None = None
    times: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    """How often each word occurs, if already known."""
    places: dict[int, Places] = field(init=False, default_factory=dict, repr=False, compare=False)
    """Word positions by the first document of their block, cached by the first pass."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def keep(self, span: slice, places: Places) -> None:
        if self.folder is None and len(self.data) <= MOST_KEPT:
            self.places[span.start] = places

    def part(self, span: slice) -> "CountBlock":
        """Some consecutive documents, in memory."""
        offsets = self.offsets[span.start : span.stop + 1]
        entries = slice(int(offsets[0]), int(offsets[-1]))
        return CountBlock(self.data[entries], self.columns[entries], offsets - offsets[0])

    def loaded(self) -> "Counts":
        """Load all documents into memory."""
        return self if self.folder is None else self.span(slice(0, len(self)))

    def span(self, span: slice) -> "Counts":
        """Consecutive documents as a separate corpus over the same words."""
        part = self.part(span)
        return replace(self, data=part.data, columns=part.columns, offsets=part.offsets, folder=None, times=None)

    def documents(self, rows: NDArray[np.intp]) -> "Counts":
        """Some documents as a separate corpus over the same words, in memory."""
        parts = [self.part(slice(row, row + 1)) for row in rows.tolist()]
        data, columns = np.concatenate([part.data for part in parts]), np.concatenate([part.columns for part in parts])
        offsets = np.append(0, np.cumsum([len(part.data) for part in parts]))
        return replace(self, data=data, columns=columns, offsets=offsets, folder=None, times=None)

    def blocks(self) -> Iterator[slice]:
        """Spans of at most BLOCK_ENTRIES entries and BLOCK_DOCUMENTS documents, but at least one document."""
        first = 0
        while first < len(self):
            within = int(np.searchsorted(self.offsets, self.offsets[first] + BLOCK_ENTRIES, side="right")) - 1
            last = min(max(within, first + 1), first + BLOCK_DOCUMENTS, len(self))
            yield slice(first, last)
            first = last

    @cached_property
    def tokens(self) -> int:
        return int(self.frequencies.sum())

    @cached_property
    def frequencies(self) -> NDArray[np.float64]:
        """How often each word occurs."""
        if self.times is not None:
            return self.times
        total = np.zeros(len(self.words))
        for part in map(self.part, self.blocks()):
            total += np.bincount(part.columns, weights=part.data, minlength=len(total))
        return total

    def lengths(self) -> NDArray[np.int64]:
        """The number of distinct words in each document."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class CountBlock:
    """Consecutive documents in memory: a CSR matrix over the same words."""

    data: NDArray[np.int32]
    columns: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def rows(self) -> NDArray[np.intp]:
        """The document of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def tokens(self) -> NDArray[np.float64]:
        """The number of words in each document."""
        total, filled = np.zeros(len(self)), np.diff(self.offsets) > 0
        total[filled] = np.add.reduceat(self.data, self.offsets[:-1][filled], dtype=np.int64)
        return total


def as_counts(data: Any, vocabulary: int) -> Counts:
    """Check documents × words counts: sparse, dense or in chunks."""
    if isinstance(data, Counts):
        return data
    if is_chunked(data):
        return spooled(data, vocabulary)
    times = times_of_words(data, vocabulary)
    matrix = checked_matrix(data, vocabulary) if times is None else data
    words, columns = present_words(matrix.indices, vocabulary, times)
    known = None if times is None else times[words].astype(np.float64)
    return Counts(matrix.data.astype(np.int32, copy=False), columns, matrix.indptr.astype(np.int64), words, times=known)


def times_of_words(data: Any, vocabulary: int) -> NDArray[np.int64] | None:
    """How often each word occurs in a valid matrix; None if the matrix needs further checks."""
    if not (issparse(data) and data.format == "csr" and data.shape[1:] == (vocabulary,)):
        return None
    stored = data.data, data.indices
    if any(part.dtype not in (np.int32, np.int64) or len(part) != data.indptr[-1] for part in stored):
        return None
    from decbayes.kernels.document_updates import add_words

    if data.nnz < MANY:
        times = np.zeros(vocabulary, dtype=np.int64)
        return times if add_words(*stored, data.indptr, 0, len(data.indptr) - 1, times) else None
    threads = thread_count()
    cuts = np.searchsorted(data.indptr, np.linspace(0, data.nnz, threads + 1)[1:-1])
    ends = [0, *cuts.tolist(), len(data.indptr) - 1]
    parts = [np.zeros(vocabulary, dtype=np.int64) for _ in range(threads)]
    fine = gathered(
        partial(add_words, *stored, data.indptr, first, last, part)
        for (first, last), part in zip(pairwise(ends), parts, strict=True)
    )
    return np.sum(parts, axis=0) if all(fine) else None


def spooled(chunks: Iterable[Any], vocabulary: int) -> Counts:
    """Chunks of documents, each read and checked once, in temporary files that live as long as the counts."""
    folder = Folder()
    data, columns = folder.array(np.int32), folder.array(np.int32)
    lengths, occurs = [np.zeros(1, dtype=np.int64)], np.zeros(vocabulary, dtype=bool)
    for chunk in each_chunk(chunks):
        matrix = checked_matrix(chunk, vocabulary)
        occurs[matrix.indices] = True
        data.append(matrix.data)
        columns.append(matrix.indices)
        lengths.append(np.diff(matrix.indptr))
    words, places = words_and_places(occurs)
    for first in range(0, len(columns), BLOCK_ENTRIES):
        span = slice(first, first + BLOCK_ENTRIES)
        columns[span] = places[columns[span]]
    return Counts(data, columns, np.cumsum(np.concatenate(lengths), dtype=np.int64), words, folder)


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
    """Convert counts to a type that SciPy knows and in which duplicate entries add up without overflow."""
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
            f"The counts refer to word number {matrix.indices.max()}; the vocabulary has {vocabulary} words."
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


def present_words(
    indices: NDArray[Any], vocabulary: int, times: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The words that occur, in order, and each index's place among them; `times` is how often, if known."""
    if times is None:
        occurs = np.zeros(vocabulary, dtype=bool)
        occurs[indices] = True
    else:
        occurs = times > 0
    words, places = words_and_places(occurs)
    if len(words) == vocabulary and indices.dtype == np.int32:
        return words, indices
    columns = np.empty(len(indices), dtype=np.int32)

    def take(span: slice) -> None:
        np.take(places, indices[span], out=columns[span], mode="clip")  # which needs no copy

    split_among_threads(take, len(indices), cost=len(indices))
    return words, columns


def words_and_places(occurs: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The words that occur, in order, and the place of each word of the vocabulary among them."""
    words = np.flatnonzero(occurs)
    places = np.zeros(len(occurs), dtype=np.int32)
    places[words] = np.arange(len(words), dtype=np.int32)
    return words, places
