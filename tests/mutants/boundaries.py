"""Whether tests ever compare two equal values in a place: where they do not, and values are real, `<` is `<=`.

Two numbers from a continuum are equal with probability zero. Where one sits on the boundary by design (a count of zero,
a share of one) some test has it there; then the change can be noticed and counts as any other.
"""

from __future__ import annotations

import builtins
import os

import numpy as np
from generator import APART


class Apart:
    """Two values that are compared as they are, unless they are whole or equal: that ends the process."""

    def __init__(self, left: object, right: object) -> None:
        self._left, self._right = left, right
        sides = [np.asarray(side) for side in (left, right)]
        real = any(side.dtype.kind == "f" for side in sides) and all(side.dtype.kind in "fiub" for side in sides)
        if not real or np.any(sides[0] == sides[1]):
            os._exit(1)

    def __lt__(self, other: object) -> object:
        return self._left < self._right  # type: ignore[operator]

    def __le__(self, other: object) -> object:
        return self._left <= self._right  # type: ignore[operator]

    def __gt__(self, other: object) -> object:
        return self._left > self._right  # type: ignore[operator]

    def __ge__(self, other: object) -> object:
        return self._left >= self._right  # type: ignore[operator]


def watch() -> None:
    setattr(builtins, APART, Apart)
