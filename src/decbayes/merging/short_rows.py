"""The state of a search over short rows, such as those of mixtures: as `Placement`, with all its steps compiled."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.merging.placement import Placement
from decbayes.merging.problem import TOLERANCE, Assignments, Problem

# Rows of all sites up to this many numbers (32 MiB) are held side by side.
MOST_NUMBERS = 1 << 22


class ShortRows:
    """All sites' rows side by side, who is in which slot, and what the slots hold."""

    def __init__(self, problem: Problem, assignments: Assignments | None = None) -> None:
        from decbayes.kernels.terms import KINDS

        families = [factor.family for factor in problem.factors]
        self.problem = problem
        self._kinds = np.array([KINDS[family.term] for family in families if family.term is not None])
        self._ends = np.cumsum([0, *(factor.prior.shape[1] for factor in problem.factors)])
        self._prior = np.concatenate([factor.prior for factor in problem.factors], axis=1)
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
        from decbayes.kernels.matching import fold_sites

        fold_sites(*self._problem, np.asarray(order, dtype=np.int64), self._totals, self.assignments)
        self._announce()

    def rematch_all(self) -> bool:
        from decbayes.kernels.matching import rematch_sites

        moved = rematch_sites(*self._problem, self._totals, self.assignments, self._versions, self._seen, TOLERANCE)
        self._announce()
        return bool(moved)

    def refresh(self) -> None:
        from decbayes.kernels.matching import sum_slots

        sum_slots(self._rows, self.assignments, self._totals)

    def objective(self) -> float:
        natural, total = self._prior + self._totals, 0.0
        for place, factor in enumerate(self.problem.factors):
            own = natural[:, self._ends[place] : self._ends[place + 1]]
            total += factor.family.log_partition(own) if factor.family.contains(own) else -np.inf
        return total

    @property
    def _problem(self) -> tuple[Array, NDArray[np.int64], NDArray[np.int64], Array]:
        return self._rows, self._kinds, self._ends, self._prior

    def _announce(self) -> None:
        for _ in range(self.problem.sites if self.problem.progress is not None else 0):
            self.problem.announce()


def placed(problem: Problem, assignments: Assignments | None = None) -> Placement | ShortRows:
    """The state of a search for one-to-one labels; files and memory have the same."""
    numbers = problem.sites * sum(factor.prior.size for factor in problem.factors)
    # A family says it of itself: one that is made from it may have other terms.
    told = all(vars(type(factor.family)).get("term") is not None for factor in problem.factors)
    short = told and numbers <= MOST_NUMBERS
    return (ShortRows if short else Placement)(problem, assignments)
