"""The climb of topics on the processor: passes over all documents, after a search in which they come in batches."""

from dataclasses import dataclass, replace

import numpy as np

from decbayes.families import Array
from decbayes.inputs.filed import FileArray
from decbayes.models.ascent import Ascent, PassInterrupted, Watch
from decbayes.models.counts import Counts
from decbayes.models.topic_pass import Fresh, Statistics, Steps, Topics, bound_of_topics

# How much batch t counts: (DELAY + t) ** -FORGETTING of all that is known, the earlier ones less and less.
DELAY, FORGETTING = 1.0, 0.6


@dataclass(frozen=True)
class Reached:
    """Expected counts of each word in each topic, (words, topics), and γ of each document if the next pass needs it."""

    statistics: Array
    document_topics: Fresh | Array | FileArray
    spare: Array | FileArray | None = None
    passes: int = 0


@dataclass(frozen=True)
class TopicSearch:
    """What a fit is about: the documents, the topics before them, and how their own topics are found."""

    counts: Counts
    before: Topics
    steps: Steps
    ascent: Ascent
    watch: Watch | None = None

    def begin(self, statistics: Array) -> Reached:
        return Reached(statistics, Fresh(len(self.steps.prior)))

    def step(self, reached: Reached) -> tuple[Reached, float]:
        """One pass over the documents."""
        searching = reached.passes < self.ascent.warm_up
        return self._in_batches(reached) if searching and self.ascent.batch else self._together(reached, searching)

    def statistics(self, reached: Reached) -> Array:
        return reached.statistics

    def _together(self, reached: Reached, searching: bool) -> tuple[Reached, float]:
        """The bound is that of the topics given and the document topics found."""
        topics = self.before.plus(reached.statistics)
        found = Statistics(topics)
        # γ is read from one place and written to another: a pass that is interrupted changes nothing.
        carried = reached.passes + 1 >= self.ascent.warm_up
        after = (self._room() if reached.spare is None else reached.spare) if carried else None
        before = Fresh(len(self.steps.prior)) if searching else reached.document_topics
        found.add(self.counts, self.steps, before, after, self.watch)
        bound = found.bound + bound_of_topics(topics, self.before)
        spare = None if isinstance(before, Fresh) else before
        document_topics = reached.document_topics if after is None else after
        return Reached(found.finish(), document_topics, spare, reached.passes + 1), bound

    def _in_batches(self, reached: Reached) -> tuple[Reached, float]:
        """The topics change after every batch; the bound is that of each document when it was read."""
        statistics, bound = reached.statistics, 0.0
        batches = list(batches_of(len(self.counts), self.ascent.batch or 1))
        try:
            for number, span in enumerate(batches, start=reached.passes * len(batches)):
                part = self.counts.span(span)
                if part.tokens:
                    share = (DELAY + number) ** -FORGETTING
                    found, own = self._of_batch(statistics, part)
                    statistics = (1.0 - share) * statistics + share * found
                    bound += own
                if self.watch is not None:
                    self.watch(span.stop)
        except KeyboardInterrupt:
            raise PassInterrupted(replace(reached, statistics=statistics)) from None
        bound += bound_of_topics(self.before.plus(statistics), self.before)
        return replace(reached, statistics=statistics, passes=reached.passes + 1), bound

    def _of_batch(self, statistics: Array, part: Counts) -> tuple[Array, float]:
        """What all documents would say of the topics if they were like these; and the bound of these."""
        found = Statistics(self.before.plus(statistics))
        found.add(part, self.steps, Fresh(len(self.steps.prior)))
        return (self.counts.tokens / part.tokens) * found.finish(), found.bound

    def _room(self) -> Array | FileArray:
        """For γ of all documents: in files if the documents are."""
        documents, topics = len(self.counts), len(self.steps.prior)
        if self.counts.folder is None:
            return np.empty((documents, topics))
        return self.counts.folder.array(np.float64, (topics,), length=documents)


def batches_of(size: int, batch: int) -> list[slice]:
    """Spans of `batch`, the last one shorter."""
    return [slice(first, min(first + batch, size)) for first in range(0, size, batch)]
