"""Who is in which slot, what the slots hold, and what each site would gain elsewhere: the state of a search.

A site's gain in slot k depends on nothing but the other sites in that slot. So its gains are kept, and a slot is
evaluated again only after somebody else's component has entered or left it: a site none of whose slots has changed
cannot change either, and is passed over.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.merging.problem import Assignments, Problem, best_permutation, forbid_undefined, worthwhile
from decbayes.symmetry import Permutation, identity

Step = Callable[["Placement", int], bool]
"""Something that may move one site, and says whether it did."""

# Gains are kept up to this size in all (N · K² numbers); beyond, they are computed anew each time.
MOST_KEPT_BYTES = 1 << 28


class Placement:
    """The components of some or all sites in their slots; nobody is placed at first, unless assignments are given."""

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
        """(K, K): what J gains when component k' of the site is in slot k, all other sites staying where they are."""
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
        """Put a site's components into their slots, out of those they were in."""
        before = self.assignments[site].copy()
        slots = np.flatnonzero(before != permutation)
        for totals, rows in zip(self._totals, self.problem.contents[site], strict=True):
            totals.move(rows, slots, before[slots], permutation[slots])
        self.assignments[site] = permutation
        self._changed[slots] = True
        self._versions[slots] += 1
        if site in self._seen:
            # The site's own moves do not change what it would gain.
            self._seen[site][slots] += 1

    def fold(self, order: Sequence[int]) -> None:
        """Add sites one by one, each in the permutation that is best for those before it."""
        for site in order:
            self.place(site, best_permutation(self.gain(site)))
            self.problem.announce()

    def rematch_all(self) -> bool:
        """Give every site its best assignment against all others; whether that changed anything."""
        return sweep(self, rematch)

    def refresh(self) -> None:
        """Sum the slots that have changed anew: adding and subtracting accumulates rounding."""
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
        held = self.assignments[site, slots]
        pairs = zip(self._totals, self.problem.contents[site], strict=True)
        return np.asarray(sum(totals.gains(rows, slots, held) for totals, rows in pairs))


def rematch(placement: Placement, site: int) -> bool:
    """Give one site its best assignment against all others; whether that changed anything."""
    gain = placement.gain(site)
    candidate = best_permutation(gain)
    changed = worthwhile(gain, candidate, placement.assignments[site])
    if changed:
        placement.place(site, candidate)
    return changed


def sweep(placement: Placement, step: Step) -> bool:
    """Give every site that could still change one chance to; whether anybody did."""
    moved = False
    for site in range(placement.problem.sites):
        if not placement.up_to_date(site):
            moved |= step(placement, site)
        placement.problem.announce()
    return moved
