"""Random parameters that the families' examples are made from."""

import numpy as np

from decbayes.families.matrices import Array


def positive(rng: np.random.Generator, *shape: int) -> Array:
    return rng.gamma(2.0, 1.0, size=shape) + 0.1


def covariances(rng: np.random.Generator, components: int, dimension: int) -> Array:
    roots = rng.normal(size=(components, dimension, dimension + 2))
    return np.asarray(roots @ np.swapaxes(roots, 1, 2) / dimension + 0.1 * np.eye(dimension))
