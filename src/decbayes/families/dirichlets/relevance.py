"""The order in which a topic's words are shown, everywhere."""

import numpy as np
from numpy.typing import NDArray

from decbayes.families.matrices import Array

# How far words that all topics use move down. Larger values make topics more distinct and less coherent.
COMMON = 0.2


def relevance(shares: Array, evidence: Array, common: float = COMMON) -> Array:
    """log p(w | k) − 0.2 log p(w): high for words frequent in a row, lower if they are frequent in all rows.

    `shares` are (rows, columns); `evidence` weighs the rows in p(w).
    """
    total = float(evidence.sum())
    weights = evidence / total if total > 0.0 else np.full(len(shares), 1.0 / len(shares))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(shares) - common * np.log(weights @ shares))


def leading(scores: Array, count: int) -> NDArray[np.intp]:
    """(rows, count): the columns with the largest scores, in falling order; ties go to the first column.

    It avoids sorting whole vocabularies, which would dominate the time.
    """
    count = min(count, scores.shape[1])
    if not count:
        return np.zeros((len(scores), 0), dtype=np.intp)
    least = np.partition(scores, -count, axis=1)[:, -count]
    return np.array([first_of(row, limit, count) for row, limit in zip(scores, least, strict=True)], dtype=np.intp)


def first_of(row: Array, limit: float, count: int) -> NDArray[np.intp]:
    places = np.flatnonzero(row >= limit)
    return places[np.lexsort((places, -row[places]))][:count]
