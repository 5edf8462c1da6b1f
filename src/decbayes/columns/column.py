"""The protocol of a kind of column: all that the rest of the package needs to know. Defaults suit numbers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import is_number
from decbayes.columns.cells import Array, Raw
from decbayes.errors import InvalidStructure

# N, Σx and Σx² determine the counts of up to three values, but not of more.
SOLVABLE = 3

Having = Callable[[NDArray[np.bool_]], Array]
"""The number of persons behind some rows, and of those with each outcome."""


@dataclass(frozen=True)
class Column(ABC):
    """One column: `coded` turns its values into numbers, NaN if missing; `decoded` is the inverse.

    A subclass needs a `kind`, `coded`, `found_in`, `agreed` and `made_up`; its fields are what sites must agree on.
    Everything else has a default that suits numbers. `factor` is the distribution of values within a component:

    | factor          | distribution              | what it reads from the column     |
    |-----------------|---------------------------|-----------------------------------|
    | `"real"`        | Gaussian                  | `centre`, `scale`, `resolution`   |
    | `"counts"`      | Poisson                   | `mean`                            |
    | `"yes_no"`      | Bernoulli                 |                                   |
    | `"categorical"` | one of several categories | `entries`                         |

    or it is a `decbayes.models.tables.factors.ColumnFactor` with its own likelihood.

    >>> db.columns.Gaussian(centre=50, scale=20).coded(np.array(["71", None, "33.5"]))
    array([71. ,  nan, 33.5])
    """

    kind: ClassVar[str]
    """What people call it, in files and on the command line."""

    factor: ClassVar[Any] = "real"

    shown_as_share: ClassVar[bool] = False
    """Whether components differ in probabilities, of yes or of each category, instead of means."""

    flag: ClassVar[bool] = False
    """Whether its numbers in a regression are 0 or 1."""

    as_predictor: ClassVar[str] = ""
    """The kind that it is read as by default if it predicts another column."""

    @abstractmethod
    def coded(self, values: Raw) -> Array:
        """The values as numbers; InvalidData says what is wrong with them, without quoting any."""

    def decoded(self, numbers: Array) -> Raw:
        """Values as a frame would hold them."""
        return numbers

    @classmethod
    @abstractmethod
    def found_in(cls, values: Raw) -> "Column":
        """The column that has these values."""

    @classmethod
    @abstractmethod
    def agreed(cls, columns: Sequence[Any]) -> "Column":
        """The common column of several sites, from what each has found in its own data."""

    @abstractmethod
    def made_up(self, size: int, rng: np.random.Generator) -> Array:
        """Plausible coded values, for simulations."""

    def details(self) -> list[Any]:
        """What sites must agree on besides the kind, as plain values."""
        return list(astuple(self))

    def text(self) -> str:
        """The details, for people."""
        return ", ".join(f"{field.name} {getattr(self, field.name):g}" for field in fields(self))

    def doubts(self, values: Raw, *, piled: bool = False) -> str:
        """Why these values may be of another kind, as a question; or what else is doubtful, and what to do.

        In `piled` columns, such as times at the end of follow-up, one value in many rows is no reason for doubt.
        """
        return ""

    def pooled(
        self, numbers: Array, persons: Having, least: Array, *, agreed: bool, predictor: bool = False
    ) -> tuple["Column", Array, str]:
        """The column, its coded values without those of fewer than the `least` persons, and what was changed.

        The kind and the categories of an `agreed` column stay. A `predictor` explains an outcome: its rare values
        should not be taken for common ones if that can be avoided. InvalidData says why rare values cannot be hidden.
        """
        values, times = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
        if not len(values):
            return self, numbers, ""
        common = values[times.argmax()]
        differs = (numbers != common) & ~np.isnan(numbers)
        rare = rare_values(numbers, values, persons, least)
        if too_few(persons(differs)[None, :1], least[:1])[0]:
            change = f"fewer than {least[0]:g} persons differ from the most common value, and count as that"
            changed = np.where(differs, common, numbers)
        elif rare.any():
            change = "rare values count as the nearest other"
            kept = values[~rare] if not rare.all() else np.array([common])
            nearest = kept[np.abs(values[:, None] - kept).argmin(axis=1)]
            changed = np.where(
                np.isnan(numbers), np.nan, nearest[np.searchsorted(values, np.nan_to_num(numbers, nan=common))]
            )
        else:
            return self, numbers, ""
        return self if agreed else type(self).found_in(changed), changed, change

    def unagreed(self, values: Raw) -> NDArray[np.bool_]:
        """Which values are not agreed on and count as something else."""
        return np.zeros(len(values), dtype=np.bool_)

    @property
    def entries(self) -> tuple[str, ...]:
        """The categories that a profile has one row for; one without a name if there are none."""
        return ("",)

    def shown(self, numbers: Array) -> Array:
        """Means of coded values, and the ends of intervals, as a profile shows them."""
        return numbers

    def typical_deviation(self, mean: float) -> float:
        """The typical distance of coded values from their mean: the unit in which components stand out."""
        return float(np.sqrt(mean * (1 - mean))) or 1.0 if self.shown_as_share else self.zero_and_unit[1]

    @property
    def zero_and_unit(self) -> tuple[float, float]:
        """A regression uses (coded value − zero) / unit."""
        return 0.0, 1.0

    def contrasts(self, numbers: Array) -> Array:
        """(N, labels): coded values as a regression multiplies them by its coefficients."""
        zero, unit = self.zero_and_unit
        return np.asarray((numbers[:, None] - zero) / unit)

    def contrast_labels(self, name: str) -> list[str]:
        """The labels of the coefficients, given the column's name."""
        return [name]

    def largest_contrast(self, value: float) -> float:
        """The largest number in a regression, if coded values are within ±`value`."""
        zero, unit = self.zero_and_unit
        return 1.0 if self.flag else (value + abs(zero)) / unit


def too_few(having: Array, least: Array) -> NDArray[np.bool_]:
    """Which groups of persons are too small to show; an empty group is not."""
    return np.asarray(((having > 0) & (having < least)).any(axis=1))


def rare_values(numbers: Array, values: Array, persons: Having, least: Array) -> NDArray[np.bool_]:
    """Which values of a numeric column too few persons have, if sums over rows would reveal how many."""
    if len(values) > SOLVABLE:
        return np.zeros(len(values), dtype=np.bool_)
    return too_few(np.array([persons(numbers == value)[:1] for value in values]), least[:1])


def check_numbers(column: Column, positive: Sequence[str]) -> None:
    for name in (field.name for field in fields(column)):
        value = getattr(column, name)
        if not is_number(value) or not np.isfinite(value) or (name in positive and not value > 0):
            raise InvalidStructure(
                f"{name} must be a {'positive' if name in positive else 'finite'} number: {value!r}."
            )
        object.__setattr__(column, name, float(value))
