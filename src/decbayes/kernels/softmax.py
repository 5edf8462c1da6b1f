"""Scores turned into responsibilities, in place, in one go."""

from typing import Any

import numpy as np

from decbayes.kernels.compiled import compiled
from decbayes.kernels.special import exp, log

Array = np.ndarray[Any, np.dtype[np.float64]]


@compiled
def normalise(scores: Array) -> float:
    """Replace each column by exp(column) / Σ exp(column), and return the sum of the columns' log Σ exp.

    One column a point: every loop then runs over points that lie next to each other, and vectorises.
    """
    components, points = scores.shape
    highest, weight = scores[0].copy(), np.zeros(points)
    for k in range(1, components):
        for n in range(points):
            highest[n] = max(highest[n], scores[k, n])
    for k in range(components):
        for n in range(points):
            scores[k, n] = exp(scores[k, n] - highest[n])
            weight[n] += scores[k, n]
    total = 0.0
    for n in range(points):
        total += highest[n] + log(weight[n])
        weight[n] = 1.0 / weight[n]
    for k in range(components):
        for n in range(points):
            scores[k, n] *= weight[n]
    return total
