"""Mean field of binary assignments: sweeps and flips, one tile of observations at a time.

Arrays put the feature first and the observation last, so every loop runs over adjacent observations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decbayes.kernels.compiled import compiled, inlined
from decbayes.kernels.special import exp, log

Floats = NDArray[np.float64]

WIDTH = 256  # observations per tile, whatever part of them a call covers
TINY = 1e-300  # avoids 0 · log 0


@compiled
def sweep_tiles(alone: Floats, overlap: Floats, z: Floats, first: int, last: int) -> None:
    """Set each q(z_k) of observations `first` to `last` to its optimum given the others, one after another."""
    odds = np.empty(WIDTH)
    for begin in range(first, last, WIDTH):
        size = min(WIDTH, last - begin)
        for k in range(len(z)):
            _log_odds(alone, overlap, z, k, begin, size, odds)
            row = z[k]
            for n in range(size):
                row[begin + n] = 1.0 / (1.0 + exp(-odds[n]))


@compiled
def flip_tiles(alone: Floats, overlap: Floats, z: Floats, first: int, last: int, least: float) -> None:
    """Flip the two assignments of each observation that raise its bound most together, if by more than `least`."""
    features = len(z)
    single, sign, best = np.empty((features, WIDTH)), np.empty((features, WIDTH)), np.empty(WIDTH)
    chosen = np.empty(WIDTH, dtype=np.int64)
    same = overlap.shape[2] == 1
    for begin in range(first, last, WIDTH):
        size = min(WIDTH, last - begin)
        for k in range(features):
            _log_odds(alone, overlap, z, k, begin, size, single[k])
            for n in range(size):
                sign[k, n] = 1.0 - 2.0 * z[k, begin + n]
                single[k, n] *= sign[k, n]
        best[:] = least
        chosen[:] = -1
        for i in range(features):
            for j in range(i + 1, features):
                row = overlap[i, j]
                for n in range(size):
                    taken = row[0] if same else row[begin + n]
                    gain = single[i, n] + single[j, n] - sign[i, n] * sign[j, n] * taken
                    better = gain > best[n]
                    best[n] = gain if better else best[n]
                    chosen[n] = i * features + j if better else chosen[n]
        for n in range(size):
            if chosen[n] >= 0:
                i, j = chosen[n] // features, chosen[n] % features
                z[i, begin + n] = 1.0 - z[i, begin + n]
                z[j, begin + n] = 1.0 - z[j, begin + n]


@compiled
def bound_tiles(alone: Floats, overlap: Floats, z: Floats, first: int, last: int, bounds: Floats) -> None:
    """The contribution of the assignments of observations `first` to `last` to the bound, entropy included."""
    odds = np.empty(WIDTH)
    for begin in range(first, last, WIDTH):
        size = min(WIDTH, last - begin)
        bounds[begin : begin + size] = 0.0
        for k in range(len(z)):
            _log_odds(alone, overlap, z, k, begin, size, odds)
            feature_odds, row = alone[k], z[k]
            for n in range(size):
                p = row[begin + n]
                # Each pair is visited twice, so half of its overlap counts each time.
                entropy = -p * log(max(p, TINY)) - (1.0 - p) * log(max(1.0 - p, TINY))
                bounds[begin + n] += 0.5 * p * (feature_odds[begin + n] + odds[n]) + entropy


@inlined
def _log_odds(alone: Floats, overlap: Floats, z: Floats, k: int, begin: int, size: int, odds: Floats) -> None:
    """The log-odds of feature k given the others."""
    feature_odds = alone[k]
    for n in range(size):
        odds[n] = feature_odds[begin + n]
    for j in range(len(z)):
        row, other = overlap[k, j], z[j]
        if len(row) == 1:
            for n in range(size):
                odds[n] -= row[0] * other[begin + n]
        else:
            for n in range(size):
                odds[n] -= row[begin + n] * other[begin + n]
