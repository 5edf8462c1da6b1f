"""The search for slots of topics on a GPU: the tree, moves and escapes of `grouping`, in few launches."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from decbayes.families import Array
from decbayes.families.joining import Joined
from decbayes.families.matrices import Indices
from decbayes.families.rows import SparseRows
from decbayes.kernels.cuda.device import Device
from decbayes.merging.base.components import Components
from decbayes.merging.grouping._escapes import escape
from decbayes.merging.grouping.joins import tree_ends
from decbayes.merging.grouping.search import ASIDES, LEAST_GAIN, MOST_SWEEPS, SURE, Announce

KERNELS, TREES, THREADS = "grouping.cu", "joins.cu", 512
# Blocks per search. More blocks lose more time waiting for each other than they save.
TEAM = 64
# Components whose gains are computed together; the kernel has the same number.
BATCH = 64
# Shared memory in bytes that every recent GPU has.
MOST_SHARED = 64_000


def fits(device: Device, components: Components, count: int, *, short: int) -> bool:
    """Whether the search fits into memory: the state of each block, and the trees' matrix twice."""
    size, width = len(components), sparse(components).width
    matrices = 16 * size * min(width, short * size) + 16 * count * (width + size)
    return shared_bytes(size, count) <= MOST_SHARED and matrices < 0.7 * device.free_bytes()


def shared_bytes(size: int, slots: int) -> int:
    """The bytes of a block's state in a search among this many components."""
    return 16 * size + 12 * slots + 4 * BATCH


def searched(
    device: Device, components: Components, count: int, *, short: int, escapes: int, announce: Announce
) -> Indices:
    """The slot of each component, by the same search as on the CPU."""
    rows = sparse(components)
    sent = sent_rows(device, rows)
    labels = grown_labels(device, rows, sent, count, short=short)
    search = GpuSlotSearch(device, components, labels, count, sent)
    search.moves(announce=announce)
    escape(search, escapes)
    return search.labels


def sparse(components: Components) -> SparseRows:
    (rows,) = components.rows
    assert isinstance(rows, SparseRows), "counts are sparse"
    return rows


def sent_rows(device: Device, rows: SparseRows) -> tuple[Any, ...]:
    return tuple(device.xp.asarray(part) for part in rows.parts)


class GpuSlotSearch:
    """The slot of each component, as in `SlotSearch`; slots stay on the GPU. Evidence is the rows' sums."""

    def __init__(
        self, device: Device, components: Components, labels: Indices, count: int, sent: tuple[Any, ...]
    ) -> None:
        xp, rows = device.xp, sparse(components)
        self.components, self.count = components, count
        self._device, self._xp, self._width = device, xp, rows.width
        self._order = components.order.astype(np.int32)
        self._rows = *sent, xp.asarray(rows.sums)
        self._alone = xp.empty(len(components))
        starts, stops, _, data, sums = self._rows
        device.launch(KERNELS, "know_alone", len(components), 128, starts, stops, data, sums, self._alone)
        self._slots = xp.empty((count, self._width)), xp.empty((count, self._width)), xp.empty(count)
        self.restart(labels)

    def restart(self, labels: Indices) -> None:
        self.labels = np.array(labels, dtype=np.intp)
        self._values: Array | None = None

    def value(self) -> float:
        return float(self._known().sum())

    def moves(self, most: int = MOST_SWEEPS, announce: Announce | None = None) -> float:
        labels, values = self._climb([self._order], self.labels[self._order], self.count, self._slots, most=most)
        self.labels[self._order], self._values = labels, values[0]
        if announce is not None:
            announce()
        return self.value()

    def join_losses(self) -> Array:
        self._known()
        losses = self._xp.full((self.count, self.count), np.inf)
        counts, _, totals = self._slots
        numbers = np.int32(self.count), np.int32(self._width)
        self._device.launch(TREES, "compare_slots", self.count**2, THREADS, *numbers, counts, totals, losses)
        return np.asarray(self._device.to_host(losses))

    def halves(self, groups: Sequence[Indices]) -> list[tuple[Indices, float]]:
        """Split the members of each slot in two, all slots at once; returns halves and gains."""
        if not groups:
            return []
        sizes = [len(members) for members in groups]
        evidence = self.components.evidence
        orders = [np.argsort(-evidence[members], kind="stable") for members in groups]
        visits = [members[order].astype(np.int32) for members, order in zip(groups, orders, strict=True)]
        nobody = np.full(sum(sizes), -1)
        slots = 2 * len(groups)
        buffers = tuple(self._xp.empty(shape) for shape in ((slots, self._width), (slots, self._width), slots))
        labels, values = self._climb(visits, nobody, 2, buffers, most=MOST_SWEEPS, halving=True)
        whole = self._known()[self.labels[[members[0] for members in groups]]]
        halved = []
        for order, halves in zip(orders, np.split(labels, np.cumsum(sizes)[:-1]), strict=True):
            half = np.empty(len(order), dtype=np.intp)
            half[order] = halves
            halved.append(half)
        return list(zip(halved, (values.sum(axis=1) - whole).tolist(), strict=True))

    def _known(self) -> Array:
        """F of each slot."""
        if self._values is None:
            self.moves(most=0)
        assert self._values is not None
        return self._values

    def _climb(
        self,
        visits: Sequence[Any],
        labels: Indices,
        slots: int,
        buffers: tuple[Any, ...],
        *,
        most: int,
        halving: bool = False,
    ) -> tuple[Indices, Array]:
        """Run several searches, each among some components; returns each component's slot and F of each slot."""
        xp, send = self._xp, self._xp.asarray
        sizes = [len(visit) for visit in visits]
        size, team = sum(sizes), 1 if halving else min(TEAM, self._device.processors)
        placed, values = send(labels.astype(np.int32)), xp.empty((len(visits), slots))
        order = send(np.concatenate(visits)), send(np.append(0, np.cumsum(sizes)).astype(np.int32))
        numbers = [np.int32(number) for number in (team, slots, self._width, halving, most, ASIDES)]
        gains, seen = xp.empty((size, slots)), xp.full((size, slots), -1, dtype=np.int32)
        waiting = xp.zeros(len(visits), dtype=np.uint32)
        arguments = *self._rows, self._alone, *order, *numbers, np.float64(SURE), np.float64(LEAST_GAIN), waiting
        results, shared = (*buffers, gains, seen, placed, values), shared_bytes(max(sizes), slots)
        blocks, together = team * len(visits), team > 1
        self._device.launch(
            KERNELS, "climb", blocks, THREADS, *arguments, *results, shared_bytes=shared, together=together
        )
        return self._device.to_host(placed).astype(np.intp), np.asarray(self._device.to_host(values))


def grown_labels(device: Device, rows: SparseRows, sent: tuple[Any, ...], count: int, *, short: int) -> Indices:
    """A given number of groups by trees of consecutive components, then trees of those, as in `joins.grown_labels`."""
    counts = shortened(device, rows, sent, short)
    totals, labels = counts.sum(axis=1), np.arange(rows.count)
    while True:
        ends = tree_ends(len(counts), count)
        groups = joined_labels(device, counts, totals, ends, min(count, len(counts)))
        labels = groups[labels]
        if len(ends) == 2:
            return np.asarray(labels)
        _, firsts = np.unique(groups, return_index=True)
        kept = device.xp.asarray(firsts)
        counts, totals = counts[kept], totals[kept]


def shortened(device: Device, rows: SparseRows, sent: tuple[Any, ...], entries: int) -> Any:
    """A matrix of the rows' largest entries without empty columns; `sent` are the rows' parts on the GPU."""
    xp, lengths = device.xp, (rows.stops - rows.starts).astype(np.int64)
    firsts = np.cumsum(lengths) - lengths
    owners = xp.asarray(np.repeat(np.arange(rows.count), lengths))
    places = xp.asarray(np.repeat(rows.starts - firsts, lengths)) + xp.arange(len(owners))
    data, columns = sent[3][places], sent[2][places]
    order = xp.argsort(-data, kind="stable")  # ties go to the first columns
    order = order[xp.argsort(owners[order], kind="stable")]
    kept = order[xp.arange(len(order)) - xp.asarray(firsts)[owners] < entries]
    occurs = xp.zeros(rows.width, dtype=np.bool_)
    occurs[columns[kept]] = True
    counts = xp.zeros((rows.count, int(occurs.sum())))
    counts[owners[kept], (xp.cumsum(occurs) - 1)[columns[kept]]] = data[kept]
    return counts


def joined_labels(device: Device, counts: Any, totals: Any, ends: Indices, fewest: int) -> Indices:
    """The groups of all trees when each has this many left, numbered tree after tree."""
    xp, trees, sizes = device.xp, len(ends) - 1, np.diff(ends)
    most, width, steps = np.int32(sizes.max()), np.int32(counts.shape[1]), int(sizes.max()) - fewest
    places, losses = xp.asarray(ends.astype(np.int32)), xp.empty((trees, most, most))
    joined = xp.full((max(steps, 1), trees, 2), -1, dtype=np.int32)
    nearest = xp.empty(len(counts), dtype=np.int32), xp.empty(len(counts))
    device.launch(TREES, "compare_all", trees * int(most) ** 2, 128, places, most, width, counts, totals, losses)
    for step in map(np.int32, range(steps)):
        now = np.int32(fewest), width, step, counts, totals, losses, joined, *nearest
        device.launch(TREES, "join_nearest", trees, THREADS, places, most, *now)
        arguments = width, step, np.int32(trees), counts, totals, joined, losses, *nearest
        device.launch(TREES, "compare_joined", trees * int(most), THREADS, places, most, *arguments)
    joins = device.to_host(joined)
    labels = []
    for tree, size in enumerate(sizes.tolist()):
        kept, absorbed = joins[: size - fewest, tree].T.astype(np.intp)
        labels.append(Joined(size, kept, absorbed, np.zeros(len(kept))).labels(fewest) + tree * fewest)
    return np.concatenate(labels)
