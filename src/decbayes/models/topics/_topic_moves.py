"""Changing the number of topics: joins, deletions and splits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln, softmax

from decbayes.families import Array
from decbayes.models.core.component_search import Moves
from decbayes.models.core.counts import Counts
from decbayes.models.topics._fitting import random_first
from decbayes.models.topics._passes import Fresh, Statistics, Steps, Topics, bound_of_topics

if TYPE_CHECKING:
    from decbayes.models.topics.lda import LatentDirichletAllocation

# Candidates for a join per topic: those that share the most words.
PARTNERS = 4

# Passes over a topic's words to separate its two halves.
DIVIDING_PASSES = 10


@dataclass(frozen=True)
class ExpectedCounts:
    """Expected counts of each word in each topic, (words, topics), and γ of each document."""

    statistics: Array
    document_topics: Array
    passes: int = 0


class TopicMoves(Moves[ExpectedCounts]):
    """The moves of topics that share a prior; `before` is the prior of one topic."""

    def __init__(
        self, model: "LatentDirichletAllocation", counts: Counts, before: Topics, rng: np.random.Generator
    ) -> None:
        self._model, self._counts, self._one, self._rng = model, counts, before, rng
        self._alpha = float(model.document_prior)
        self.observations, self.rows = counts.tokens, len(counts)

    def begin(self, count: int) -> ExpectedCounts:
        return ExpectedCounts(random_first(self._counts, count, self._rng).written_out(), np.ones((self.rows, count)))

    def step(self, state: ExpectedCounts) -> tuple[ExpectedCounts, float]:
        count = state.statistics.shape[1]
        before, gamma = self._before(count), np.empty((self.rows, count))
        topics = before.plus(state.statistics)
        statistics = Statistics(topics)
        steps = Steps(np.full(count, self._alpha), self._model.document_tolerance, self._model.document_steps)
        # States made by the search itself have no warm-up.
        searching = state.passes < self._model.ascent.warm_up
        statistics.add(self._counts, steps, Fresh(count) if searching else state.document_topics, gamma)
        bound = statistics.bound + bound_of_topics(topics, before)
        return ExpectedCounts(statistics.finish(), gamma, state.passes + 1), bound

    def evidence(self, state: ExpectedCounts) -> Array:
        return np.asarray(state.statistics.sum(axis=0))

    def gains(self, state: ExpectedCounts) -> Iterator[tuple[float, int, int]]:
        """Upper bounds: responsibilities of words stay, and their loss of entropy is ignored."""
        statistics, totals = state.statistics, self.evidence(state)
        terms, gamma = self._terms(statistics, totals), state.document_topics
        documents = gammaln(gamma).sum(axis=0)
        for first, partners in enumerate(most_similar(statistics)):
            together = self._terms(statistics[:, [first]] + statistics[:, partners], totals[first] + totals[partners])
            gain = together - terms[first] - terms[partners] + self._terms(np.zeros((len(statistics), 1)), np.zeros(1))
            sums = gammaln(gamma[:, [first]] + gamma[:, partners] - self._alpha).sum(axis=0)
            gain += sums + len(gamma) * gammaln(self._alpha) - documents[first] - documents[partners]
            gain += self._in_common(gamma, len(totals) - 1) - self._in_common(gamma, len(totals))
            yield from ((float(value), first, int(second)) for value, second in zip(gain, partners, strict=True))

    def joined(self, state: ExpectedCounts, first: int, second: int) -> ExpectedCounts:
        statistics, gamma = state.statistics.copy(), state.document_topics.copy()
        statistics[:, first] += statistics[:, second]
        gamma[:, first] += gamma[:, second] - self._alpha
        return self.without(self._settled(statistics, gamma), second)

    def without(self, state: ExpectedCounts, component: int) -> ExpectedCounts:
        parts = (state.statistics, state.document_topics)
        return self._settled(*(np.delete(part, component, axis=1) for part in parts))

    def divided(self, state: ExpectedCounts) -> ExpectedCounts:
        """Split each topic's words, document by document: a mixture of two that starts from two documents."""
        statistics, gammas = [], []
        for component, words in enumerate(self._words_by_topic(state)):
            shares = self._halves(words)
            learned = state.document_topics[:, [component]] - self._alpha
            statistics.append(words.T @ shares)
            gammas.append(self._alpha + learned * shares)
        return self._settled(np.hstack(statistics), np.hstack(gammas))

    def _halves(self, words: csr_array) -> Array:
        """(documents, 2): the share of each document's words that goes to either half of a topic."""
        lengths = np.asarray(words.sum(axis=1)).ravel()
        chosen = np.flatnonzero(lengths > 0.5)
        if len(chosen) < 2:
            return np.tile([1.0, 0.0], (len(lengths), 1))
        seeds = self._rng.choice(chosen, 2, replace=False, p=lengths[chosen] / lengths[chosen].sum())
        scale = lengths.sum() / lengths[seeds]
        halves = words[seeds].toarray().T * scale + np.asarray(words.sum(axis=0)).reshape(-1, 1)
        for _ in range(DIVIDING_PASSES):
            smoothed = halves + self._one.alpha
            shares = softmax(words @ np.log(smoothed / smoothed.sum(axis=0)), axis=1)
            halves = words.T @ shares
        return np.asarray(shares)

    def _words_by_topic(self, state: ExpectedCounts) -> Iterator[csr_array]:
        """Each topic's documents × words matrix of expected counts, one at a time because together they are large."""
        counts, topics = self._counts, self._before(len(self.evidence(state))).plus(state.statistics)
        rows = np.repeat(np.arange(len(counts)), counts.lengths())
        words = np.exp(digamma(topics.alpha) - digamma(topics.totals))
        documents = np.exp(digamma(state.document_topics))
        both = list(zip(words.T, documents.T, strict=True))
        total = sum(word[counts.columns] * document[rows] for word, document in both)
        ratio = counts.data / np.maximum(total, np.finfo(np.float64).tiny)
        shape = (len(counts), len(counts.words))
        for word, document in both:
            yield csr_array(
                (ratio * word[counts.columns] * document[rows], counts.columns, counts.offsets), shape=shape
            )

    def _settled(self, statistics: Array, gamma: Array) -> ExpectedCounts:
        """A state past the warm-up, which carries its documents' topics over."""
        return ExpectedCounts(np.ascontiguousarray(statistics), np.ascontiguousarray(gamma), self._model.ascent.warm_up)

    def _before(self, count: int) -> Topics:
        return Topics(np.repeat(self._one.alpha, count, axis=1), np.repeat(self._one.totals, count))

    def _terms(self, statistics: Array, totals: Array) -> Array:
        """(K,): A(λ0 + c) of each topic."""
        return np.asarray(gammaln(self._one.alpha + statistics).sum(axis=0) - gammaln(self._one.totals + totals))

    def _in_common(self, gamma: Array, count: int) -> float:
        """Terms of the bound that depend only on the number of topics; γ sums to a document's length and prior."""
        lengths, total = gamma.sum(axis=1) - gamma.shape[1] * self._alpha, count * self._alpha
        return float(np.sum(gammaln(total) - gammaln(total + lengths)))


def most_similar(statistics: Array) -> list[NDArray[np.int64]]:
    """For each topic, the later ones that share the most words with it, by cosine similarity."""
    unit = statistics / np.maximum(np.linalg.norm(statistics, axis=0), np.finfo(np.float64).tiny)
    cosines = np.triu(unit.T @ unit, 1)
    return [np.argsort(-row[k + 1 :], kind="stable")[:PARTNERS] + k + 1 for k, row in enumerate(cosines)]
