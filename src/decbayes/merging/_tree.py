"""The tree of all sites' components: the order of joins, and the loss of each. Cut it at any number of slots."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from decbayes.base.arguments import check_whole
from decbayes.base.display import Displayed
from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.families.joining import Joined
from decbayes.families.matrices import Indices
from decbayes.merging.aligning import align, largest_structure
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.base.components import Components
from decbayes.merging.base.coupled import as_sequence, coupled_problem, reordered
from decbayes.merging.base.problem import Problem, Solution
from decbayes.merging.grouping.joins import greedy_joins, grown_labels
from decbayes.posterior import Posterior

# The most leaves of a tree; with more components, leaves are groups of the most similar ones.
MOST_LEAVES = 1000


@dataclass(frozen=True)
class Branches:
    """The joins of one coupled set in canonical order, and the `leaf` and `site` of each component."""

    joined: Joined
    leaf: Indices
    site: Indices

    one_to_one: ClassVar[bool] = False

    def solve(self, problem: Problem) -> Solution:
        """The slots of a cut: a tree is a solver with a stored answer."""
        labels = self.joined.labels(min(problem.components, self.joined.size))[self.leaf]
        return Solution(tuple(np.split(labels, np.flatnonzero(np.diff(self.site)) + 1)), (), "none")


@dataclass(frozen=True, eq=False)
class Tree(Displayed):
    """All components, joined in pairs in the order that loses least, until one is left.

    `cut(components)` is the alignment with that number of slots, without another search. Components that the tree has
    joined stay joined, so `align` finds better alignments for a given number, but cuts of one tree can be compared.

    Attributes:
        posteriors: the posteriors that it was built from.
        branches: the joins in order.

    >>> tree = db.merging.tree(sites)
    >>> tree.cut(2).merged().mean("components").shape
    (2, 1)
    >>> abs(tree.losses()[:3].round())  # nats lost when 1, 2 or 3 slots are left
    array([306.,   0.,   0.])
    """

    posteriors: Sequence[Posterior] = field(repr=False)
    branches: Branches = field(repr=False)

    def cut(self, components: int) -> Alignment:
        """The alignment with this number of slots."""
        check_whole(1, components=components)
        return align(self.posteriors, components=components, solver=self.branches)

    def cuts(self, components: Iterable[int]) -> dict[int, Posterior]:
        """The merged posterior of each number of slots."""
        return {int(number): self.cut(int(number)).merged() for number in sorted(set(components))}

    def losses(self) -> Array:
        """`losses()[k − 1]`: total loss of all joins in nats when k slots are left."""
        return np.concatenate([np.cumsum(self.branches.joined.loss)[::-1], [0.0]])

    def linkage(self) -> Array:
        """The joins in the format of `scipy.cluster.hierarchy`: heights are nats lost, and never decrease."""
        return self.branches.joined.linkage()

    def sites(self) -> Indices:
        """The site of each leaf, as an index into the posteriors; −1 if a leaf holds components of several sites."""
        order, _ = canonical_order(self.posteriors)
        site_of_leaf = np.full(self.branches.joined.size, -2, dtype=np.intp)
        for leaf, site in zip(self.branches.leaf, np.asarray(order)[self.branches.site], strict=True):
            site_of_leaf[leaf] = site if site_of_leaf[leaf] in (-2, site) else -1
        return site_of_leaf


def tree(posteriors: Iterable[Posterior]) -> Tree:
    """Join the components of all posteriors in pairs, starting with those that lose least.

    Args:
        posteriors: one per site, of a model whose components share a prior.

    >>> sorted(db.merging.tree(sites).cuts([1, 2]))
    [1, 2]
    """
    sequence = as_sequence(posteriors)
    order, readings = canonical_order(sequence)
    structure = largest_structure(readings)
    if not structure.resizable:
        raise StructureMismatch(
            f"A tree needs one set of components that share a prior, which {structure} does not have."
        )
    (coupled,) = structure.symmetry
    orders = [readings[site].components[coupled] for site in order]
    problem = coupled_problem(reordered(sequence, order), coupled, structure, orders)
    site = np.repeat(np.arange(problem.sites), [len(components) for components in orders])
    return Tree(sequence, grown(problem, site.astype(np.intp)))


def grown(problem: Problem, site: Indices) -> Branches:
    components = Components.in_problem(problem)
    base = components.bases(problem.components)
    leaf = np.arange(len(components), dtype=np.intp)
    if len(components) > MOST_LEAVES:
        leaf = grown_labels(components, base, MOST_LEAVES)
        components = components.joined(leaf, MOST_LEAVES)
    return Branches(greedy_joins(components, base), leaf, site)
