"""Words that few documents have: fits that cannot tell them apart, and topics that do not reveal which occur."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import pdtr

from decbayes.families import Array
from decbayes.inputs.documents import counted_blocks, moved
from decbayes.inputs.filed import FileMatrix

Mask = NDArray[np.bool_]


def spread(topics: Any, rare: Mask, shares: Array) -> csr_array:
    """Distribute the topics' counts of rare words among all rare words, absent ones included."""
    if not rare.any():
        return csr_array(topics)
    counts = csr_array(topics).toarray()
    shares = np.where(rare, shares, 0.0)
    mass = counts[:, rare].sum(axis=1, keepdims=True)
    return csr_array(np.where(rare, mass * shares / shares.sum(axis=-1, keepdims=True), counts))


def shares_by_frequency(documents: Any, words: int, least: int) -> Array:
    """Shares of rare words by the public numbers of documents that have them.

    Lists count a word only where it is frequent, which exaggerates differences. Square roots compensate for that, and
    words without a number count like the rarest that have one.
    """
    return np.sqrt(np.maximum(np.asarray(documents, dtype=np.float64), least)) if len(documents) else np.ones(words)


def shares_by_topics(others: Array, masses: Array, least: int) -> Array:
    """Shares of rare words in each topic, by the topics of other sites: (K, W) Dirichlet parameters.

    A word that these topics predict to be frequent, but that is rare here, has fewer documents than they say: its share
    is multiplied by E[X | X < least] / E[X] = P(X < least − 1) / P(X < least), where X is Poisson.
    """
    probabilities = others / others.sum(axis=1, keepdims=True)
    expected = masses @ probabilities
    truncated = pdtr(least - 2, expected) / np.maximum(pdtr(least - 1, expected), np.finfo(float).tiny)
    return np.asarray(probabilities * np.maximum(truncated, np.finfo(float).eps))


def evened(topics: Any, rare: Mask) -> csr_array:
    """Make all rare words equal in each topic."""
    return spread(topics, rare, np.ones(len(rare)))


def unnamed(data: Any, rare: Mask) -> csr_array | FileMatrix:
    """Permute rare words so that their order depends only on where they occur.

    Counts that differ only in which rare words occur become the same.
    """
    places = places_by_use(counted_blocks(data), rare)
    blocks = (in_places(block, places) for block in counted_blocks(data))
    return FileMatrix.of(len(rare), blocks) if isinstance(data, FileMatrix) else next(blocks)


def in_places(counts: csr_array, places: NDArray[np.int64]) -> csr_array:
    result, _ = moved(counts, places, len(places))
    result.sort_indices()
    return result


def places_by_use(blocks: Iterable[csr_array], rare: Mask) -> NDArray[np.int64]:
    """A new column for each word: rare ones are sorted by the documents that have them, and by how often."""
    uses: dict[int, list[tuple[int, float]]] = defaultdict(list)
    first = 0
    for block in blocks:
        entries = block.tocoo()
        of_rare = rare[entries.coords[1]] & (entries.data > 0)
        rows, columns, numbers = (part[of_rare].tolist() for part in (*entries.coords, entries.data))
        for row, word, number in zip(rows, columns, numbers, strict=True):
            uses[word].append((first + row, number))
        first += block.shape[0]
    words = np.flatnonzero(rare)
    places = np.arange(len(rare))
    places[sorted(words.tolist(), key=lambda word: uses[word])] = words
    return places
