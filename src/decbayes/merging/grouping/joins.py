"""The order in which components are joined, and the loss of each join."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from decbayes.families import Array
from decbayes.families.groups import Growing
from decbayes.families.matrices import Indices
from decbayes.merging.base.components import Components

# The number of components whose pairs are all compared at once; a tree costs its square.
GROUP = 100


@dataclass(frozen=True)
class Joined:
    """The joins of n groups in order: the two first members, and the nats lost."""

    size: int
    kept: Indices
    absorbed: Indices
    loss: Array

    def labels(self, count: int) -> Indices:
        """The group of each component when this many are left, numbered by their first members."""
        root, steps = np.arange(self.size), self.size - count
        for kept, absorbed in zip(self.kept[:steps], self.absorbed[:steps], strict=True):
            root[absorbed] = kept
        while (root[root] != root).any():
            root = root[root]
        return np.unique(root, return_inverse=True)[1].astype(np.intp)

    def linkage(self) -> Array:
        """The joins as `scipy.cluster.hierarchy` writes them: two groups, their height, and their size."""
        name, members = np.arange(self.size), np.ones(self.size)
        rows, heights = np.empty((len(self.loss), 4)), np.maximum.accumulate(self.loss)
        for step, (kept, absorbed) in enumerate(zip(self.kept, self.absorbed, strict=True)):
            members[kept] += members[absorbed]
            rows[step] = name[kept], name[absorbed], heights[step], members[kept]
            name[kept] = self.size + step
        return rows


def greedy_joins(components: Components, bases: Sequence[Array], fewest: int = 1) -> Joined:
    """Join the two groups that lose least, until this many are left; ties go to those that come first."""
    if len(components.factors) == 1 and isinstance(family := components.factors[0].family, Growing):
        return Joined(len(components), *family.tree(components.rows[0], fewest))
    pairs = zip(components.factors, components.rows, bases, strict=True)
    parts = [factor.family.joins(base, rows, components.evidence) for factor, rows, base in pairs]

    def losses(group: int, others: Indices) -> Array:
        return np.asarray(sum(part.losses(group, others) for part in parts))

    size = len(components)
    loss = np.full((size, size), np.inf)
    for group in range(size - 1):
        others = np.arange(group + 1, size)
        loss[group, others] = loss[others, group] = losses(group, others)
    everyone, alive, nearest, steps = np.arange(size), np.arange(size), loss.argmin(axis=1), []
    for _ in range(size - fewest):
        group = int(np.argmin(loss[everyone, nearest]))
        kept, absorbed = sorted((group, int(nearest[group])))
        steps.append((kept, absorbed, float(loss[kept, absorbed])))
        alive = alive[alive != absorbed]
        loss[absorbed, :] = loss[:, absorbed] = np.inf
        for part in parts:
            part.join(kept, absorbed)
        others = alive[alive != kept]
        loss[kept, others] = loss[others, kept] = losses(kept, others) if len(others) else 0.0
        stale = alive[(alive == kept) | (nearest[alive] == kept) | (nearest[alive] == absorbed)]
        nearest[stale] = loss[stale].argmin(axis=1)
        closer = others[loss[others, kept] < loss[others, nearest[others]]]
        nearest[closer] = kept
    firsts, seconds, lost = zip(*steps, strict=True) if steps else ((), (), ())
    return Joined(size, np.array(firsts, dtype=np.intp), np.array(seconds, dtype=np.intp), np.array(lost))


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
