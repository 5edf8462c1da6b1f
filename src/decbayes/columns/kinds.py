"""What a column of a table holds, as all sites have agreed: how its values become numbers, and back."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, ClassVar

import numpy as np

from decbayes.arguments import is_number
from decbayes.columns.values import (
    Array,
    Raw,
    as_numbers,
    decimal_unit,
    in_order,
    is_missing,
    refuse,
    rounded,
    rounded_to,
    seen,
    text_of,
    yes_or_no,
)
from decbayes.errors import InvalidStructure

# A posterior says something about every category; names and numbers of customers are none.
MOST_CATEGORIES = 1000


@dataclass(frozen=True)
class Column(ABC):
    """One column: `coded` makes numbers of its values, NaN where one is missing; `decoded` is the way back."""

    kind: ClassVar[str]

    @abstractmethod
    def coded(self, values: Raw) -> Array:
        """The values as numbers; InvalidData says what is wrong with them, without quoting any."""

    def decoded(self, numbers: Array) -> Raw:
        """Values as a frame would hold them."""
        return numbers

    @classmethod
    @abstractmethod
    def found_in(cls, values: Raw) -> "Column":
        """The column whose values these are."""

    @classmethod
    @abstractmethod
    def agreed(cls, columns: Sequence[Any]) -> "Column":
        """The column that several sites have, from what each has found in its own data."""

    def details(self) -> list[Any]:
        """What sites must agree on beside the kind, as plain values."""
        return list(astuple(self))


@dataclass(frozen=True)
class Categorical(Column):
    """One of several categories: their names in order, or their number where they have no names."""

    categories: tuple[str, ...]

    kind: ClassVar[str] = "categorical"

    def __init__(self, *categories: Any) -> None:
        names: Iterable[Any] = categories
        if len(categories) == 1 and not isinstance(categories[0], str):
            names = range(categories[0]) if is_number(categories[0]) else categories[0]
        object.__setattr__(self, "categories", tuple(map(text_of, names)))
        if not 1 <= len(self.categories) <= MOST_CATEGORIES or len(set(self.categories)) < len(self.categories):
            raise InvalidStructure(
                f"{len(self.categories):,} categories, {len(set(self.categories)):,} of them different: a categorical "
                f"column has 1 to {MOST_CATEGORIES:,} different ones. A column of names or keys has no categories."
            )

    def coded(self, values: Raw) -> Array:
        numbers = {category: float(number) for number, category in enumerate(self.categories)}
        found = [np.nan if is_missing(value) else numbers.get(text_of(value), -1.0) for value in values]
        coded = np.array(found, dtype=np.float64)
        refuse(coded < 0, f"none of the {len(self.categories)} agreed categories; agree on all that sites have")
        return coded

    def decoded(self, numbers: Array) -> Raw:
        named = np.array([*self.categories, None], dtype=object)
        return np.asarray(named[np.where(np.isnan(numbers), -1, numbers).astype(np.intp)])

    @classmethod
    def found_in(cls, values: Raw) -> "Categorical":
        found = {text_of(value): value for value in values if not is_missing(value)}
        return cls(*in_order(found))

    @classmethod
    def agreed(cls, columns: Sequence["Categorical"]) -> "Categorical":
        return cls(*in_order({name: name for column in columns for name in column.categories}))

    def details(self) -> list[Any]:
        return list(self.categories)


@dataclass(frozen=True)
class YesNo(Column):
    """True or false, 1 or 0, yes or no."""

    kind: ClassVar[str] = "yes/no"

    def coded(self, values: Raw) -> Array:
        if values.dtype.kind in "buif":
            coded = values.astype(np.float64)
        else:
            coded = np.array([yes_or_no(value) for value in values], dtype=np.float64)
        refuse(~np.isnan(coded) & (coded != 0) & (coded != 1), "neither yes nor no (true, false, 1, 0)")
        return coded

    def decoded(self, numbers: Array) -> Raw:
        named = np.array([False, True, None], dtype=object)
        return np.asarray(named[np.where(np.isnan(numbers), -1, numbers).astype(np.intp)])

    @classmethod
    def found_in(cls, values: Raw) -> "YesNo":
        return cls()

    @classmethod
    def agreed(cls, columns: Sequence["YesNo"]) -> "YesNo":
        return cls()


@dataclass(frozen=True)
class Poisson(Column):
    """How often something happened: 0, 1, 2, … `mean` is how often the prior expects it."""

    mean: float = 1.0

    kind: ClassVar[str] = "count"

    def __post_init__(self) -> None:
        check_numbers(self, positive=("mean",))

    def coded(self, values: Raw) -> Array:
        coded = as_numbers(values)
        with np.errstate(invalid="ignore"):
            refuse((coded < 0) | (coded != np.rint(coded)) & ~np.isnan(coded), "no counts: whole numbers from 0 on")
        return coded

    @classmethod
    def found_in(cls, values: Raw) -> "Poisson":
        mean = float(np.mean(seen(values)))
        return cls(rounded(mean) if mean > 0 else 1.0)

    @classmethod
    def agreed(cls, columns: Sequence["Poisson"]) -> "Poisson":
        return cls(rounded(float(np.mean([column.mean for column in columns]))))


@dataclass(frozen=True)
class Gaussian(Column):
    """A real number. `centre` and `scale` are one agreed zero and one agreed unit for all sites.

    `resolution` is how finely it was written down (1 where it was rounded to whole numbers). No class is then taken to
    be narrower than that, however many equal values it has.
    """

    centre: float = 0.0
    scale: float = 1.0
    resolution: float = 0.0

    kind: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        check_numbers(self, positive=("scale",))
        if self.resolution < 0:
            raise InvalidStructure(f"resolution must not be negative, as {self.resolution!r} is.")

    def coded(self, values: Raw) -> Array:
        coded = as_numbers(values)
        refuse(np.isinf(coded), "infinite")
        return coded

    @classmethod
    def found_in(cls, values: Raw) -> "Gaussian":
        numbers = seen(values)
        scale = rounded(float(np.std(numbers))) or 1.0
        return cls(rounded_to(scale, float(np.mean(numbers))), scale, decimal_unit(numbers))

    @classmethod
    def agreed(cls, columns: Sequence["Gaussian"]) -> "Gaussian":
        centres, scales = ([getattr(column, name) for column in columns] for name in ("centre", "scale"))
        scale = rounded(float(np.sqrt(np.mean(np.square(scales)) + np.var(centres))))
        resolution = min(column.resolution for column in columns)
        return cls(rounded_to(scale, float(np.mean(centres))), scale, resolution)


@dataclass(frozen=True)
class Missing(Column):
    """A column of which a site has no value: the other sites say what it holds."""

    kind: ClassVar[str] = "missing"

    def coded(self, values: Raw) -> Array:
        refuse(np.array([not is_missing(value) for value in values], dtype=np.bool_), "not missing")
        return np.full(len(values), np.nan)

    @classmethod
    def found_in(cls, values: Raw) -> "Missing":
        cls().coded(values)
        return cls()

    @classmethod
    def agreed(cls, columns: Sequence["Missing"]) -> "Missing":
        return cls()


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Categorical, YesNo, Poisson, Gaussian, Missing)}
"""The kinds of columns by the names that people write."""


def kind_named(name: str) -> type[Column]:
    if name not in KINDS:
        raise InvalidStructure(f"There is no kind of column {name!r}; there are {', '.join(KINDS)}.")
    return KINDS[name]


def check_numbers(column: Column, positive: Sequence[str]) -> None:
    for name in (field.name for field in fields(column)):
        value = getattr(column, name)
        if not is_number(value) or not np.isfinite(value) or (name in positive and not value > 0):
            raise InvalidStructure(
                f"{name} must be a {'positive' if name in positive else 'finite'} number: {value!r}."
            )
        object.__setattr__(column, name, float(value))
