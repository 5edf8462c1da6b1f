"""The whole one-to-one search for short rows: with few components, calls cost more than arithmetic.

Rows of all factors are side by side, (sites, components, columns); factor f has the columns from ends[f] to
ends[f + 1], and its row terms are of kind kinds[f] (`row_terms.py`). Each slot's contributions are summed separately
from its prior, for the reason given in `families/totals.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decbayes.kernels.compiled import compiled, compiled_exactly
from decbayes.kernels.row_terms import OUTSIDE, row_term

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled
def fold_sites(
    rows: Floats, kinds: Integers, ends: Integers, prior: Floats, order: Integers, totals: Floats, placed: Integers
) -> None:
    """Place one site after another in its best assignment given those before it; `placed` says who fills each slot."""
    gain = np.empty((len(prior), len(prior)))
    for site in order:
        _gains(rows[site], placed[site], kinds, ends, prior, totals, gain)
        forbid_undefined(gain)
        _move(rows[site], placed[site], best_assignment(gain), totals)


@compiled
def rematch_sites(
    rows: Floats,
    kinds: Integers,
    ends: Integers,
    prior: Floats,
    totals: Floats,
    placed: Integers,
    versions: Integers,
    seen: Integers,
    tolerance: float,
) -> bool:
    """Give every site its best assignment against all others; returns whether any changed.

    `versions` count the changes of each slot; seen[site] are the versions when the site was last matched.
    """
    gain, moved = np.empty((len(prior), len(prior))), False
    for site in range(len(rows)):
        unseen = False
        for slot in range(len(versions)):
            unseen |= seen[site, slot] != versions[slot]
        if not unseen:
            continue
        _gains(rows[site], placed[site], kinds, ends, prior, totals, gain)
        forbid_undefined(gain)
        candidate = best_assignment(gain)
        if _improvement(gain, candidate, placed[site]) > tolerance * (1.0 + _height(gain, placed[site])):
            for slot in range(len(prior)):
                versions[slot] += candidate[slot] != placed[site, slot]
            _move(rows[site], placed[site], candidate, totals)
            moved = True
        for slot in range(len(prior)):  # a site's own moves do not change its gains
            seen[site, slot] = versions[slot]
    return moved


@compiled
def sum_slots(rows: Floats, placed: Integers, totals: Floats) -> None:
    """Recompute the totals, because adding and subtracting accumulates rounding errors."""
    totals[:] = 0.0
    for site in range(len(rows)):
        for slot in range(len(totals)):
            for column in range(totals.shape[1]):
                totals[slot, column] += rows[site, placed[site, slot], column]


@compiled_exactly
def forbid_undefined(gain: Floats) -> None:
    """Put a prohibitive loss wherever a sum would leave the domain or is not a number."""
    largest, undefined = 1.0, False
    for value in gain.flat:
        if np.isfinite(value) and value != OUTSIDE:
            largest = max(largest, abs(value))
        else:
            undefined = True
    for slot in range(len(gain) if undefined else 0):
        for component in range(len(gain)):
            if not np.isfinite(gain[slot, component]) or gain[slot, component] == OUTSIDE:
                gain[slot, component] = -1e6 * largest


@compiled_exactly
def best_assignment(gain: Floats) -> Integers:
    """The component of each slot with the largest sum of gains: shortest augmenting paths, with SciPy's ties."""
    size = len(gain)
    slot_price, price = np.zeros(size), np.zeros(size)
    path, slot_of, component_of = np.full(size, -1), np.full(size, -1), np.full(size, -1)
    shortest, remaining = np.empty(size), np.empty(size, dtype=np.int64)
    met, used = np.empty(size, dtype=np.bool_), np.empty(size, dtype=np.bool_)
    for current in range(size):
        met[:], used[:], shortest[:] = False, False, np.inf
        for place in range(size):
            remaining[place] = size - place - 1
        left, slot, least, sink = size, current, 0.0, -1
        while sink < 0:
            index, lowest = -1, np.inf
            met[slot] = True
            for place in range(left):
                component = remaining[place]
                reached = least - gain[slot, component] - slot_price[slot] - price[component]
                if reached < shortest[component]:
                    path[component], shortest[component] = slot, reached
                free = shortest[component] == lowest and slot_of[component] < 0
                if shortest[component] < lowest or free:
                    lowest, index = shortest[component], place
            if not lowest < np.inf:
                raise ValueError("Gains are too large to be compared.")
            least, component = lowest, remaining[index]
            used[component] = True
            if slot_of[component] < 0:
                sink = component
            else:
                slot = slot_of[component]
            left -= 1
            remaining[index] = remaining[left]
        slot_price[current] += least
        for slot in range(size):
            if met[slot] and slot != current:
                slot_price[slot] += least - shortest[component_of[slot]]
        for component in range(size):
            if used[component]:
                price[component] -= least - shortest[component]
        component, slot = sink, -1
        while slot != current:
            slot = path[component]
            slot_of[component] = slot
            component, component_of[slot] = component_of[slot], component
    return component_of


@compiled
def _gains(
    rows: Floats, held: Integers, kinds: Integers, ends: Integers, prior: Floats, totals: Floats, gain: Floats
) -> None:
    """The gain of each slot from each component of a site that has `held` now; OUTSIDE outside the domain."""
    slots, width = prior.shape
    rest, after, room = np.empty(width), np.empty(width), np.empty(width)
    for slot in range(slots):
        for column in range(width):
            taken = rows[held[slot], column] if held[slot] >= 0 else 0.0
            rest[column] = prior[slot, column] + (totals[slot, column] - taken)
        before = 0.0
        for factor in range(len(kinds)):
            term = row_term(kinds[factor], rest[ends[factor] : ends[factor + 1]], room)
            before += term if term != OUTSIDE else 0.0
        for component in range(slots):
            total, inside = -before, True
            for column in range(width):
                after[column] = rest[column] + rows[component, column]
            for factor in range(len(kinds)):
                term = row_term(kinds[factor], after[ends[factor] : ends[factor + 1]], room)
                inside = inside and term != OUTSIDE
                total += term
            gain[slot, component] = total if inside else OUTSIDE


@compiled
def _move(rows: Floats, held: Integers, permutation: Integers, totals: Floats) -> None:
    """Move a site's components from their old slots into new ones."""
    for slot in range(len(held)):
        if held[slot] != permutation[slot]:
            for column in range(totals.shape[1]):
                if held[slot] >= 0:
                    totals[slot, column] -= rows[held[slot], column]
                totals[slot, column] += rows[permutation[slot], column]
            held[slot] = permutation[slot]


@compiled
def _improvement(gain: Floats, candidate: Integers, current: Integers) -> float:
    total = 0.0
    for slot in range(len(gain)):
        total += gain[slot, candidate[slot]] - gain[slot, current[slot]]
    return total


@compiled
def _height(gain: Floats, current: Integers) -> float:
    total = 0.0
    for slot in range(len(gain)):
        total += abs(gain[slot, current[slot]])
    return total
