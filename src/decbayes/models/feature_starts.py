"""Where to start a latent feature model: independent components of the data, cut in two levels.

The assignments are independent coins, so y = Σ_k z_k μ_k + noise is an independent component model: its components
are the features up to scale and sign. A two-level split of each component gives the scale. The sign is a choice
between a feature and its complement (−μ_k where z_k = 0); only one choice leaves no constant offset behind.
"""

from collections.abc import Callable, Iterator
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array

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
    """Assignments (K, N) to start from, without end: one of each contrast, then a random one, and again."""
    for contrast in cycle((*CONTRASTS, None)):
        yield random_start(data, features, rng) if contrast is None else component_start(data, features, contrast, rng)


def random_start(data: Array, features: int, rng: np.random.Generator) -> Array:
    return rng.random((features, len(data)))


def component_start(data: Array, features: int, contrast: Contrast, rng: np.random.Generator) -> Array:
    """Two-level independent components; where the data has fewer of them than features, the rest is random."""
    assignments = random_start(data, features, rng)
    centre = data.mean(axis=0)
    left, scale, right = np.linalg.svd(data - centre, full_matrices=False)
    rank = min(features, int(np.sum(scale > 1e-9 * scale.max(initial=1e-300))))
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
    """Split each component (N, R) in two levels and complement those whose offset must vanish; (R, N)."""
    upper, low, high = split_levels(components)
    directions = loadings * (high - low)[:, None]
    offset = centre + low @ loadings
    # offset + Σ_{k complemented} directions_k = 0, solved for real numbers and rounded.
    complemented = np.linalg.lstsq(directions.T, -offset, rcond=None)[0] > 0.5
    return np.asarray((upper ^ complemented).T, dtype=np.float64)


def split_levels(components: Array) -> tuple[NDArray[np.bool_], Array, Array]:
    """Two means in one dimension, for each column: who is in the upper level, and both levels."""
    low, high = components.min(axis=0), components.max(axis=0)
    upper = components > 0.5 * (low + high)
    for _ in range(LEVEL_PASSES):
        high = np.sum(components * upper, axis=0) / np.maximum(upper.sum(axis=0), 1)
        low = np.sum(components * ~upper, axis=0) / np.maximum((~upper).sum(axis=0), 1)
        upper = components > 0.5 * (low + high)
    return upper, low, high
