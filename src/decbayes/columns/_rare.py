"""Rare categories: which ones a site must not name, and what they count as instead."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decbayes.columns.cells import Array
from decbayes.columns.column import Having, too_few

OTHER = "other"
"""The category that replaces all that are too rare to show."""


@dataclass(frozen=True)
class RareCategories:
    """Categories of a site with too few persons, and the one that they count as.

    If all of them together are too few for a visible "other", they count as the most common category: a handful of
    persons hardly changes it, and no common category is lost. Otherwise they are "other", and so are the next rarest
    until "other" itself is not rare. Predictors always use "other": persons in the wrong category bias its coefficient
    more than a mixed "other" does.

    Args:
        names: all categories.
        hidden: which of them are hidden.
        asked: how many are rare.
        target: what all of them count as.
        more: how many further categories, which some persons have, are hidden with them.
    """

    names: Sequence[str]
    hidden: NDArray[np.bool_]
    asked: int
    target: str
    more: int = 0

    @classmethod
    def of(
        cls, numbers: Array, names: Sequence[str], persons: Having, least: Array, *, apart: bool = False
    ) -> "RareCategories | None":
        """What must be hidden in a column of categories, given as numbers; None if nothing.

        `apart` keeps rare ones out of the most common category.
        """
        having = np.array([persons(numbers == place) for place in range(len(names))])
        rare = too_few(having, least)
        if not rare.any():
            return None
        asked, hidden = int(rare.sum()), rare | np.array([name == OTHER for name in names])
        common = int(np.where(hidden, -1, having[:, 0]).argmax())

        def shown(places: NDArray[np.bool_]) -> Array:
            return persons(np.isin(numbers, np.flatnonzero(places)))[None]

        with_common = hidden | (np.arange(len(names)) == common)
        few = not apart and not hidden[common] and shown(hidden)[0, 0] < least[0]
        if few and not too_few(shown(with_common), least)[0]:
            return cls(names, hidden, asked, names[common])
        before = hidden.copy()
        for place in np.argsort(having[:, 0], kind="stable"):
            if not too_few(shown(hidden), least)[0]:
                break
            hidden[place] = True
        return cls(names, hidden, asked, OTHER, int((hidden & ~before & (having[:, 0] > 0)).sum()))

    @property
    def others(self) -> list[str]:
        """The categories that are not hidden."""
        return [name for place, name in enumerate(self.names) if not self.hidden[place]]

    def counted_as(self, place: int) -> str:
        return self.target if self.hidden[place] else self.names[place]

    def __str__(self) -> str:
        """Also for the file: the same words whichever categories are rare, and however many."""
        if self.target != OTHER:
            return "rare categories count as the most common one"
        return f"rare categories count as '{OTHER}'" + (", with common ones to hide them" if self.more else "")
