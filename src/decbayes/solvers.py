"""How components find their slots: give one to `merge`, `align` or `refine` as `solver=`, or its name."""

from decbayes.merging.base.problem import register
from decbayes.merging.grouping import Grouping
from decbayes.merging.matching import Exhaustive, Hierarchical, Matching, Quadratic, Swaps

__all__ = ["Exhaustive", "Grouping", "Hierarchical", "Matching", "Quadratic", "Swaps", "register"]
