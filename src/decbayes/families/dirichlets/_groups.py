"""Groups of sparse counts: F = Σ_v y_v log y_v − N log N, at the cost of the non-zero entries."""

import numpy as np
from scipy.special import entr

from decbayes.base.workers import split_among_threads
from decbayes.families.groups import Known, Mask, Visited, one_less
from decbayes.families.matrices import Array, Indices
from decbayes.families.rows import Rows
from decbayes.families.totals import checked_sparse


class DirichletGroups:
    """Slots with a table of y log y, so that a gain evaluates it at a row's entries only."""

    def __init__(self, width: int, slots: int) -> None:
        self.counts, self.table = np.zeros((slots, width)), np.zeros((slots, width))
        self.totals = np.zeros(slots)

    def fill(self, rows: Rows, slots: Indices, evidence: Array) -> None:
        placed = np.flatnonzero(slots >= 0)
        rows.add_to(self.counts, slots[placed], placed)
        np.add.at(self.totals, slots[placed], checked_sparse(rows).sums[placed])

    def update(self) -> None:
        from decbayes.kernels.joined_counts import tabulate_g

        tabulate_g(self.counts, self.table)

    def clear(self) -> None:
        self.counts[:], self.totals[:] = 0.0, 0.0

    def values(self) -> Array:
        return np.asarray(self.table.sum(axis=1) - plain_g(self.totals))

    def gains(self, rows: Rows, chosen: Indices, current: Indices, evidence: Array, needed: Mask) -> Array:
        from decbayes.kernels.joined_counts import group_gains

        sparse = checked_sparse(rows)
        gains = np.zeros((len(chosen), len(self.counts)))
        slots_now = self.counts, self.table, self.totals

        def gains_of(part: slice) -> None:
            selected = chosen[part], current[part], needed[part]
            group_gains(*sparse.parts, sparse.sums, *selected, *slots_now, gains[part])

        entries = int((sparse.stops[chosen] - sparse.starts[chosen]).sum())
        split_among_threads(gains_of, len(chosen), cost=entries * len(self.counts))
        return gains

    def move(self, rows: Rows, component: int, before: int, after: int, evidence: float) -> None:
        from decbayes.kernels.joined_counts import group_move

        sparse = checked_sparse(rows)
        span = slice(sparse.starts[component], sparse.stops[component])
        row = sparse.indices[span], sparse.data[span], sparse.sums[component]
        for slot, sign in ((before, -1.0), (after, 1.0)):
            if slot >= 0:
                group_move(*row, slot, sign, self.counts, self.table, self.totals)

    def visit(self, rows: Rows, visited: Visited, labels: Indices, known: Known) -> bool:
        from decbayes.kernels.joined_counts import group_visits

        sparse = checked_sparse(rows)
        slots_now = self.counts, self.table, self.totals
        return bool(group_visits(*sparse.parts, sparse.sums, *visited, labels, *known, *slots_now))

    def alone(self, rows: Rows, evidence: Array) -> Array:
        from decbayes.kernels.joined_counts import information_alone

        sparse = checked_sparse(rows)
        information = np.empty(len(sparse.starts))
        information_alone(sparse.starts, sparse.stops, sparse.data, sparse.sums, information)
        return information

    def join_losses(self) -> Array:
        from decbayes.kernels.joined_counts import slot_join_losses

        losses = np.zeros((len(self.counts),) * 2)
        slot_join_losses(self.counts, self.table, self.totals, losses)
        return losses

    def join(self, kept: int, absorbed: int) -> None:
        self.counts, self.totals = one_less(self.counts, kept, absorbed), one_less(self.totals, kept, absorbed)
        self.table = one_less(self.table, kept, absorbed)
        self.table[kept] = plain_g(self.counts[kept])

    def freedom(self, slots: Indices) -> Array:
        """The perplexity of the words, minus one."""
        counts = np.maximum(self.counts[slots], 0.0)
        return np.asarray(
            np.exp(entr(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)).sum(axis=1)) - 1.0
        )


class DirichletJoins:
    """Groups as sparse rows in one growing array: joined ones are appended."""

    def __init__(self, rows: Rows) -> None:
        sparse = checked_sparse(rows)
        self.width, self.sums = sparse.width, sparse.sums.copy()
        self.starts, self.stops = sparse.starts.astype(np.int64), sparse.stops.astype(np.int64)
        self.indices, self.data = sparse.indices, sparse.data
        self.known, self.used = plain_g(sparse.data), len(sparse.data)
        self.room = np.zeros((3, sparse.width))

    def losses(self, group: int, others: Indices) -> Array:
        from decbayes.kernels.trees import join_losses

        rows = self.starts, self.stops, self.indices, self.data, self.known, self.sums
        return np.asarray(join_losses(*rows, group, others, self.room))

    def join(self, kept: int, absorbed: int) -> None:
        from decbayes.kernels.trees import joined_row

        first, second = (slice(self.starts[group], self.stops[group]) for group in (kept, absorbed))
        first_row = self.indices[first], self.data[first]
        columns, data, known = joined_row(*first_row, self.indices[second], self.data[second], self.width)
        self._reserve(len(columns))
        end = self.used + len(columns)
        for store, row in ((self.indices, columns), (self.data, data), (self.known, known)):
            store[self.used : end] = row
        self.starts[kept], self.stops[kept], self.used = self.used, end, end
        self.sums[kept] += self.sums[absorbed]

    def _reserve(self, entries: int) -> None:
        if self.used + entries > len(self.data):
            size = 2 * len(self.data) + entries
            self.indices, self.data, self.known = (
                np.concatenate([store, np.zeros(size - len(store), dtype=store.dtype)])
                for store in (self.indices, self.data, self.known)
            )


def plain_g(values: Array) -> Array:
    """y log y, with a penalty below zero, as in the kernels."""
    from decbayes.kernels.joined_counts import tabulate_g

    table = np.empty((1, len(values)))
    tabulate_g(np.ascontiguousarray(values)[None], table)
    return np.asarray(table[0])
