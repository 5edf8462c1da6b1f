"""Totals of Dirichlet rows on a GPU: the same as `DirichletTotals`, for large alignments."""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import gammaln

from decbayes.families.matrices import Array, Indices, smallest
from decbayes.families.rows import Rows, SparseRows
from decbayes.families.totals import checked_sparse
from decbayes.kernels.cuda.device import Device

THREADS = 256


class GpuRows(NamedTuple):
    """A site's rows on the GPU."""

    starts: Any
    stops: Any
    indices: Any
    data: Any
    sums: Any
    longest: int

    @property
    def places(self) -> tuple[Any, Any, Any]:
        return self.starts, self.stops, self.indices


class GpuDirichletTotals:
    """λ0 + Σ_i P_i c_i and a table of lnΓ(α) on the GPU; the sums of the slots are on the CPU."""

    def __init__(self, device: Device, prior: Array) -> None:
        xp = device.xp
        self._device, self._xp, (self._slots, self._width) = device, xp, prior.shape
        distinct = smallest(prior) + 1.0
        self._start = xp.ascontiguousarray(xp.broadcast_to(xp.asarray(distinct), prior.shape))
        self._added, self._alpha, self._table = xp.zeros(prior.shape), xp.empty(prior.shape), xp.empty(prior.shape)
        self._outside = xp.zeros(self._slots, dtype=np.int32)
        self._start_sums = np.broadcast_to(distinct.sum(axis=1) * (self._width // distinct.shape[1]), self._slots)
        self._added_sums = np.zeros(self._slots)
        self._gpu_rows: WeakKeyDictionary[SparseRows, GpuRows] = WeakKeyDictionary()
        self.update(np.arange(self._slots))

    def clear(self, slots: Indices) -> None:
        self._added[self._xp.asarray(slots)] = 0.0
        self._added_sums[slots] = 0.0

    def add(self, rows: Rows, slots: Indices, components: Indices, sign: float = 1.0) -> None:
        sent = self._sent(rows)
        numbers = self._numbers(slots), self._numbers(components)
        self._launch(
            "add_rows", len(slots), *numbers, *sent.places, sent.data, np.float64(sign), self._columns, self._added
        )
        placed = components >= 0
        self._added_sums[slots[placed]] += sign * checked_sparse(rows).sums[components[placed]]

    def update(self, slots: Indices) -> None:
        tables = self._start, self._added, self._alpha, self._table, self._outside
        self._launch("tabulate", len(slots), self._numbers(slots), self._columns, *tables)

    def move(self, rows: Rows, slots: Indices, before: Indices, after: Indices) -> None:
        self.add(rows, slots, before, -1.0)
        self.add(rows, slots, after)
        self.update(slots)

    def gains(self, rows: Rows, slots: Indices, current: Indices) -> Array:
        xp, sent = self._xp, self._sent(rows)
        places, held = self._numbers(slots), self._numbers(current)
        components, longest = len(sent.starts), np.int32(sent.longest)
        kept, wrong = xp.empty((len(slots), sent.longest, 2)), xp.empty(len(slots), dtype=np.int32)
        now, gains = (self._alpha, self._table), xp.empty((len(slots), components))
        width, entries = self._columns, (*sent.places, sent.data)
        before = self._start, self._added, self._outside
        self._launch("take_out", len(slots), places, held, *entries, width, longest, *before, *now, kept, wrong)
        totals = xp.asarray(self._totals_without(rows, slots, current))
        added = np.int32(components), *entries, sent.sums, totals, width
        self._launch("place_gains", len(slots) * components, places, *added, *now, wrong, gains)
        self._launch("put_back", len(slots), places, held, *sent.places, width, longest, kept, *now)
        return np.asarray(self._device.to_host(gains))

    def objective(self) -> float:
        sums = self._start_sums + self._added_sums
        inside = not bool(self._outside.any()) and bool(np.isfinite(sums).all())
        return float(self._table.sum()) - float(gammaln(sums).sum()) if inside else -np.inf

    def _totals_without(self, rows: Rows, slots: Indices, current: Indices) -> Array:
        """The sums of the slots without the site's rows in them."""
        sums = np.where(current >= 0, checked_sparse(rows).sums[np.maximum(current, 0)], 0.0)
        return self._start_sums[slots] + (self._added_sums[slots] - sums)

    @property
    def _columns(self) -> np.int32:
        return np.int32(self._width)

    def _numbers(self, values: Indices) -> Any:
        return self._xp.asarray(values.astype(np.int32))

    def _launch(self, name: str, blocks: int, *arguments: Any) -> None:
        self._device.launch("alignment.cu", name, blocks, THREADS, *arguments)

    def _sent(self, rows: Rows) -> GpuRows:
        sparse, send = checked_sparse(rows), self._xp.asarray
        if sparse not in self._gpu_rows:
            longest = int((sparse.stops - sparse.starts).max(initial=1))
            starts, stops, indices, data = (send(part) for part in sparse.parts)
            self._gpu_rows[sparse] = GpuRows(starts, stops, indices, data, send(sparse.sums), longest)
        return self._gpu_rows[sparse]
