"""Results as plain values that can be written down: numbers to a few digits, a few sums in place of long arrays."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np
from scipy.sparse import issparse

import decbayes as db

DIGEST = re.compile("[0-9a-f]{64}")  # of all bits, of which the last are not the same everywhere
LONG = 6  # numbers of an array that are written down one by one
DIGITS = 7
CLOSE = 1e-4
"""Of the size of a result: rounding differs from one machine to another, and iterations make it grow."""


def flat(result, name=""):
    """Pairs of a name and a value: text, or numbers behind their size."""
    if isinstance(result, db.Posterior):
        result = dict(result.contribution)
    if issparse(result):
        result = result.toarray()
    if isinstance(result, Mapping):
        for key, value in result.items():
            yield from flat(value, f"{name}.{key}" if name else str(key))
    elif is_dataclass(result):
        for field in fields(result):
            if field.repr and not field.name.startswith("_"):
                yield from flat(getattr(result, field.name), f"{name}.{field.name}")
    elif isinstance(result, np.ndarray) and result.dtype.kind in "fiub":
        yield name, summed(result)
    elif isinstance(result, bool | int | float | np.number | np.bool_):
        yield name, summed(np.asarray(result))
    elif isinstance(result, list | tuple | np.ndarray):
        for place, value in enumerate(result):
            yield from flat(value, f"{name}.{place}")
    elif isinstance(result, str) and not DIGEST.fullmatch(result):
        yield name, result


def summed(values):
    """Its shape, its size, and the numbers themselves or a few sums that no order of them leaves alone."""
    numbers = np.asarray(values, dtype=float).ravel()
    usual = np.where(np.isfinite(numbers), numbers, 0.0)
    size = float(np.sqrt((usual**2).sum()))
    if len(numbers) > LONG:
        places = np.arange(len(numbers)) + 1.0
        odd = float(np.isnan(numbers).sum()), float(np.isposinf(numbers).sum()), float(np.isneginf(numbers).sum())
        numbers = [usual @ np.cos(places), usual @ np.sin(0.7 * places), usual.sum(), *odd]
    return [list(values.shape), *(float(f"{number:.{DIGITS}g}") for number in (size, *numbers))]


def differing(recorded, found):
    """Names of results that are not those that were written down; what is new may be added."""
    return [name for name, result in recorded.items() if not alike(result, found.get(name))]


def alike(one, other):
    if isinstance(one, str) or isinstance(other, str) or other is None:
        return one == other
    if one[0] != other[0] or len(one) != len(other):
        return False
    slack = CLOSE * max(one[1], other[1]) + 1e-9
    return np.allclose(one[1:], other[1:], rtol=0.0, atol=slack, equal_nan=True)
