"""Dividing counts of topics among slots on a GPU, in the same passes as `division`."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from decbayes.families.matrices import Indices
from decbayes.families.rows import SparseRows
from decbayes.kernels.cuda.device import Device
from decbayes.merging.base.division import FLOOR, GAIN, KEPT, WORDS, Division, prior_counts, pruned, sparse_contents
from decbayes.merging.base.problem import Problem
from decbayes.structure import identity

State = tuple[Any, Any]
"""Shares (components, slots) and profiles (columns, slots), on the GPU."""

KERNELS, ROW_THREADS, COLUMN_THREADS, WARP = "division.cu", 128, 256, 32


def divided(
    device: Device, problem: Problem, labels: tuple[Indices, ...], passes: int, rows: SparseRows | None = None
) -> Division | None:
    """The same as `division.divided`, and the totals that slots receive from all sites.

    `rows` are those of all sites, if already concatenated.
    """
    xp, slots = device.xp, problem.components
    if rows is None:
        first, *others = sparse_contents(problem)
        rows = first.followed_by(others)
    counts, prior = GpuCounts(device, rows), xp.asarray(prior_counts(problem))
    whole = xp.eye(slots)[xp.asarray(np.concatenate(labels))]
    undivided = counts.normalised(counts.divided(whole, xp.ones_like(prior)).columns + prior, axis=0)
    shares, profiles = climbed(counts, prior, (KEPT * whole + (1.0 - KEPT) / slots, undivided), passes)
    shares = pruned(shares)
    divided_counts = counts.divided(shares, profiles)
    gains = divided_counts.likelihoods - counts.divided(whole, undivided).likelihoods
    telling = xp.asarray(rows.stops - rows.starts >= WORDS * slots) | (gains > GAIN * (slots - 1))
    if not (float(gains.sum()) > 0.0 and bool(telling.any())):
        return None
    if not bool(telling.all()):
        shares = xp.where(telling[:, None], shares, whole)
        divided_counts = counts.divided(shares, profiles)
    ends = np.cumsum([len(site_labels) for site_labels in labels])[:-1]
    host_shares, frequencies, received = map(device.to_host, (shares, profiles, divided_counts.columns))
    return Division(tuple(np.split(host_shares, ends)), frequencies, identity(slots), received=received)


def climbed(counts: "GpuCounts", prior: Any, start: State, passes: int) -> State:
    """Shares and profiles after this many passes, extrapolated as in `division.climbed`."""
    state = extrapolated = start
    for step in range(passes):
        before, divided_counts = state, counts.divided(*extrapolated)
        state = (
            counts.normalised(divided_counts.rows, axis=1, otherwise=extrapolated[0]),
            counts.normalised(divided_counts.columns + prior, axis=0),
        )
        extrapolated = state if step == 0 else tuple(counts.led_on(state[i], before[i], axis=1 - i) for i in range(2))
    return state


class Divided(NamedTuple):
    """The counts that slots receive from each row (rows, slots) and column, and how well each row is explained."""

    rows: Any
    columns: Any
    likelihoods: Any


class GpuCounts:
    """Counts of all components on the GPU, by row and by column."""

    def __init__(self, device: Device, rows: SparseRows) -> None:
        self._device, self._xp, self._sparse = device, device.xp, rows
        self._rows = tuple(self._xp.asarray(part) for part in rows.parts)

    @cached_property
    def _by_column(self) -> tuple[Any, Any, Any]:
        """Where each column's entries begin, the entries, and their rows."""
        xp, (_, _, indices, _), sparse = self._xp, self._rows, self._sparse
        entries = xp.argsort(indices, kind="stable").astype(np.int32)
        owners = np.repeat(np.arange(sparse.count, dtype=np.int32), sparse.stops - sparse.starts)
        ends = xp.zeros(sparse.width + 1, dtype=np.int32)
        ends[1:] = xp.cumsum(xp.bincount(indices, minlength=sparse.width))
        return ends, entries, xp.asarray(owners)[entries]

    def normalised(self, values: Any, *, axis: int, otherwise: Any = None) -> Any:
        """Values divided by their sum over an axis; `otherwise`, or zero, where the sum is zero."""
        output, others = self._xp.empty_like(values), values if otherwise is None else otherwise
        sums = values.sum(axis=axis)
        self._elementwise(output, "normalise", values, sums, others, np.int32(axis))
        return output

    def led_on(self, after: Any, before: Any, *, axis: int) -> Any:
        """Extrapolate from two points, as the CPU kernel of this name does."""
        output = self._xp.empty_like(after)
        self._elementwise(output, "lead_on", after, before, np.float64(FLOOR))
        return self.normalised(output, axis=axis)

    def _elementwise(self, output: Any, kernel: str, *arguments: Any) -> None:
        """Launch a kernel with one thread per number of the output."""
        blocks = -(-output.size // COLUMN_THREADS)
        self._device.launch(
            KERNELS, kernel, blocks, COLUMN_THREADS, *arguments, np.int64(output.size), output, SLOTS=output.shape[1]
        )

    def divided(self, shares: Any, profiles: Any) -> Divided:
        """Counts in proportion to shares (rows, slots) times profiles (columns, slots)."""
        xp, (count, slots), width = self._xp, shares.shape, self._sparse.width
        scales, received = xp.empty(self._sparse.size), xp.empty((count, slots))
        total, likelihoods = xp.empty((width, slots)), xp.empty(count)
        launch, state = self._device.launch, (shares, profiles, scales)
        row_results, shared_bytes = (received, likelihoods), 8 * slots * ROW_THREADS // WARP
        rows = *self._rows, *state, *row_results
        launch(KERNELS, "divide_rows", count, ROW_THREADS, *rows, shared_bytes=shared_bytes, SLOTS=slots)
        columns, blocks = (*self._by_column, np.int32(width), *state, total), -(-width * WARP // COLUMN_THREADS)
        launch(KERNELS, "divide_columns", blocks, COLUMN_THREADS, *columns, SLOTS=slots)
        return Divided(received, total, likelihoods)
