"""Random natural parameters of every registered family."""

import numpy as np

from decbayes.families import FAMILIES, Array

ALL = sorted(FAMILIES)


def natural(name: str, rng: np.random.Generator, rows: int = 3, dimension: int = 2) -> Array:
    return FAMILIES[name].example(rows, dimension, rng)


def prior(name: str, rows: int, dimension: int) -> Array:
    """A prior that treats all components alike."""
    return np.repeat(natural(name, np.random.default_rng(7), 1, dimension), rows, axis=0)


def contribution(name: str, rng: np.random.Generator, rows: int, dimension: int) -> Array:
    """What data may add: with a conjugate likelihood the natural parameters move along this cone from any prior."""
    point = natural(name, rng, rows, dimension)
    return point - FAMILIES[name].apex(point.shape[1])
