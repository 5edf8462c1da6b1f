"""The kinds of plain values that views are made of, and how people read them.

Every renderer knows these, and nothing else about a model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self

import numpy as np

from decbayes.families import Array

Row = Mapping[str, Any]
"""Plain values by name: integers, floats, strings, tuples of strings, vectors, shares by name."""

Shape = tuple[int, int]
"""Height and width in pixels."""

MOST_NUMBERS = 4


@dataclass(frozen=True)
class Interval:
    """A number and its uncertainty."""

    mean: float
    low: float
    high: float
    unit: str = field(default="", kw_only=True)

    def times(self, factor: float) -> Self:
        """The same in another unit."""
        return replace(self, mean=self.mean * factor, low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True)
class Shares:
    """How probable each category is."""

    of: Mapping[str, Interval]


@dataclass(frozen=True, eq=False)
class Part:
    """One component. `facts` are values to be written next to its drawing."""

    facts: Row = field(default_factory=dict, kw_only=True)


@dataclass(frozen=True, eq=False)
class Entries(Part):
    """A component that is best read as its facts."""


@dataclass(frozen=True, eq=False)
class Words(Part):
    """The leading words of a topic with their probabilities."""

    words: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class Image(Part):
    """(height, width) numbers; `low` is black and `high` is white."""

    pixels: Array
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Numbers(Part):
    """A vector that is neither an image nor a place."""

    names: tuple[str, ...]
    mean: Array


@dataclass(frozen=True, eq=False)
class Point(Part):
    """A place in space: the mean and covariance of observations, and how frequent these are."""

    names: tuple[str, ...]
    mean: Array
    covariance: Array
    weight: float


@dataclass(frozen=True, eq=False)
class Profile(Part):
    """What a component is like in each column. Without a `weight` components are not ordered by frequency."""

    columns: Mapping[str, Interval | Shares]
    weight: float | None = None


@dataclass(frozen=True)
class Estimate(Interval):
    """A parameter that belongs to no component, such as a coefficient.

    `null` is the value of no effect, if any; `per` the difference in a column that its ratio is about.
    """

    name: str
    deviation: float
    null: float | None = None
    per: float = 1.0


@dataclass(frozen=True, eq=False)
class Curve:
    """How something changes over time, with its uncertainty: the probability of no event yet, say."""

    name: str
    times: Array
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Matrix:
    """(components, components) probabilities, and what they are."""

    values: Array
    corner: str
    caption: str


@dataclass(frozen=True)
class Difference:
    """How many times more sites differ in a parameter than by chance, and the standard deviation between sites."""

    name: str
    times: float
    between: float
    notable: bool


@dataclass(frozen=True, eq=False)
class Trace:
    """One sequence over time: (steps, columns) values, the most likely state and the probability of each state."""

    columns: tuple[str, ...]
    values: Array
    path: Array
    probability: Array


def number(value: float) -> str:
    """A number for people: few digits, thousands separated, a true minus."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else "no limit"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("-", "−")


def range_text(value: Interval, write: Callable[[float], str] = number) -> str:
    return f"{write(value.low)} to {write(value.high)}"


def interval_text(value: Interval, unit: str = "") -> str:
    """A number with its unit and interval, all to the digits that the interval leaves: 1.9 kg (1.3 to 2.7)."""
    width = abs(value.high - value.low)
    if not (np.isfinite(width) and width > 0.0 and abs(value.mean) < 1e6):
        return f"{number(value.mean)} {unit}".strip() + f" ({range_text(value)})"
    largest = max(abs(value.low), abs(value.high))
    decimals = min(1 - int(np.floor(np.log10(width))), 3 - int(np.floor(np.log10(largest))))
    decimals = min(max(decimals, 0), 6)

    def write(one: float) -> str:
        return f"{round(one, decimals) + 0.0:,.{decimals}f}".replace("-", "−")

    return f"{write(value.mean)} {unit}".strip() + f" ({range_text(value, write)})"


def column_value(value: Interval | Shares, unit: str = "") -> tuple[str, str]:
    """What a component is like in a column: its most frequent category, and how frequent; or no category and a mean."""
    if isinstance(value, Shares):
        category, share = max(value.of.items(), key=lambda pair: pair[1].mean)
        return category, f"{percent(share.mean)} ({range_text(share, percent)})"
    return "", interval_text(value, unit or value.unit)


def four_digits(value: float) -> str:
    return f"{value:.4g}"


def counted(count: float, thing: str) -> str:
    """'1 site', '8 sites'."""
    return f"{number(round(count))} {thing if round(count) == 1 else f'{thing}s'}"


def plural(noun: str, count: float) -> str:
    """The noun as that many are called: 1 class, 3 classes."""
    return noun if count == 1 else f"{noun}{'es' if noun.endswith('s') else 's'}"


def percent(share: float) -> str:
    """A share for people; rare things keep a digit."""
    return f"{share:.0%}" if share >= 0.01 or share == 0.0 else f"{share:.1%}"


def joined_words(texts: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def listed(items: Sequence[Any], most: int = 8, *, apart: str = ", ") -> str:
    """The first few items, and how many more there are."""
    shown = apart.join(map(str, items[:most]))
    return f"{shown} and {len(items) - most:,} more" if len(items) > most else shown


def value_text(value: Any, write: Callable[[float], str] = number, most: int = MOST_NUMBERS) -> str:
    """One value of a description; the first few numbers of long vectors."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {write(share)}" for name, share in islice(value.items(), 2 * most))
    if isinstance(value, np.ndarray):
        numbers = np.ravel(value)
        return ", ".join(write(float(each)) for each in numbers[:most]) + (", …" if len(numbers) > most else "")
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "(empty)"
    return write(value) if isinstance(value, float) else str(value)
