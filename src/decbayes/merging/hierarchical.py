"""Alignment in a tree: groups of sites first, then groups of groups, then one polish of the whole."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from decbayes.arguments import check_whole, given
from decbayes.families.rows import Rows
from decbayes.merging.matching import WORTH_A_WORKER, Matching, improve
from decbayes.merging.problem import Assignments, Problem, Solution, Solver
from decbayes.merging.short_rows import placed
from decbayes.symmetry import identity, inverse
from decbayes.workers import jobs

# So many subtrees a worker even out the work among them.
SUBTREES_A_WORKER = 2


@dataclass(frozen=True)
class Subtree:
    """Some sites merged into one: the place of each site's components, and the merged rows, one matrix per factor."""

    assignments: Assignments
    merged: tuple[Rows, ...]


@dataclass(frozen=True)
class Hierarchical:
    """Align groups of `fan_in` sites with `inner`, merge each group into one site, and so on to the root.

    By default `inner` adds a group's sites one at a time: sweeps are better spent on the whole than on each group.
    The tree's result is then polished by at most `polish` sweeps of flat matching (None: until no site changes). The
    first few repair nearly all that the tree got wrong. Subtrees are aligned in parallel through joblib, each
    depth first: a worker holds `fan_in` sites or merged groups per level, however many sites there are.
    """

    fan_in: int = 8
    inner: Solver = field(default_factory=lambda: Matching(restarts=0, sweeps=0))
    polish: int | None = 3

    def __post_init__(self) -> None:
        check_whole(2, fan_in=self.fan_in)
        check_whole(0, **given(polish=self.polish))

    def solve(self, problem: Problem) -> Solution:
        return improve(placed(problem, self._tree(problem)), most_sweeps=self.polish)

    def _tree(self, problem: Problem) -> Assignments:
        size = self.fan_in
        while size * self.fan_in < problem.sites / (SUBTREES_A_WORKER * effective_n_jobs(jobs())):
            size *= self.fan_in
        if problem.evaluations(most=WORTH_A_WORKER) < WORTH_A_WORKER:
            subtrees = [self._subtree(part, size) for part in parts(problem, size)]
        else:
            tasks = (delayed(self._subtree)(part, size) for part in parts(problem, size))
            subtrees = Parallel(n_jobs=jobs(), prefer="threads")(tasks)
        while len(subtrees) > 1:
            groups = [subtrees[first : first + self.fan_in] for first in range(0, len(subtrees), self.fan_in)]
            subtrees = [self._join(problem, group) for group in groups]
        return subtrees[0].assignments

    def _subtree(self, problem: Problem, size: int) -> Subtree:
        """The sites merged into one; `size` is the power of `fan_in` that they fit in."""
        if size == self.fan_in:
            return merge_group(problem.loaded(), self.inner)
        smaller = size // self.fan_in
        return self._join(problem, [self._subtree(part, smaller) for part in parts(problem, smaller)])

    def _join(self, problem: Problem, subtrees: Sequence[Subtree]) -> Subtree:
        """One level up: each subtree is a site."""
        joined = merge_group(replace(problem, contents=[subtree.merged for subtree in subtrees]), self.inner)
        pairs = zip(subtrees, joined.assignments, strict=True)
        return Subtree(np.concatenate([subtree.assignments[:, outer] for subtree, outer in pairs]), joined.merged)


def parts(problem: Problem, size: int) -> list[Problem]:
    """The problem cut into consecutive parts of so many sites."""
    return [problem.part(slice(first, first + size)) for first in range(0, problem.sites, size)]


def merge_group(problem: Problem, inner: Solver) -> Subtree:
    """A handful of sites, aligned and added up."""
    if problem.sites == 1:
        return Subtree(identity(problem.components)[None], problem.contents[0])
    assignments = np.array([inverse(slots) for slots in inner.solve(problem).slots])
    totals = [np.zeros(factor.prior.shape) for factor in problem.factors]
    for contents, permutation in zip(problem.contents, assignments, strict=True):
        for total, rows in zip(totals, contents, strict=True):
            rows.add_to(total, identity(problem.components), permutation)
    pairs = zip(problem.factors, totals, strict=True)
    return Subtree(assignments, tuple(factor.family.rows(total) for factor, total in pairs))
