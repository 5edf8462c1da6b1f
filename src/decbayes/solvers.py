"""How components find their slots: give one to `merge`, `align` or `refine` as `solver=`."""

from decbayes.merging.grouping import Grouping
from decbayes.merging.matching import Exhaustive, Hierarchical, Matching, Quadratic, Swaps

__all__ = ["Exhaustive", "Grouping", "Hierarchical", "Matching", "Quadratic", "Swaps"]
