"""The tree that joins groups in pairs, those first that lose least by it, and its groups at any number."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decbayes.families.groups import Joins
from decbayes.families.matrices import Array, Indices


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


def joined(parts: Sequence[Joins], size: int, fewest: int = 1) -> Joined:
    """Join the two of `size` groups that lose least, until few are left; ties go to those that come first.

    The loss is the sum over all parts: the factors that describe a group.
    """

    def losses(group: int, others: Indices) -> Array:
        return np.asarray(sum(part.losses(group, others) for part in parts))

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
