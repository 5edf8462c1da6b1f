"""Mean field of binary assignments that compete to explain one observation.

Given the features, the assignments z of one observation follow a pairwise binary model,

    log p(z | y) = Σ_k alone_k z_k − ½ Σ_{j≠k} overlap_jk z_j z_k + constant,

where `alone_k` is the log-odds that feature k would have if no other were there. Arrays put the feature first and the
observation last: `alone` and `z` are (K, N); `overlap` is (K, K, N), or (K, K, 1) where it is the same for all
observations, with a zero diagonal.
"""

import numpy as np
from scipy.special import entr, expit

from decbayes.families import Array

SETTLED = 1e-6
MAXIMAL_SWEEPS = 100


def sweep(alone: Array, overlap: Array, z: Array) -> None:
    """Set each q(z_k) to its optimum given the others, one after another, in place."""
    for k in range(len(z)):
        z[k] = expit(alone[k] - (overlap[k] * z).sum(axis=0))


def flip_pairs(alone: Array, overlap: Array, z: Array) -> None:
    """Complement the two assignments of each observation that raise its bound most, in place.

    Coordinate ascent cannot leave an assignment where feature i stands in for feature j, because either change alone
    makes things worse. Complementing leaves the entropy as it is, so the gain is exact:

        s_i g_i + s_j g_j − s_i s_j overlap_ij,    s = 1 − 2z,  g = the log-odds given the others.
    """
    first, second = np.triu_indices(len(z), 1)
    if not len(first):
        return
    sign = 1.0 - 2.0 * z
    single = sign * (alone - np.einsum("ijn,jn->in", overlap, z))
    gain = single[first] + single[second] - sign[first] * sign[second] * overlap[first, second]
    best = gain.argmax(axis=0)
    rows = np.flatnonzero(gain.max(axis=0) > SETTLED)
    for index in (first[best[rows]], second[best[rows]]):
        z[index, rows] = 1.0 - z[index, rows]


def row_bounds(alone: Array, overlap: Array, z: Array) -> Array:
    """What each observation's assignments add to the bound, entropy included."""
    taken = 0.5 * np.einsum("ijn,in,jn->n", overlap, z, z)
    return np.asarray((alone * z + entr(z) + entr(1.0 - z)).sum(axis=0) - taken)


def settle(alone: Array, overlap: Array, z: Array) -> None:
    """Sweep and flip until no assignment changes, in place."""
    for _ in range(MAXIMAL_SWEEPS):
        before = z.copy()
        flip_pairs(alone, overlap, z)
        sweep(alone, overlap, z)
        if np.abs(z - before).max(initial=0.0) < SETTLED:
            return


def infer(alone: Array, overlap: Array) -> Array:
    """The best mean field from two starts: every feature undecided, and no feature at all."""
    fields = [np.full(alone.shape, level) for level in (0.5, 0.0)]
    for z in fields:
        settle(alone, overlap, z)
    undecided, empty = fields
    better = row_bounds(alone, overlap, empty) > row_bounds(alone, overlap, undecided)
    return np.where(better, empty, undecided)
