"""Words that few documents have: fits that cannot tell them apart, and topics that do not reveal which occur."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import pdtr

from decbayes.families import Array, Dirichlet
from decbayes.inputs.documents import counted_blocks, moved
from decbayes.inputs.filed import FileMatrix
from decbayes.models.core.counts import as_counts
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.topics._prediction import Predicting
from decbayes.posterior import Posterior
from decbayes.structure import Structure

Mask = NDArray[np.bool_]


class HidingRareWords(Predicting):
    """A topic model that hides words of few documents before anything leaves the site."""

    def presence(self, posterior: Posterior, data: Any, persons: Persons = EACH) -> Array:
        """The expected number of documents, or authors, with at least one word of a topic."""
        return persons.present(self.assign(posterior, data) * self.units(data)[:, None])

    def documents_with(self, data: Any, persons: Persons = EACH) -> Array:
        """The number of documents, or of authors, with each word of the vocabulary."""
        counts = as_counts(self.opened(data), len(self.vocabulary)).loaded()
        words, width = np.asarray(counts.columns, dtype=np.int64), len(counts.words)
        if persons.numbers is not None:
            authors = np.repeat(np.unique(persons.numbers, return_inverse=True)[1].reshape(-1), counts.lengths())
            words = np.unique(authors * width + words) % width
        having = np.zeros(len(self.vocabulary))
        having[counts.words] = np.bincount(words, minlength=width)
        return having

    def restricted(self, data: Any, structure: Structure) -> Any:
        """Counts of the structure's words only."""
        words = structure.labels["topics"]
        if tuple(words) == tuple(self.vocabulary):
            return data
        places = {word: place for place, word in enumerate(self.vocabulary)}
        return csr_array(self.opened(data))[:, [places[word] for word in words]]

    def times_in(self, data: Any) -> Array:
        """How often each word of the vocabulary occurs."""
        counts = as_counts(self.opened(data), len(self.vocabulary))
        times = np.zeros(len(self.vocabulary))
        times[counts.words] = counts.frequencies
        return times

    def rare_hidden(
        self,
        posterior: Posterior,
        data: Any,
        least: int,
        frequency: Any = (),
        others: Posterior | None = None,
        persons: Persons = EACH,
    ) -> Posterior:
        """Spread the counts of rare words over all rare and absent words: by the others' topics, or by public
        frequency.

        The result depends only on the total number of these words in the documents, not on which of them occur.
        """
        documents = self.documents_with(data, persons)
        rare = documents < least
        topics = csr_array(posterior.contribution["topics"])
        if not topics[:, np.flatnonzero(rare)].sum():
            return posterior
        # A single rare word could not be hidden among others.
        rare[np.argsort(documents, kind="stable")[:least]] = True
        if others is None:
            shares = shares_by_frequency(frequency, len(rare), least)
        else:
            (alpha,) = Dirichlet().columns(others.natural["topics"])
            shares = shares_by_topics(alpha, topics.sum(axis=1), least)
        return with_topics(posterior, spread_rare_counts(topics, rare, shares))

    def rare_unnamed(self, data: Any, least: int, persons: Persons = EACH) -> Any:
        opened = self.opened(data)
        return with_anonymous_words(opened, self.documents_with(opened, persons) < least)

    def rare_evened(
        self, posteriors: Sequence[Posterior], data: Any, least: int, persons: Persons = EACH
    ) -> list[Posterior]:
        rare = self.documents_with(data, persons) < least
        return [
            with_topics(posterior, with_equal_words(posterior.contribution["topics"], rare)) for posterior in posteriors
        ]


def with_topics(posterior: Posterior, topics: csr_array) -> Posterior:
    return replace(posterior, contribution={**posterior.contribution, "topics": topics})


def spread_rare_counts(topics: Any, rare: Mask, shares: Array) -> csr_array:
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


def with_equal_words(topics: Any, rare: Mask) -> csr_array:
    """Make all rare words equal in each topic."""
    return spread_rare_counts(topics, rare, np.ones(len(rare)))


def with_anonymous_words(data: Any, rare: Mask) -> csr_array | FileMatrix:
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
