"""How much sparse Dirichlet rows have learned."""

from typing import Any

import numba
import numpy as np

from decbayes.kernels.special import FASTMATH, digamma, lgamma

Array = np.ndarray[Any, np.dtype[np.float64]]


@numba.njit(fastmath={*FASTMATH, "reassoc"}, error_model="numpy", nogil=True, cache=True)  # type: ignore[untyped-decorator]
def dirichlet_information(
    prior: Array, starts: Any, stops: Any, indices: Any, data: Array, row_sums: Array, prior_sums: Array
) -> float:
    """KL(α ‖ α0) of all rows, from the entries that differ: all others cancel but for the row sums."""
    total = 0.0
    for row in range(len(starts)):
        for entry in range(starts[row], stops[row]):
            before = prior[row, indices[entry]] + 1.0
            after = before + data[entry]
            total += lgamma(before) - lgamma(after) + data[entry] * digamma(after)
        summed = prior_sums[row] + row_sums[row]
        total += lgamma(summed) - lgamma(prior_sums[row]) - row_sums[row] * digamma(summed)
    return total
