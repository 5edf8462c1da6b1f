"""Which factors are relabelled together, and how a permutation acts on them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decbayes.arguments import names_of

Permutation = NDArray[np.intp]
"""Slot k is filled by the site's own component `permutation[k]`; `matrix[permutation]` relabels rows."""


@dataclass(frozen=True)
class CoupledSet:
    """The factors that one permutation relabels together, such as a mixture's means and weights.

    `factors` are their names in the structure.

    >>> db.extending.CoupledSet(["means", "weights"]).factors
    ('means', 'weights')
    """

    factors: Sequence[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", names_of(factors=self.factors))


def identity(size: int) -> Permutation:
    return np.arange(size, dtype=np.intp)


def inverse(permutation: Permutation) -> Permutation:
    back = np.empty(len(permutation), dtype=np.intp)
    back[permutation] = np.arange(len(permutation))
    return back


def is_permutation(candidate: Sequence[int] | Permutation, size: int) -> bool:
    """Whether every number below `size` is there once, as an integer: others would not do as indices."""
    array = np.asarray(candidate)
    whole = array.ndim == 1 and array.dtype.kind in "ui" and not np.ma.is_masked(candidate)
    return whole and np.array_equal(np.sort(array), np.arange(size))
