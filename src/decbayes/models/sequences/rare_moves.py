"""Moves between states that too few persons made: hidden so that a file does not tell them from moves nobody made.

A table of moves has a row and a column for each state, and one for the outside, where sequences come from and go to.
What enters a state leaves it, and how often it is visited is in the file anyway, as the number of values that it
emitted. So rows and columns keep their sums. Rare cells are replaced by what these sums suggest, together with as many
others as it takes for the sums not to give a rare one away.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from decbayes.errors import InvalidData
from decbayes.families import Array

Cells = NDArray[np.bool_]
# Persons or moves that are nobody's.
NEARLY = 1e-6
# How often moves of few persons, or of nobody, are expected beside others that stand in for them.
RARELY = 0.01
# Rounds of fitting sums of rows and columns, and how exact these end up.
ROUNDS, EXACT = 2000, 1e-10
# The resolution of flows, which are integers.
UNITS = 1e8


def table_of(begun: Array, moved: Array) -> Array:
    """(K + 1, K + 1): moves from state to state. In the last row sequences begin, in the last column they end."""
    ended = begun + moved.sum(axis=0) - moved.sum(axis=1)
    return np.block([[moved, ended[:, None]], [begun[None], np.zeros((1, 1))]])


def hidden(table: Array, persons: Array, least: float) -> Array:
    """The table with the same sums of rows and columns, in which no cell of fewer than `least` persons can be read.

    Args:
        table: how often each move was made, as `table_of` has it.
        persons: how many persons made each.
        least: the fewest persons of a cell that may be seen.
    """
    rare = (persons < least - NEARLY) & (table > NEARLY)
    if not rare.any():
        return table
    cells = covered(table, persons, rare, least)
    return shared_out(table, np.where(cells, np.where(persons < least - NEARLY, RARELY, 1.0), 0.0))


def covered(table: Array, persons: Array, rare: Cells, least: float) -> Cells:
    """The rare cells, the empty ones, and some common ones, those of the fewest persons first, to hide the rare ones.

    No row and no column may have rare cells alone among those that are replaced: their sum would be known. And for each
    rare cell there must be a table with the same sums in which it is empty.
    """
    cells = persons < least - NEARLY
    cells[-1, -1] = False
    common = sorted(zip(*np.nonzero(~cells & (table > NEARLY)), strict=True), key=lambda place: float(persons[place]))
    for line in lines(len(table)):
        others = [place for place in common if line[place]]
        if (rare & line).any() and others and not any(cells[place] for place in others):
            cells[others[0]] = True
    while not all(may_be_empty(table, cells, place) for place in zip(*np.nonzero(rare), strict=True)):
        common = [place for place in common if not cells[place]]
        if not common:
            raise InvalidData(
                f"Fewer than {least:g} persons made some of the moves between states, and these cannot be hidden among "
                "others: there are too few sequences, or they are too short. Fit fewer states"
            )
        for place in common[: max(1, len(common) // 16)]:
            cells[place] = True
    return cells


def lines(size: int) -> Iterator[Cells]:
    """Each row and each column, as the cells in it."""
    for place in range(size):
        for axis in (0, 1):
            yield np.indices((size, size))[axis] == place


def may_be_empty(table: Array, cells: Cells, place: tuple[int, int]) -> bool:
    """Whether a cell can be emptied into the other `cells` without a change to any sum.

    What a row loses in one cell it gains in others; their columns lose it elsewhere, and so on until the cell's own
    column has it again: a flow from the row to the column through cells that can give and take.
    """
    size, scale = len(table), UNITS / max(table.sum(), 1.0)
    takes = np.where(cells, int(2 * UNITS), 0)
    gives = np.where(cells, np.floor(table * scale), 0.0).astype(np.int64)
    takes[place] = gives[place] = 0
    edges = np.block([[np.zeros_like(takes), takes], [gives.T, np.zeros_like(takes)]]).astype(np.int32)
    flow = maximum_flow(csr_array(edges), int(place[0]), size + int(place[1])).flow_value
    return bool(flow >= np.floor(table[place] * scale))


def shared_out(table: Array, weights: Array) -> Array:
    """The table with the same sums whose weighted cells are as the weights suggest: a function of sums alone."""
    cells = weights > 0
    part, even = np.where(cells, table, 0.0), weights.copy()
    rows, columns = part.sum(axis=1, keepdims=True), part.sum(axis=0, keepdims=True)
    for _ in range(ROUNDS):
        even *= ratio(rows, even.sum(axis=1, keepdims=True))
        off = np.abs(even.sum(axis=0, keepdims=True) - columns).max()
        even *= ratio(columns, even.sum(axis=0, keepdims=True))
        if off <= EXACT * max(table.sum(), 1.0):
            break
    return np.where(cells, even, table)


def ratio(wanted: Array, present: Array) -> Array:
    return np.divide(wanted, present, out=np.zeros_like(present), where=present > 0)
