"""Random natural parameters of every family, made from the usual parameters."""

from collections.abc import Callable

import numpy as np

from decbayes.families import FAMILIES, Array, Family

Draw = Callable[[np.random.Generator, int, int], Array]


def covariances(rng: np.random.Generator, rows: int, dimension: int) -> Array:
    roots = rng.normal(size=(rows, dimension, dimension + 2))
    return roots @ np.swapaxes(roots, 1, 2) / dimension + 0.1 * np.eye(dimension)


def positive(rng: np.random.Generator, *shape: int) -> Array:
    return rng.gamma(2.0, 1.0, size=shape) + 0.1


USUAL: dict[str, Callable[[np.random.Generator, int, int], dict[str, Array]]] = {
    "Dirichlet": lambda rng, k, d: {"alpha": positive(rng, k, d + 1)},
    "Weights": lambda rng, k, d: {"alpha": positive(rng, k)},
    "Beta": lambda rng, k, d: {"alpha": positive(rng, k), "beta": positive(rng, k)},
    "Bernoulli": lambda rng, k, d: {"probability": rng.uniform(0.05, 0.95, size=k)},
    "Categorical": lambda rng, k, d: {"probability": rng.dirichlet(np.full(d + 1, 2.0), size=k)},
    "IsotropicGaussian": lambda rng, k, d: {"mean": rng.normal(size=(k, d)), "variance": positive(rng, k)},
    "DiagonalGaussian": lambda rng, k, d: {"mean": rng.normal(size=(k, d)), "variance": positive(rng, k, d)},
    "FullGaussian": lambda rng, k, d: {"mean": rng.normal(size=(k, d)), "covariance": covariances(rng, k, d)},
    "Gamma": lambda rng, k, d: {"shape": positive(rng, k, d), "rate": positive(rng, k, d)},
    "NormalGamma": lambda rng, k, d: {
        "mean": rng.normal(size=(k, d)),
        "strength": positive(rng, k, d),
        "shape": positive(rng, k, d) + 1,
        "rate": positive(rng, k, d),
    },
    "IsotropicNormalGamma": lambda rng, k, d: {
        "mean": rng.normal(size=(k, d)),
        "strength": positive(rng, k),
        "shape": positive(rng, k) + 1,
        "rate": positive(rng, k),
    },
    "NormalWishart": lambda rng, k, d: {
        "mean": rng.normal(size=(k, d)),
        "strength": positive(rng, k),
        "degrees": positive(rng, k) + d + 2,
        "inverse_scale": covariances(rng, k, d),
    },
}

ALL = sorted(FAMILIES)


def natural(name: str, rng: np.random.Generator, rows: int = 3, dimension: int = 2) -> Array:
    family: Family = FAMILIES[name]
    return family.natural(**USUAL[name](rng, rows, dimension))


def prior(name: str, rows: int, dimension: int) -> Array:
    """A prior that treats all components alike."""
    return np.repeat(natural(name, np.random.default_rng(7), 1, dimension), rows, axis=0)


def contribution(name: str, rng: np.random.Generator, rows: int, dimension: int) -> Array:
    """What data may add: with a conjugate likelihood the natural parameters move along this cone from any prior."""
    return natural(name, rng, rows, dimension) - boundary(name, rows, dimension)


def boundary(name: str, rows: int, dimension: int) -> Array:
    """The apex of the cone: natural parameters minus it add up without leaving the domain."""
    apex = {"Dirichlet": -1.0, "Weights": -1.0, "Beta": -1.0}.get(name, 0.0)
    width = natural(name, np.random.default_rng(0), rows, dimension).shape[1]
    columns = np.full((rows, width), apex)
    if name == "Gamma":
        columns[:, :dimension] = -1.0
    if name == "NormalGamma":
        columns[:, :dimension] = -0.5
    if name == "IsotropicNormalGamma":
        columns[:, 0] = 0.5 * dimension - 1.0
    if name == "NormalWishart":
        columns[:, 0] = -1.0
    return columns
