"""Sums over hidden variables that go with a posterior: how many persons they rest on, and how exact they need to be."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.disclosure.guarding import NEARLY
from decbayes.families import Array
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons
from decbayes.posterior import Posterior

# Shares of a person that rounding hides, and how exact sums are relative to the largest one.
NOBODY, EXACT = 1e-8, 1e-6


def persons_between(model: Model, posterior: Posterior, data: Any, persons: Persons = EACH) -> tuple[Array, Array]:
    """(K, K): how much of the data lies between two components, and how many persons that rests on.

        Σ_n w_n  and  (Σ_n w_n)² / Σ_n w_n²,   w_n = r_nk r_nl

    On the diagonal w_n = r_nk. A sequence is one person, unless `persons` says otherwise.
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
    """Whether sums over who belongs to which component rest on fewer than `least` persons, as far as they are told."""
    return bool(posterior.structure.symmetry) and bool(between_few(model, posterior, data, least, persons).any())


def between_few(
    model: Model, posterior: Posterior, data: Any, least: int, persons: Persons = EACH
) -> NDArray[np.bool_]:
    """(K, K): between which components sums rest on fewer than `least` persons, as far as they are told."""
    sums, behind = persons_between(model, posterior, data, persons)
    nonzero = sums > NOBODY * model.count(data)
    return np.asarray(nonzero & (behind < least - NEARLY))


def coarse(values: Array) -> Array:
    """Numbers to six digits of the largest one: what hardly anybody adds to them is gone."""
    largest = np.abs(values).max(initial=0.0)
    step = 2.0 ** np.ceil(np.log2(EXACT * largest)) if largest > 0 else 1.0
    return np.asarray(np.rint(values / step) * step) + 0.0


def coarse_columns(values: Array) -> Array:
    """The same of each column, which have sizes of their own."""
    return np.apply_along_axis(coarse, 0, values) if values.size else values
