"""Columns of categories, and of yes or no."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import is_number, names_of, some
from decbayes.columns._rare import OTHER, RareCategories
from decbayes.columns.cells import (
    EMPTY,
    FEW_VALUES,
    Array,
    Raw,
    in_order,
    is_code,
    is_missing,
    number_of,
    refuse,
    text_of,
    yes_or_no,
)
from decbayes.columns.column import Column, Having, too_few
from decbayes.errors import InvalidData, InvalidStructure

# A posterior describes every category, so names and customer numbers are no categories.
MOST_CATEGORIES = 1000
# Categories to list in a message.
FEW_CATEGORIES = 6


@dataclass(frozen=True)
class Categorical(Column):
    """One of several categories.

    `categories` are their names in order, or their number if they have no names. Regressions compare all others with
    the first.

    >>> db.columns.Categorical("low", "middle", "high").coded(np.array(["high", None, "low"]))
    array([ 2., nan,  0.])
    >>> db.columns.Categorical(3).categories
    ('0', '1', '2')
    """

    categories: tuple[str, ...]

    kind: ClassVar[str] = "categorical"
    factor: ClassVar[Any] = "categorical"
    shown_as_share: ClassVar[bool] = True
    flag: ClassVar[bool] = True

    def __init__(self, *categories: Any) -> None:
        names: Iterable[Any] = categories
        if len(categories) == 1 and not isinstance(categories[0], str):
            names = range(categories[0]) if is_number(categories[0]) else categories[0]
        object.__setattr__(self, "categories", tuple(map(text_of, names_of(categories=names))))
        if not 1 <= len(self.categories) <= MOST_CATEGORIES or len(set(self.categories)) < len(self.categories):
            raise InvalidStructure(
                f"{len(self.categories):,} categories, {len(set(self.categories)):,} of them different: a categorical "
                f"column has 1 to {MOST_CATEGORIES:,} different ones. A column of names or keys has no categories."
            )

    def coded(self, values: Raw) -> Array:
        """Categories that were not agreed on count as "other", if that is agreed."""
        numbers = {category: float(number) for number, category in enumerate(self.categories)}
        unknown = numbers.get(OTHER, -1.0)
        known = [np.nan if is_missing(value) else numbers.get(text_of(value), unknown) for value in values]
        coded = np.array(known, dtype=np.float64)
        listed = f" ({', '.join(self.categories)})" if len(self.categories) <= FEW_CATEGORIES else ""
        refuse(coded < 0, f"none of the {len(self.categories)} agreed categories{listed}; agree on all that sites have")
        return coded

    def unagreed(self, values: Raw) -> NDArray[np.bool_]:
        known = {*self.categories}
        if OTHER not in known:
            return super().unagreed(values)
        return np.array([not is_missing(value) and text_of(value) not in known for value in values], dtype=np.bool_)

    def decoded(self, numbers: Array) -> Raw:
        return named(numbers, self.categories)

    @classmethod
    def found_in(cls, values: Raw) -> "Categorical":
        return cls(*in_order({text_of(value): value for value in values if not is_missing(value)}))

    @classmethod
    def agreed(cls, columns: Sequence["Categorical"]) -> "Categorical":
        names = {name: name for column in columns for name in column.categories}
        pooled = [OTHER] if names.pop(OTHER, None) else []
        return cls(*in_order(names), *pooled)

    def pooled(
        self, numbers: Array, persons: Having, least: Array, *, agreed: bool, predictor: bool = False
    ) -> tuple[Column, Array, str]:
        """Rare categories become "other" or, if all of them together are rare, the most common category. Predictors
        that may have an "other" use it, but not for all rows of a site. One of two categories gets a share, as a rare
        answer does.
        """
        apart = predictor and (OTHER in self.categories or not agreed)
        rare = RareCategories.of(numbers, self.categories, persons, least, apart=apart)
        if rare is None:
            return self, numbers, ""
        if predictor and rare.all_hidden and (agreed or rare.by_outcome):
            raise InvalidData(
                f"{rare.why}; all rows would count as '{OTHER}', and this site's level as its effect. Leave "
                "the column out at all sites, or leave this site out"
            )
        if rare.target == OTHER and agreed and OTHER not in self.categories:
            raise InvalidData(
                f"{rare.why}, and the agreed categories lack '{OTHER}'. Join categories at all sites, or let all sites "
                f"agree on columns with '{OTHER}' (`decbayes columns`) and fit again"
            )
        column = self if agreed else type(self)(*rare.others, OTHER)
        places = {name: float(place) for place, name in enumerate(column.categories)}
        if rare.target != OTHER and len(places) == 2 and not predictor:
            known = ~np.isnan(numbers)
            shares = np.where(known, abs(places[rare.target] - assumed_share(persons(known)[0], least[0])), np.nan)
            return column, shares, f"fewer than {least[0]:g} persons have the rarer category; {assumed(least[0])}"
        moved = np.array([places[rare.counted_as(place)] for place in range(len(self.categories))])
        return column, np.where(np.isnan(numbers), np.nan, moved[np.nan_to_num(numbers).astype(np.intp)]), str(rare)

    def doubts(self, values: Raw, *, piled: bool = False) -> str:
        """Names that differ in spelling; or numbers but for a few slips, which make categories of all values."""
        if len({" ".join(name.split()).casefold() for name in self.categories}) < len(self.categories):
            return "has categories that differ only in capital letters or spaces. Write those alike that are the same."
        names = [number for name in self.categories if not np.isnan(number := number_of(name))]
        if 0 < len(names) < len(self.categories) and all(map(is_code, names)):
            return f"has numbers such as 9 or -1 among words. Are they codes for missing values? {EMPTY}"
        numbers = np.array([number_of(value) for value in values if not is_missing(value)])
        known = numbers[~np.isnan(numbers)]
        if len(known) == len(numbers) or 2 * len(known) < len(numbers) or len(np.unique(known)) <= FEW_VALUES:
            return ""
        share = f"{len(known):,} of {len(numbers):,} rows"
        return f"has numbers in {share}. Are the others codes for missing values? {EMPTY}"

    def made_up(self, size: int, rng: np.random.Generator) -> Array:
        return rng.integers(len(self.categories), size=size).astype(np.float64)

    def details(self) -> list[Any]:
        return list(self.categories)

    def text(self) -> str:
        return ", ".join(self.categories)

    @property
    def entries(self) -> tuple[str, ...]:
        return self.categories

    def contrasts(self, numbers: Array) -> Array:
        return np.asarray(numbers[:, None] == np.arange(1, len(self.categories)), dtype=np.float64)

    def contrast_labels(self, name: str) -> list[str]:
        return [f"{name}={category}" for category in self.categories[1:]]


@dataclass(frozen=True)
class YesNo(Column):
    """True or false, 1 or 0, yes or no; or categories, the first of which counts as yes and all others as no.

    >>> db.columns.YesNo().coded(np.array(["yes", "no", None]))
    array([ 1.,  0., nan])
    >>> db.columns.YesNo("relapse", "alive", "died").coded(np.array(["died", "relapse", None]))
    array([ 0.,  1., nan])
    """

    categories: tuple[str, ...]

    kind: ClassVar[str] = "yes/no"
    factor: ClassVar[Any] = "yes_no"
    shown_as_share: ClassVar[bool] = True
    flag: ClassVar[bool] = True

    def __init__(self, *categories: Any) -> None:
        object.__setattr__(self, "categories", Categorical(*categories).categories if categories else ())

    @property
    def yes(self) -> str:
        """What counts as yes, in the column's own words."""
        return self.categories[0] if self.categories else "yes"

    @property
    def answers(self) -> tuple[str, str]:
        """What does not count as yes, and what does."""
        return " or ".join(self.categories[1:]) or (f"not {self.yes}" if self.categories else "no"), self.yes

    def coded(self, values: Raw) -> Array:
        if self.categories:
            codes = Categorical(*self.categories).coded(values)
            return np.where(np.isnan(codes), np.nan, (codes == 0).astype(np.float64))
        if values.dtype.kind in "buif":
            coded = values.astype(np.float64)
        else:
            coded = np.array([yes_or_no(value) for value in values], dtype=np.float64)
        refuse(~np.isnan(coded) & (coded != 0) & (coded != 1), "neither yes nor no (yes, no, true, false, 1, 0)")
        return coded

    def unagreed(self, values: Raw) -> NDArray[np.bool_]:
        return Categorical(*self.categories).unagreed(values) if self.categories else super().unagreed(values)

    def decoded(self, numbers: Array) -> Raw:
        return named(numbers, self.answers if len(self.categories) > 1 else (False, True))

    def details(self) -> list[Any]:
        return list(self.categories)

    def text(self) -> str:
        return f"{self.yes} is yes" if self.categories else ""

    @classmethod
    def found_in(cls, values: Raw) -> "YesNo":
        return cls()

    @classmethod
    def agreed(cls, columns: Sequence["YesNo"]) -> "YesNo":
        if len({column.yes for column in columns}) > 1:
            counted = some(list(dict.fromkeys(column.yes for column in columns)))
            raise InvalidStructure(f"sites count different answers as yes: {counted}. Write them alike, or set --yes.")
        return cls(*dict.fromkeys(category for column in columns for category in column.categories))

    def pooled(
        self, numbers: Array, persons: Having, least: Array, *, agreed: bool, predictor: bool = False
    ) -> tuple[Column, Array, str]:
        """If too few persons gave an answer, all rows get the same share of it: half of the `least` persons, spread
        over all. Their number is then wrong by less than that, and who they are does not matter.

        In a `predictor` they count as the more common answer, since rows with shares would bias its coefficient. Rare
        are also answers of too few persons with one outcome.
        """
        having = np.array([persons(numbers == answer) for answer in (0.0, 1.0)])
        if not too_few(having, least).any():
            return self, numbers, ""
        common = float(having[1, 0] > having[0, 0])
        rare, other = self.answers if common else self.answers[::-1]
        change = f"too few persons are '{rare}', and count as '{other}'"
        share = 0.0
        if not predictor:
            change = f"fewer than {least[0]:g} persons are '{rare}'; {assumed(least[0])}"
            share = assumed_share(having[:, 0].sum(), least[0])
        return self, np.where(np.isnan(numbers), np.nan, abs(common - share)), change

    def made_up(self, size: int, rng: np.random.Generator) -> Array:
        return rng.integers(2, size=size).astype(np.float64)


def named(numbers: Array, names: Sequence[Any]) -> Raw:
    """The name of each number; None if missing."""
    names_and_none = np.array([*names, None], dtype=object)
    return np.asarray(names_and_none[np.where(np.isnan(numbers), -1, numbers).astype(np.intp)])


def assumed_share(persons: float, least: float) -> float:
    """The share of persons with a rare value: half of the `least` that may be shown, and at most half of all."""
    return min(least / 2.0 / persons, 0.5)


def assumed(least: float) -> str:
    return f"{least / 2.0:g} are assumed, spread over all rows"
