"""Provable privacy: what a release may reveal of one person, noise that keeps to it, and merges that know the noise."""

from typing import TYPE_CHECKING

from decbayes.lazily import exported

if TYPE_CHECKING:
    from decbayes.privacy.grid import Grid as Grid
    from decbayes.privacy.grid import discrete_gaussian as discrete_gaussian
    from decbayes.privacy.grid import exact_sum as exact_sum
    from decbayes.privacy.grid import quantize as quantize
else:
    __getattr__, __all__ = exported(__name__, {".grid": "Grid discrete_gaussian exact_sum quantize"})
