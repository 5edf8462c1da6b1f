"""One to one, as in the paper: one component of each site into each slot."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.merging.matching._exhaustive import Exhaustive as Exhaustive
    from decbayes.merging.matching._swaps import Swaps as Swaps
    from decbayes.merging.matching._symmetrized import Symmetrized as Symmetrized
    from decbayes.merging.matching._symmetrized import symmetrize as symmetrize
    from decbayes.merging.matching.matching import Hierarchical as Hierarchical
    from decbayes.merging.matching.matching import Matching as Matching
    from decbayes.merging.matching.quadratic import Quadratic as Quadratic
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            "._exhaustive": "Exhaustive",
            "._swaps": "Swaps",
            "._symmetrized": "Symmetrized symmetrize",
            ".matching": "Hierarchical Matching",
            ".quadratic": "Quadratic",
        },
    )
