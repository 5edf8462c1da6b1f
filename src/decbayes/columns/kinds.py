"""Columns of counts and real numbers, or without any value, and the registry of all kinds of columns.

Your own kind is one class and one line, and then works in tables, sequences, regressions, reports and on the command
line:

    @db.columns.register
    @dataclass(frozen=True)
    class Duration(db.columns.Gaussian): ...
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, ClassVar, TypeVar

import numpy as np

from decbayes.columns.categories import Categorical, YesNo
from decbayes.columns.cells import (
    FEW_VALUES,
    Array,
    Raw,
    as_numbers,
    code_doubts,
    decimal_unit,
    is_missing,
    refuse,
    rounded,
    rounded_to,
    seen,
)
from decbayes.columns.column import Column, check_numbers
from decbayes.columns.sums import Dispersion, Events
from decbayes.errors import InvalidStructure

# A real column with this share of one value is more likely counts or categories.
LARGE_SHARE = 0.25
# Counts without a zero are doubted if Poisson counts with their mean are so with a lower probability.
RARELY = 1e-3
GROUP = "decbayes.columns"
"""The entry-point group of kinds in installed packages, NAME = "module:Class"."""


@dataclass(frozen=True)
class Poisson(Column):
    """How often something happened: 0, 1, 2, …

    `mean` is the frequency that the prior expects.

    >>> db.columns.Poisson.found_in(np.array([0, 3, 1]))
    Poisson(mean=1.33)
    """

    mean: float = 1.0

    kind: ClassVar[str] = "count"
    factor: ClassVar[Any] = "counts"
    as_predictor: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        check_numbers(self, positive=("mean",))

    def coded(self, values: Raw) -> Array:
        coded = as_numbers(values)
        with np.errstate(invalid="ignore"):
            refuse((coded < 0) | (coded != np.rint(coded)) & ~np.isnan(coded), "not counts (0, 1, 2, …)")
        return coded

    @classmethod
    def found_in(cls, values: Raw) -> "Poisson":
        mean = float(np.mean(seen(values)))
        return cls(rounded(mean) if mean > 0 else 1.0)

    @classmethod
    def agreed(cls, columns: Sequence["Poisson"]) -> "Poisson":
        return cls(rounded(float(np.mean([column.mean for column in columns]))))

    def doubts(self, values: Raw, *, piled: bool = False) -> str:
        """Codes for missing values; or grades such as 1 to 4, since counts with so few values are often 0."""
        different, times = np.unique(numbers := seen(values), return_counts=True)
        if codes := code_doubts(different, times):
            return codes
        without_zeros = len(numbers) * np.log1p(-np.exp(-np.mean(numbers)))
        if different[0] == 0 or len(different) > FEW_VALUES or without_zeros > np.log(RARELY):
            return ""
        return f"has only {len(different)} different values, none of them 0. Should it be categorical?"

    def made_up(self, size: int, rng: np.random.Generator) -> Array:
        return rng.poisson(self.mean, size=size).astype(np.float64)

    def typical_deviation(self, mean: float) -> float:
        return float(np.sqrt(mean)) or 1.0

    @property
    def zero_and_unit(self) -> tuple[float, float]:
        return self.mean, float(np.sqrt(self.mean))


@dataclass(frozen=True)
class Gaussian(Column):
    """A real number.

    `centre` and `scale` are the agreed zero and unit of all sites. `resolution` is the precision of the values (1 if
    they were rounded to integers). No class is taken to be narrower, however many equal values it has.

    >>> db.columns.Gaussian.found_in(np.array([71.5, 20.0, 33.5]))
    Gaussian(centre=42.0, scale=21.8, resolution=0.1)
    """

    centre: float = 0.0
    scale: float = 1.0
    resolution: float = 0.0

    kind: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        check_numbers(self, positive=("scale",))
        if self.resolution < 0:
            raise InvalidStructure(f"resolution must not be negative; it is {self.resolution!r}.")

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

    def made_up(self, size: int, rng: np.random.Generator) -> Array:
        return rng.normal(self.centre, self.scale, size=size)

    def doubts(self, values: Raw, *, piled: bool = False) -> str:
        """A Gaussian class would shrink onto a value that occurs repeatedly."""
        numbers = seen(values)
        different, times = np.unique(numbers, return_counts=True)
        if codes := code_doubts(different, times):
            return codes
        varied = len(times) > FEW_VALUES and times.max() <= LARGE_SHARE * len(numbers)
        if varied or piled or len(numbers) == len(times):
            return ""
        if len(times) == 1:
            return "has the same value in all rows. Should it be a count or categorical?"
        return (
            f"has {len(times)} different values, one of them in {times.max() / len(numbers):.0%} of the rows. Should "
            "it be a count or categorical?"
        )

    @property
    def zero_and_unit(self) -> tuple[float, float]:
        return self.centre, self.scale


@dataclass(frozen=True)
class Missing(Column):
    """A column without any value at this site; other sites know what it holds.

    >>> db.columns.columns_of({"age": [71.5, 20.0, 33.5], "height": [None, None, None]})["height"]
    Missing()
    """

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

    def made_up(self, size: int, rng: np.random.Generator) -> Array:
        return np.full(size, np.nan)


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Categorical, YesNo, Poisson, Gaussian, Missing)}
"""The kinds of columns by name; those of other packages once they have been requested."""

SUMS: dict[str, type[Column]] = {kind.kind: kind for kind in (Events, Dispersion)}
SHIPPED = frozenset({*KINDS, *SUMS})
Kind = TypeVar("Kind", bound=type[Column])


def register(kind: Kind) -> Kind:
    """Register a kind of column by name, for tables, regressions, files and the command line.

    `kind` is a subclass of `Column`, or of an existing kind. `register` is also a class decorator. A package registers
    for all who install it by an entry point of the group "decbayes.columns", KIND = "module:Class".

    >>> @db.columns.register
    ... class Stars(db.columns.Categorical):
    ...     kind = "stars"
    >>> db.columns.declared([["rating", "stars", "1", "2", "3"]])
    {'rating': Stars(categories=('1', '2', '3'))}
    """
    if not isinstance(kind, type) or not issubclass(kind, Column):
        raise TypeError(f"register takes a class that is a decbayes.columns.Column, not {kind!r}.")
    if not isinstance(getattr(kind, "kind", None), str):
        raise TypeError(f'{kind.__name__} needs a name: kind = "…".')
    if kind.kind in SHIPPED:
        raise ValueError(f"decbayes ships a kind of column {kind.kind!r}; choose another name.")
    KINDS[kind.kind] = kind
    return kind


def kind_named(name: str) -> type[Column]:
    """The kind of this name, in the package or in an installed one."""
    if name in SUMS:
        return SUMS[name]
    if name not in KINDS:
        for offered in entry_points(group=GROUP, name=name):
            register(offered.load())
    if name not in KINDS:
        known = dict.fromkeys([*KINDS, *entry_points(group=GROUP).names])
        raise InvalidStructure(
            f"There is no kind of column {name!r}; there are {', '.join(known)}. Register your own with "
            "`decbayes.columns.register`."
        )
    return KINDS[name]
