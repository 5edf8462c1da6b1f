"""Hide moves between states that too few persons made: they look like moves that nobody made.

A table of moves has a row and a column for each state, and one for the outside, where sequences come from and go to. As
many moves enter a state as leave it, and the number of visits is in the file anyway, as the number of emitted values:
so sums of rows and columns are kept. Rare cells are replaced by what these sums suggest, together with as many others
as needed to keep the sums from revealing a rare cell."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from decbayes.errors import InvalidData
from decbayes.families import Array

Cells = NDArray[np.bool_]
# Smaller numbers of persons or moves count as none.
NEARLY = 1e-6
# Weight of cells of few persons, or of nobody, relative to the cells that stand in for them.
RARELY = 0.01
# Rounds of fitting sums of rows and columns, and their relative precision.
ROUNDS, EXACT = 2000, 1e-10
# Resolution of the integer flows.
UNITS = 1e8


def table_of(first_states: Array, moved: Array) -> Array:
    """(K + 1, K + 1): moves from state to state. In the last row sequences begin, in the last column they end."""
    ended = first_states + moved.sum(axis=0) - moved.sum(axis=1)
    return np.block([[moved, ended[:, None]], [first_states[None], np.zeros((1, 1))]])


def hidden(table: Array, persons: Array, least: float, moving: float = np.inf) -> Array:
    """A table with the same row and column sums in which no cell of fewer than `least` persons can be read.

    Args:
        table: how often each move was made, as from `table_of`.
        persons: how many persons made each move.
        least: the fewest persons of a cell that may be shown.
        moving: how many persons have a sequence of more than one step, for the message if that cannot be done.
    """
    rare = (persons < least - NEARLY) & (table > NEARLY)
    if not rare.any():
        return table
    cells = covered(table, persons, rare, least, moving)
    return shared_out(table, np.where(cells, np.where(persons < least - NEARLY, RARELY, 1.0), 0.0))


def covered(table: Array, persons: Array, rare: Cells, least: float, moving: float = np.inf) -> Cells:
    """The rare and empty cells, plus common cells that hide the rare ones, those of the fewest persons first.

    No row or column may have only rare cells among the replaced ones: their sum would be known. And for each rare cell
    there must be a table with the same sums in which it is empty.
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
                f"others: there are too few sequences, or they are too short. {remedy(moving, least)}"
            )
        for place in common[: max(1, len(common) // 16)]:
            cells[place] = True
    return cells


def remedy(moving: float, least: float) -> str:
    """What to do about moves that cannot be hidden. A single state hides them if enough persons move at all."""
    if moving >= least:
        return "Fit fewer states"
    return (
        f"Persons with a sequence of more than one step: {moving:g}. Fit classes instead, which take each row by "
        f"itself, or wait until there are {least:g} such persons"
    )


def lines(size: int) -> Iterator[Cells]:
    """Each row and each column, as a mask."""
    for place in range(size):
        for axis in (0, 1):
            yield np.indices((size, size))[axis] == place


def may_be_empty(table: Array, cells: Cells, place: tuple[int, int]) -> bool:
    """Whether a cell can be emptied into the other `cells` without changing any sum.

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
    """Replace weighted cells by what the weights and the sums suggest; only sums of the table enter."""
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
