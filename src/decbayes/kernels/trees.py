"""Trees of sparse counts: repeatedly join the two groups that lose least; see `joined_counts`."""

from typing import Any

import numpy as np

from decbayes.kernels.compiled import compiled, compiled_exactly, compiled_reordered
from decbayes.kernels.joined_counts import g, sum_of_g

Array = np.ndarray[Any, np.dtype[np.float64]]

FAR = 1e300  # cap on losses that overflow; joined groups are farther still


@compiled_reordered
def join_losses(
    starts: Any, stops: Any, indices: Any, data: Array, known: Array, sums: Array, group: int, others: Any, room: Array
) -> Array:
    """The loss of joining a group with each of the others; `known` is g of the data. The cost depends on their entries.

    `room` is (3, columns) of scratch space, the first two rows zero before and after.
    """
    losses = np.empty(len(others))
    counts, values, joined = room[0], room[1], room[2]
    for entry in range(starts[group], stops[group]):
        counts[indices[entry]], values[indices[entry]] = data[entry], known[entry]
    for place in range(len(others)):
        other = others[place]
        both, loss = 0, g(sums[group] + sums[other]) - g(sums[group]) - g(sums[other])
        for entry in range(starts[other], stops[other]):
            column = indices[entry]
            if counts[column] != 0.0:  # few columns are shared, so a branch is faster than arithmetic
                joined[both] = counts[column] + data[entry]
                loss += values[column] + known[entry]
                both += 1
        losses[place] = loss - sum_of_g(joined, both)
    for entry in range(starts[group], stops[group]):
        counts[indices[entry]] = values[indices[entry]] = 0.0
    return losses


@compiled
def joined_row(first: Any, first_data: Array, second: Any, second_data: Array, width: int) -> tuple[Any, Array, Array]:
    """The sum of two sparse rows: columns, data, and g of the data."""
    counts = np.zeros(width)
    for entry in range(len(first)):
        counts[first[entry]] = first_data[entry]
    fresh = 0
    for entry in range(len(second)):
        fresh += counts[second[entry]] == 0.0
    columns = np.empty(len(first) + fresh, first.dtype)
    for entry in range(len(first)):
        columns[entry] = first[entry]
    place = len(first)
    for entry in range(len(second)):
        if counts[second[entry]] == 0.0:
            columns[place] = second[entry]
            place += 1
        counts[second[entry]] += second_data[entry]
    data, known = np.empty(len(columns)), np.empty(len(columns))
    for entry in range(len(columns)):
        data[entry] = counts[columns[entry]]
        known[entry] = g(data[entry])
    return columns, data, known


@compiled
def packed(starts: Any, stops: Any, indices: Any, data: Array, width: int, room: int) -> tuple[Any, Any, Any, Array]:
    """The rows in sequence with room for more, and where each begins and ends; columns are renumbered.

    Without gaps in their numbers, all columns of a few short rows fit in the fastest cache.
    """
    number, used = np.full(width, -1, dtype=np.int32), 0
    begins, ends = np.empty(len(starts), dtype=np.int64), np.empty(len(starts), dtype=np.int64)
    columns, values, place = np.empty(room, dtype=np.int32), np.empty(room), 0
    for row in range(len(starts)):
        begins[row] = place
        for entry in range(starts[row], stops[row]):
            column = indices[entry]
            if number[column] < 0:
                number[column], used = used, used + 1
            columns[place], values[place] = number[column], data[entry]
            place += 1
        ends[row] = place
    return begins, ends, columns, values


@compiled
def grown(store: Any, size: int) -> Any:
    """The same numbers with room for more."""
    larger = np.empty(size, store.dtype)
    larger[: len(store)] = store
    return larger


@compiled_exactly
def note(
    loss: Array,
    group: int,
    others: Any,
    starts: Any,
    stops: Any,
    indices: Any,
    data: Array,
    known: Array,
    sums: Array,
    room: Array,
) -> None:
    """Write the losses of joining a group with each of the others into the matrix of losses."""
    losses = join_losses(starts, stops, indices, data, known, sums, group, others, room)
    for place in range(len(others)):
        finite = losses[place] if losses[place] < FAR else FAR
        loss[group, others[place]] = loss[others[place], group] = finite


@compiled_exactly
def grown_tree(
    starts: Any, stops: Any, indices: Any, data: Array, row_sums: Array, width: int, fewest: int
) -> tuple[Any, Any, Array]:
    """Join the two groups that lose least until this many are left; ties go to those that come first.

    Returns the first members of the two groups of each join, and its loss.
    """
    size, used = len(starts), int((stops - starts).sum())
    begins, ends, columns, values = packed(starts, stops, indices, data, width, 2 * used)
    known, sums = np.empty(len(values)), row_sums.copy()
    for entry in range(used):
        known[entry] = g(values[entry])
    inside = 1 + columns[:used].max() if used else 0
    room, everyone = np.zeros((3, inside + 1)), np.arange(size)
    loss, nearest = np.full((size, size), np.inf), np.empty(size, dtype=np.int64)
    for group in range(size - 1):
        note(loss, group, everyone[group + 1 :], begins, ends, columns, values, known, sums, room)
    for group in range(size):
        nearest[group] = np.argmin(loss[group])
    steps, alive = max(size - fewest, 0), np.ones(size, dtype=np.bool_)
    firsts, seconds, lost = np.empty(steps, dtype=np.int64), np.empty(steps, dtype=np.int64), np.empty(steps)
    for step in range(steps):
        group = 0
        for other in range(1, size):
            group = other if loss[other, nearest[other]] < loss[group, nearest[group]] else group
        kept, absorbed = min(group, nearest[group]), max(group, nearest[group])
        firsts[step], seconds[step], lost[step] = kept, absorbed, loss[kept, absorbed]
        alive[absorbed], loss[absorbed, :], loss[:, absorbed] = False, np.inf, np.inf
        first, second = slice(begins[kept], ends[kept]), slice(begins[absorbed], ends[absorbed])
        row = joined_row(columns[first], values[first], columns[second], values[second], inside)
        end = used + len(row[0])
        if end > len(columns):
            columns, values, known = grown(columns, 2 * end), grown(values, 2 * end), grown(known, 2 * end)
        columns[used:end], values[used:end], known[used:end] = row
        begins[kept], ends[kept], used, sums[kept] = used, end, end, sums[kept] + sums[absorbed]
        others = everyone[alive & (everyone != kept)]
        note(loss, kept, others, begins, ends, columns, values, known, sums, room)
        for other in everyone[alive]:
            if other == kept or nearest[other] == kept or nearest[other] == absorbed:
                nearest[other] = np.argmin(loss[other])
            elif loss[other, kept] < loss[other, nearest[other]]:
                nearest[other] = kept
    return firsts, seconds, lost
