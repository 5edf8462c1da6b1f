"""Features as images, or as vectors of numbers."""

from collections.abc import Sequence
from math import isqrt
from typing import ClassVar

import numpy as np

from decbayes.families import Array
from decbayes.merging import Alignment
from decbayes.posterior import Posterior
from decbayes.views.values import Numbers, Part, Profile, Shape
from decbayes.views.view import LEVEL, TOP, View

SMALLEST, LARGEST = 16, 128 * 128  # pixels


class ImageView(View):
    name: ClassVar[str] = "images"
    smallest: ClassVar[int] = SMALLEST
    frequency: ClassVar[str] = "inclusion"
    occurs: ClassVar[str] = "is present in"

    def parts(
        self, posterior: Posterior, *, shape: Shape | None = None, top: int = TOP, level: float = LEVEL
    ) -> Sequence[Part]:
        """Means as images, if they fill a square or the given `shape`."""
        shape = shape or self.shape(posterior)
        if shape is not None:
            return super().parts(posterior, shape=shape, top=top)
        rows = self.rows(posterior)
        return [Numbers(names_of(posterior, len(row["mean"])), row["mean"], facts=self.facts(row)) for row in rows]

    def profiles(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Profile]:
        """Columns that have names; pixels have to be seen."""
        named = posterior.structure.labels.get("features")
        return super().profiles(posterior, level=level) if named and self.shape(posterior) is None else ()

    def pixels(self, posterior: Posterior) -> int:
        return int(np.size(self.rows(posterior)[0]["mean"]))

    def shape(self, posterior: Posterior, *, guess: bool = False) -> Shape | None:
        """The square that the numbers fill, if there are enough of them to be pixels."""
        return square(self.pixels(posterior), self.smallest)

    def observations(self, alignment: Alignment, evidence: Array) -> Array:
        """Observations may have several features, so the evidence of features does not add up."""
        sites = (alignment.in_slots(site) for site in range(len(evidence)))
        return np.array([max(np.max(self.model.tally(posterior).totals), 0.0) for posterior in sites])


def square(pixels: int, smallest: int = 1) -> Shape | None:
    side = isqrt(pixels)
    return (side, side) if side * side == pixels and smallest <= pixels <= LARGEST else None


def names_of(posterior: Posterior, count: int) -> tuple[str, ...]:
    """The names of a vector's entries."""
    labels = tuple(posterior.structure.labels.get("components", ()))
    return labels or tuple(f"x{axis}" for axis in range(count))
