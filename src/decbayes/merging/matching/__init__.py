"""One to one, as in the paper: one component of each site into each slot."""

from decbayes.merging.matching._exhaustive import Exhaustive
from decbayes.merging.matching._swaps import Swaps
from decbayes.merging.matching._symmetrized import Symmetrized, symmetrize
from decbayes.merging.matching.matching import Hierarchical, Matching
from decbayes.merging.matching.quadratic import Quadratic

__all__ = [
    "Exhaustive",
    "Hierarchical",
    "Matching",
    "Quadratic",
    "Swaps",
    "Symmetrized",
    "symmetrize",
]
