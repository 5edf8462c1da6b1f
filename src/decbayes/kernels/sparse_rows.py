"""Adding sparse rows to dense totals, in place.

Sparse rows are given by their starts and stops in `indices` and `data`, so that reordering rows copies nothing.
"""

from typing import Any

import numpy as np

from decbayes.kernels.compiled import compiled, compiled_exactly
from decbayes.kernels.special import lgamma

Array = np.ndarray[Any, np.dtype[np.float64]]


@compiled_exactly
def longest(starts: Any, stops: Any) -> int:
    """The largest number of entries in a row."""
    most = 0
    for row in range(len(starts)):
        most = max(most, stops[row] - starts[row])
    return most


@compiled_exactly
def add_rows(
    total: Array, starts: Any, stops: Any, indices: Any, data: Array, slots: Any, components: Any, sign: float
) -> None:
    """total[slots[i]] += sign × row components[i]; negative components are ignored."""
    for place in range(len(slots)):
        row, slot = components[place], slots[place]
        if row >= 0:
            for entry in range(starts[row], stops[row]):
                total[slot, indices[entry]] += sign * data[entry]


@compiled
def update_rows(
    start: Array,
    added: Array,
    alpha: Array,
    table: Array,
    outside: Any,
    starts: Any,
    stops: Any,
    indices: Any,
    slots: Any,
    components: Any,
) -> None:
    """Update α = start + added and its lnΓ in the columns of row components[i] of slot slots[i].

    The table is zero outside the domain, and `outside` counts a slot's columns outside it.
    """
    values = np.empty(longest(starts, stops))
    for place in range(len(slots)):
        row, slot = components[place], slots[place]
        if row >= 0:
            columns = indices[starts[row] : stops[row]]
            updated = values[: len(columns)]
            for entry in range(len(columns)):
                column = columns[entry]
                updated[entry] = start[slot, column] + added[slot, column]
                outside[slot] += int(updated[entry] <= 0.0) - int(alpha[slot, column] <= 0.0)
                alpha[slot, column] = updated[entry]
            write_table(table[slot], columns, updated)


@compiled
def write_table(table: Array, columns: Any, alpha: Array) -> None:
    """table[columns] = lnΓ(α), zero outside the domain; overwrites α."""
    for entry in range(len(alpha)):
        alpha[entry] = alpha[entry] if alpha[entry] > 0.0 else 1.0  # lnΓ(1) = 0
    for entry in range(len(alpha)):
        alpha[entry] = lgamma(alpha[entry])
    for entry in range(len(alpha)):
        table[columns[entry]] = alpha[entry]
