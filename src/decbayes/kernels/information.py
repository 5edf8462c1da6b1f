"""The divergence of one Dirichlet from another, and how much sparse Dirichlet rows have learned."""

from typing import Any

import numpy as np

from decbayes.kernels.compiled import compiled_reordered, expanded
from decbayes.kernels.special import digamma, lgamma

Array = np.ndarray[Any, np.dtype[np.float64]]


@expanded
def bound_term(before: float, after: float, step: float) -> float:
    """A parameter's part of −KL(after ‖ before), step = after − before; the sum of a row has the other sign."""
    return -step * digamma(after) + lgamma(after) - lgamma(before)


@compiled_reordered
def dirichlet_information(
    prior: Array, starts: Any, stops: Any, indices: Any, data: Array, row_sums: Array, prior_sums: Array
) -> float:
    """KL(α ‖ α0) of all rows, from the entries that differ: all others cancel but for the row sums."""
    total = 0.0
    for row in range(len(starts)):
        for entry in range(starts[row], stops[row]):
            before = prior[row, indices[entry]] + 1.0
            total -= bound_term(before, before + data[entry], data[entry])
        total += bound_term(prior_sums[row], prior_sums[row] + row_sums[row], row_sums[row])
    return total
