"""Moves out of poor optima: rebuild one feature from others or from what is left unexplained.

Typical poor optima hold a feature that is the sum or the difference of true ones, or one that explains nothing. Each
move rewrites the assignments, mostly of one feature; coordinate ascent then finds the means that belong to them. A move
is kept only if the bound rises. benchmarks/features_moves.py shows what each kind gains.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, permutations, product

import numpy as np

from decbayes.families import Array
from decbayes.models.assignments import infer, row_bounds
from decbayes.models.feature_state import FeatureData, State, improved, state_of

Move = Callable[[State], Array]
"""Other assignments to go on from."""

# How the assignments of one feature may be rebuilt from its own and another's; exact for certain assignments.
RECOMBINATIONS: tuple[Callable[[Array, Array], Array], ...] = (
    lambda own, other: own + other - own * other,  # or: the feature was a difference
    lambda own, other: own * (1.0 - other),  # and not: it was a sum
    lambda own, other: own * other,  # and: it stood in for what both share
    lambda own, other: own + other - 2.0 * own * other,  # either: their overlap was wrong
)

# Passes of coordinate ascent before a move is judged. One misses many good moves, four cost time and find few more.
TRIAL_PASSES = 2
# Moves tried in one pass: all of them up to eleven features, a random part of them beyond, where they are too many.
MOVES = 500


def repaired(state: State, rng: np.random.Generator, threshold: float) -> State:
    """Try the moves once, in random order, and keep each that raises the bound by more than `threshold`."""
    for move in shuffled(moves(state.problem, rng), rng):
        trial = state_of(state.problem, move(state))
        for _ in range(TRIAL_PASSES):
            trial = improved(trial)
        if trial.bound > state.bound + threshold:
            state = climbed(trial, threshold)
    return state


def climbed(state: State, threshold: float) -> State:
    """Coordinate ascent until a pass gains no more than `threshold`."""
    while True:
        following = improved(state)
        if following.bound <= state.bound + threshold:
            return following
        state = following


def moves(problem: FeatureData, rng: np.random.Generator) -> Iterator[Move]:
    features = range(len(problem.precision))
    for (own, other), combine in product(permutations(features, 2), RECOMBINATIONS):
        yield partial(recombined, own, other, combine)
    for own in features:
        yield partial(reseeded, own, rng)
    yield reassigned
    if not exchangeable(problem):
        yield from (partial(swapped, *pair) for pair in combinations(features, 2))


def shuffled(items: Iterator[Move], rng: np.random.Generator) -> list[Move]:
    every = list(items)
    return [every[index] for index in rng.permutation(len(every))[:MOVES]]


def exchangeable(problem: FeatureData) -> bool:
    """Whether the prior treats all features alike, so that swapping two of them changes nothing."""
    rows = np.column_stack([problem.shift, problem.precision, problem.alpha, problem.beta])
    return bool((rows == rows[:1]).all())


def recombined(own: int, other: int, combine: Callable[[Array, Array], Array], state: State) -> Array:
    return replaced(state, own, combine(state.assignments[own], state.assignments[other]))


def reseeded(own: int, rng: np.random.Generator, state: State) -> Array:
    """Give the feature to the observations that resemble one which is badly explained without it."""
    others = np.delete(state.assignments, own, axis=0)
    residual = state.problem.data - others.T @ np.delete(state.means, own, axis=0)
    weight = np.sum(residual**2, axis=1)
    if not weight.any():
        return state.assignments
    seed = rng.choice(len(residual), p=weight / weight.sum())
    return replaced(state, own, (residual @ residual[seed] > 0.5 * weight[seed]).astype(np.float64))


def reassigned(state: State) -> Array:
    """Infer the assignments of every observation afresh, and keep the old ones where they are better."""
    fresh = infer(*state.pairwise)
    better = row_bounds(*state.pairwise, fresh) > row_bounds(*state.pairwise, state.assignments)
    return np.where(better, fresh, state.assignments)


def swapped(first: int, second: int, state: State) -> Array:
    assignments = state.assignments.copy()
    assignments[[first, second]] = assignments[[second, first]]
    return assignments


def replaced(state: State, feature: int, assignment: Array) -> Array:
    assignments = state.assignments.copy()
    assignments[feature] = assignment
    return assignments
