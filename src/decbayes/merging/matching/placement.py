"""The state of a search: the slot of each component, the contents of slots, and each site's gains elsewhere.

A site's gain in slot k depends only on the other sites in that slot. So gains are cached, and a slot is evaluated again
only after another site's component has entered or left it. If none of a site's slots has changed, the site cannot
change either, and is skipped.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.merging.base.problem import (
    TOLERANCE,
    Assignments,
    Problem,
    best_permutation,
    forbid_undefined,
    worthwhile,
)
from decbayes.structure import Permutation, identity

Step = Callable[["Placement", int], bool]
"""A function that may move one site, and returns whether it did."""

# Gains are cached up to this total size (N · K² numbers); beyond that, they are recomputed each time.
MOST_KEPT_BYTES = 1 << 28


class Placement:
    """The components of sites in their slots; no site is placed at first, unless assignments are given."""

    def __init__(self, problem: Problem, assignments: Assignments | None = None) -> None:
        sites, components = problem.sites, problem.components
        self.problem = problem
        self.assignments: Assignments = np.full((sites, components), -1, dtype=np.intp)
        self._totals = [factor.family.totals(factor.prior) for factor in problem.factors]
        self._versions = np.zeros(components, dtype=np.int64)
        self._changed = np.zeros(components, dtype=np.bool_)
        self._keeping = 8 * sites * components**2 <= MOST_KEPT_BYTES
        self._gains: dict[int, Array] = {}
        self._seen: dict[int, NDArray[np.int64]] = {}
        if assignments is not None:
            self.assignments[:] = assignments
            self._sum(identity(components))

    def up_to_date(self, site: int) -> bool:
        """Whether no slot has changed since the site's gain was computed."""
        return site in self._seen and bool((self._seen[site] == self._versions).all())

    def gain(self, site: int) -> Array:
        """(K, K): the gain in J when component k' of the site is in slot k, with all other sites fixed."""
        gain = self._gains.get(site)
        if gain is None:
            gain, seen = np.empty((len(self._versions),) * 2), np.full_like(self._versions, -1)
        else:
            seen = self._seen[site]
        stale = np.flatnonzero(seen != self._versions)
        if len(stale):
            gain[stale] = self._slot_gains(site, stale)
            seen[:] = self._versions
        if self._keeping:
            self._gains[site], self._seen[site] = gain, seen
        return forbid_undefined(gain)

    def place(self, site: int, permutation: Permutation) -> None:
        """Move a site's components from their old slots into new ones."""
        before = self.assignments[site].copy()
        slots = np.flatnonzero(before != permutation)
        for totals, rows in zip(self._totals, self.problem.contents[site], strict=True):
            totals.move(rows, slots, before[slots], permutation[slots])
        self.assignments[site] = permutation
        self._changed[slots] = True
        self._versions[slots] += 1
        if site in self._seen:
            # The site's own moves do not change its gains.
            self._seen[site][slots] += 1

    def fold(self, order: Sequence[int]) -> None:
        """Add sites one by one, each in its best permutation given those before it."""
        for site in order:
            self.place(site, best_permutation(self.gain(site)))
            self.problem.announce()

    def rematch_all(self) -> bool:
        """Give every site its best assignment against all others; returns whether anything changed."""
        return sweep(self, rematch)

    def refresh(self) -> None:
        """Recompute the sums of changed slots: adding and subtracting accumulates rounding errors."""
        slots = np.flatnonzero(self._changed)
        if len(slots):
            self._sum(slots)
        self._changed[:] = False

    def objective(self) -> float:
        """J of the set, −∞ outside the domain."""
        return sum(totals.objective() for totals in self._totals)

    def _sum(self, slots: Permutation) -> None:
        for totals in self._totals:
            totals.clear(slots)
        for site, contents in enumerate(self.problem.contents):
            for totals, rows in zip(self._totals, contents, strict=True):
                totals.add(rows, slots, self.assignments[site, slots])
        for totals in self._totals:
            totals.update(slots)

    def _slot_gains(self, site: int, slots: Permutation) -> Array:
        current = self.assignments[site, slots]
        pairs = zip(self._totals, self.problem.contents[site], strict=True)
        return np.asarray(sum(totals.gains(rows, slots, current) for totals, rows in pairs))


def rematch(placement: Placement, site: int) -> bool:
    """Give one site its best assignment against all others; returns whether it changed."""
    gain = placement.gain(site)
    candidate = best_permutation(gain)
    changed = worthwhile(gain, candidate, placement.assignments[site])
    if changed:
        placement.place(site, candidate)
    return changed


def sweep(placement: Placement, step: Step) -> bool:
    """Give every site that could still change one chance; returns whether any did."""
    moved = False
    for site in range(placement.problem.sites):
        if not placement.up_to_date(site):
            moved |= step(placement, site)
        placement.problem.announce()
    return moved


# Up to this many numbers (32 MiB), the rows of all sites are kept in one array.
MOST_NUMBERS = 1 << 22


class ShortRows:
    """All sites' rows in one array, the slot of each component, and the contents of slots."""

    def __init__(self, problem: Problem, assignments: Assignments | None = None) -> None:
        from decbayes.kernels.row_terms import KINDS

        families = [factor.family for factor in problem.factors]
        self.problem = problem
        self._kinds = np.array([KINDS[family.term] for family in families if family.term is not None])
        self._ends = np.cumsum([0, *(factor.prior.shape[1] for factor in problem.factors)])
        self._prior = np.ascontiguousarray(np.concatenate([factor.prior for factor in problem.factors], axis=1))
        self._rows = np.empty((problem.sites, *self._prior.shape))
        for site, contents in enumerate(problem.contents):
            np.concatenate([rows.written_out() for rows in contents], axis=1, out=self._rows[site])
        self._totals = np.zeros(self._prior.shape)
        self.assignments: Assignments = np.full((problem.sites, problem.components), -1, dtype=np.intp)
        self._versions = np.zeros(problem.components, dtype=np.int64)
        self._seen = np.full(self.assignments.shape, -1, dtype=np.int64)
        if assignments is not None:
            self.assignments[:] = assignments
            self.refresh()

    def fold(self, order: Sequence[int]) -> None:
        from decbayes.kernels.short_rows import fold_sites

        fold_sites(*self._problem, np.asarray(order, dtype=np.int64), self._totals, self.assignments)
        self._announce()

    def rematch_all(self) -> bool:
        from decbayes.kernels.short_rows import rematch_sites

        moved = rematch_sites(*self._problem, self._totals, self.assignments, self._versions, self._seen, TOLERANCE)
        self._announce()
        return bool(moved)

    def refresh(self) -> None:
        from decbayes.kernels.short_rows import sum_slots

        sum_slots(self._rows, self.assignments, self._totals)

    def objective(self) -> float:
        natural, total = self._prior + self._totals, 0.0
        for place, factor in enumerate(self.problem.factors):
            part = natural[:, self._ends[place] : self._ends[place + 1]]
            total += factor.family.log_partition(part) if factor.family.contains(part) else -np.inf
        return total

    @property
    def _problem(self) -> tuple[Array, NDArray[np.int64], NDArray[np.int64], Array]:
        return self._rows, self._kinds, self._ends, self._prior

    def _announce(self) -> None:
        for _ in range(self.problem.sites):
            self.problem.announce()


def placed(problem: Problem, assignments: Assignments | None = None) -> Placement | ShortRows:
    """The state of a one-to-one search; the same for files and memory."""
    numbers = problem.sites * sum(factor.prior.size for factor in problem.factors)
    # Only for a family's exact class: a derived one may have other terms.
    compiled = all(vars(type(factor.family)).get("term") is not None for factor in problem.factors)
    short = compiled and numbers <= MOST_NUMBERS
    return (ShortRows if short else Placement)(problem, assignments)
