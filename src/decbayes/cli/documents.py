"""Word counts of documents, from texts or from counted tables."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import PositiveInt
from cyclopts.validators import Number
from scipy.sparse import csr_array

from decbayes.cli.inputs import TEXTS, Table, is_text, opened, read_table, read_texts, reading
from decbayes.errors import InvalidData

WORD = re.compile(r"[^\W\d_]{2,}")  # two letters or more, of any alphabet

LeastDocuments = Annotated[PositiveInt, Parameter(help="Without a vocabulary: words in fewer documents are left out.")]
MostShare = Annotated[
    float,
    Parameter(
        help="Without a vocabulary: words in a larger share of them are left out.", validator=Number(gt=0, lte=1)
    ),
]


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
    width = np.shape(table.values)[1] if np.ndim(table.values) == 2 else 0
    words = tuple(vocabulary) or table.columns or tuple(map(str, range(width)))
    if table.columns and vocabulary and tuple(vocabulary) != table.columns:
        raise InvalidData(f"{path} counts other words than the vocabulary, or in another order.")
    return Documents(csr_array(table.values), words)


def read_counts(path: Path) -> Table:
    try:
        return read_table(path)
    except InvalidData as error:
        cause = str(error).rstrip(".")
        raise InvalidData(f"{cause}. Counts of words are expected; texts are read from {', '.join(TEXTS)}.") from None


def read_vocabulary(path: Path) -> tuple[str, ...]:
    """One word a line."""
    with reading(path, "text"), opened(path) as file:
        words = tuple(line.strip() for line in file if line.strip())
    if not words:
        raise InvalidData(f"{path} holds no words; one a line is expected.")
    if len(set(words)) != len(words):
        twice = next(word for word, count in Counter(words).items() if count > 1)
        raise InvalidData(f"{path}: the word {twice!r} is listed more than once.")
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
