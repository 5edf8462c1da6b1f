"""Missing values of simulated data: as many as a contribution shows, which knows how many values each column had.

They are missing at random within a component and a column. Which of them are missing together is not known.
"""

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array

# Smaller shares of missing values are rounding errors.
ROUNDING = 1e-6
# Iterations for the share of rows without values: each adds a digit unless most rows have one value only.
ITERATIONS = 40


def observed_shares(counts: Array, rows: Array) -> Array:
    """(K, D): the share of each component's rows with a value in each column; an empty component has those of all."""
    rows = np.maximum(rows, 0.0)[:, None]
    overall = counts.sum(axis=0) / max(float(rows.sum()), ROUNDING)
    # The one row more is an average row of the site.
    shares = np.clip((counts + overall) / (rows + 1.0), 0.0, 1.0)
    return np.asarray(np.where(shares > 1.0 - ROUNDING, 1.0, shares))


def observed(shares: Array, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(N, D): which values are there, each with its own probability."""
    return np.asarray(rng.random(shares.shape) < shares)


def observed_somewhere(shares: Array, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The same for rows that have at least one value.

    If s_d are the probabilities before rows without values are left out, those of the others are o = s / e, with
    e = 1 − Π_d (1 − s_d). As long as a row has no value, its next one is there with s_d / (1 − Π_{j ≥ d} (1 − s_j)).
    """
    kept = np.ones((len(shares), 1))
    for _ in range(ITERATIONS):
        kept = 1.0 - np.prod(1.0 - kept * shares, axis=1, keepdims=True)
    shares = kept * shares
    rest = 1.0 - np.cumprod(1.0 - shares[:, ::-1], axis=1)[:, ::-1]
    drawn, there, some = (
        rng.random(shares.shape),
        np.zeros(shares.shape, dtype=np.bool_),
        np.zeros(len(shares), np.bool_),
    )
    for place in range(shares.shape[1]):
        needed = shares[:, place] / np.maximum(rest[:, place], np.finfo(np.float64).tiny)
        there[:, place] = drawn[:, place] < np.where(some, shares[:, place], needed)
        some |= there[:, place]
    return there
