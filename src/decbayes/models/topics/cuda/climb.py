"""The climb of topics on a GPU, of one site or of several at once.

The words of every site have rows of their own, one site's after the other's, and so have its documents. A kernel then
works on all sites at once, and a site is a span of rows and of documents. All arrays stay on the GPU, the bounds of the
sites, too, until somebody decides by them whether to go on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.kernels.cuda.device import Device
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.counts import Counts
from decbayes.models.topics._passes import Steps, Topics
from decbayes.models.topics.cuda.corpus import KERNELS, THREADS, WARP, GpuCorpus, Spans, owners, spans_of, warps_for

# Rows that one block sums.
ROWS = 256


@dataclass(frozen=True)
class GpuReached:
    """Expected counts of each word in each topic, (rows, topics), and their sums over each site's rows, on the GPU."""

    statistics: Any
    totals: Any
    passes: int = 0


class GpuSearch:
    """What fits of several sites are about: their documents, and the topics before them."""

    def __init__(
        self, device: Device, sites: Sequence[Counts], before: Sequence[Topics], steps: Steps, ascent: Ascent
    ) -> None:
        self.device, self.steps, self.ascent = device, steps, ascent
        self._xp, self._topics = device.xp, len(steps.prior)
        self.rows = spans_of([len(topics.alpha) for topics in before])
        self._before = joined_there(self._xp, [topics.alpha for topics in before])
        self._before_totals = self._xp.asarray(np.stack([topics.totals for topics in before]))
        self.row_sites = self._xp.asarray(owners(self.rows))
        self._prior = self._xp.asarray(steps.prior.astype(np.float32))
        self._blocks = Spans(device, self.rows, ROWS, len(sites), self._topics, range(len(sites)))
        self._corpus = GpuCorpus(device, sites, [span.start for span in self.rows], self._topics)

    def begin(self, statistics: Sequence[Any]) -> GpuReached:
        whole = joined_there(self._xp, statistics)
        return GpuReached(whole, self._sums(whole, self._xp.zeros(len(whole)))[0])

    def step(self, reached: GpuReached, active: NDArray[np.bool_] | None = None) -> tuple[GpuReached, Any]:
        """One pass over the documents of the sites that are `active`; the bound of each site, on the GPU."""
        xp = self._xp
        going = np.ones(len(self.rows), dtype=bool) if active is None else active
        flags = xp.asarray(going.astype(np.int32))
        weights, scales, divergences, of_totals = self._expect(
            reached.statistics, reached.totals, flags, self._log_gammas
        )
        fresh = reached.passes < self.ascent.warm_up or not reached.passes
        following = xp.zeros_like(reached.statistics)
        bounds = -of_totals
        for chunk in self._corpus.chunks():
            bounds += chunk.update(weights, scales, self._prior, self.steps, flags, fresh=fresh)
            chunk.add_statistics(weights, following)
        sums, divergence = self._sums(following, divergences)
        return GpuReached(following, sums, reached.passes + 1), bounds + divergence

    def statistics(self, reached: GpuReached, site: int = 0) -> Array:
        """(words, topics) of one site."""
        return np.asarray(self.device.to_host(reached.statistics[self.rows[site]]))

    def document_topics(self) -> tuple[Array, Array]:
        """γ of every document given the topics before, and each document's part of the bound."""
        weights, scales, flags = *self._expect_prior()[:2], self._xp.ones(len(self.rows), dtype=np.int32)
        gammas, bounds = [], []
        for chunk in self._corpus.chunks():
            chunk.update(weights, scales, self._prior, self.steps, flags, fresh=True)
            gammas.append(self.device.to_host(chunk.gamma))
            bounds.append(self.device.to_host(chunk.bounds))
        return np.concatenate(gammas).astype(np.float64), np.concatenate(bounds).astype(np.float64)

    @cached_property
    def _log_gammas(self) -> Any:
        """log Γ of each row of the prior, summed over topics: it stays the same in all passes."""
        return self._expect_prior()[2]

    def _expect_prior(self) -> tuple[Any, Any, Any, Any]:
        xp, rows = self._xp, len(self.row_sites)
        nothing = xp.zeros_like(self._before), xp.zeros_like(self._before_totals)
        return self._expect(*nothing, xp.ones(len(self.rows), dtype=np.int32), xp.zeros(rows))

    def _expect(self, statistics: Any, totals: Any, flags: Any, log_gammas: Any) -> tuple[Any, Any, Any, Any]:
        """Weights and scales of each row, how far it is from the prior, and how far each site's totals are."""
        xp, rows = self._xp, len(self.row_sites)
        digammas, of_totals = xp.empty_like(totals), xp.empty(len(totals))
        known = self._before_totals, totals, digammas, of_totals
        self.device.launch(KERNELS, "know_totals", len(totals), WARP, *known, TOPICS=self._topics)
        weights, scales = xp.empty((rows, self._topics), dtype=np.float32), xp.empty(rows, dtype=np.float32)
        divergences = xp.zeros(rows)
        self.device.launch(
            KERNELS,
            "expect_topics",
            warps_for(rows),
            THREADS,
            self._before,
            statistics,
            digammas,
            self.row_sites,
            flags,
            log_gammas,
            np.int32(rows),
            weights,
            scales,
            divergences,
            TOPICS=self._topics,
        )
        return weights, scales, divergences, of_totals

    def _sums(self, statistics: Any, divergences: Any) -> tuple[Any, Any]:
        """Of each site the totals of its topics, and how far they are from the prior."""
        blocks = self._blocks
        totals, divergence = self._xp.empty((len(blocks), self._topics)), self._xp.empty(len(blocks))
        self.device.launch(
            KERNELS,
            "sum_rows",
            len(blocks),
            128,
            blocks.on_device,
            statistics,
            divergences,
            totals,
            divergence,
            TOPICS=self._topics,
        )
        return blocks.by_site(totals), blocks.by_site(divergence)


class GpuTopicSearch:
    """The climb of one site, as `TopicSearch` is on the processor."""

    keep: None = None  # document topics change in place: an interrupted pass cannot be taken back

    def __init__(self, search: GpuSearch) -> None:
        self._search = search

    def begin(self, statistics: Array, tables: Array | None = None) -> GpuReached:
        return self._search.begin([statistics])

    def step(self, reached: GpuReached) -> tuple[GpuReached, float]:
        # Document topics are updated in place: a pass that is interrupted changes them, never the topics.
        following, bounds = self._search.step(reached)
        return following, float(bounds[0])

    def statistics(self, reached: GpuReached) -> Array:
        return self._search.statistics(reached)

    def tables(self, reached: GpuReached) -> Array | None:
        """A prior of documents that is learned is learned on the processor."""
        return None


def joined_there(xp: Any, parts: Sequence[Any]) -> Any:
    """Arrays, from wherever they are, as one on the GPU."""
    there = [xp.asarray(part) for part in parts]
    return there[0] if len(there) == 1 else xp.concatenate(there)
