"""Documents on a GPU, by document and by word: what a pass of topics works on.

Documents of one or more sites make a chunk; all sites' words have rows of their own, one site's after the other's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.inputs.filed import spans_up_to
from decbayes.kernels.cuda.device import Device
from decbayes.models.core.counts import Counts
from decbayes.models.topics._passes import Steps

Integers = NDArray[np.int32]

KERNELS = "topics.cu"
WARP, THREADS = 32, 256
# The most words of a document, and the warps that then share it.
CLASSES = ((32, 2), (64, 4), (128, 8), (256, 16), (1 << 30, 16))
# Shared memory in which the rows of a document's words are kept, in bytes and in words.
STAGED_BYTES, STAGED_WORDS = 100_000, 256
# With up to so many topics those rows are kept in registers, and none in shared memory.
IN_REGISTERS = 4 * WARP
# Places of a word that one warp adds up, and documents that one block does.
SEGMENT, DOCUMENTS = 4096, 4096
# Entries that are worked on at a time, and what an entry needs on the GPU beside what a document does.
MOST_ENTRIES, ENTRY_BYTES = 1 << 30, 40


class GpuCorpus:
    """The documents of all sites, in chunks that fit the GPU; all at once if they do."""

    def __init__(self, device: Device, sites: Sequence[Counts], first_rows: Sequence[int], topics: int) -> None:
        self._device, self._sites, self._first_rows, self._topics = device, sites, first_rows, topics
        self._documents = spans_of([len(counts) for counts in sites])
        self._kept: list[GpuChunk] = []
        entries, documents = sum(len(counts.data) for counts in sites), self._documents[-1].stop
        self._fits = ENTRY_BYTES * entries + 8 * topics * documents < 0.7 * device.free_bytes()
        share = 1.0 if self._fits else 0.35 * device.free_bytes() / (ENTRY_BYTES * entries + 8 * topics * documents)
        self._most_entries = min(MOST_ENTRIES, max(1, int(share * entries)))
        self._gammas: dict[int, Any] = {}

    def chunks(self) -> "Iterator[GpuChunk]":
        """Each chunk in turn; its document topics are those of the last time."""
        if self._kept:
            yield from self._kept
            return
        for number, parts in enumerate(self._parts()):
            chunk = GpuChunk(self._device, parts, self._topics, len(self._sites), self._gammas.get(number))
            if self._fits:
                self._kept.append(chunk)
            yield chunk
            if not self._fits:
                self._gammas[number] = self._device.to_host(chunk.gamma)

    def _parts(self) -> "Iterator[list[SitePart]]":
        """Documents of one or more sites, up to the most entries."""
        waiting: list[SitePart] = []
        size = 0
        for site, counts in enumerate(self._sites):
            for span in spans_up_to(counts.offsets, self._most_entries):
                entries = int(counts.offsets[span.stop] - counts.offsets[span.start])
                if waiting and size + entries > self._most_entries:
                    yield waiting
                    waiting, size = [], 0
                waiting.append(SitePart(site, counts, span, self._first_rows[site]))
                size += entries
        if waiting:
            yield waiting


@dataclass(frozen=True)
class SitePart:
    """Some of one site's documents."""

    site: int
    counts: Counts
    span: slice
    first_row: int


class GpuChunk:
    """Documents on the GPU, by document and by word."""

    def __init__(self, device: Device, parts: Sequence[SitePart], topics: int, sites: int, gamma: Any = None) -> None:
        xp = device.xp
        self._device, self._topics, self._xp = device, topics, xp
        read = [part.counts.part(part.span) for part in parts]
        lengths = np.concatenate([np.diff(part.offsets) for part in read])
        self._counts = device.to_device(joined([part.data for part in read]))
        pairs = zip(read, parts, strict=True)
        columns = [
            part.columns + np.int32(place.first_row) if place.first_row else part.columns for part, place in pairs
        ]
        self._columns = device.to_device(joined(columns))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._offsets = xp.asarray(offsets)
        documents = spans_of([len(part) for part in read])
        self._sites = xp.asarray(np.repeat(np.array([p.site for p in parts], dtype=np.int32), [len(p) for p in read]))
        self._classes = list(self._by_length(lengths))
        self._blocks = Spans(device, documents, DOCUMENTS, sites, topics, [part.site for part in parts])
        count = len(lengths)
        self.gamma = xp.ones((count, topics), dtype=np.float32) if gamma is None else xp.asarray(gamma)
        self.bounds = xp.zeros(count, dtype=np.float32)
        self._proportions = xp.empty((count, topics), dtype=np.float32)
        self._ratios = xp.empty(len(self._counts), dtype=np.float32)

    def update(self, weights: Any, scales: Any, prior: Any, steps: Steps, flags: Any, *, fresh: bool) -> Any:
        """Find the documents' topics; each site's part of the bound, on the GPU."""
        for documents, warps, capacity in self._classes:
            floats = self._topics * (2 + warps + capacity) + 3 * WARP
            self._device.launch(
                KERNELS,
                "update_documents",
                len(documents),
                WARP * warps,
                documents,
                self._offsets,
                self._counts,
                self._columns,
                self._sites,
                flags,
                weights,
                scales,
                prior,
                np.int32(fresh),
                np.float32(steps.tolerance),
                np.int32(steps.most),
                np.int32(capacity),
                self.gamma,
                self._proportions,
                self._ratios,
                self.bounds,
                TOPICS=self._topics,
                shared_bytes=4 * floats,
            )
        sums = self._xp.empty(len(self._blocks))
        self._device.launch(
            KERNELS,
            "sum_documents",
            len(self._blocks),
            WARP,
            self._blocks.on_device,
            self.bounds,
            sums,
            TOPICS=self._topics,
        )
        return self._blocks.by_site(sums)

    def add_statistics(self, weights: Any, statistics: Any) -> None:
        """Add what the documents say of the topics, each word's places in their order."""
        where = self._where(len(statistics))
        partial = self._xp.empty((where.count, self._topics), dtype=np.float32)
        self._device.launch(
            KERNELS,
            "sum_segments",
            warps_for(where.count),
            THREADS,
            where.segments,
            np.int32(where.count),
            where.entries,
            where.documents,
            self._ratios,
            self._proportions,
            partial,
            TOPICS=self._topics,
        )
        self._device.launch(
            KERNELS,
            "add_segments",
            warps_for(len(statistics)),
            THREADS,
            where.firsts,
            np.int32(len(statistics)),
            partial,
            weights,
            statistics,
            TOPICS=self._topics,
        )

    def _by_length(self, lengths: NDArray[np.int64]) -> Iterator[tuple[Any, int, int]]:
        """Documents of like length, the longest first, with the warps and the words in shared memory of each."""
        order = self._xp.argsort(self._offsets[:-1] - self._offsets[1:], kind="stable").astype(np.int32)
        ends = [int((lengths > most).sum()) for most, _ in CLASSES]
        room = STAGED_BYTES // (4 * self._topics)
        stops = [len(order), *ends]
        for place in reversed(range(len(CLASSES))):
            # Documents longer than this class's most words stand before ends[place]; those of lower classes after.
            most, warps = CLASSES[place]
            some = order[ends[place] : stops[place]]
            if len(some):
                staged = min(most, STAGED_WORDS, room, int(lengths[int(some[0])]))
                yield some, warps, 0 if self._topics <= IN_REGISTERS else max(1, staged)

    def _where(self, rows: int) -> "Places":
        if not hasattr(self, "_places"):
            self._places = Places.of(self._device, self._columns, self._offsets, rows, self._topics)
        return self._places


@dataclass(frozen=True)
class Places:
    """Where each row's word occurs: entries and documents in order, cut in segments."""

    entries: Any
    documents: Any
    segments: Any
    firsts: Any
    count: int

    @classmethod
    def of(cls, device: Device, columns: Any, offsets: Any, rows: int, topics: int) -> "Places":
        xp = device.xp
        documents = xp.empty(len(columns), dtype=np.int32)
        size = len(offsets) - 1
        device.launch(
            KERNELS, "name_documents", warps_for(size), THREADS, offsets, np.int32(size), documents, TOPICS=topics
        )
        entries = xp.argsort(columns, kind="stable").astype(np.int32)
        lengths = device.to_host(xp.bincount(columns, minlength=rows)).astype(np.int64)
        pieces = -(-lengths // SEGMENT)
        firsts = np.concatenate([[0], np.cumsum(pieces)])
        starts = np.repeat(np.cumsum(lengths) - lengths, pieces)
        within = np.arange(firsts[-1]) - np.repeat(firsts[:-1], pieces)
        segments = np.append(starts + SEGMENT * within, len(columns)).astype(np.int64)
        count = int(firsts[-1])
        return cls(entries, documents[entries], xp.asarray(segments), xp.asarray(firsts.astype(np.int32)), count)


class Spans:
    """Spans of sites, in their order, cut in blocks of at most `size`, and sums of the blocks by site."""

    def __init__(
        self, device: Device, spans: Sequence[slice], size: int, sites: int, topics: int, owners: Sequence[int]
    ) -> None:
        cut = [
            (site, first, min(first + size, span.stop))
            for site, span in zip(owners, spans, strict=True)
            for first in range(span.start, span.stop, size)
        ]
        self._device, self._count, self._sites, self._topics = device, len(cut), sites, topics
        firsts = np.searchsorted([site for site, _, _ in cut], np.arange(sites + 1))
        self._firsts = device.xp.asarray(firsts.astype(np.int32))
        self.on_device = device.xp.asarray(np.array([block[1:] for block in cut], dtype=np.int32).reshape(-1, 2))

    def __len__(self) -> int:
        return self._count

    def by_site(self, sums: Any) -> Any:
        """Sums of each site's blocks, in their order, on the GPU."""
        total = self._device.xp.empty((self._sites, *sums.shape[1:]))
        width = np.int32(total.size // self._sites)
        self._device.launch(
            KERNELS, "sum_blocks", self._sites, WARP, self._firsts, width, sums, total, TOPICS=self._topics
        )
        return total


def spans_of(sizes: Sequence[int]) -> list[slice]:
    """Where things of these sizes lie, one after the other."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def owners(spans: Sequence[slice]) -> Integers:
    """Whose each row is."""
    sizes = [span.stop - span.start for span in spans]
    return np.repeat(np.arange(len(spans), dtype=np.int32), sizes)


def joined(parts: Sequence[Integers]) -> Integers:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def warps_for(count: int) -> int:
    """Blocks of THREADS that have a warp for each of so many things."""
    return -(-count * WARP // THREADS)
