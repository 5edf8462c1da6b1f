"""Alignment by row swaps (section 3.1 of the paper)."""

from dataclasses import dataclass

import numpy as np

from decbayes.families import Array
from decbayes.merging.base.problem import TOLERANCE, Problem, Solution
from decbayes.merging.matching.placement import Placement, sweep
from decbayes.structure import Permutation


@dataclass(frozen=True)
class Swaps:
    """Swap two components of one site wherever that increases J; stop when no swap does.

    >>> db.align(sites, solver=db.solvers.Swaps()).optimality
    'swap'
    """

    def solve(self, problem: Problem) -> Solution:
        start = np.tile(np.arange(problem.components, dtype=np.intp), (problem.sites, 1))
        placement = Placement(problem, start)
        trace = [placement.objective()]
        while sweep(placement, swap):
            placement.refresh()
            trace.append(placement.objective())
        return Solution.permuted(placement.assignments, tuple(trace), "swap")


def swap(placement: Placement, site: int) -> bool:
    """Swap components of one site as long as that increases J; returns whether any swap was made."""
    permutation = placement.assignments[site].copy()
    swapped = swap_while_better(placement.gain(site), permutation)
    if swapped:
        placement.place(site, permutation)
    return swapped


def swap_while_better(gain: Array, permutation: Permutation) -> bool:
    """Make the best swap, in place, as long as one increases J; returns whether any was made."""
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
