"""Merging posteriors: the naive product, and AMPS, which aligns components first."""

from decbayes.merging.alignment import Alignment
from decbayes.merging.confidence import Confidence, Reliability
from decbayes.merging.dendrogram import Tree, tree
from decbayes.merging.exhaustive import Exhaustive
from decbayes.merging.grouping import Grouping
from decbayes.merging.hearing import Robust
from decbayes.merging.hierarchical import Hierarchical
from decbayes.merging.influence import Influence
from decbayes.merging.lineage import Event, Lineage, follow
from decbayes.merging.matching import Matching
from decbayes.merging.padding import pad
from decbayes.merging.products import product
from decbayes.merging.quadratic import Quadratic
from decbayes.merging.robust import RobustMerge, robust_merge
from decbayes.merging.solving import align, merge, objective
from decbayes.merging.swaps import Swaps
from decbayes.merging.symmetrized import Symmetrized, symmetrize

__all__ = [
    "Alignment",
    "Confidence",
    "Event",
    "Exhaustive",
    "Grouping",
    "Hierarchical",
    "Influence",
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
