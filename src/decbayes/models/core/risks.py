"""Outcomes: what the accuracy of predictions is computed from, and who has another outcome than most."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array


class Risks(NamedTuple):
    """Of each observation: its risk, when it happened and whether (outcomes that are larger happen earlier), since when
    it was at risk; what was observed, and what was expected.
    """

    risk: Array
    time: Array
    event: Array
    entry: Array
    observed: Array
    expected: Array


def outcome_groups(targets: Array, *, each: bool = False) -> list[NDArray[np.bool_]]:
    """Rows whose outcome is not the most common one; and of two outcomes also those with the other. Or of `each`."""
    if each:
        return [targets == value for value in np.unique(targets)]
    others = targets != most_common(targets)
    return [others, ~others] if len(np.unique(targets)) == 2 else [others]


def most_common(numbers: Array) -> float:
    """The value that most rows have, the smallest of several."""
    values, times = np.unique(numbers, return_counts=True)
    return float(values[times.argmax()]) if len(values) else np.nan
