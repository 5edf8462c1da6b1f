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

CONVERGED = 1e-6
MAXIMAL_SWEEPS = 100
COOLING_SWEEPS = 20
# Gains of all pairs are computed for so many observations × features² at a time (8 MiB).
BLOCK = 1 << 20


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
    if len(z) == 1:
        return
    step = max(1, BLOCK // len(z) ** 2)
    for begin in range(0, z.shape[1], step):
        part = slice(begin, begin + step)
        flip_block(alone[:, part], overlap if overlap.shape[2] == 1 else overlap[:, :, part], z[:, part])


def flip_block(alone: Array, overlap: Array, z: Array) -> None:
    first, second = np.triu_indices(len(z), 1)
    sign = 1.0 - 2.0 * z
    single = sign * (alone - np.einsum("ijn,jn->in", overlap, z))
    gain = single[first] + single[second] - sign[first] * sign[second] * overlap[first, second]
    best = gain.argmax(axis=0)
    rows = np.flatnonzero(gain.max(axis=0) > CONVERGED)
    for index in (first[best[rows]], second[best[rows]]):
        z[index, rows] = 1.0 - z[index, rows]


def row_bounds(alone: Array, overlap: Array, z: Array) -> Array:
    """What each observation's assignments add to the bound, entropy included."""
    taken = 0.5 * np.einsum("ijn,in,jn->n", overlap, z, z)
    return np.asarray((alone * z + entr(z) + entr(1.0 - z)).sum(axis=0) - taken)


def converge(alone: Array, overlap: Array, z: Array) -> None:
    """Sweep and flip until no assignment changes, in place."""
    for _ in range(MAXIMAL_SWEEPS):
        before = z.copy()
        flip_pairs(alone, overlap, z)
        sweep(alone, overlap, z)
        if np.abs(z - before).max(initial=0.0) < CONVERGED:
            return


def infer(alone: Array, overlap: Array) -> Array:
    """The best mean field of each observation from four starts: annealed, undecided, no feature, and all features.

    Of a thousand vectors with five features in ten dimensions, 10 end in a poor optimum when annealed, 26 when
    undecided at first, and 1 with all four.
    """
    fields = [annealed(alone, overlap), *(np.full(alone.shape, level) for level in (0.5, 0.0, 1.0))]
    for z in fields:
        converge(alone, overlap, z)
    best = np.argmax([row_bounds(alone, overlap, z) for z in fields], axis=0)
    return np.asarray(np.take_along_axis(np.stack(fields), best[None, None, :], axis=0)[0])


def annealed(alone: Array, overlap: Array) -> Array:
    """Sweeps at falling temperatures, from one at which no two features compete."""
    z = np.full(alone.shape, 0.5)
    for temperature in np.geomspace(max(1.0, np.abs(overlap).max(initial=1.0)), 1.0, COOLING_SWEEPS):
        sweep(alone / temperature, overlap / temperature, z)
    return z
