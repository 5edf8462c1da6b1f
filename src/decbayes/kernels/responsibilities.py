"""One pass of a mixture over its points: scores, responsibilities and sums, one tile of points at a time.

A tile holds the features of up to WIDTH points, one row per feature, so every loop runs over adjacent points and
vectorises. Both matrix products are computed here, in blocks of four by four rows, as fast as BLAS at such sizes; BLAS
would add its own threads, and different last bits for each number of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decbayes.kernels.compiled import compiled, inlined, inlined_reordered
from decbayes.kernels.special import exp, log

Floats = NDArray[np.float64]

WIDTH = 320  # four rows of features and four of scores fit in the L1 cache; rows of 2,048 bytes would share its sets


@compiled
def fill_tiles(features: Floats, tiles: Floats) -> None:
    """Write features, (points, features), into tiles, (tiles, features or more, WIDTH), padded with zeros."""
    points, width = features.shape
    for tile in range(len(tiles)):
        local, first = tiles[tile], tile * WIDTH
        size = min(WIDTH, points - first)
        local[:, size:] = 0.0
        local[width:] = 0.0
        for begin in range(0, size, 8):  # eight points at a time: one cache line of each row
            for feature in range(width):
                for point in range(begin, min(begin + 8, size)):
                    local[feature, point] = features[first + point, feature]


@compiled
def weigh_points(tiles: Floats, points: int, coefficients: Floats, constants: Floats, sums: Floats) -> float:
    """Add Σ_n r_nk (features_n, 1) to `sums`, (components, features + 1), and return Σ_n log Σ_k exp(score_nk).

    score_nk = coefficients_k · features_n + constants_k and r_nk = exp(score_nk) / Σ_j exp(score_nj). Components and
    features are padded with zeros to multiples of four in `coefficients` and `sums`; `constants` are not.
    """
    rows, width = coefficients.shape
    scores, highest, weight = np.zeros((rows, WIDTH)), np.empty(WIDTH), np.empty(WIDTH)
    total = 0.0
    for tile in range(len(tiles)):
        local, size = tiles[tile], min(WIDTH, points - tile * WIDTH)
        for k in range(len(constants)):
            scores[k] = constants[k]
        for k in range(0, rows, 4):
            for j in range(0, width, 4):
                _add_products(coefficients, k, j, local, scores)
        total += _normalise(scores, len(constants), size, highest, weight)
        for k in range(0, rows, 4):
            for j in range(0, width, 4):
                _add_dots(scores, local, k, j, sums)
        for k in range(len(constants)):
            sums[k, width] += _total(scores[k])
        scores[len(constants) :] = 0.0
    return total


@inlined_reordered
def _add_products(factors: Floats, k: int, j: int, local: Floats, scores: Floats) -> None:
    """Add the part of four features to the scores of four components."""
    a0, a1, a2, a3 = factors[k, j], factors[k, j + 1], factors[k, j + 2], factors[k, j + 3]
    b0, b1, b2, b3 = factors[k + 1, j], factors[k + 1, j + 1], factors[k + 1, j + 2], factors[k + 1, j + 3]
    c0, c1, c2, c3 = factors[k + 2, j], factors[k + 2, j + 1], factors[k + 2, j + 2], factors[k + 2, j + 3]
    d0, d1, d2, d3 = factors[k + 3, j], factors[k + 3, j + 1], factors[k + 3, j + 2], factors[k + 3, j + 3]
    first, second, third, fourth = scores[k], scores[k + 1], scores[k + 2], scores[k + 3]
    w, x, y, z = local[j], local[j + 1], local[j + 2], local[j + 3]
    for n in range(len(first)):
        first[n] += a0 * w[n] + a1 * x[n] + a2 * y[n] + a3 * z[n]
        second[n] += b0 * w[n] + b1 * x[n] + b2 * y[n] + b3 * z[n]
        third[n] += c0 * w[n] + c1 * x[n] + c2 * y[n] + c3 * z[n]
        fourth[n] += d0 * w[n] + d1 * x[n] + d2 * y[n] + d3 * z[n]


@inlined
def _normalise(scores: Floats, components: int, size: int, highest: Floats, weight: Floats) -> float:
    """Turn scores into responsibilities, zero past the last point; returns the sum of log Σ_k exp(score)."""
    for n in range(WIDTH):
        highest[n] = scores[0, n]
    for k in range(1, components):
        row = scores[k]
        for n in range(WIDTH):
            highest[n] = max(highest[n], row[n])
    weight[:] = 0.0
    for k in range(components):
        row = scores[k]
        for n in range(WIDTH):
            row[n] = exp(row[n] - highest[n])
            weight[n] += row[n]
    total = 0.0
    for n in range(size):
        total += highest[n] + log(weight[n])
    for n in range(WIDTH):
        weight[n] = 1.0 / weight[n] if n < size else 0.0
    for k in range(components):
        row = scores[k]
        for n in range(WIDTH):
            row[n] *= weight[n]
    return total


@inlined_reordered
def _add_dots(scores: Floats, local: Floats, k: int, j: int, sums: Floats) -> None:
    """Add the sums of four features to those of four components."""
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = 0.0
    first, second, third, fourth = scores[k], scores[k + 1], scores[k + 2], scores[k + 3]
    row_w, row_x, row_y, row_z = local[j], local[j + 1], local[j + 2], local[j + 3]
    for n in range(len(first)):
        p, q, r, s = first[n], second[n], third[n], fourth[n]
        w, x, y, z = row_w[n], row_x[n], row_y[n], row_z[n]
        a0, a1, a2, a3 = a0 + p * w, a1 + p * x, a2 + p * y, a3 + p * z
        b0, b1, b2, b3 = b0 + q * w, b1 + q * x, b2 + q * y, b3 + q * z
        c0, c1, c2, c3 = c0 + r * w, c1 + r * x, c2 + r * y, c3 + r * z
        d0, d1, d2, d3 = d0 + s * w, d1 + s * x, d2 + s * y, d3 + s * z
    _add_row(sums[k], j, a0, a1, a2, a3)
    _add_row(sums[k + 1], j, b0, b1, b2, b3)
    _add_row(sums[k + 2], j, c0, c1, c2, c3)
    _add_row(sums[k + 3], j, d0, d1, d2, d3)


@inlined
def _add_row(sums: Floats, j: int, w: float, x: float, y: float, z: float) -> None:
    sums[j] += w
    sums[j + 1] += x
    sums[j + 2] += y
    sums[j + 3] += z


@inlined_reordered
def _total(row: Floats) -> float:
    total = 0.0
    for n in range(len(row)):
        total += row[n]
    return total
