"""What the slots of one factor hold in total, kept up to date as agents are placed, and what an agent would add.

Contributions are summed apart from the prior: taking an agent out again then leaves exactly zero where nobody else has
contributed, not the rounding error of its own large counts on top of a tiny prior.
"""

from typing import Protocol

import numpy as np
from scipy.special import gammaln

from decbayes.families import Array, Dirichlet, Family
from decbayes.merging.rows import Rows, SparseRows, add, written_out
from decbayes.merging.workers import split_among_threads
from decbayes.structure import smallest
from decbayes.symmetry import Permutation


class Totals(Protocol):
    """λ0 + Σ_i P_i c_i of one factor; a component below zero stands for an agent that is not placed."""

    def clear(self, slots: Permutation) -> None:
        """Empty the slots, to be summed anew: `add` everybody, then `settle`."""

    def add(self, rows: Rows, slots: Permutation, components: Permutation) -> None:
        """Add an agent's components to cleared slots."""

    def settle(self, slots: Permutation) -> None:
        """Bring everything that depends on the sums up to date."""

    def move(self, rows: Rows, slots: Permutation, before: Permutation, after: Permutation) -> None:
        """Replace the components that an agent has in these slots."""

    def gains(self, rows: Rows, slots: Permutation, held: Permutation) -> Array:
        """What each slot gains from each component of an agent that holds `held` there now; NaN where undefined."""

    def objective(self) -> float:
        """A(λ), −∞ outside the domain."""


def totals_of(family: Family, prior: Array) -> Totals:
    return DirichletTotals(prior) if family == Dirichlet() else PlainTotals(family, prior)


class PlainTotals:
    """Totals of any family, by its own `gain`."""

    def __init__(self, family: Family, prior: Array) -> None:
        self.family, self.prior, self.added = family, prior, np.zeros(prior.shape)

    def clear(self, slots: Permutation) -> None:
        self.added[slots] = 0.0

    def add(self, rows: Rows, slots: Permutation, components: Permutation) -> None:
        add(self.added, rows, slots, components)

    def settle(self, slots: Permutation) -> None:
        pass

    def move(self, rows: Rows, slots: Permutation, before: Permutation, after: Permutation) -> None:
        add(self.added, rows, slots, before, -1.0)
        add(self.added, rows, slots, after)

    def gains(self, rows: Rows, slots: Permutation, held: Permutation) -> Array:
        rest, places = self.added[slots], np.arange(len(slots))
        add(rest, rows, places, held, -1.0)
        return self.family.gain(self.prior[slots] + rest, written_out(rows))

    def objective(self) -> float:
        natural = self.prior + self.added
        return self.family.log_partition(natural) if self.family.contains(natural) else -np.inf


class DirichletTotals:
    """Totals of Dirichlet rows with a table of lnΓ(α), so that a gain evaluates lnΓ at an agent's entries only."""

    def __init__(self, prior: Array) -> None:
        self.start = np.broadcast_to(smallest(prior) + 1.0, prior.shape)
        self.added, self.alpha, self.table = np.zeros(prior.shape), np.empty(prior.shape), np.empty(prior.shape)
        self.start_sums, self.added_sums = self.start.sum(axis=1), np.zeros(len(prior))
        self.outside = np.zeros(len(prior), dtype=np.intp)
        self.settle(np.arange(len(prior)))

    def clear(self, slots: Permutation) -> None:
        self.added[slots], self.added_sums[slots] = 0.0, 0.0

    def add(self, rows: Rows, slots: Permutation, components: Permutation, sign: float = 1.0) -> None:
        add(self.added, rows, slots, components, sign)
        placed = components >= 0
        self.added_sums[slots[placed]] += sign * self._sparse(rows).sums[components[placed]]

    def settle(self, slots: Permutation) -> None:
        from decbayes.kernels.gain import tabulate

        for slot in slots:
            np.add(self.start[slot], self.added[slot], out=self.alpha[slot])
            tabulate(self.alpha[slot : slot + 1], self.table[slot : slot + 1])
            self.outside[slot] = np.count_nonzero(self.alpha[slot] <= 0.0)

    def move(self, rows: Rows, slots: Permutation, before: Permutation, after: Permutation) -> None:
        from decbayes.kernels.rows import settle_rows

        sparse = self._sparse(rows)
        self.add(rows, slots, before, -1.0)
        self.add(rows, slots, after)
        slots_now = self.start, self.added, self.alpha, self.table, self.outside
        for components in (before, after):
            settle_rows(*slots_now, sparse.starts, sparse.stops, sparse.indices, slots, components)

    def gains(self, rows: Rows, slots: Permutation, held: Permutation) -> Array:
        from decbayes.kernels.gain import place_gains

        sparse = self._sparse(rows)
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

    @staticmethod
    def _sparse(rows: Rows) -> SparseRows:
        assert isinstance(rows, SparseRows), "rows_of makes Dirichlet rows sparse"
        return rows
