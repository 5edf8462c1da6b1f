"""Sums of relabelled contributions."""

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array, issparse

from decbayes.families import Array, Contribution
from decbayes.symmetry import Permutation


def add_relabelled(total: Array, contribution: Contribution, permutation: Permutation, sign: float = 1.0) -> None:
    """total += sign · P c, in place; costs what the contribution holds, not what the total does."""
    if issparse(contribution):
        from decbayes.kernels.rows import add_rows

        add_rows(total, contribution.indptr, contribution.indices, contribution.data, permutation, sign)
    else:
        total += sign * contribution[permutation]


def relabelled_sum(contributions: Iterable[tuple[Contribution, Permutation]], like: Contribution) -> Contribution:
    """Σ_i P_i c_i in the given order, through one dense matrix: the union of many sparse ones is dense anyway."""
    total = np.zeros(like.shape)
    for contribution, permutation in contributions:
        add_relabelled(total, contribution, permutation)
    return csr_array(total) if issparse(like) else total
