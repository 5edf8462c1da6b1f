"""In which order the words of a topic are shown: everywhere the same."""

import numpy as np
from numpy.typing import NDArray

from decbayes.families.matrices import Array

# How far words that all topics use move down. Larger weights make topics more different and less coherent.
COMMON = 0.2


def relevance(shares: Array, evidence: Array, common: float = COMMON) -> Array:
    """log p(w | k) − 0.2 log p(w): words that are frequent in a row, less so those that are frequent in all.

    `shares` are (rows, columns) and `evidence` says how much each row counts in p(w).
    """
    total = float(evidence.sum())
    weights = evidence / total if total > 0.0 else np.full(len(shares), 1.0 / len(shares))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(shares) - common * np.log(weights @ shares))


def leading(scores: Array, count: int) -> NDArray[np.intp]:
    """(rows, count): the columns with the largest scores, largest first and the first of equal ones first.

    Sorting whole vocabularies would take longer than all else.
    """
    count = min(count, scores.shape[1])
    if not count:
        return np.zeros((len(scores), 0), dtype=np.intp)
    least = np.partition(scores, -count, axis=1)[:, -count]
    return np.array([first_of(row, limit, count) for row, limit in zip(scores, least, strict=True)], dtype=np.intp)


def first_of(row: Array, limit: float, count: int) -> NDArray[np.intp]:
    places = np.flatnonzero(row >= limit)
    return places[np.lexsort((places, -row[places]))][:count]
