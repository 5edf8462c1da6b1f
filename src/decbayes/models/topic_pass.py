"""One pass of topics over documents, on as many cores as joblib allows and with the same bits for any number of them.

Documents are independent given the topics, and words are independent given the documents. So a block of documents is
updated by document first; what it says of the topics is then added up by word, each word's documents in their order.
Neither the threads nor the size of a block change the order in which anything is summed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.families import Array
from decbayes.models.ascent import Watch
from decbayes.models.counts import Counts, Part, Places
from decbayes.models.document_prior import table_sums
from decbayes.workers import even_parts, share_out, split_among_threads, thread_count

# Parts of the topics' bound are summed for so many words each, whatever the number of threads.
WORDS = 4096
# Entries × topics below which a thread costs more than it saves.
WORTH_A_THREAD = 100_000
# So many parts per thread even out the work among them. Sorting reads everything in each of its parts.
PARTS, SORTERS = 4, 4


@dataclass(frozen=True)
class Topics:
    """Dirichlet topics: α of the words at hand, (words, topics) as the kernels want it, and its sums over all words."""

    alpha: Array
    totals: Array

    def plus(self, statistics: Array) -> "Topics":
        alpha = np.empty_like(self.alpha)
        by_words(lambda words: np.add(self.alpha[words], statistics[words], out=alpha[words]), alpha)
        return Topics(alpha, self.totals + statistics.sum(axis=0))


@dataclass(frozen=True)
class Steps:
    """How a document's topics are found: their prior, the change of γ that ends the search, and the most steps."""

    prior: Array
    tolerance: float
    most: int


@dataclass(frozen=True)
class Expected:
    """exp(E[log β] − scale) of every word, (words, topics): what documents need to know of the topics."""

    weights: Array
    scales: Array

    @classmethod
    def of(cls, topics: Topics) -> "Expected":
        from decbayes.kernels.lda import expect_topics

        weights, scales = np.empty_like(topics.alpha), np.empty(len(topics.alpha))

        def some(words: slice) -> None:
            expect_topics(topics.alpha[words], topics.totals, weights[words], scales[words])

        by_words(some, weights)
        return cls(weights, scales)


class Source(Protocol):
    """γ of documents in memory, in files, or not found yet."""

    def __getitem__(self, span: slice, /) -> Array: ...


class Target(Source, Protocol):
    """Where γ of documents is written."""

    def __setitem__(self, span: slice, gamma: Array, /) -> None: ...


@dataclass(frozen=True)
class Fresh:
    """Document topics that start anew: all topics alike."""

    topics: int

    def __getitem__(self, span: slice) -> Array:
        return np.ones((span.stop - span.start, self.topics))


class Statistics:
    """Expected counts of each word in each topic, and the documents' part of the bound, summed as documents come.

    With `tables` also what the documents say of their prior.
    """

    def __init__(self, topics: Topics, *, tables: bool = False) -> None:
        self.expected = Expected.of(topics)
        self.bound = 0.0
        self.tables = np.zeros(len(topics.totals) + 1) if tables else None
        self._sums = np.zeros_like(topics.alpha)

    def add(
        self, counts: Counts, steps: Steps, before: Source, after: Target | None = None, watch: Watch | None = None
    ) -> Array:
        """Find the documents' topics, going on from those `before`; returns each document's part of the bound."""
        bounds = np.empty(len(counts))
        for span in counts.blocks():
            gamma = np.array(before[span])
            known = counts.places.get(span.start)
            counts.keep(span, self._add_block(counts.part(span), gamma, steps, bounds[span], known))
            if after is not None:
                after[span] = gamma
            if self.tables is not None:
                self.tables += table_sums(gamma, steps.prior)
            if watch is not None:
                watch(span.stop)
        # One after the other, so that it does not matter in how many parts documents are added.
        self.bound = float(np.add.accumulate(np.append(self.bound, bounds))[-1])
        return bounds

    def finish(self) -> Array:
        """(words, topics)."""
        weights = self.expected.weights
        by_words(lambda words: np.multiply(self._sums[words], weights[words], out=self._sums[words]), weights)
        return self._sums

    def _add_block(self, block: Part, gamma: Array, steps: Steps, bounds: Array, known: Places | None) -> Places:
        """Where its words occur is found at the same time, unless it is known."""
        places = known or Places.unsorted(block, len(self._sums))
        ratios, proportions = np.empty(len(block.data)), np.empty_like(gamma)
        parts = PARTS * thread_count() if len(block.data) * gamma.shape[1] > 2 * WORTH_A_THREAD else 1
        documents = equal_work(block.offsets, parts)
        updates = [partial(self._update, block, span, gamma, steps, proportions, ratios, bounds) for span in documents]
        share_out([*updates, *(sorting(block, places, parts) if known is None else ())])
        words = equal_work(places.starts, parts)
        share_out(partial(self._sum, places, some, ratios, proportions) for some in words)
        return places

    def _update(
        self,
        block: Part,
        span: slice,
        gamma: Array,
        steps: Steps,
        proportions: Array,
        ratios: Array,
        bounds: Array,
    ) -> None:
        from decbayes.kernels.lda import update_documents

        update_documents(
            block.data,
            block.columns,
            block.offsets[span.start : span.stop + 1],
            self.expected.weights,
            self.expected.scales,
            steps.prior,
            gamma[span],
            proportions[span],
            ratios,
            bounds[span],
            steps.tolerance,
            steps.most,
        )

    def _sum(self, places: Places, words: slice, ratios: Array, proportions: Array) -> None:
        from decbayes.kernels.lda import add_statistics

        some = places.starts[words.start : words.stop + 1]
        add_statistics(some, places.entries, places.documents, ratios, proportions, self._sums[words])


def sorting(block: Part, places: Places, parts: int) -> Iterator[Callable[[], None]]:
    """Find where the words of a block occur, some of them in each task."""
    from decbayes.kernels.lda import sort_by_word

    for words in equal_work(places.starts, min(parts, SORTERS, thread_count())):
        starts = places.starts[words.start : words.stop + 1]
        yield partial(sort_by_word, block.columns, block.offsets, starts, words.start, places.entries, places.documents)


class Inference:
    """The topics of documents, given topics that stay as they are: nothing is learned from these documents."""

    def __init__(self, topics: Topics, steps: Steps) -> None:
        self._weights, self._steps = Expected.of(topics).weights, steps

    def __call__(self, counts: csr_array) -> Array:
        """(documents, topics): expected shares."""
        from decbayes.kernels.lda import infer_documents

        data, columns = counts.data.astype(np.int32, copy=False), counts.indices.astype(np.int32, copy=False)
        offsets, steps = counts.indptr.astype(np.int64, copy=False), self._steps
        shares = np.ones((len(offsets) - 1, len(steps.prior)))

        def some(span: slice) -> None:
            rows = offsets[span.start : span.stop + 1]
            infer_documents(data, columns, rows, self._weights, steps.prior, shares[span], steps.tolerance, steps.most)

        split_among_threads(some, len(shares), cost=len(data) * len(steps.prior))
        return shares


def bound_of_topics(topics: Topics, prior: Topics) -> float:
    """E[log p(β)] − E[log q(β)]."""
    from decbayes.kernels.lda import divergence

    firsts = range(0, len(topics.alpha), WORDS)
    parts = np.empty(len(firsts))

    def some(blocks: slice) -> None:
        for number in range(blocks.start, blocks.stop):
            words = slice(WORDS * number, WORDS * (number + 1))
            parts[number] = divergence(topics.alpha[words].ravel(), prior.alpha[words].ravel())

    split_among_threads(some, len(parts), cost=topics.alpha.size)
    return float(np.add.accumulate(parts)[-1]) - float(divergence(topics.totals, prior.totals))


def by_words(work: Callable[[slice], object], matrix: Array) -> None:
    """Do something for all words, (words, topics), some of them at the same time."""
    split_among_threads(work, len(matrix), cost=matrix.size)


def equal_work(offsets: NDArray[np.int64], parts: int) -> list[slice]:
    """Consecutive spans with about as many entries each."""
    if parts == 1:
        return [slice(0, len(offsets) - 1)]
    cuts = np.searchsorted(offsets, [part.stop for part in even_parts(int(offsets[-1]), parts)])
    ends = np.unique(np.append(cuts, len(offsets) - 1))
    return [slice(int(first), int(last)) for first, last in zip([0, *ends[:-1]], ends, strict=True) if first < last]
