"""One pass of topics over documents, in parallel, with the same bits for any number of cores.

Documents are independent given the topics, and words are independent given the documents. So a block is updated by
document first; its statistics are then added up by word, each word's documents in order. Neither the threads nor the
size of a block change the order of any sum.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.base.workers import share_out, split_among_threads, thread_count
from decbayes.families import Array
from decbayes.models.core.ascent import Watch
from decbayes.models.core.counts import CountBlock, Counts, Places
from decbayes.models.topics.document_prior import table_sums

# Words per block of a sum over all words, whatever the number of threads.
WORDS = 256
# Entries × topics below which a thread costs more than it saves.
WORTH_A_THREAD = 100_000
# Parts of the work per thread; threads take the next part when they finish one, which balances them.
PARTS = 32
# Most threads for sorting, since each of them reads everything.
SORTERS = 4


@dataclass(frozen=True)
class Topics:
    """Dirichlet topics: α of the words at hand, (words, topics) as kernels need it, and its sums over all words."""

    alpha: Array
    totals: Array

    def plus(self, statistics: Array) -> "Topics":
        alpha = np.empty_like(self.alpha)
        sums = np.empty((-(-len(alpha) // WORDS), len(self.totals)))

        def run(number: int) -> None:
            words = slice(WORDS * number, WORDS * (number + 1))
            np.add(self.alpha[words], statistics[words], out=alpha[words])
            statistics[words].sum(axis=0, out=sums[number])

        by_blocks(run, alpha)
        return Topics(alpha, self.totals + sums.sum(axis=0))


@dataclass(frozen=True)
class Steps:
    """How a document's topics are found: their prior, the change of γ at which to stop, and the most steps."""

    prior: Array
    tolerance: float
    most: int


@dataclass(frozen=True)
class Expected:
    """exp(E[log β] − scale) of every word, (words, topics): all that documents need from the topics."""

    weights: Array
    scales: Array

    @classmethod
    def of(cls, topics: Topics) -> "Expected":
        from decbayes.kernels.document_updates import expect_topics

        weights, scales = np.empty_like(topics.alpha), np.empty(len(topics.alpha))

        def run(words: slice) -> None:
            expect_topics(topics.alpha[words], topics.totals, weights[words], scales[words])

        by_words(run, weights)
        return cls(weights, scales)


class Source(Protocol):
    """γ of documents: in memory, in files, or not known yet."""

    def __getitem__(self, span: slice, /) -> Array: ...


class Target(Source, Protocol):
    """Where γ of documents is written."""

    def __setitem__(self, span: slice, gamma: Array, /) -> None: ...


@dataclass(frozen=True)
class Fresh:
    """Document topics that start from scratch, with equal shares: there are no earlier rows."""

    topics: int

    def __getitem__(self, span: slice) -> Array:
        return np.empty((0, self.topics))


class Statistics:
    """Expected counts of each word in each topic, and the documents' part of the bound, summed over documents.

    With `tables`, also the statistics of the documents' prior.
    """

    def __init__(self, topics: Topics, *, tables: bool = False) -> None:
        self.expected = Expected.of(topics)
        self.bound = 0.0
        self.tables = np.zeros(len(topics.totals) + 1) if tables else None
        self._sums = np.zeros_like(topics.alpha)

    def add(
        self, counts: Counts, steps: Steps, before: Source, after: Target | None = None, watch: Watch | None = None
    ) -> Array:
        """Find the documents' topics, starting from `before`; return each document's part of the bound."""
        bounds, room = np.empty(len(counts)), Room.of(counts, len(steps.prior))
        for span in counts.blocks():
            # In-memory results are computed in place.
            gamma = after[span] if isinstance(after, np.ndarray) else room.gamma[: span.stop - span.start]
            work = Work(counts.part(span), steps, before[span], gamma, bounds[span], room)
            counts.keep(span, self._add_block(work, counts.places.get(span.start)))
            if after is not None and not isinstance(after, np.ndarray):
                after[span] = gamma
            if self.tables is not None:
                self.tables += table_sums(gamma, steps.prior)
            if watch is not None:
                watch(span.stop)
        # Added one by one, so that splitting the documents makes no difference.
        self.bound = float(np.add.accumulate(np.append(self.bound, bounds))[-1])
        return bounds

    def finish(self) -> Array:
        """(words, topics)."""
        weights = self.expected.weights
        by_words(lambda words: np.multiply(self._sums[words], weights[words], out=self._sums[words]), weights)
        return self._sums

    def _add_block(self, work: "Work", known: Places | None) -> Places:
        """Add a block; sort its words at the same time, unless their places are known."""
        block, topics = work.block, len(work.steps.prior)
        places = known or Places.unsorted(block, len(self._sums))
        threads = thread_count() if len(block.data) * topics > 2 * WORTH_A_THREAD else 1
        updates = [partial(work.update, self.expected, *parted(block.offsets, threads))] * threads
        share_out([*updates, *(sorting(block, places, threads) if known is None else ())], most=threads)
        share_out([partial(self._sum, places, work.room, *parted(places.starts, threads))] * threads, most=threads)
        return places

    def _sum(self, places: Places, room: "Room", ends: NDArray[np.int64], counter: NDArray[np.int64]) -> None:
        from decbayes.kernels.document_updates import add_statistics

        results = room.ratios, room.proportions, self._sums
        add_statistics(places.starts, places.entries, places.documents, *results, ends, counter)


@dataclass(frozen=True)
class Room:
    """Buffers that blocks reuse: allocating them for each block would cost more than the work in it."""

    ratios: Array
    proportions: Array
    gamma: Array

    @classmethod
    def of(cls, counts: Counts, topics: int) -> "Room":
        """Buffers for the largest block."""
        blocks = list(counts.blocks())
        entries = max((int(counts.offsets[span.stop] - counts.offsets[span.start]) for span in blocks), default=0)
        shape = max((span.stop - span.start for span in blocks), default=0), topics
        return cls(np.empty(entries), np.empty(shape), np.empty(shape))


@dataclass(frozen=True)
class Work:
    """A block of documents, their earlier γ if any, and where to write the results."""

    block: CountBlock
    steps: Steps
    before: Array
    gamma: Array
    bounds: Array
    room: Room

    def update(self, expected: Expected, ends: NDArray[np.int64], counter: NDArray[np.int64]) -> None:
        """Find the topics of the documents that other threads leave."""
        from decbayes.kernels.document_updates import update_documents

        block, steps = self.block, self.steps
        update_documents(
            block.data,
            block.columns,
            block.offsets,
            expected.weights,
            expected.scales,
            steps.prior,
            self.before,
            self.gamma,
            self.room.proportions,
            self.room.ratios,
            self.bounds,
            steps.tolerance,
            steps.most,
            ends,
            counter,
        )


def sorting(block: CountBlock, places: Places, threads: int) -> Iterator[Callable[[], None]]:
    """Tasks that find where the words of a block occur."""
    from decbayes.kernels.document_updates import sort_by_word

    first = 0
    for last in equal_work(places.starts, min(threads, SORTERS)).tolist():
        words, first = slice(first, last), last
        starts = places.starts[words.start : words.stop + 1]
        yield partial(sort_by_word, block.columns, block.offsets, starts, words.start, places.entries, places.documents)


class Inference:
    """Topics of documents, given fixed topics: nothing is learned from these documents."""

    def __init__(self, topics: Topics, steps: Steps) -> None:
        self._weights, self._steps = Expected.of(topics).weights, steps

    def __call__(self, counts: csr_array) -> Array:
        """(documents, topics): expected shares."""
        from decbayes.kernels.document_updates import infer_documents

        data, columns = counts.data.astype(np.int32, copy=False), counts.indices.astype(np.int32, copy=False)
        offsets, steps = counts.indptr.astype(np.int64, copy=False), self._steps
        shares = np.ones((len(offsets) - 1, len(steps.prior)))

        def run(span: slice) -> None:
            rows = offsets[span.start : span.stop + 1]
            infer_documents(data, columns, rows, self._weights, steps.prior, shares[span], steps.tolerance, steps.most)

        split_among_threads(run, len(shares), cost=len(data) * len(steps.prior))
        return shares


def bound_of_topics(topics: Topics, prior: Topics) -> float:
    """E[log p(β)] − E[log q(β)]."""
    from decbayes.kernels.document_updates import divergence

    parts = np.empty(-(-len(topics.alpha) // WORDS))

    def run(number: int) -> None:
        words = slice(WORDS * number, WORDS * (number + 1))
        parts[number] = divergence(topics.alpha[words].ravel(), prior.alpha[words].ravel())

    by_blocks(run, topics.alpha)
    return float(np.add.accumulate(parts)[-1]) - float(divergence(topics.totals, prior.totals))


def by_words(work: Callable[[slice], object], matrix: Array) -> None:
    """Run `work` on spans of the words, (words, topics), in parallel."""
    split_among_threads(work, len(matrix), cost=matrix.size)


def by_blocks(work: Callable[[int], object], matrix: Array) -> None:
    """Run `work` on blocks of WORDS words, by their number, in parallel."""

    def run(blocks: slice) -> None:
        for number in range(blocks.start, blocks.stop):
            work(number)

    split_among_threads(run, -(-len(matrix) // WORDS), cost=matrix.size)


def parted(offsets: NDArray[np.int64], threads: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the parts of the work end, and the counter from which threads take them."""
    return equal_work(offsets, PARTS * threads if threads > 1 else 1), np.zeros(1, dtype=np.int64)


def equal_work(offsets: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """Where parts with about the same number of entries end; there may be fewer."""
    cuts = np.searchsorted(offsets, offsets[-1] * np.arange(1, parts) // parts)
    return np.unique(np.append(cuts, len(offsets) - 1))
