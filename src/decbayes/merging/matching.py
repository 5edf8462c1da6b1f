"""Alignment by iterated maximum-weight bipartite matching (section 3.2 of the paper)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decbayes.merging.problem import Assignments, Problem, Solution, Totals, best_permutation, worthwhile

# J rises in every sweep but the last, so sweeps end by themselves; this only bounds a pathological case.
MOST_SWEEPS = 1000


@dataclass(frozen=True)
class Matching:
    """Deassign an agent, match its components to the slots, reassign; until no agent changes.

    Starts by folding the agents in one at a time, most evidence first. Each of the `restarts` folds them in another
    random order; the best J wins. The same `seed` gives the same result.
    """

    restarts: int = 8
    seed: int = 0

    def solve(self, problem: Problem) -> Solution:
        best = improve(problem, fold(problem, range(problem.agents)))
        # With two agents or fewer the fold is already the exact optimum.
        for restart in range(self.restarts if problem.agents > 2 else 0):
            order = np.random.default_rng([self.seed, restart]).permutation(problem.agents)
            candidate = improve(problem, fold(problem, order.tolist()))
            if candidate.objective[-1] > best.objective[-1]:
                best = candidate
        return best


def fold(problem: Problem, order: Sequence[int]) -> Assignments:
    """Add agents to the prior one by one, each in the permutation that is best for those before it."""
    assignments = np.empty((problem.agents, problem.components), dtype=np.intp)
    totals = problem.prior()
    for agent in order:
        assignments[agent] = best_permutation(problem.gain(totals, agent))
        problem.add(totals, agent, assignments[agent])
    return assignments


def improve(problem: Problem, start: Assignments) -> Solution:
    """Rematch agents in turn until each one's assignment is the best given all others."""
    assignments = start.copy()
    totals = problem.totals(assignments)
    trace = [problem.objective(totals)]
    unchanged = 0
    for _ in range(MOST_SWEEPS):
        before = assignments.copy()
        for agent in range(problem.agents):
            unchanged = 0 if rematch(problem, totals, assignments, agent) else unchanged + 1
            if unchanged >= problem.agents:
                break
        if np.array_equal(before, assignments):
            break
        # Adding and subtracting accumulates rounding; each sweep starts from totals summed anew.
        totals = problem.totals(assignments)
        trace.append(problem.objective(totals))
    return Solution(assignments, tuple(trace))


def rematch(problem: Problem, totals: Totals, assignments: Assignments, agent: int) -> bool:
    """Give one agent its best assignment against all others, in place; whether that changed anything."""
    problem.add(totals, agent, assignments[agent], -1.0)
    gain = problem.gain(totals, agent)
    candidate = best_permutation(gain)
    changed = worthwhile(gain, candidate, assignments[agent])
    if changed:
        assignments[agent] = candidate
    problem.add(totals, agent, assignments[agent])
    return changed
