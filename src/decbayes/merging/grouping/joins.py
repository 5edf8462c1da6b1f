"""The order in which components are joined: trees of all components, and trees of trees if they are many."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from decbayes.families import Array
from decbayes.families.groups import Growing
from decbayes.families.joining import Joined, joined
from decbayes.families.matrices import Indices
from decbayes.merging.base.components import Components

# The number of components whose pairs are all compared at once; a tree costs its square.
GROUP = 100


def greedy_joins(components: Components, bases: Sequence[Array], fewest: int = 1) -> Joined:
    """Join the two groups that lose least, until this many are left; ties go to those that come first."""
    if len(components.factors) == 1 and isinstance(family := components.factors[0].family, Growing):
        return Joined(len(components), *family.tree(components.rows[0], fewest))
    pairs = zip(components.factors, components.rows, bases, strict=True)
    parts = [factor.family.joins(base, rows, components.evidence) for factor, rows, base in pairs]
    return joined(parts, len(components), fewest)


def grown_labels(components: Components, bases: Sequence[Array], count: int) -> Indices:
    """A given number of groups by trees of consecutive components, and trees of those: no matrix of all pairs."""
    size, ends = len(components), tree_ends(len(components), count)
    if len(ends) == 2:
        return greedy_joins(components, bases, min(count, size)).labels(min(count, size))
    labels, groups = np.empty(size, dtype=np.intp), 0
    for first, last in pairwise(ends):
        tree_labels = greedy_joins(components.taken(np.arange(first, last)), bases, count).labels(count)
        labels[first:last] = tree_labels + groups
        groups += count
    return grown_labels(components.joined(labels, groups), bases, count)[labels]


def tree_ends(size: int, count: int) -> Indices:
    """The ends of the trees for this many components: one tree if they are few."""
    group = max(GROUP, 2 * count)
    trees = 1 if size <= 2 * group else -(-size // group)
    return np.linspace(0, size, trees + 1).astype(np.intp)
