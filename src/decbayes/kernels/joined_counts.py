"""Plug-in information of groups of sparse counts, Σ_v g(y_v) − g(Σ_v y_v) with g(y) = y log y, and how joins change it.

It is the log-likelihood of the counts at their own frequencies. It is convex and homogeneous, so joining two groups
never gains. Negative counts, which a refined contribution may have, are penalised.
"""

from typing import Any

import numpy as np

from decbayes.kernels.compiled import compiled, compiled_exactly, compiled_reordered, inlined, inlined_reordered
from decbayes.kernels.special import log

Array = np.ndarray[Any, np.dtype[np.float64]]

TINY = 1e-300
STEEP = 1e4  # nats per negative count: such counts must go where others outweigh them


@inlined
def g(y: float) -> float:
    z = max(y, TINY)
    return z * log(z) + STEEP * min(y, 0.0)


@inlined_reordered
def sum_of_g(values: Array, size: int) -> float:
    total = 0.0
    for entry in range(size):
        total += g(values[entry])
    return total


@compiled
def tabulate_g(counts: Array, table: Array) -> None:
    """table = g(counts)."""
    for slot in range(counts.shape[0]):
        row, values = counts[slot], table[slot]
        for column in range(len(row)):
            values[column] = g(row[column])


@compiled
def information_alone(starts: Any, stops: Any, data: Array, sums: Array, information: Array) -> None:
    """The information of each row by itself."""
    for row in range(len(starts)):
        entries = data[starts[row] : stops[row]]
        information[row] = sum_of_g(entries, len(entries)) - g(sums[row])


@inlined_reordered
def _changed(counts: Array, table: Array, columns: Any, entries: Array, sign: float, after: Array) -> float:
    """Σ g before; `after` receives the counts with the entries added or taken out."""
    before = 0.0
    for entry in range(len(columns)):
        column = columns[entry]
        after[entry] = counts[column] + sign * entries[entry]
        before += table[column]
    return before


@compiled
def group_move(
    columns: Any, entries: Array, row_sum: float, slot: int, sign: float, counts: Array, table: Array, totals: Array
) -> None:
    """Put a row into a slot, or take it out."""
    row, values = counts[slot], table[slot]
    for entry in range(len(columns)):
        column = columns[entry]
        row[column] += sign * entries[entry]
        values[column] = g(row[column])
    totals[slot] += sign * row_sum


@inlined
def _gain(
    columns: Any,
    entries: Array,
    row_sum: float,
    slot: int,
    sign: float,
    slots: tuple[Array, Array, Array],
    after: Array,
) -> float:
    """The gain of a slot from a row (sign 1), or from one that it already holds (sign −1)."""
    counts, table, totals = slots
    before = _changed(counts[slot], table[slot], columns, entries, sign, after)
    change = sum_of_g(after, len(entries)) - before
    change -= g(totals[slot] + sign * row_sum) - g(totals[slot])
    return sign * change


@compiled
def group_gains(
    starts: Any,
    stops: Any,
    indices: Any,
    data: Array,
    sums: Array,
    chosen: Any,
    current: Any,
    needed: Any,
    counts: Array,
    table: Array,
    totals: Array,
    gains: Array,
) -> None:
    """gains[i, k]: the gain of slot k from row chosen[i], or the past gain if it holds the row; only where needed."""
    longest = 1
    for row in chosen:
        longest = max(longest, stops[row] - starts[row])
    after = np.empty(longest)
    for place in range(len(chosen)):
        row = chosen[place]
        columns, entries = indices[starts[row] : stops[row]], data[starts[row] : stops[row]]
        for slot in range(counts.shape[0]):
            if needed[place, slot]:
                sign = -1.0 if slot == current[place] else 1.0
                gains[place, slot] = _gain(columns, entries, sums[row], slot, sign, (counts, table, totals), after)


@compiled_exactly
def group_visits(
    starts: Any,
    stops: Any,
    indices: Any,
    data: Array,
    sums: Array,
    visited: Any,
    least_gains: Array,
    homes: Any,
    at_home: Array,
    labels: Any,
    gains: Array,
    seen: Any,
    versions: Any,
    counts: Array,
    table: Array,
    totals: Array,
) -> int:
    """Move rows one after another into their best slots, where that gains; returns the number of moves.

    A row gains `at_home` more in its home slot. `gains`, `seen` and `versions` are those of `SlotSearch`.
    """
    longest = 1
    for row in visited:
        longest = max(longest, stops[row] - starts[row])
    after, moved = np.empty(longest), 0
    for place in range(len(visited)):
        row = visited[place]
        columns, entries = indices[starts[row] : stops[row]], data[starts[row] : stops[row]]
        best, current = 0, labels[row]
        for slot in range(counts.shape[0]):
            if seen[row, slot] != versions[slot]:
                sign = -1.0 if slot == current else 1.0
                gain = _gain(columns, entries, sums[row], slot, sign, (counts, table, totals), after)
                gains[row, slot] = gain + at_home[place] if slot == homes[place] else gain
                seen[row, slot] = versions[slot]
            if gains[row, slot] > gains[row, best]:
                best = slot
        if current < 0 or gains[row, best] > gains[row, current] + least_gains[place]:
            if current >= 0:
                group_move(columns, entries, sums[row], current, -1.0, counts, table, totals)
                versions[current] += 1
            group_move(columns, entries, sums[row], best, 1.0, counts, table, totals)
            versions[best] += 1
            labels[row], moved = best, moved + 1
    return moved


@compiled_reordered
def slot_join_losses(counts: Array, table: Array, totals: Array, losses: Array) -> None:
    """losses[p, q]: the loss of joining slots p and q."""
    slots, columns = counts.shape
    joined = np.empty(columns)
    for p in range(slots):
        for q in range(p):
            both, loss = 0, g(totals[p] + totals[q]) - g(totals[p]) - g(totals[q])
            for column in range(columns):
                shared = counts[p, column] != 0.0 and counts[q, column] != 0.0
                joined[both] = counts[p, column] + counts[q, column]
                loss += (table[p, column] + table[q, column]) * shared
                both += shared
            losses[p, q] = losses[q, p] = loss - sum_of_g(joined, both)


@inlined_reordered
def _norm(share: Array, profile: Array) -> float:
    """Σ share · profile. It stores nothing: whether a sum with stores vectorises depends on where its arrays lie."""
    norm = TINY
    for slot in range(len(share)):
        norm += share[slot] * profile[slot]
    return norm


@compiled
def divide_columns(
    ends: Any, rows: Any, data: Array, shares: Array, profiles: Array, received: Array, total: Array
) -> None:
    """Divide counts among the slots in proportion to shares · profiles; counts are given column by column.

    total[column, slot] grows by what the slot receives of a column, received[row, slot] by what it receives of a row
    per share of the row: both are sums of one product per count, multiplied once.
    """
    kept = np.empty(shares.shape[1])
    for column in range(len(ends) - 1):
        profile = profiles[column]
        kept[:] = 0.0
        for entry in range(ends[column], ends[column + 1]):
            share, scaled = shares[rows[entry]], received[rows[entry]]
            scale = data[entry] / _norm(share, profile)
            for slot in range(len(share)):
                scaled[slot] += profile[slot] * scale
                kept[slot] += share[slot] * scale
        for slot in range(len(kept)):
            total[column, slot] += kept[slot] * profile[slot]


@compiled
def lead_on(reached: Array, before: Array, least: float) -> Array:
    """Extrapolate from two points: reached · (reached / before)^(7/8), at least `least`, with columns that sum to one.

    Three square roots are far cheaper than a power.
    """
    ahead = np.empty(reached.shape)
    for row in range(len(reached)):
        for slot in range(reached.shape[1]):
            ratio = max(reached[row, slot], least) / max(before[row, slot], least)
            ahead[row, slot] = max(reached[row, slot] * ratio / np.sqrt(np.sqrt(np.sqrt(ratio))), least)
    normalise(ahead)
    return ahead


@compiled
def normalise(values: Array) -> None:
    """Make each column sum to one."""
    sums = np.zeros(values.shape[1])
    for row in range(len(values)):
        for slot in range(len(sums)):
            sums[slot] += values[row, slot]
    for row in range(len(values)):
        for slot in range(len(sums)):
            values[row, slot] /= sums[slot]


@compiled
def divide_rows(
    starts: Any, stops: Any, indices: Any, data: Array, shares: Array, profiles: Array, total: Array
) -> None:
    """total[column, slot] grows by what the slot receives of the rows' counts, in proportion to shares · profiles."""
    for row in range(len(starts)):
        share = shares[row]
        for entry in range(starts[row], stops[row]):
            profile, kept = profiles[indices[entry]], total[indices[entry]]
            scale = data[entry] / _norm(share, profile)
            for slot in range(len(share)):
                kept[slot] += share[slot] * profile[slot] * scale


@compiled_reordered
def shared_likelihood(starts: Any, stops: Any, indices: Any, data: Array, shares: Array, profiles: Array) -> float:
    """Σ data · log Σ_k shares · profiles: how well shares of the slots explain the rows."""
    total = 0.0
    for row in range(len(starts)):
        share = shares[row]
        for entry in range(starts[row], stops[row]):
            profile, norm = profiles[indices[entry]], TINY
            for slot in range(len(share)):
                norm += share[slot] * profile[slot]
            total += data[entry] * log(norm)
    return total
