"""Moves out of poor optima: rebuild one feature from others or from what is left unexplained.

Typical poor optima hold a feature that is the sum or the difference of true ones, a complement, or one that explains
nothing. Each move rewrites the assignments of one feature; coordinate ascent then finds the means that belong to
them. A move is kept only if the bound rises.
"""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from decbayes.families import Array
from decbayes.models.assignments import infer, row_bounds
from decbayes.models.feature_state import Problem, State, evidence

Recombination = Callable[[Array, Array], Array]

# How the assignments of one feature may be rebuilt from its own and another's; exact for certain assignments.
RECOMBINATIONS: tuple[Recombination, ...] = (
    lambda own, other: own + other - own * other,  # or: the feature was a difference
    lambda own, other: own * (1.0 - other),  # and not: it was a sum
    lambda own, other: own * other,  # and: it stood in for what both share
    lambda own, other: own + other - 2.0 * own * other,  # either: their overlap was wrong
)

Move = Callable[[Problem, State], Array]


def moves(features: int, rng: np.random.Generator) -> list[Move]:
    """All moves, in random order."""
    every: list[Move] = [*recombinations(features), *complements(features), *reseeds(features, rng), reassigned]
    return [every[index] for index in rng.permutation(len(every))]


def recombinations(features: int) -> Iterator[Move]:
    pairs = [(own, other) for own, other in product(range(features), repeat=2) if own != other]
    for (own, other), combine in product(pairs, RECOMBINATIONS):
        yield lambda _, state, own=own, other=other, combine=combine: replaced(
            state, own, combine(state.assignments[own], state.assignments[other])
        )


def complements(features: int) -> Iterator[Move]:
    for own in range(features):
        yield lambda _, state, own=own: replaced(state, own, 1.0 - state.assignments[own])


def reseeds(features: int, rng: np.random.Generator) -> Iterator[Move]:
    for own in range(features):
        yield lambda problem, state, own=own: replaced(state, own, reseed(problem, state, own, rng))


def reassigned(problem: Problem, state: State) -> Array:
    """Infer the assignments of every observation afresh, and keep the old ones where they are better."""
    alone, overlap = evidence(problem, state)
    fresh = infer(alone, overlap)
    better = row_bounds(alone, overlap, fresh) > row_bounds(alone, overlap, state.assignments)
    return np.where(better, fresh, state.assignments)


def replaced(state: State, feature: int, assignment: Array) -> Array:
    assignments = state.assignments.copy()
    assignments[feature] = assignment
    return assignments


def reseed(problem: Problem, state: State, feature: int, rng: np.random.Generator) -> Array:
    """Give the feature to the observations that resemble one which is badly explained without it."""
    others = np.delete(state.assignments, feature, axis=0)
    residual = problem.data - others.T @ np.delete(state.means, feature, axis=0)
    weight = np.sum(residual**2, axis=1)
    seed = rng.choice(len(residual), p=weight / weight.sum())
    return (residual @ residual[seed] > 0.5 * weight[seed]).astype(np.float64)
