"""Alignment in a tree: groups of agents first, then groups of groups, then one polish of the whole."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from joblib import Parallel, delayed

from decbayes.families import Contribution
from decbayes.merging.matching import Matching, improve
from decbayes.merging.problem import Assignments, Factor, Problem, Solution, Solver
from decbayes.merging.sums import relabelled_sum


@dataclass(frozen=True)
class Hierarchical:
    """Align groups of `fan_in` agents with `inner`, merge each group into one agent, and so on to the root.

    With `polish` (the default) the tree's result is the start of one flat `Matching` improvement, so that the
    outcome is a local optimum of the flat problem. Groups are aligned in parallel through joblib.
    """

    fan_in: int = 8
    inner: Solver = field(default_factory=lambda: Matching(restarts=0))
    polish: bool = True

    def __post_init__(self) -> None:
        if self.fan_in < 2:
            raise ValueError(f"fan_in must be at least 2, not {self.fan_in}: a tree has to branch.")

    def solve(self, problem: Problem) -> Solution:
        assignments = self._tree(problem)
        if self.polish:
            return improve(problem, assignments)
        return Solution(assignments, (problem.objective(problem.totals(assignments)),))

    def _tree(self, problem: Problem) -> Assignments:
        if problem.agents <= self.fan_in:
            return self.inner.solve(problem).assignments
        everyone = range(problem.agents)
        groups = [everyone[first : first + self.fan_in] for first in everyone[:: self.fan_in]]
        solved = Parallel(n_jobs=-1, prefer="threads")(
            delayed(merge_group)(problem.subset(group), self.inner) for group in groups
        )
        inner = np.concatenate([assignments for assignments, _ in solved])
        outer = self._tree(combine(problem, [merged for _, merged in solved]))
        return np.concatenate([inner[group][:, outer[index]] for index, group in enumerate(groups)])


def merge_group(problem: Problem, inner: Solver) -> tuple[Assignments, list[Contribution]]:
    """One group's alignment and its merged contributions, one a factor."""
    assignments = inner.solve(problem).assignments
    merged = [
        relabelled_sum(zip(factor.contributions, assignments, strict=True), like=factor.contributions[0])
        for factor in problem.factors
    ]
    return assignments, merged


def combine(problem: Problem, merged: Sequence[Sequence[Contribution]]) -> Problem:
    """The problem one level up: each group is an agent."""
    return Problem(
        tuple(
            Factor(factor.family, factor.prior, [group[index] for group in merged])
            for index, factor in enumerate(problem.factors)
        )
    )
