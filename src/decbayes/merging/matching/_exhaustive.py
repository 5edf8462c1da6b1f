"""Alignment by trying everything: exact, for a handful of sites and components."""

from dataclasses import dataclass
from itertools import permutations
from math import factorial

import numpy as np

from decbayes.errors import TooManyRelabellings
from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.base.problem import Problem, Solution
from decbayes.merging.matching.placement import Placement

MOST_COMBINATIONS = 5_000_000


@dataclass(frozen=True)
class Exhaustive:
    """The best of all combinations of permutations, proven: for a handful of sites and components.

    >>> db.align(sites, solver=db.solvers.Exhaustive()).optimality
    'global'
    """

    def solve(self, problem: Problem) -> Solution:
        sites, components = problem.sites, problem.components
        # Relabelling all sites alike changes nothing if the prior treats all components alike.
        free = sites - problem.exchangeable
        if factorial(components) ** free > MOST_COMBINATIONS:
            raise TooManyRelabellings(
                f"{sites} sites with {components} components have ({components}!)^{free} alignments, more than "
                f"{MOST_COMBINATIONS:,} to try one by one. Use Matching()."
            )
        orders = all_permutations(components)
        choices = [orders[:1]] * problem.exchangeable + [orders] * free
        # (K, K, …, K): the row terms of slot k when the sites put components k_1, …, k_N there.
        scores = np.sum([factor_scores(problem, index) for index in range(len(problem.factors))], axis=0)
        objective = combination_scores(scores, choices)
        best = np.unravel_index(np.argmax(objective), objective.shape)
        assignments = np.array([choice[index] for choice, index in zip(choices, best, strict=True)])
        return Solution.permuted(assignments, (Placement(problem, assignments).objective(),), "global")


def combination_scores(scores: Array, choices: list[np.ndarray[tuple[int, int], np.dtype[np.intp]]]) -> Array:
    """Σ_k of the slots' scores for every combination of the sites' choices, one axis per site."""
    total = np.zeros([len(choice) for choice in choices])
    for slot, score in enumerate(scores):
        total += score[np.ix_(*(choice[:, slot] for choice in choices))]
    return total


def factor_scores(problem: Problem, index: int) -> Array:
    """Row terms of one factor; −∞ outside the domain."""
    factor = problem.factors[index]
    sums = np.asarray(factor.prior)
    for contents in problem.contents:
        sums = sums[..., None, :] + contents[index].written_out()
    rows = sums.reshape(-1, sums.shape[-1])
    inside = factor.family.contains_rows(rows)
    scores = np.full(len(rows), -np.inf)
    scores[inside] = factor.family.row_terms(rows[inside])
    return scores.reshape(sums.shape[:-1])


def all_permutations(size: int) -> Indices:
    """(K!, K): every permutation once."""
    return np.array(list(permutations(range(size))), dtype=np.intp)
