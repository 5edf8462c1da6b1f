"""The climb of topics on the processor: passes over all documents, after warm-up passes in batches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decbayes.families import Array
from decbayes.inputs.filed import FileArray
from decbayes.models.core.ascent import Ascent, Keep, PassInterrupted, Watch
from decbayes.models.core.counts import Counts
from decbayes.models.topics._passes import Fresh, Statistics, Steps, Topics, bound_of_topics
from decbayes.models.topics.document_prior import LearnedPrior

# Batch t has the weight (DELAY + t) ** -FORGETTING, so that earlier batches count less and less.
DELAY, FORGETTING = 1.0, 0.6


@dataclass(frozen=True)
class TopicState:
    """Expected counts of each word in each topic, (words, topics), and γ of each document if the next pass needs it.

    `tables` are the statistics of the documents' prior, if it is learned.
    """

    statistics: Array
    document_topics: Fresh | Array | FileArray
    spare: Array | FileArray | None = None
    passes: int = 0
    tables: Array | None = None


@dataclass(frozen=True)
class TopicSearch:
    """The inputs of a fit: the documents, the topics before them, and how to find the documents' topics."""

    counts: Counts
    before: Topics
    steps: Steps
    ascent: Ascent
    watch: Watch | None = None
    learned: LearnedPrior | None = None

    def begin(self, statistics: Array, tables: Array | None = None) -> TopicState:
        return TopicState(statistics, Fresh(len(self.steps.prior)), tables=tables)

    def step(self, reached: TopicState) -> tuple[TopicState, float]:
        """One pass over the documents."""
        searching = reached.passes < self.ascent.warm_up
        return self._in_batches(reached) if searching and self.ascent.batch else self._together(reached, searching)

    def statistics(self, reached: TopicState) -> Array:
        return reached.statistics

    def tables(self, reached: TopicState) -> Array | None:
        return reached.tables

    @property
    def keep(self) -> Keep[TopicState]:
        return Keep(packed, self._unpacked)

    def _together(self, reached: TopicState, searching: bool) -> tuple[TopicState, float]:
        """The bound is that of the given topics and the document topics found."""
        topics = self.before.plus(reached.statistics)
        sums, steps = Statistics(topics, tables=self.learned is not None), self._steps(reached.tables)
        # γ is read from one array and written to another: an interrupted pass changes nothing.
        carried = reached.passes + 1 >= self.ascent.warm_up
        after = (self._room() if reached.spare is None else reached.spare) if carried else None
        before = Fresh(len(self.steps.prior)) if searching else reached.document_topics
        sums.add(self.counts, steps, before, after, self.watch)
        bound = sums.bound + bound_of_topics(topics, self.before) + self._log_density(steps)
        spare = None if isinstance(before, Fresh) else before
        document_topics = reached.document_topics if after is None else after
        return TopicState(sums.finish(), document_topics, spare, reached.passes + 1, sums.tables), bound

    def _in_batches(self, reached: TopicState) -> tuple[TopicState, float]:
        """Update the topics after every batch; the bound of each document is that at its turn."""
        statistics, tables, bound = reached.statistics, reached.tables, 0.0
        batches = list(batches_of(len(self.counts), self.ascent.batch or 1))
        try:
            for number, span in enumerate(batches, start=reached.passes * len(batches)):
                part = self.counts.span(span)
                if part.tokens:
                    share = (DELAY + number) ** -FORGETTING
                    batch_statistics, batch_tables, batch_bound = self._of_batch(statistics, tables, part)
                    statistics = (1.0 - share) * statistics + share * batch_statistics
                    if tables is not None and batch_tables is not None:
                        tables = (1.0 - share) * tables + share * batch_tables
                    bound += batch_bound
                if self.watch is not None:
                    self.watch(span.stop)
        except KeyboardInterrupt:
            raise PassInterrupted(replace(reached, statistics=statistics, tables=tables)) from None
        bound += bound_of_topics(self.before.plus(statistics), self.before) + self._log_density(self._steps(tables))
        return replace(reached, statistics=statistics, tables=tables, passes=reached.passes + 1), bound

    def _of_batch(self, statistics: Array, tables: Array | None, part: Counts) -> tuple[Array, Array | None, float]:
        """The statistics of all documents if they were like these, and the bound of these."""
        sums = Statistics(self.before.plus(statistics), tables=self.learned is not None)
        sums.add(part, self._steps(tables), Fresh(len(self.steps.prior)))
        scale = self.counts.tokens / part.tokens
        return scale * sums.finish(), None if sums.tables is None else scale * sums.tables, sums.bound

    def _steps(self, tables: Array | None) -> Steps:
        """Steps with the prior learned so far."""
        if self.learned is None or tables is None:
            return self.steps
        return replace(self.steps, prior=self.learned.alpha(tables))

    def _log_density(self, steps: Steps) -> float:
        return 0.0 if self.learned is None else self.learned.log_density(steps.prior)

    def _room(self) -> Array | FileArray:
        """Space for γ of all documents: in files if the documents are."""
        documents, topics = len(self.counts), len(self.steps.prior)
        if self.counts.folder is None:
            return np.empty((documents, topics))
        return self.counts.folder.array(np.float64, (topics,), length=documents)

    def _unpacked(self, arrays: Mapping[str, Any]) -> TopicState:
        statistics, passes = np.asarray(arrays["statistics"]), int(np.asarray(arrays["passes"]))
        tables = np.asarray(arrays["tables"]) if "tables" in arrays else None
        if "document_topics" not in arrays:
            return replace(self.begin(statistics, tables), passes=passes)
        room, stored = self._room(), arrays["document_topics"]
        for span in self.counts.blocks():
            room[span] = stored[span]
        return TopicState(statistics, room, passes=passes, tables=tables)


def packed(reached: TopicState) -> dict[str, Any]:
    """Arrays by name: all that the next pass needs."""
    optional = {"document_topics": reached.document_topics, "tables": reached.tables}
    known = {name: array for name, array in optional.items() if array is not None and not isinstance(array, Fresh)}
    return {"statistics": reached.statistics, "passes": np.array(reached.passes), **known}


def batches_of(size: int, batch: int) -> list[slice]:
    """Spans of `batch`, the last one shorter."""
    return [slice(first, min(first + batch, size)) for first in range(0, size, batch)]
