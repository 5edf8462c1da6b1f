"""One row's part of A(λ) for families with short rows: what searches for labels evaluate most.

Each formula is that of the family's `row_terms`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decbayes.kernels.compiled import inlined, inlined_reordered
from decbayes.kernels.special import lgamma, log

Floats = NDArray[np.float64]

ISOTROPIC_GAUSSIAN, DIAGONAL_GAUSSIAN, NORMAL_GAMMA, NORMAL_WISHART, WEIGHT, BETA = range(6)
KINDS = {
    "isotropic Gaussian": ISOTROPIC_GAUSSIAN,
    "diagonal Gaussian": DIAGONAL_GAUSSIAN,
    "normal-gamma": NORMAL_GAMMA,
    "normal-Wishart": NORMAL_WISHART,
    "weight": WEIGHT,
    "beta": BETA,
}

OUTSIDE = -1e300  # the term of a row outside the domain
LOG_2, LOG_PI = 0.6931471805599453, 1.1447298858494002


@inlined
def row_term(kind: int, row: Floats, room: Floats) -> float:
    """The term of one row; `room` is scratch space of the row's length."""
    if kind == ISOTROPIC_GAUSSIAN:
        return _isotropic_gaussian(row)
    if kind == DIAGONAL_GAUSSIAN:
        return _diagonal_gaussian(row)
    if kind == NORMAL_GAMMA:
        return _normal_gamma(row)
    if kind == NORMAL_WISHART:
        return _normal_wishart(row, room)
    if kind == WEIGHT:
        return lgamma(row[0] + 1.0) if row[0] > -1.0 else OUTSIDE
    return _beta(row)


@inlined_reordered
def _isotropic_gaussian(row: Floats) -> float:
    side, square = len(row) - 1, 0.0
    nu: float = row[side]
    if not nu < 0.0:
        return OUTSIDE
    for j in range(side):
        square += row[j] * row[j]
    return -square / (4.0 * nu) - 0.5 * side * log(-2.0 * nu)


@inlined_reordered
def _diagonal_gaussian(row: Floats) -> float:
    side, total = len(row) // 2, 0.0
    for j in range(side):
        eta, nu = row[j], row[side + j]
        if not nu < 0.0:
            return OUTSIDE
        total -= eta * eta / (4.0 * nu) + 0.5 * log(-2.0 * nu)
    return total


@inlined_reordered
def _normal_gamma(row: Floats) -> float:
    side, total = len(row) // 4, 0.0
    for j in range(side):
        shape, strength = row[j] + 0.5, -2.0 * row[3 * side + j]
        if not (shape > 0.0 and strength > 0.0):
            return OUTSIDE
        rate = -row[side + j] - 0.5 * row[2 * side + j] * (row[2 * side + j] / strength)
        if not rate > 0.0:
            return OUTSIDE
        total += lgamma(shape) - shape * log(rate) - 0.5 * log(strength)
    return total


@inlined
def _normal_wishart(row: Floats, room: Floats) -> float:
    """Uses the Cholesky factor of V⁻¹ = S − κmmᵀ for its determinant, which exists only within the domain."""
    side = int(np.sqrt(len(row) - 1.75) - 0.5 + 1e-6)  # D + D² + 2 columns
    degrees: float = row[0] + side
    strength: float = -2.0 * row[len(row) - 1]
    if not (strength > 0.0 and degrees > side - 1.0):
        return OUTSIDE
    shift, log_determinant, gammas = row[1 + side * side :], 0.0, 0.25 * side * (side - 1) * LOG_PI
    for i in range(side):
        for j in range(i + 1):
            value = -row[1 + side * i + j] - row[1 + side * j + i] - shift[i] * (shift[j] / strength)
            for k in range(j):
                value -= room[side * i + k] * room[side * j + k]
            if i > j:
                room[side * i + j] = value / room[side * j + j]
            elif not value > 0.0:
                return OUTSIDE
            else:
                room[side * i + i] = np.sqrt(value)
                log_determinant += log(value)
        gammas += lgamma(0.5 * (degrees - i))
    return 0.5 * degrees * (side * LOG_2 - log_determinant) + gammas - 0.5 * side * log(strength)


@inlined
def _beta(row: Floats) -> float:
    side, total = len(row) // 2, 0.0
    for j in range(side):
        alpha, beta = row[j] + 1.0, row[side + j] + 1.0
        if not (alpha > 0.0 and beta > 0.0):
            return OUTSIDE
        total += lgamma(alpha) + lgamma(beta) - lgamma(alpha + beta)
    return total
