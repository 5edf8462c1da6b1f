"""Starts of a latent feature model, and moves out of poor optima."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, cycle, permutations, product

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.models.features._state import FeatureData, State, improved, infer, row_bounds, state_of

Contrast = Callable[[Array], tuple[Array, Array]]
MAXIMAL_TURNS = 200
LEVEL_PASSES = 30


def asymmetry(u: Array) -> tuple[Array, Array]:
    return u**2, 2.0 * u


def tails(u: Array) -> tuple[Array, Array]:
    return u**3, 3.0 * u**2


def logcosh(u: Array) -> tuple[Array, Array]:
    slope = np.tanh(u)
    return slope, 1.0 - slope**2


# Each contrast is blind to some inclusion probability (asymmetry to ½, tails to 0.21 and 0.79), so they take turns.
CONTRASTS: tuple[Contrast, ...] = (asymmetry, tails, logcosh)


def starts(data: Array, features: int, rng: np.random.Generator) -> Iterator[Array]:
    """Assignments (K, N) to start from, endlessly: one of each contrast, then a random one, and again."""
    for contrast in cycle((*CONTRASTS, None)):
        yield random_start(data, features, rng) if contrast is None else component_start(data, features, contrast, rng)


def random_start(data: Array, features: int, rng: np.random.Generator) -> Array:
    return rng.random((features, len(data)))


def component_start(data: Array, features: int, contrast: Contrast, rng: np.random.Generator) -> Array:
    """Two-level independent components; if the data have fewer of them than features, the rest is random."""
    assignments = random_start(data, features, rng)
    centre = data.mean(axis=0)
    left, scale, right = np.linalg.svd(data - centre, full_matrices=False)
    rank = min(features, int(np.sum(scale > 1e-9 * scale.max())))
    if rank:
        white = left[:, :rank] * np.sqrt(len(data))
        turn = independent_directions(white, contrast, rng)
        loadings = turn @ (right[:rank] * scale[:rank, None]) / np.sqrt(len(data))
        assignments[:rank] = two_levels(white @ turn.T, loadings, centre)
    return assignments


def independent_directions(white: Array, contrast: Contrast, rng: np.random.Generator) -> Array:
    """The rotation that makes whitened data independent: symmetric FastICA (Hyvärinen, 1999)."""
    turn = nearest_rotation(rng.standard_normal((white.shape[1], white.shape[1])))
    for _ in range(MAXIMAL_TURNS):
        value, slope = contrast(white @ turn.T)
        following = nearest_rotation(value.T @ white / len(white) - slope.mean(axis=0)[:, None] * turn)
        moved = 1.0 - np.abs(np.sum(following * turn, axis=1)).min()
        turn = following
        if moved < 1e-5:
            break
    return turn


def nearest_rotation(matrix: Array) -> Array:
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)


def two_levels(components: Array, loadings: Array, centre: Array) -> Array:
    """(R, N): split each component (N, R) into two levels, and complement those whose offset must vanish."""
    upper, low, high = split_levels(components)
    directions = loadings * (high - low)[:, None]
    offset = centre + low @ loadings
    # offset + Σ_{k complemented} directions_k = 0, solved for real numbers and rounded.
    complemented = np.linalg.lstsq(directions.T, -offset, rcond=None)[0] > 0.5
    return np.asarray((upper ^ complemented).T, dtype=np.float64)


def split_levels(components: Array) -> tuple[NDArray[np.bool_], Array, Array]:
    """Two-means in one dimension, for each column: which values are in the upper level, and both levels."""
    low, high = components.min(axis=0), components.max(axis=0)
    upper = components > 0.5 * (low + high)
    for _ in range(LEVEL_PASSES):
        high = np.sum(components * upper, axis=0) / np.maximum(upper.sum(axis=0), 1)
        low = np.sum(components * ~upper, axis=0) / np.maximum((~upper).sum(axis=0), 1)
        upper = components > 0.5 * (low + high)
    return upper, low, high


Move = Callable[[State], Array]
"""Other assignments to continue from."""

# Ways to rebuild the assignments of one feature from its own and another's; exact for certain assignments.
RECOMBINATIONS: tuple[Callable[[Array, Array], Array], ...] = (
    lambda one, other: one + other - one * other,  # or: the feature was a difference
    lambda one, other: one * (1.0 - other),  # and not: it was a sum
    lambda one, other: one * other,  # and: it stood in for what both share
    lambda one, other: one + other - 2.0 * one * other,  # either: their overlap was wrong
)

# Passes of coordinate ascent before judging a move. One misses many good moves, four cost time and find few more.
TRIAL_PASSES = 2
# Moves to try in one pass: all of them up to eleven features, a random selection beyond.
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
    for (first, other), combine in product(permutations(features, 2), RECOMBINATIONS):
        yield partial(recombined, first, other, combine)
    for first in features:
        yield partial(reseeded, first, rng)
    yield reassigned
    if not exchangeable(problem):
        yield from (partial(swapped, *pair) for pair in combinations(features, 2))


def shuffled(items: Iterator[Move], rng: np.random.Generator) -> list[Move]:
    all_moves = list(items)
    return [all_moves[index] for index in rng.permutation(len(all_moves))[:MOVES]]


def exchangeable(problem: FeatureData) -> bool:
    """Whether the prior treats all features alike, so that swapping two of them changes nothing."""
    rows = np.column_stack([problem.shift, problem.precision, problem.alpha, problem.beta])
    return bool((rows == rows[:1]).all())


def recombined(feature: int, other: int, combine: Callable[[Array, Array], Array], state: State) -> Array:
    return replaced(state, feature, combine(state.assignments[feature], state.assignments[other]))


def reseeded(feature: int, rng: np.random.Generator, state: State) -> Array:
    """Give the feature to the observations that resemble one that is badly explained without it."""
    others = np.delete(state.assignments, feature, axis=0)
    residual = state.problem.data - others.T @ np.delete(state.means, feature, axis=0)
    weight = np.sum(residual**2, axis=1)
    if not weight.any():
        return state.assignments
    seed = rng.choice(len(residual), p=weight / weight.sum())
    return replaced(state, feature, (residual @ residual[seed] > 0.5 * weight[seed]).astype(np.float64))


def reassigned(state: State) -> Array:
    """Infer the assignments of every observation from scratch, and keep the old ones where they are better."""
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
