"""Merging posteriors: align components, add contributions, and quantify how certain the result is."""

from decbayes.files import Library
from decbayes.merging._merge import merge, objective
from decbayes.merging._tree import Tree, tree
from decbayes.merging.aligning import align
from decbayes.merging.alignment import Alignment, remarks
from decbayes.merging.base.agreement import pad
from decbayes.merging.base.lineage import Event, Lineage, follow
from decbayes.merging.base.products import product
from decbayes.merging.grouping.shared import Shared
from decbayes.merging.matching import Symmetrized, symmetrize
from decbayes.merging.reading import (
    Confidence,
    Heterogeneity,
    Influence,
    Reliability,
    confidence,
    fillings,
    heterogeneity,
    influence,
    losses,
    margins,
    observations,
    support,
    thin,
    upper_bound,
)
from decbayes.merging.robust import Robust, RobustMerge, Standing, robust_merge

__all__ = [
    "Alignment",
    "Confidence",
    "Event",
    "Heterogeneity",
    "Influence",
    "Library",
    "Lineage",
    "Reliability",
    "Robust",
    "RobustMerge",
    "Shared",
    "Standing",
    "Symmetrized",
    "Tree",
    "align",
    "confidence",
    "fillings",
    "follow",
    "heterogeneity",
    "influence",
    "losses",
    "margins",
    "merge",
    "objective",
    "observations",
    "pad",
    "product",
    "remarks",
    "robust_merge",
    "support",
    "symmetrize",
    "thin",
    "tree",
    "upper_bound",
]
