"""Word counts of documents, from texts or from counted tables."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.errors import InvalidData
from decbayes.inputs.chunks import in_batches
from decbayes.inputs.filed import FileArray, FileMatrix
from decbayes.inputs.large import ROWS, is_large, read_any_table
from decbayes.inputs.tables import TEXTS, Observations, is_text, opened, read_texts, reading

WORD = re.compile(r"[^\W\d_]{2,}")  # two letters or more, of any alphabet


@dataclass(frozen=True)
class Documents:
    """Counts of words in documents, the words, and how many tokens of the texts are none of them."""

    counts: Any
    vocabulary: tuple[str, ...]
    unknown: int = 0


def read_documents(
    path: Path, vocabulary: Sequence[str] = (), *, least_documents: int = 1, most_share: float = 1.0
) -> Documents:
    """Documents of a file, over the given vocabulary or else over the file's own."""
    if is_text(path):
        return counted_texts(path, tuple(vocabulary), least_documents, most_share)
    table = read_counts(path)
    counts = as_matrix(table.values)
    if not vocabulary:
        return Documents(counts, table.columns or tuple(map(str, range(counts.shape[1]))))
    return in_order_of(vocabulary, counts, table.columns) if table.columns else Documents(counts, tuple(vocabulary))


def as_matrix(values: Any) -> csr_array | FileMatrix:
    """A sparse matrix; of a large file it is in files."""
    if isinstance(values, FileArray) and values.ndim == 2:
        blocks = (slice(first, first + ROWS) for first in range(0, len(values), ROWS))
        return FileMatrix.of(values.shape[1], (csr_array(values[block]) for block in blocks))
    if isinstance(values, FileMatrix):
        return values
    return csr_array(values) if np.ndim(values) == 2 else csr_array((0, 0))


def counted_texts(path: Path, vocabulary: tuple[str, ...], least: int, most_share: float) -> Documents:
    """Texts of a large file are read twice where their words are to be chosen, and never held."""
    if not is_large(path):
        tokens = list(tokens_of(path))
        words = vocabulary or telling_words(tokens, least, most_share)
        return counted(tokens, words)
    words = vocabulary or telling_words(tokens_of(path), least, most_share)
    matrix, unknown = FileMatrix(len(words)), 0
    for batch in in_batches(tokens_of(path), ROWS):
        some = counted(batch, words)
        matrix.append(some.counts)
        unknown += some.unknown
    return Documents(matrix, words, unknown)


def tokens_of(path: Path) -> Iterator[list[str]]:
    """The words of each document; there is at least one."""
    number = 0
    for text in read_texts(path):
        number += 1
        yield WORD.findall(text.lower())
    if not number:
        raise InvalidData(f"{path} holds no documents.")


def read_counts(path: Path) -> Observations:
    try:
        return read_any_table(path)
    except InvalidData as error:
        cause = str(error).split(" Fill in missing")[0].rstrip(".")
        raise InvalidData(f"{cause}. Word counts are expected; texts must be in {', '.join(TEXTS)} files.") from None


def in_order_of(vocabulary: Sequence[str], counts: csr_array | FileMatrix, columns: Sequence[str]) -> Documents:
    """Counts over a vocabulary from a table that names its own columns: others are left out, missing ones are zero."""
    numbers = {word: place for place, word in enumerate(vocabulary)}
    places = np.array([numbers.get(word, -1) for word in columns], dtype=np.int64)
    if not isinstance(counts, FileMatrix):
        kept, unknown = moved(counts, places, len(vocabulary))
        return Documents(kept, tuple(vocabulary), unknown)
    matrix, total = FileMatrix(len(vocabulary)), 0
    for rows in counts:
        kept, unknown = moved(rows, places, len(vocabulary))
        matrix.append(kept)
        total += unknown
    return Documents(matrix, tuple(vocabulary), total)


def moved(counts: csr_array, places: NDArray[np.int64], width: int) -> tuple[csr_array, int]:
    """Columns at their new places, and the sum of those that have none."""
    entries = counts.tocoo()
    target = places[entries.coords[1]]
    known = target >= 0
    kept = (entries.data[known], (entries.coords[0][known], target[known]))
    return csr_array(kept, shape=(counts.shape[0], width)), int(entries.data[~known].sum())


def read_vocabulary(path: Path) -> tuple[str, ...]:
    """One word per line."""
    with reading(path, "text"), opened(path) as file:
        words = tuple(line.strip() for line in file if line.strip())
    if not words:
        raise InvalidData(f"{path} holds no words; one per line is expected.")
    if len(set(words)) != len(words):
        twice = len(words) - len(set(words))
        raise InvalidData(f"{path}: {twice:,} words are listed more than once; `sort -u` removes them.")
    return words


def telling_words(documents: Iterable[Sequence[str]], least: int, most_share: float) -> tuple[str, ...]:
    """The words that occur in enough documents and not in too large a share of them, in alphabetical order."""
    occurrences: Counter[str] = Counter()
    size = 0
    for document in documents:
        occurrences.update(set(document))
        size += 1
    most = most_share * size
    words = tuple(sorted(word for word, count in occurrences.items() if least <= count <= most))
    if not words:
        raise InvalidData(
            f"No word occurs in {least} documents or more and in at most {most_share:.0%} of the {size:,}; "
            "lower --least-documents or raise --most-share."
        )
    return words


def counted(documents: Sequence[Sequence[str]], vocabulary: tuple[str, ...]) -> Documents:
    places = {word: place for place, word in enumerate(vocabulary)}
    known = [[places[word] for word in document if word in places] for document in documents]
    lengths = [len(document) for document in known]
    columns = np.array([place for document in known for place in document], dtype=np.int32)
    rows = np.repeat(np.arange(len(known)), lengths)
    counts = csr_array((np.ones(len(columns), dtype=np.int32), (rows, columns)), shape=(len(known), len(vocabulary)))
    return Documents(counts, vocabulary, sum(map(len, documents)) - len(columns))
