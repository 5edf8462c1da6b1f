"""Word counts of documents, from texts or from counted tables."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from decbayes.errors import InvalidData
from decbayes.inputs.tables import TEXTS, Observations, is_text, opened, read_table, read_texts, reading

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
        tokens = [WORD.findall(text.lower()) for text in read_texts(path)]
        if not tokens:
            raise InvalidData(f"{path} holds no documents.")
        return counted(tokens, tuple(vocabulary) or telling_words(tokens, least_documents, most_share))
    table = read_counts(path)
    counts = csr_array(table.values) if np.ndim(table.values) == 2 else csr_array((0, 0))
    if not vocabulary:
        return Documents(counts, table.columns or tuple(map(str, range(counts.shape[1]))))
    return in_order_of(vocabulary, counts, table.columns) if table.columns else Documents(counts, tuple(vocabulary))


def read_counts(path: Path) -> Observations:
    try:
        return read_table(path)
    except InvalidData as error:
        cause = str(error).split(" Fill in missing")[0].rstrip(".")
        raise InvalidData(f"{cause}. Word counts are expected; texts must be in {', '.join(TEXTS)} files.") from None


def in_order_of(vocabulary: Sequence[str], counts: csr_array, columns: Sequence[str]) -> Documents:
    """Counts over a vocabulary from a table that names its own columns: others are left out, missing ones are zero."""
    places = {word: place for place, word in enumerate(vocabulary)}
    entries = counts.tocoo()
    target = np.array([places.get(word, -1) for word in columns], dtype=np.int64)[entries.coords[1]]
    known = target >= 0
    kept = (entries.data[known], (entries.coords[0][known], target[known]))
    reordered = csr_array(kept, shape=(counts.shape[0], len(vocabulary)))
    return Documents(reordered, tuple(vocabulary), int(entries.data[~known].sum()))


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


def telling_words(documents: Sequence[Sequence[str]], least: int, most_share: float) -> tuple[str, ...]:
    """The words that occur in enough documents and not in too large a share of them, in alphabetical order."""
    occurrences = Counter(word for document in documents for word in set(document))
    most = most_share * len(documents)
    words = tuple(sorted(word for word, count in occurrences.items() if least <= count <= most))
    if not words:
        raise InvalidData(
            f"No word occurs in {least} documents or more and in at most {most_share:.0%} of the {len(documents):,}; "
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
