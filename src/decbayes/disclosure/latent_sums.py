"""Sums over latent variables that go with a posterior: the persons behind them, and their precision."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.disclosure.guarding import NEARLY
from decbayes.families import Array
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons
from decbayes.posterior import Posterior

# The share of a person that is only rounding, and the precision of sums relative to the largest one.
NOBODY, EXACT = 1e-8, 1e-6


def persons_between(model: Model, posterior: Posterior, data: Any, persons: Persons = EACH) -> tuple[Array, Array]:
    """(K, K): how much of the data lies between two components, and the number of persons behind it.

        Σ_n w_n  and  (Σ_n w_n)² / Σ_n w_n²,   w_n = r_nk r_nl

    On the diagonal w_n = r_nk. A sequence is one person unless `persons` says otherwise.
    """
    shares, steps = model.assign(posterior, data), model.units(data)
    if len(shares) == steps.sum() != len(steps):
        persons = persons.of_parts(np.repeat(np.arange(len(steps)), steps.astype(np.intp)))
    number = shares.shape[1]
    sums, squares = np.zeros((number, number)), np.zeros((number, number))
    for component in range(number):
        weights = shares * shares[:, [component]]
        weights[:, component] = shares[:, component]
        weights = persons.summed(weights)
        sums[component], squares[component] = weights.sum(axis=0), (weights**2).sum(axis=0)
    return sums, sums**2 / np.maximum(squares, np.finfo(float).tiny)


def tells_few(model: Model, posterior: Posterior, data: Any, least: int, persons: Persons = EACH) -> bool:
    """Whether any nonzero sum over assignments to components rests on fewer than `least` persons."""
    return bool(posterior.structure.symmetry) and bool(between_few(model, posterior, data, least, persons).any())


def between_few(
    model: Model, posterior: Posterior, data: Any, least: int, persons: Persons = EACH
) -> NDArray[np.bool_]:
    """(K, K): the pairs of components whose nonzero sums rest on fewer than `least` persons."""
    sums, persons_behind = persons_between(model, posterior, data, persons)
    nonzero = sums > NOBODY * model.count(data)
    return np.asarray(nonzero & (persons_behind < least - NEARLY))


def coarse(values: Array) -> Array:
    """Numbers rounded to six digits of the largest one, which hides tiny contributions of single persons."""
    largest = np.abs(values).max(initial=0.0)
    step = 2.0 ** np.ceil(np.log2(EXACT * largest)) if largest > 0 else 1.0
    return np.asarray(np.rint(values / step) * step) + 0.0


def coarse_columns(values: Array) -> Array:
    """The same for each column by itself."""
    return np.apply_along_axis(coarse, 0, values) if values.size else values
