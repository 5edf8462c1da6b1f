"""Merging posteriors: the naive product, and AMPS, which aligns components first."""

from decbayes.files import Library
from decbayes.merging._merge import align, merge, objective
from decbayes.merging._tree import Tree, tree
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.agreement import pad
from decbayes.merging.base.products import product
from decbayes.merging.grouping import Grouping
from decbayes.merging.matching import Exhaustive, Hierarchical, Matching, Quadratic, Swaps, Symmetrized, symmetrize
from decbayes.merging.reading import Confidence, Event, Influence, Lineage, Reliability, follow
from decbayes.merging.robust import Robust, RobustMerge, robust_merge

__all__ = [
    "Alignment",
    "Confidence",
    "Event",
    "Exhaustive",
    "Grouping",
    "Hierarchical",
    "Influence",
    "Library",
    "Lineage",
    "Matching",
    "Quadratic",
    "Reliability",
    "Robust",
    "RobustMerge",
    "Swaps",
    "Symmetrized",
    "Tree",
    "align",
    "follow",
    "merge",
    "objective",
    "pad",
    "product",
    "robust_merge",
    "symmetrize",
    "tree",
]
