"""Totals of Dirichlet rows, whose gains cost what a site's rows hold."""

import numpy as np
from scipy.special import gammaln

from decbayes.families.matrices import Array, Indices, smallest
from decbayes.families.rows import Rows, SparseRows


class DirichletTotals:
    """Totals with a table of lnΓ(α), so that a gain evaluates lnΓ at a site's entries only."""

    def __init__(self, prior: Array) -> None:
        self.start = np.broadcast_to(smallest(prior) + 1.0, prior.shape)
        self.added, self.alpha, self.table = np.zeros(prior.shape), np.empty(prior.shape), np.empty(prior.shape)
        self.start_sums, self.added_sums = self.start.sum(axis=1), np.zeros(len(prior))
        self.outside = np.zeros(len(prior), dtype=np.intp)
        self.update(np.arange(len(prior)))

    def clear(self, slots: Indices) -> None:
        self.added[slots], self.added_sums[slots] = 0.0, 0.0

    def add(self, rows: Rows, slots: Indices, components: Indices, sign: float = 1.0) -> None:
        rows.add_to(self.added, slots, components, sign)
        placed = components >= 0
        self.added_sums[slots[placed]] += sign * checked_sparse(rows).sums[components[placed]]

    def update(self, slots: Indices) -> None:
        from decbayes.kernels.gain import tabulate

        for slot in slots:
            np.add(self.start[slot], self.added[slot], out=self.alpha[slot])
            tabulate(self.alpha[slot : slot + 1], self.table[slot : slot + 1])
            self.outside[slot] = np.count_nonzero(self.alpha[slot] <= 0.0)

    def move(self, rows: Rows, slots: Indices, before: Indices, after: Indices) -> None:
        from decbayes.kernels.rows import update_rows

        sparse = checked_sparse(rows)
        self.add(rows, slots, before, -1.0)
        self.add(rows, slots, after)
        slots_now = self.start, self.added, self.alpha, self.table, self.outside
        for components in (before, after):
            update_rows(*slots_now, sparse.starts, sparse.stops, sparse.indices, slots, components)

    def gains(self, rows: Rows, slots: Indices, held: Indices) -> Array:
        from decbayes.kernels.gain import place_gains
        from decbayes.workers import split_among_threads

        sparse = checked_sparse(rows)
        gain = np.empty((len(slots), len(sparse.starts)))
        defined = np.empty(gain.shape, dtype=np.bool_)
        sums = self.start_sums, self.added_sums
        slots_now = self.start, self.added, self.alpha, self.table, *sums, self.outside

        def some(part: slice) -> None:
            place_gains(*slots_now, *sparse.parts, sparse.sums, slots[part], held[part], gain[part], defined[part])

        split_among_threads(some, len(slots), cost=len(slots) * len(sparse.data))
        gain[~defined] = np.nan
        return gain

    def objective(self) -> float:
        sums = self.start_sums + self.added_sums
        inside = not self.outside.any() and np.isfinite(sums).all()
        return float(self.table.sum() - gammaln(sums).sum()) if inside else -np.inf


def checked_sparse(rows: Rows) -> SparseRows:
    assert isinstance(rows, SparseRows), "Dirichlet.rows makes sparse ones"
    return rows
