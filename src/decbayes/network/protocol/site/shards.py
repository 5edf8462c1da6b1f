"""The data of an agent's shards, and their names: keyed digests that nobody can guess without the key."""

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from decbayes.inputs.filed import FileMatrix
from decbayes.merging.base.vocabularies import in_columns
from decbayes.models.core.persons import Persons
from decbayes.models.core.points import as_numbers
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import keyed

MARK_BYTES = 16


class ShardData:
    """The data of an agent's shards, with one column per word that counts, and the persons in them."""

    def __init__(self, charter: Charter) -> None:
        self.shards: dict[str, Any] = {}
        self.people: dict[str, Persons] = {}
        self._charter = charter
        self._given: dict[str, tuple[Any, tuple[str, ...]]] = {}
        self._vocabularies = [charter.vocabulary]

    def keep(self, name: str, data: Any, persons: Any) -> None:
        """Keep a shard's data and, if they are given, its persons."""
        words = self._words_of(data)
        if name not in self._given or len(words) >= len(self._given[name][1]):
            # The same data may have been read with a smaller vocabulary before.
            self._given[name] = data, words
        self.shards[name] = self._over_words(*self._given[name])
        if persons is not None:
            self.people[name] = Persons.of(persons).checked(self._charter.model.count(data))

    def renew(self, charter: Charter) -> None:
        """Adjust the columns of all data if the vocabulary has changed."""
        self._charter = charter
        if charter.words != self._vocabularies[-1]:
            self._vocabularies.append(charter.words)
            self.shards = {name: self._over_words(*given) for name, given in self._given.items()}

    def _words_of(self, data: Any) -> tuple[str, ...]:
        """The words of the data's columns: the vocabulary in force now, or when the data were read."""
        width = np.shape(data)[1] if self._charter.words_added else len(self._charter.words)
        return next((words for words in reversed(self._vocabularies) if len(words) == width), self._charter.words)

    def _over_words(self, data: Any, words: tuple[str, ...]) -> Any:
        now = self._charter.words
        if words == now:
            return data
        if isinstance(data, FileMatrix):
            return FileMatrix.of(len(now), (in_columns(part, words, now) for part in data))
        return in_columns(csr_array(data), words, now)


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
