"""How components find their slots: pass one, or its name, as `solver=` to `merge`, `align` or `refine`."""

from decbayes.merging.base.problem import register
from decbayes.merging.grouping import Grouping
from decbayes.merging.matching import Exhaustive, Hierarchical, Matching, Quadratic, Swaps

__all__ = ["Exhaustive", "Grouping", "Hierarchical", "Matching", "Quadratic", "Swaps", "register"]
