"""Alignment by iterated maximum-weight bipartite matching (section 3.2 of the paper)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from decbayes.base.arguments import check_whole, given
from decbayes.base.workers import jobs
from decbayes.families.rows import Rows
from decbayes.merging.base.problem import Assignments, Problem, Solution, Solver
from decbayes.merging.matching.placement import Placement, ShortRows, placed
from decbayes.structure import identity, inverse

# J rises in every sweep but the last, so sweeps end by themselves; this only limits pathological cases.
MOST_SWEEPS = 1000


# Evaluations per sweep. Up to CHEAP (about 40 ms), searches are restarted by default; from WORTH_A_WORKER on (a few
# milliseconds), restarts run in parallel.
CHEAP, CHEAP_RESTARTS = 8_000_000, 8
WORTH_A_WORKER = 500_000


@dataclass(frozen=True)
class Matching:
    """One component of each site into each slot: match each site to the others in turn, until no site changes.

    Starts by adding the sites one at a time, those with the most data first. The result does not depend on the number
    of workers.

    Attributes:
        restarts: further searches, each adding the sites in another random order; the best J is kept. Default: eight in
            small problems, where they are cheap and one start may end in a poor optimum; none in large ones, where
            optima hardly differ.
        seed: the seed of the random orders.
        sweeps: the largest number of sweeps over all sites per search. Default: until no site changes.

    >>> db.align(sites, solver=db.solvers.Matching(restarts=2)).one_to_one
    True
    """

    restarts: int | None = None
    seed: int = 0
    sweeps: int | None = None

    def __post_init__(self) -> None:
        check_whole(0, seed=self.seed, **given(restarts=self.restarts, sweeps=self.sweeps))

    def solve(self, problem: Problem) -> Solution:
        evaluations = problem.evaluations(most=CHEAP)
        if evaluations <= CHEAP:
            # Restarts would reread files each time; files and memory must give the same result.
            problem = problem.loaded()
        restarts = (CHEAP_RESTARTS if evaluations <= CHEAP else 0) if self.restarts is None else self.restarts
        starts = [None, *range(0 if problem.solved_by_folding else restarts)]
        if len(starts) == 1 or evaluations < WORTH_A_WORKER:
            solutions = [self._solve(problem, start) for start in starts]
        else:
            tasks = (delayed(self._solve)(problem, start) for start in starts)
            solutions = Parallel(n_jobs=jobs(), prefer="threads")(tasks)
        return max(solutions, key=lambda solution: solution.objective[-1])

    def _solve(self, problem: Problem, restart: int | None) -> Solution:
        order = range(problem.sites)
        if restart is not None:
            order = np.random.default_rng([self.seed, restart]).permutation(problem.sites).tolist()
        return improve(fold(problem, order), most_sweeps=self.sweeps)


def fold(problem: Problem, order: Sequence[int]) -> Placement | ShortRows:
    """Add sites to the prior one by one, each in its best permutation given those before it."""
    placement = placed(problem)
    placement.fold(order)
    return placement


def improve(placement: Placement | ShortRows, *, most_sweeps: int | None = None) -> Solution:
    """Rematch sites in turn until each assignment is the best given all others, or for this many sweeps."""
    problem = placement.problem
    placement.refresh()
    trace = [placement.objective()]
    for _ in range(MOST_SWEEPS if most_sweeps is None else most_sweeps):
        if not placement.rematch_all():
            return Solution.permuted(
                placement.assignments, tuple(trace), "global" if problem.solved_by_folding else "site"
            )
        placement.refresh()
        trace.append(placement.objective())
    return Solution.permuted(placement.assignments, tuple(trace), "none")


# Subtrees per worker, to even out the work.
SUBTREES_A_WORKER = 2


@dataclass(frozen=True)
class Subtree:
    """Some sites merged into one: the slots of each site's components, and the merged rows, one matrix per factor."""

    assignments: Assignments
    merged: tuple[Rows, ...]


@dataclass(frozen=True)
class Hierarchical:
    """For thousands of sites: align groups of a few, merge each group into one site, and repeat up to the root.

    Subtrees are aligned in parallel through joblib, each depth first: a worker holds `fan_in` sites or merged groups
    per level, however many sites there are.

    Attributes:
        fan_in: the size of a group.
        inner: how a group is aligned. Default: its sites are added one at a time, because sweeps are better spent on
            the whole than on each group.
        polish: the largest number of sweeps of flat matching at the end; None to sweep until no site changes. The first
            few repair nearly all errors of the tree.

    >>> db.merge(sites, solver=db.solvers.Hierarchical(fan_in=2)) == db.merge(sites, solver=db.solvers.Matching())
    True
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
        """The sites merged into one; `size` is the smallest power of `fan_in` that holds them."""
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
    """The problem split into consecutive parts of this many sites."""
    return [problem.part(slice(first, first + size)) for first in range(0, problem.sites, size)]


def merge_group(problem: Problem, inner: Solver) -> Subtree:
    """A few sites, aligned and added up."""
    if problem.sites == 1:
        return Subtree(identity(problem.components)[None], problem.contents[0])
    assignments = np.array([inverse(slots) for slots in inner.solve(problem).slots])
    totals = [np.zeros(factor.prior.shape) for factor in problem.factors]
    for contents, permutation in zip(problem.contents, assignments, strict=True):
        for total, rows in zip(totals, contents, strict=True):
            rows.add_to(total, identity(problem.components), permutation)
    pairs = zip(problem.factors, totals, strict=True)
    return Subtree(assignments, tuple(factor.family.rows(total) for factor, total in pairs))
