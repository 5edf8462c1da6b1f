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
    until "other" itself is not rare. Predictors use "other" even for a handful: persons in the wrong category bias its
    coefficient more than a mixed "other" does. Only if nothing else would be left they do not, because the site's level
    would then look like an effect of "other".

    Args:
        names: all categories.
        hidden: which of them are hidden.
        why: the reason, for the site alone: it says how many are rare.
        target: what all of them count as.
        more: how many further categories, which some persons have, are hidden with them.
        all_hidden: whether nobody is left in another category.
        by_outcome: whether persons of each outcome were counted, too.
    """

    names: Sequence[str]
    hidden: NDArray[np.bool_]
    why: str
    target: str
    more: int = 0
    all_hidden: bool = False
    by_outcome: bool = False

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
        by_number = too_few(having[:, :1], least[:1])
        counts = {
            "have {} of its {} categories": by_number,
            "of {} of its {} categories differ in the outcome": rare & ~by_number,
        }
        reasons = [reason.format(places.sum(), len(names)) for reason, places in counts.items() if places.any()]
        why = f"too few persons {' and '.join(reasons)} here"
        hidden = rare | np.array([name == OTHER for name in names])
        common = int(np.where(hidden, -1, having[:, 0]).argmax())

        def shown(places: NDArray[np.bool_]) -> Array:
            return persons(np.isin(numbers, np.flatnonzero(places)))[None]

        with_common = hidden | (np.arange(len(names)) == common)
        few = not apart and not hidden[common] and shown(hidden)[0, 0] < least[0]
        if few and not too_few(shown(with_common), least)[0]:
            return cls(names, hidden, why, names[common], by_outcome=len(least) > 1)
        before = hidden.copy()
        for place in np.argsort(having[:, 0], kind="stable"):
            if not too_few(shown(hidden), least)[0]:
                break
            hidden[place] = True
        empty = having[:, 0] == 0
        if apart and (hidden | empty).all():
            return cls.of(numbers, names, persons, least)
        more = int((hidden & ~before & ~empty).sum())
        return cls(names, hidden, why, OTHER, more, bool((hidden | empty).all()), len(least) > 1)

    @property
    def others(self) -> list[str]:
        return [name for place, name in enumerate(self.names) if not self.hidden[place]]

    def counted_as(self, place: int) -> str:
        return self.target if self.hidden[place] else self.names[place]

    def __str__(self) -> str:
        """Also for the file: the same words whichever categories are rare, and however many."""
        if self.target != OTHER:
            return f"{self.rare} count as the most common one"
        return f"{self.rare} count as '{OTHER}'" + (
            ", with common ones to hide them: only other sites tell about these" if self.more else ""
        )

    @property
    def rare(self) -> str:
        if self.by_outcome:
            return "categories that few persons have, or in which few differ in the outcome,"
        return "rare categories"
