"""Alignment by row swaps (section 3.1 of the paper)."""

from dataclasses import dataclass

import numpy as np

from decbayes.families import Array
from decbayes.merging.problem import TOLERANCE, Problem, Solution
from decbayes.symmetry import Permutation


@dataclass(frozen=True)
class Swaps:
    """Swap two components of one agent wherever that increases J; stop when no swap does."""

    def solve(self, problem: Problem) -> Solution:
        assignments = np.tile(np.arange(problem.components, dtype=np.intp), (problem.agents, 1))
        totals = problem.totals(assignments)
        trace = [problem.objective(totals)]
        while True:
            swapped = False
            for agent in range(problem.agents):
                problem.add(totals, agent, assignments[agent], -1.0)
                swapped |= swap_while_better(problem.gain(totals, agent), assignments[agent])
                problem.add(totals, agent, assignments[agent])
            if not swapped:
                return Solution(assignments, tuple(trace))
            totals = problem.totals(assignments)
            trace.append(problem.objective(totals))


def swap_while_better(gain: Array, permutation: Permutation) -> bool:
    """Make the best swap, in place, for as long as one increases J; whether there was any."""
    swapped = False
    while True:
        change = swap_changes(gain, permutation)
        first, second = np.unravel_index(np.argmax(change), change.shape)
        kept = np.abs(gain[np.arange(len(gain)), permutation]).sum()
        if change[first, second] <= TOLERANCE * (1.0 + kept):
            return swapped
        permutation[[first, second]] = permutation[[second, first]]
        swapped = True


def swap_changes(gain: Array, permutation: Permutation) -> Array:
    """(K, K): how J changes when slots k and l exchange their components."""
    placed = gain[:, permutation]
    kept = np.diag(placed)
    return np.asarray(placed + placed.T - kept[:, None] - kept[None, :])
