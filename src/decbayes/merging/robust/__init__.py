"""A merge on which a minority of faulty sites has little influence."""

from decbayes.merging.robust.robust import RobustMerge, robust_merge
from decbayes.merging.robust.weights import Robust

__all__ = [
    "Robust",
    "RobustMerge",
    "robust_merge",
]
