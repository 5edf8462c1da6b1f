"""Merging posteriors: the naive product, and AMPS, which aligns components first."""

from decbayes.merging.alignment import Alignment, align, merge, objective
from decbayes.merging.exhaustive import Exhaustive
from decbayes.merging.grouping import Grouping
from decbayes.merging.hierarchical import Hierarchical
from decbayes.merging.matching import Matching
from decbayes.merging.padding import pad
from decbayes.merging.products import product
from decbayes.merging.swaps import Swaps
from decbayes.merging.symmetrized import Symmetrized, symmetrize

__all__ = [
    "Alignment",
    "Exhaustive",
    "Grouping",
    "Hierarchical",
    "Matching",
    "Swaps",
    "Symmetrized",
    "align",
    "merge",
    "objective",
    "pad",
    "product",
    "symmetrize",
]
