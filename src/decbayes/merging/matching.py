"""Alignment by iterated maximum-weight bipartite matching (section 3.2 of the paper)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

from decbayes.arguments import check_whole, given
from decbayes.merging.placement import Placement
from decbayes.merging.problem import Problem, Solution
from decbayes.merging.short_rows import ShortRows, placed
from decbayes.workers import jobs

# J rises in every sweep but the last, so sweeps end by themselves; this only bounds a pathological case.
MOST_SWEEPS = 1000


# Evaluations a sweep. Up to CHEAP (about 40 ms) a search is repeated without being asked to; from WORTH_A_WORKER on (a
# few milliseconds) repetitions are handed to workers.
CHEAP, CHEAP_RESTARTS = 8_000_000, 8
WORTH_A_WORKER = 500_000


@dataclass(frozen=True)
class Matching:
    """Deassign a site, match its components to the slots, reassign; until no site changes.

    Starts by adding the sites one at a time, those with the most data first. Each of the `restarts` takes another
    random order; the best J is kept. By default there are eight in small problems, where they are cheap and one start
    may end in a poor optimum, and none in large ones, where optima hardly differ. The same `seed` gives the same
    result, whatever the number of workers. `sweeps` ends each search after that many rounds over all sites.
    """

    restarts: int | None = None
    seed: int = 0
    sweeps: int | None = None

    def __post_init__(self) -> None:
        check_whole(0, seed=self.seed, **given(restarts=self.restarts, sweeps=self.sweeps))

    def solve(self, problem: Problem) -> Solution:
        evaluations = problem.evaluations(most=CHEAP)
        if evaluations <= CHEAP:
            # Restarts would read the files again and again; and files and memory must give the same result.
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
    """Add sites to the prior one by one, each in the permutation that is best for those before it."""
    placement = placed(problem)
    placement.fold(order)
    return placement


def improve(placement: Placement | ShortRows, *, most_sweeps: int | None = None) -> Solution:
    """Rematch sites in turn until each one's assignment is the best given all others, or for so many sweeps."""
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
