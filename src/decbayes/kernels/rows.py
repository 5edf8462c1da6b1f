"""Sparse rows added to a dense total, in place."""

from typing import Any

import numba
import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def add_rows(total: Array, indptr: Any, indices: Any, data: Array, permutation: Any, sign: float) -> None:
    """total[k] += sign × row permutation[k] of the CSR matrix."""
    for slot in range(len(permutation)):
        row = permutation[slot]
        for entry in range(indptr[row], indptr[row + 1]):
            total[slot, indices[entry]] += sign * data[entry]
