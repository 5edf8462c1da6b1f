"""Random natural parameters of every registered family."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from decbayes.families import FAMILIES, Array, Family
from decbayes.families.registry import registered

ALL = sorted(FAMILIES)
# Relabelling moves rows alone; of the others see the tests of sequences.
ONE_SIDED = [name for name in ALL if not FAMILIES[name].two_sided]


def family(name: str) -> Family:
    """A family by the name of its class, or by one that says how its columns are laid out."""
    return FAMILIES[name] if name in FAMILIES else registered(name)


def natural(name: str, rng: np.random.Generator, rows: int = 3, dimension: int = 2) -> Array:
    return family(name).example(rows, dimension, rng)


def prior(name: str, rows: int, dimension: int) -> Array:
    """A prior that treats all components alike."""
    return np.repeat(natural(name, np.random.default_rng(7), 1, dimension), rows, axis=0)


def contribution(name: str, rng: np.random.Generator, rows: int, dimension: int) -> Array:
    """What data may add: with a conjugate likelihood the natural parameters move along this cone from any prior."""
    point = natural(name, rng, rows, dimension)
    return point - family(name).apex(point.shape[1])


def over_seeds(**strategies):
    """A few examples, each of random numbers: every law is asked of all families, and there are eighteen of them."""
    return lambda law: settings(max_examples=6)(given(seed=st.integers(0, 2**32 - 1), **strategies)(law))
