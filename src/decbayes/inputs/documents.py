"""Documents from files: which of their words count, and how often each occurs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.base.extras import require
from decbayes.errors import InvalidData
from decbayes.inputs.chunks import in_batches
from decbayes.inputs.filed import FileArray, FileMatrix
from decbayes.inputs.large import ROWS, is_large, read_any_table
from decbayes.inputs.recipes import UNSPACED_REMEDY, USUAL, Recipe, detected, ends, unspaced
from decbayes.inputs.tables import Observations, check_unpacked, csv_rows, ending, is_compressed, is_number, reading
from decbayes.inputs.texts import FORMATS, LeftOut, Texts, text_columns, without_standard_input

# A cell with this many words is a text.
PROSE = 4


def counted_blocks(counts: Any) -> Iterable[csr_array]:
    """Counts in blocks of documents if they are in files; else all at once."""
    return counts if isinstance(counts, FileMatrix) else [csr_array(counts)]


def public_numbers(counts: Any, least: int) -> tuple[int, ...]:
    """How many documents have each word, rounded down to multiples of `least`: all that a list reveals."""
    return tuple((documents_with(counts) // least * least).tolist())


def documents_with(counts: Any) -> NDArray[np.int64]:
    """The number of documents with each word."""
    having = np.zeros(counts.shape[1], dtype=np.int64)
    for block in counted_blocks(counts):
        having += np.bincount(block.indices[block.data > 0], minlength=len(having))
    return having


TEXT = "text"

# Markers in place of a column, and the most words without a column to remember.
UNKNOWN, NO_WORD, MOST_REMEMBERED = -1, -2, 1 << 20


class Chosen(NamedTuple):
    """Words that count, words that too many documents have with their numbers, and the number of documents.

    `language` is the one whose stop words were removed by default.
    """

    words: tuple[str, ...]
    common: tuple[tuple[str, int], ...] = ()
    size: int = 0
    language: str = ""


NOTHING_CHOSEN = Chosen(())


@dataclass(frozen=True)
class Documents:
    """Counts of words in documents, the words, the number of other tokens, and what could not be read."""

    counts: Any
    vocabulary: tuple[str, ...]
    unknown: int = 0
    left_out: LeftOut = field(default_factory=LeftOut)
    chosen: Chosen = NOTHING_CHOSEN
    """How the words were chosen, if they were."""
    known: int = 0
    """The number of tokens that are counted."""


@dataclass(frozen=True)
class Choice:
    """Which words of texts count: those in enough documents, not in too large a share of them, and no stop words.

    A pair of words, or more of them, is left out if it begins or ends with a stop word.
    """

    least_documents: int = 1
    most_share: float = 1.0
    most_words: int = 0
    stop_words: frozenset[str] = frozenset()
    detect: bool = False
    """Whether to leave out the stop words of the documents' main language, too."""

    def of(self, documents: Iterable[Sequence[str]]) -> "Chosen":
        """The words that count, in alphabetical order; those that too many documents have; and the number of all."""
        occurrences: Counter[str] = Counter()
        size = 0
        for document in documents:
            occurrences.update(set(document))
            size += 1
        language, stopped = detected(occurrences) if self.detect else ("", frozenset[str]())
        choice = replace(self, stop_words=self.stop_words | stopped)
        most = self.most_share * size
        kept = {word: count for word, count in occurrences.items() if self.least_documents <= count <= most}
        telling = [word for word in kept if not choice.stops(word)]
        if not occurrences:
            raise InvalidData(
                f"There are no words in the {size:,} documents; numbers and single letters are not words (--tokens)."
            )
        if not telling:
            remedy = UNSPACED_REMEDY if unspaced(occurrences) else "lower --least-documents or raise --most-share"
            raise InvalidData(
                f"No word occurs in {self.least_documents} documents or more and in at most {self.most_share:.0%} of "
                f"the {size:,}; {remedy}."
            )
        if self.most_words:
            telling = sorted(telling, key=lambda word: (-kept[word], word))[: self.most_words]
        frequent = [(word, count) for word, count in occurrences.items() if count > most and not choice.stops(word)]
        return Chosen(tuple(sorted(telling)), tuple(sorted(frequent)), size, language)

    def of_counts(self, words: Sequence[str], counts: Any) -> tuple[str, ...]:
        """The words of a table of counts that enough documents have, in its order; its author has chosen them."""
        enough = documents_with(counts) >= self.least_documents
        if not enough.any():
            raise InvalidData(f"No word occurs in {self.least_documents} documents or more; lower --least-documents.")
        return tuple(word for word, kept in zip(words, enough, strict=True) if kept)

    def stops(self, word: str) -> bool:
        return not self.stop_words.isdisjoint(ends(word))


EVERYTHING = Choice()


def read_documents(
    source: Path | Texts, vocabulary: Sequence[str] = (), *, recipe: Recipe = USUAL, choice: Choice = EVERYTHING
) -> Documents:
    """Documents of files, over the given vocabulary or else over their own words."""
    texts, _copy = without_standard_input(Texts((source,)) if isinstance(source, Path) else source)
    if not holds_counts(texts):
        return counted_texts(texts, tuple(vocabulary), recipe, choice)
    table = read_counts(texts.paths[0])
    counts = as_matrix(table.values)
    if not vocabulary and not table.columns:
        return Documents(counts, tuple(map(str, range(counts.shape[1]))))
    if not vocabulary:
        vocabulary = choice.of_counts(table.columns, counts)
    return in_order_of(vocabulary, counts, table.columns) if table.columns else Documents(counts, tuple(vocabulary))


def holds_counts(texts: Texts) -> bool:
    """Whether there is one file, and it holds counts rather than texts."""
    (path, *others) = texts.paths
    for given in texts.paths:
        check_unpacked(given)
    kind = ending(path)
    if others or path.is_dir() or texts.columns or texts.format:
        return False
    if kind in ("csv", "tsv"):
        return not holds_texts(path, texts.encoding)
    if kind == "parquet":
        return is_compressed(path) or TEXT not in parquet_strings(path)
    return kind not in FORMATS


def holds_texts(path: Path, encoding: str) -> bool:
    """Whether a CSV file has a column `text` that holds texts, not counts of that word, or else prose.

    Prose in a column of another name is found later, by an error that lists the columns.
    """
    with reading(path, f".{ending(path)}"):
        rows = csv_rows(path, encoding, "surrogateescape")
        names, first = ([cell.strip() for cell in next(rows, [])] for _ in range(2))
    if TEXT not in names:
        return any(len(cell.split()) >= PROSE for cell in first)
    (place,) = text_columns(names, ())
    return place < len(first) and not is_number(first[place])


def parquet_strings(path: Path) -> list[str]:
    parquet = require("pyarrow.parquet", extra="parquet", task="Reading Parquet files")
    with reading(path, ".parquet"):
        return [field.name for field in parquet.read_schema(path) if str(field.type) in ("string", "large_string")]


def as_matrix(values: Any) -> csr_array | FileMatrix:
    """A sparse matrix; in files if the source is large."""
    if isinstance(values, FileArray) and values.ndim == 2:
        blocks = (slice(first, first + ROWS) for first in range(0, len(values), ROWS))
        return FileMatrix.of(values.shape[1], (csr_array(values[block]) for block in blocks))
    if isinstance(values, FileMatrix):
        return values
    return csr_array(values) if np.ndim(values) == 2 else csr_array((0, 0))


def counted_texts(texts: Texts, vocabulary: tuple[str, ...], recipe: Recipe, choice: Choice) -> Documents:
    """Count words. Texts of large files are read twice if their words are to be chosen, and never held in memory."""

    def documents() -> Iterator[list[str]]:
        return map(recipe.words, (text for _, text in texts.read(left_out)))

    left_out = LeftOut()
    if not is_large(*(path for path, _ in texts.files(LeftOut()))):
        tokens = list(documents())
        chosen = Chosen(vocabulary) if vocabulary else choice.of(tokens)
        counts, unknown = Counting(chosen.words, recipe).of_words(tokens)
        return Documents(counts, chosen.words, unknown, left_out, chosen, int(counts.sum()))
    chosen = Chosen(vocabulary) if vocabulary else choice.of(documents())
    left_out, counting = LeftOut(), Counting(chosen.words, recipe)
    matrix, total, known = FileMatrix(len(chosen.words)), 0, 0
    for batch in in_batches(documents(), ROWS):
        counts, unknown = counting.of_words(batch)
        matrix.append(counts)
        total += unknown
        known += int(counts.sum())
    return Documents(matrix, chosen.words, total, left_out, chosen, known)


def read_counts(path: Path) -> Observations:
    try:
        return read_any_table(path)
    except InvalidData as error:
        cause = str(error).split(" Fill in missing")[0].rstrip(".")
        raise InvalidData(
            f"{cause}. Word counts are expected; texts are in .txt or .jsonl files, or in columns of a table that you "
            "name: --columns NAME."
        ) from None


def in_order_of(vocabulary: Sequence[str], counts: csr_array | FileMatrix, columns: Sequence[str]) -> Documents:
    """Counts over a vocabulary from a table with named columns: others are left out, missing ones are zero."""
    numbers = {word: place for place, word in enumerate(vocabulary)}
    places = np.array([numbers.get(word, -1) for word in columns], dtype=np.int64)
    if not isinstance(counts, FileMatrix):
        kept, unknown = moved(counts, places, len(vocabulary))
        return Documents(kept, tuple(vocabulary), unknown, known=int(kept.sum()))
    matrix, total, known = FileMatrix(len(vocabulary)), 0, 0
    for rows in counts:
        kept, unknown = moved(rows, places, len(vocabulary))
        matrix.append(kept)
        total += unknown
        known += int(kept.sum())
    return Documents(matrix, tuple(vocabulary), total, known=known)


def moved(counts: csr_array, places: NDArray[np.int64], width: int) -> tuple[csr_array, int]:
    """Columns at their new places, and the sum of those without a place."""
    entries = counts.tocoo()
    target = places[entries.coords[1]]
    known = target >= 0
    kept = (entries.data[known], (entries.coords[0][known], target[known]))
    return csr_array(kept, shape=(counts.shape[0], width)), int(entries.data[~known].sum())


class WordPlaces(dict[str, int]):
    """The column of each word; for other pieces, whether they are words at all, determined once."""

    def __init__(self, vocabulary: Sequence[str], recipe: Recipe) -> None:
        super().__init__((word, place) for place, word in enumerate(vocabulary) if recipe.is_word(word))
        self._most, self._recipe = len(vocabulary) + MOST_REMEMBERED, recipe

    def __missing__(self, piece: str) -> int:
        place = UNKNOWN if self._recipe.is_word(piece) else NO_WORD
        if len(self) < self._most:
            self[piece] = place
        return place


class Counting:
    """Counts the words of a vocabulary in texts, using a recipe."""

    def __init__(self, vocabulary: Sequence[str], recipe: Recipe) -> None:
        self.vocabulary, self.recipe = tuple(vocabulary), recipe
        self._places = WordPlaces(vocabulary, recipe)

    def __call__(self, texts: Iterable[str]) -> tuple[csr_array, int]:
        """(documents, words) counts, and the number of other tokens."""
        return self.of_words([*map(self.recipe.pieces, texts)])

    def of_words(self, documents: Sequence[Sequence[str]]) -> tuple[csr_array, int]:
        """The same, for documents that are already split into words."""
        lengths = np.fromiter(map(len, documents), np.int64, len(documents))
        numbers = map(self._places.__getitem__, chain.from_iterable(documents))
        places = np.fromiter(numbers, np.int32, int(lengths.sum()))
        known = places >= 0
        offsets = np.append(0, np.cumsum(known))[np.append(0, np.cumsum(lengths))]
        entries = np.ones(int(offsets[-1]), dtype=np.int32), places[known], offsets
        counts = csr_array(entries, shape=(len(documents), len(self.vocabulary)))
        counts.sum_duplicates()
        return counts, int((places == UNKNOWN).sum())
