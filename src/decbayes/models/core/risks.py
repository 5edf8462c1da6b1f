"""Outcomes: the inputs of measures of accuracy, and rows with a rare outcome."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array


class Risks(NamedTuple):
    """Per observation: its risk, its time (larger outcomes count as earlier), whether the event happened, its entry
    time; the observed and the expected outcome."""

    risk: Array
    time: Array
    event: Array
    entry: Array
    observed: Array
    expected: Array


def outcome_groups(targets: Array, *, each: bool = False) -> list[NDArray[np.bool_]]:
    """Rows without the most common outcome, and with two outcomes also the others; or the rows of `each` outcome."""
    if each:
        return [targets == value for value in np.unique(targets)]
    others = targets != most_common(targets)
    return [others, ~others] if len(np.unique(targets)) == 2 else [others]


def most_common(numbers: Array) -> float:
    """The most common value; the smallest if there are several."""
    values, times = np.unique(numbers, return_counts=True)
    return float(values[times.argmax()]) if len(values) else np.nan
