"""A merge that names sites which clearly disagree with most others, and hardly moves with them."""

from decbayes.merging.robust._result import RobustMerge, Standing
from decbayes.merging.robust.robust import Robust, robust_merge, standings

__all__ = ["Robust", "RobustMerge", "Standing", "robust_merge", "standings"]
