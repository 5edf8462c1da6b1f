"""From texts to word counts: stop words out, the rest stemmed, rare words and short documents dropped."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.base.extras import require

WORD = re.compile("[a-z]+")
SHORTEST = 3


@dataclass(frozen=True)
class BagOfWords:
    """Counts (documents × words), the words (stems), and which of the given texts are left, by number."""

    counts: csr_array
    vocabulary: tuple[str, ...]
    kept: NDArray[np.int64]


def bag_of_words(texts: Sequence[str], *, least_documents: int = 12, least_tokens: int = 5) -> BagOfWords:
    """Count words the way the experiments on 20 Newsgroups do.

    1. Lower-case; tokens are runs of the letters a to z.
    2. Drop tokens shorter than 3 letters and English stop words (scikit-learn's list).
    3. Porter stemmer; drop stems shorter than 3 letters.
    4. Keep stems that occur in at least `least_documents` texts.
    5. Keep texts with at least `least_tokens` remaining tokens.

    For posts or e-mails, `without_header` first takes the header block away. Agents that want to merge need one
    vocabulary: agree on one agent's, or on a public list, and count with it.
    """
    stems = [Counter(stemmed(text)) for text in texts]
    documents = Counter(chain.from_iterable(stems))
    vocabulary = tuple(sorted(stem for stem, count in documents.items() if count >= least_documents))
    counts = counted(stems, vocabulary)
    kept = np.flatnonzero(counts.sum(axis=1) >= least_tokens)
    return BagOfWords(counts[kept], vocabulary, kept)


def without_header(text: str) -> str:
    """A post without everything up to its first blank line; quotes and signatures stay."""
    _, _, body = text.partition("\n\n")
    return body


def stemmed(text: str) -> Iterator[str]:
    """The stems of a text's words, in order."""
    stemmer, stop_words = tools()
    words = [word for word in WORD.findall(text.lower()) if len(word) >= SHORTEST and word not in stop_words]
    return (stem for stem in stemmer.stemWords(words) if len(stem) >= SHORTEST)


@cache
def tools() -> tuple[Any, frozenset[str]]:
    """The stemmer and the stop words."""
    wanted = {"extra": "paper", "task": "Counting words"}
    stop_words = require("sklearn.feature_extraction.text", **wanted).ENGLISH_STOP_WORDS
    return require("Stemmer", **wanted).Stemmer("porter"), stop_words


def counted(stems: Iterable[Counter[str]], vocabulary: Sequence[str]) -> csr_array:
    column = {stem: number for number, stem in enumerate(vocabulary)}
    rows = [{column[stem]: count for stem, count in bag.items() if stem in column} for bag in stems]
    offsets = np.cumsum([0, *map(len, rows)])
    matrix = csr_array(
        (
            np.fromiter(chain.from_iterable(row.values() for row in rows), dtype=np.int32),
            np.fromiter(chain.from_iterable(rows), dtype=np.int32),
            offsets,
        ),
        shape=(len(rows), len(vocabulary)),
    )
    matrix.sort_indices()
    return matrix
