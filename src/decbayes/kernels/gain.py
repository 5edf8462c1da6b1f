"""The alignment gain of Dirichlet rows: log-gamma differences at the contribution's non-zero entries only.

Sparse rows are given by their starts and stops in `indices` and `data`, so that reordering rows copies nothing.
"""

from typing import Any

import numpy as np

from decbayes.kernels.compiled import compiled, inlined, inlined_reordered
from decbayes.kernels.sparse_rows import longest, write_table
from decbayes.kernels.special import lgamma

Array = np.ndarray[Any, np.dtype[np.float64]]


@inlined_reordered
def _plus(total: float, term: float) -> float:
    return total + term


def dirichlet_gain(rest: Array, contribution: Any) -> Array:
    """The gain of Σ_w lnΓ(α_kw) − lnΓ(Σ_w α_kw) when row k' of a CSR `contribution` is added to row k of α − 1.

    It costs K evaluations of lnΓ per non-zero entry and per distinct column. NaN where α leaves its domain.
    """
    columns, position = np.unique(contribution.indices, return_inverse=True)
    alpha = np.take(rest, columns, axis=1) + 1.0
    table = np.empty_like(alpha)
    tabulate(alpha, table)
    gain, defined = (
        np.empty((len(rest), contribution.shape[0])),
        np.empty((len(rest), contribution.shape[0]), dtype=np.bool_),
    )
    sums, outside = rest.sum(axis=1) + rest.shape[1], np.count_nonzero(rest <= -1.0, axis=1)
    rows = (
        contribution.indptr[:-1],
        contribution.indptr[1:],
        position.astype(np.int32),
        contribution.data,
        np.asarray(contribution.sum(axis=1)).ravel(),
    )
    slots, nothing = np.arange(len(rest)), np.full(len(rest), -1)
    place_gains(alpha, alpha, alpha, table, sums, np.zeros(len(rest)), outside, *rows, slots, nothing, gain, defined)
    gain[~defined] = np.nan
    return gain


def log_gamma_gain(rest: Array, contribution: Array) -> Array:
    """(K, K'): Σ_w lnΓ(α_kw + c_k'w) − lnΓ(α_kw); NaN where a sum leaves the domain, up to a constant where α does."""
    gain, defined = np.empty((len(rest), len(contribution))), np.empty((len(rest), len(contribution)), dtype=np.bool_)
    dense_gains(np.ascontiguousarray(rest), np.ascontiguousarray(contribution), gain, defined)
    gain[~defined] = np.nan
    return gain


@compiled
def dense_gains(rest: Array, contribution: Array, gain: Array, defined: Any) -> None:
    after = np.empty(rest.shape[1])
    for slot in range(len(rest)):
        for column in range(rest.shape[1]):
            after[column] = rest[slot, column] if rest[slot, column] > 0.0 else 1.0  # lnΓ(1) = 0
        before = _log_gammas(after)
        for component in range(len(contribution)):
            for column in range(rest.shape[1]):
                after[column] = rest[slot, column] + contribution[component, column]
            defined[slot, component] = _smallest(after) > 0.0
            gain[slot, component] = _log_gammas(after) - before


@compiled
def tabulate(alpha: Array, table: Array) -> None:
    """table = lnΓ(α), zero where α is outside the domain."""
    for slot in range(alpha.shape[0]):
        row, values = alpha[slot], table[slot]
        for column in range(len(row)):
            values[column] = lgamma(row[column])
        for column in range(len(row)):
            values[column] = values[column] if row[column] > 0.0 else 0.0


@compiled
def place_gains(
    start: Array,
    added: Array,
    alpha: Array,
    table: Array,
    start_sums: Array,
    added_sums: Array,
    outside: Any,
    starts: Any,
    stops: Any,
    indices: Any,
    data: Array,
    row_sums: Array,
    slots: Any,
    held: Any,
    gain: Array,
    defined: Any,
) -> None:
    """Row i of the result: the gain of slot slots[i] from each component after row held[i] is taken out of it.

    α = start + added, and likewise its row sums; `table` holds its lnΓ, and `outside` counts the columns outside the
    domain: a component may go into a slot if it repairs all of them. Slots are changed temporarily and restored, so two
    calls may run in parallel unless they share a slot.
    """
    most, growing = longest(starts, stops), _smallest(data) >= 0.0
    buffer, taken_alpha, taken_table = np.empty((2, most)), np.empty(most), np.empty(most)
    for place in range(len(slots)):
        slot, row = slots[place], held[place]
        total, wrong = start_sums[slot] + added_sums[slot], outside[slot]
        first, last = (starts[row], stops[row]) if row >= 0 else (0, 0)
        if row >= 0:
            total = start_sums[slot] + (added_sums[slot] - row_sums[row])
            columns, entries = indices[first:last], data[first:last]
            wrong += _take_out(start[slot], added[slot], alpha[slot], columns, entries, buffer[0], taken_alpha)
            for entry in range(len(columns)):
                taken_table[entry] = table[slot, columns[entry]]
            write_table(table[slot], columns, buffer[0, : len(columns)])
        rows = starts, stops, indices, data, row_sums
        _gains(alpha[slot], table[slot], total, wrong, growing, rows, buffer, gain[place], defined[place])
        for entry in range(last - first):
            alpha[slot, indices[first + entry]] = taken_alpha[entry]
            table[slot, indices[first + entry]] = taken_table[entry]


@inlined
def _take_out(start: Array, added: Array, alpha: Array, columns: Any, entries: Array, rest: Array, taken: Array) -> int:
    """Subtract a row from a slot's α, saving the old values; returns how many columns thereby leave the domain."""
    left = 0
    for entry in range(len(columns)):
        column = columns[entry]
        taken[entry] = alpha[column]
        rest[entry] = start[column] + (added[column] - entries[entry])
        left += int(rest[entry] <= 0.0) - int(taken[entry] <= 0.0)
        alpha[column] = rest[entry]
    return left


@inlined
def _gains(
    alpha: Array,
    table: Array,
    total: float,
    outside: int,
    growing: bool,
    rows: tuple[Any, Any, Any, Array, Array],
    buffer: Array,
    gain: Array,
    defined: Any,
) -> None:
    """The gain of one slot from each component; `growing`: no entry is negative."""
    starts, stops, indices, data, row_sums = rows
    of_total = lgamma(total) if total > 0.0 else 0.0
    for component in range(len(starts)):
        summed = total + row_sums[component]
        columns = indices[starts[component] : stops[component]]
        entries = data[starts[component] : stops[component]]
        after, before = buffer[0, : len(entries)], buffer[1, : len(entries)]
        _gather(alpha, table, columns, entries, after, before)
        inside = summed > 0.0
        if outside > 0 or not growing:
            inside = inside and _smallest(after) > 0.0 and _mended(alpha, columns, after) == outside
        defined[component] = inside
        gain[component] = _difference(after, before) - lgamma(summed) + of_total


# Separate loops, because a single loop that does everything does not vectorise.


@inlined
def _gather(alpha: Array, table: Array, columns: Any, entries: Array, after: Array, before: Array) -> None:
    """α + c and lnΓ(α) in the columns of the entries c."""
    for entry in range(len(entries)):
        after[entry] = alpha[columns[entry]] + entries[entry]
    for entry in range(len(entries)):
        before[entry] = table[columns[entry]]


@inlined
def _smallest(values: Array) -> float:
    lowest = 1.0
    for entry in range(len(values)):
        lowest = min(lowest, values[entry])
    return lowest


@inlined
def _log_gammas(alpha: Array) -> float:
    """Σ lnΓ(α)."""
    value = 0.0
    for entry in range(len(alpha)):
        value = _plus(value, lgamma(alpha[entry]))
    return value


@inlined
def _difference(after: Array, before: Array) -> float:
    """Σ lnΓ(α + c) − lnΓ(α)."""
    value = 0.0
    for entry in range(len(after)):
        value = _plus(value, lgamma(after[entry]) - before[entry])
    return value


@inlined
def _mended(alpha: Array, columns: Any, after: Array) -> int:
    """The number of columns that are outside the domain without the entries and inside with them."""
    count = 0
    for entry in range(len(after)):
        count += alpha[columns[entry]] <= 0.0 and after[entry] > 0.0
    return count
