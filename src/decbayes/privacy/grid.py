"""Fixed-point numbers as integers, and noise drawn on the same grid, so that rounding reveals nothing.

Sums of integers are exact in any order. Noise comes from the operating system's entropy by integer arithmetic alone,
without floating-point numbers or seeds. The duration of a draw depends on its value, so nobody should be able to time
it.
"""

import secrets
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import InvalidData

Integers = NDArray[np.int64]

LARGEST = 2**53
"""Integers below this are exact floating-point numbers."""


@dataclass(frozen=True)
class Grid:
    """Multiples of one step.

    Args:
        step: the distance between neighbouring numbers; a power of two makes the conversion back exact.

    >>> grid = db.privacy.Grid(0.25)
    >>> grid.quantize([0.6, -1.0])
    array([ 2, -4])
    >>> grid.values([2, -4])
    array([ 0.5, -1. ])
    """

    step: float

    def __post_init__(self) -> None:
        if not 0.0 < self.step < np.inf:
            raise ValueError(f"step must be a positive number, not {self.step!r}.")

    def quantize(self, vector: Any) -> Integers:
        """The nearest grid points, in steps."""
        return quantize(vector, self.step)

    def values(self, steps: Any) -> NDArray[np.float64]:
        """The numbers for these steps."""
        return np.asarray(steps, dtype=np.float64) * self.step


def quantize(vector: Any, step: float) -> Integers:
    """Numbers rounded to multiples of a step; refused if they are too large to be added exactly."""
    steps = np.rint(np.asarray(vector, dtype=np.float64) / step)
    if not (np.abs(steps) < LARGEST).all():
        raise InvalidData(f"Numbers are not finite, or beyond 2^53 steps of {step:g}, and could not be added exactly.")
    return steps.astype(np.int64)


def exact_sum(vectors: Any) -> Integers:
    """The sum of vectors of steps, exact in any order; refused if it could reach 2⁵³."""
    rows = np.asarray(vectors, dtype=np.int64)
    if (np.abs(rows.astype(np.float64)).sum(axis=0) >= LARGEST).any():
        raise InvalidData("A sum would reach 2^53 steps, beyond which it is not exact. Use a larger step.")
    return np.asarray(rows.sum(axis=0))


def discrete_gaussian(variance: int, size: int) -> Integers:
    """Independent integers x with probability ∝ exp(−x² / 2 variance), drawn exactly.

    Proposals are discrete Laplace, accepted by their ratio to the Gaussian (Canonne, Kamath and Steinke, 2020). All
    probabilities are ratios of integers.

    >>> noise = db.privacy.discrete_gaussian(100, 1000)
    >>> bool(80 < noise.var() < 120)
    True
    """
    if isinstance(variance, bool) or variance != int(variance) or variance < 1:
        raise ValueError(f"variance must be an integer of at least 1, not {variance!r}.")
    return np.array([one_gaussian(int(variance)) for _ in range(size)], dtype=np.int64)


def one_gaussian(variance: int) -> int:
    scale = isqrt(variance) + 1
    while True:
        proposal = one_laplace(scale)
        away = abs(proposal) * scale - variance
        if happens_exp(away * away, 2 * variance * scale * scale):
            return proposal


def one_laplace(scale: int) -> int:
    """An integer x with probability ∝ exp(−|x| / scale)."""
    while True:
        part = secrets.randbelow(scale)
        if not happens_exp(part, scale):
            continue
        whole = 0
        while happens_exp(1, 1):
            whole += 1
        size, negative = part + scale * whole, bool(secrets.randbits(1))
        if size or not negative:  # zero has no sign, and must not count twice
            return -size if negative else size


def happens_exp(numerator: int, denominator: int) -> bool:
    """True with probability exp(−numerator / denominator)."""
    whole, rest = divmod(numerator, denominator)
    for _ in range(whole):
        if not happens_exp_below_one(1, 1):
            return False
    return happens_exp_below_one(rest, denominator)


def happens_exp_below_one(numerator: int, denominator: int) -> bool:
    """The same for ratios up to 1: the first k at which a draw of probability ratio / k fails is odd."""
    k = 1
    while secrets.randbelow(denominator * k) < numerator:
        k += 1
    return k % 2 == 1
