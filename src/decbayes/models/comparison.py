"""How certain assignments are, and how well they agree with labels that somebody else has given."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from decbayes.arguments import real_array
from decbayes.errors import InvalidData


def relative_entropy(assignments: Any) -> float:
    """1 where every observation belongs to one component for certain, 0 where each belongs to all alike.

    `assignments` are shares as `assign` gives them, (N, K).
    """
    shares = real_array(assignments)
    if shares.ndim != 2:
        raise InvalidData(f"Assignments are a matrix, observations × components; these have shape {shares.shape}.")
    most = len(shares) * np.log(shares.shape[1])
    return 1.0 if most == 0 else float(1.0 - entr(shares).sum() / most)


def adjusted_rand(labels: Any, assignments: Any) -> float:
    """The adjusted Rand index: 1 if two groupings differ in names alone, about 0 if they have nothing in common.

    Each is one label per observation, or shares as `assign` gives them, of which the largest counts.
    """
    first, second = groups(labels), groups(assignments)
    if len(first) != len(second):
        raise InvalidData(f"There are {len(first)} labels and {len(second)} assignments.")
    table = np.zeros((first.max(initial=0) + 1, second.max(initial=0) + 1))
    np.add.at(table, (first, second), 1.0)
    together, rows, columns = (pairs(counts) for counts in (table, table.sum(axis=1), table.sum(axis=0)))
    chance = rows * columns / max(pairs(np.array([len(first)])), 1.0)
    most = 0.5 * (rows + columns)
    return 1.0 if most == chance else float((together - chance) / (most - chance))


def groups(labels: Any) -> NDArray[np.intp]:
    """Numbers from 0 on for labels of any kind."""
    given = np.asarray(labels)
    if given.ndim == 2:
        return np.asarray(given.argmax(axis=1))
    names = given if given.dtype.kind in "buif" else given.astype(str)
    return np.asarray(np.unique(names, return_inverse=True)[1], dtype=np.intp)


def pairs(counts: Any) -> float:
    """How many pairs there are within groups of these sizes."""
    return float(np.sum(counts * (counts - 1.0) / 2.0))
