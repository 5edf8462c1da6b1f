"""The alignment gain of Dirichlet rows: log-gamma differences where the contribution is not zero, and nowhere else."""

from typing import Any

import numba
import numpy as np

from decbayes.kernels.special import FASTMATH, lgamma

Array = np.ndarray[Any, np.dtype[np.float64]]


def dirichlet_gain(rest: Array, own: Any) -> Array:
    """What Σ_w lnΓ(α_kw) − lnΓ(Σ_w α_kw) gains when row k' of the CSR matrix `own` is added to row k of α − 1.

    Costs K evaluations of lnΓ for each non-zero entry and for each distinct column. NaN where α leaves its domain.
    """
    columns, position = np.unique(own.indices, return_inverse=True)
    gain = np.empty((len(rest), own.shape[0]))
    sums = rest.sum(axis=1) + rest.shape[1]
    added = np.asarray(own.sum(axis=1)).ravel()
    _gains(rest, columns, position.astype(np.int32), own.indptr, own.data, sums, added, gain)
    return gain


@numba.njit(fastmath=FASTMATH, error_model="numpy", nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _gains(
    rest: Array, columns: Any, position: Any, indptr: Any, data: Array, sums: Array, added: Array, gain: Array
) -> None:
    alpha = np.empty(len(columns))
    before = np.empty(len(columns))
    after = np.empty(len(data))
    for slot in range(len(rest)):
        for place in range(len(columns)):
            alpha[place] = rest[slot, columns[place]] + 1.0
        for place in range(len(columns)):
            before[place] = lgamma(alpha[place])
        for entry in range(len(data)):
            after[entry] = alpha[position[entry]] + data[entry]
        for component in range(len(added)):
            first, last = indptr[component], indptr[component + 1]
            lowest = 1.0
            for entry in range(first, last):
                lowest = min(lowest, after[entry])
            if lowest <= 0.0 or sums[slot] + added[component] <= 0.0:
                gain[slot, component] = np.nan
                continue
            total = lgamma(sums[slot]) - lgamma(sums[slot] + added[component])
            for entry in range(first, last):
                after[entry] = lgamma(after[entry])
            for entry in range(first, last):
                total += after[entry] - before[position[entry]]
            gain[slot, component] = total
