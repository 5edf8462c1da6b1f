"""The totals of the slots of one factor, updated as sites are placed, and the gain from placing a site.

Contributions are summed separately from the prior: removing a site then leaves exactly zero where no other site has
contributed, not the rounding error of its large counts on top of a tiny prior.
"""

from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.special import gammaln

from decbayes.families.matrices import Array, Indices, smallest
from decbayes.families.rows import Rows, SparseRows

if TYPE_CHECKING:
    from decbayes.families.family import Family


class Totals(Protocol):
    """λ0 + Σ_i P_i c_i of one factor; a negative component means that the site is not placed."""

    def clear(self, slots: Indices) -> None:
        """Empty the slots to sum them again: `add` all sites, then `update`."""

    def add(self, rows: Rows, slots: Indices, components: Indices) -> None:
        """Add a site's components to cleared slots."""

    def update(self, slots: Indices) -> None:
        """Bring everything that depends on the sums up to date."""

    def move(self, rows: Rows, slots: Indices, before: Indices, after: Indices) -> None:
        """Replace a site's components in these slots."""

    def gains(self, rows: Rows, slots: Indices, current: Indices) -> Array:
        """The gain of each slot from each component of a site that now has `current` there; NaN where undefined."""

    def objective(self) -> float:
        """A(λ), −∞ outside the domain."""


class PlainTotals:
    """Totals of any family, by its own `gain`."""

    def __init__(self, family: "Family", prior: Array) -> None:
        self.family, self.prior, self.added = family, prior, np.zeros(prior.shape)

    def clear(self, slots: Indices) -> None:
        self.added[slots] = 0.0

    def add(self, rows: Rows, slots: Indices, components: Indices) -> None:
        rows.add_to(self.added, slots, components)

    def update(self, slots: Indices) -> None:
        pass

    def move(self, rows: Rows, slots: Indices, before: Indices, after: Indices) -> None:
        rows.add_to(self.added, slots, before, -1.0)
        rows.add_to(self.added, slots, after)

    def gains(self, rows: Rows, slots: Indices, current: Indices) -> Array:
        rest, places = self.added[slots], np.arange(len(slots))
        rows.add_to(rest, places, current, -1.0)
        return self.family.gain(self.prior[slots] + rest, rows.written_out())

    def objective(self) -> float:
        natural = self.prior + self.added
        return self.family.log_partition(natural) if self.family.contains(natural) else -np.inf


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
        from decbayes.kernels.sparse_rows import update_rows

        starts, stops, indices, _ = checked_sparse(rows).parts
        self.add(rows, slots, before, -1.0)
        self.add(rows, slots, after)
        slots_now = self.start, self.added, self.alpha, self.table, self.outside
        for components in (before, after):
            update_rows(*slots_now, starts, stops, indices, slots, components)

    def gains(self, rows: Rows, slots: Indices, current: Indices) -> Array:
        from decbayes.base.workers import split_among_threads
        from decbayes.kernels.gain import place_gains

        sparse = checked_sparse(rows)
        gain = np.empty((len(slots), len(sparse.starts)))
        defined = np.empty(gain.shape, dtype=np.bool_)
        sums = self.start_sums, self.added_sums
        slots_now = self.start, self.added, self.alpha, self.table, *sums, self.outside

        def gains_of(part: slice) -> None:
            place_gains(*slots_now, *sparse.parts, sparse.sums, slots[part], current[part], gain[part], defined[part])

        split_among_threads(gains_of, len(slots), cost=len(slots) * len(sparse.data))
        gain[~defined] = np.nan
        return gain

    def objective(self) -> float:
        sums = self.start_sums + self.added_sums
        inside = not self.outside.any() and np.isfinite(sums).all()
        return float(self.table.sum() - gammaln(sums).sum()) if inside else -np.inf


def checked_sparse(rows: Rows) -> SparseRows:
    assert isinstance(rows, SparseRows), "Dirichlet.rows makes sparse ones"
    return rows
