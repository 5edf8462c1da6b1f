"""Scores turned into responsibilities, in place, in one go."""

from typing import Any

import numba
import numpy as np

from decbayes.kernels.special import FASTMATH, exp, log

Array = np.ndarray[Any, np.dtype[np.float64]]


@numba.njit(fastmath=FASTMATH, error_model="numpy", nogil=True, cache=True)  # type: ignore[untyped-decorator]
def normalise(scores: Array) -> float:
    """Replace each row by exp(row) / Σ exp(row), and return the sum of the rows' log Σ exp."""
    total = 0.0
    columns = scores.shape[1]
    for row in range(len(scores)):
        highest = scores[row, 0]
        for column in range(columns):
            highest = max(highest, scores[row, column])
        weight = 0.0
        for column in range(columns):
            scores[row, column] = exp(scores[row, column] - highest)
        for column in range(columns):
            weight += scores[row, column]
        for column in range(columns):
            scores[row, column] /= weight
        total += highest + log(weight)
    return total
