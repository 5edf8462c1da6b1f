"""The kinds of plain values that views consist of, and their texts.

Renderers know these, and nothing else about a model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Any, Self

import numpy as np

from decbayes.base.display import digits
from decbayes.families import Array

Row = Mapping[str, Any]
"""Plain values by name: integers, floats, strings, tuples of strings, vectors, shares by name."""

Shape = tuple[int, int]
"""Height and width in pixels."""

MOST_NUMBERS = 4

DIVIDED = "A site's topics count whole here. The merge divides mixed ones among its topics, so its own counts differ."
"""What to say where the counts of sites do not add up to those of the merge."""


def divided(merged: Array, sites: Array) -> bool:
    """Whether sites' counts differ from those of the merge by more than rounding: mixed components were divided."""
    return bool((np.abs(merged - sites) > 1.0).any())


@dataclass(frozen=True)
class Interval:
    """A number and its uncertainty."""

    mean: float
    low: float
    high: float
    unit: str = field(default="", kw_only=True)

    def times(self, factor: float) -> Self:
        """The same interval in another unit."""
        return replace(self, mean=self.mean * factor, low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True)
class Shares:
    """The probability of each category."""

    of: Mapping[str, Interval]


@dataclass(frozen=True, eq=False)
class Part:
    """One component. `facts` are values to write next to its drawing."""

    facts: Row = field(default_factory=dict, kw_only=True)


@dataclass(frozen=True, eq=False)
class Entries(Part):
    """A component that is best shown as its facts."""


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
    """A vector that is neither an image nor a point."""

    names: tuple[str, ...]
    mean: Array


@dataclass(frozen=True, eq=False)
class Point(Part):
    """A point in space: the mean and covariance of observations, and how frequent they are."""

    names: tuple[str, ...]
    mean: Array
    covariance: Array
    weight: float


@dataclass(frozen=True, eq=False)
class Profile(Part):
    """A component column by column. Without `weight`, components are not ordered by frequency."""

    columns: Mapping[str, Interval | Shares]
    weight: float | None = None


@dataclass(frozen=True)
class Estimate(Interval):
    """A parameter that belongs to no component, such as a coefficient.

    `null` is the value of no effect, if any; `per` is the difference in a column that its ratio is for.
    """

    name: str
    deviation: float
    null: float | None = None
    per: float = 1.0


@dataclass(frozen=True, eq=False)
class Curve:
    """A function of time with its uncertainty, such as the probability of no event yet."""

    name: str
    times: Array
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Matrix:
    """(components, components) probabilities, with a caption."""

    values: Array
    corner: str
    caption: str


@dataclass(frozen=True)
class Difference:
    """How much more sites differ in a parameter than by chance, and the standard deviation between sites."""

    name: str
    times: float
    between: float
    notable: bool


@dataclass(frozen=True, eq=False)
class Trace:
    """One sequence over time: (steps, columns) values, the most likely path of states, and their probabilities."""

    columns: tuple[str, ...]
    values: Array
    path: Array
    probability: Array


def number(value: float) -> str:
    """A number for people: few digits, thousands separators, a true minus sign."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else "no limit"
    return digits(value, 3).replace("-", "−")


def range_text(value: Interval, write: Callable[[float], str] = number) -> str:
    return f"{write(value.low)} to {write(value.high)}"


def interval_text(value: Interval, unit: str = "") -> str:
    """A number with unit and interval, rounded to the precision of the interval: 1.9 kg (1.3 to 2.7)."""
    width = abs(value.high - value.low)
    if not (np.isfinite(width) and width > 0.0 and abs(value.mean) < 1e6):
        return f"{number(value.mean)} {unit}".strip() + f" ({range_text(value)})"
    largest = max(abs(value.low), abs(value.high))
    decimals = min(1 - int(np.floor(np.log10(width))), 3 - int(np.floor(np.log10(largest))))
    decimals = min(max(decimals, 0), 6)

    def write(x: float) -> str:
        return f"{round(x, decimals) + 0.0:,.{decimals}f}".replace("-", "−")

    if 0.0 < value.low < 0.5 * 10.0**-decimals:  # a ratio or a rate, which must not be rounded to 0
        return f"{two_digits(value.mean)} {unit}".strip() + f" ({range_text(value, two_digits)})"
    return f"{write(value.mean)} {unit}".strip() + f" ({range_text(value, write)})"


def two_digits(value: float) -> str:
    return number(float(f"{value:.2g}"))


def column_value(value: Interval | Shares, unit: str = "") -> tuple[str, str]:
    """A column of a component: its most frequent category and its share; or no category and a mean."""
    if isinstance(value, Shares):
        category, share = max(value.of.items(), key=lambda pair: pair[1].mean)
        return category, f"{percent(share.mean)} ({range_text(share, percent)})"
    return "", interval_text(value, unit or value.unit)


def four_digits(value: float) -> str:
    return digits(value, 4)


def count_of(count: float, thing: str) -> str:
    """'1 site', '8 sites'."""
    return f"{number(round(count))} {thing if round(count) == 1 else f'{thing}s'}"


def plural(noun: str, count: float) -> str:
    """The noun for this count: 1 class, 3 classes."""
    return noun if count == 1 else f"{noun}{'es' if noun.endswith(('s', 'ch')) else 's'}"


def percent(share: float) -> str:
    """A share for people; small ones keep a digit."""
    return f"{share:.0%}" if share >= 0.01 or share == 0.0 else f"{share:.1%}"


def joined_words(texts: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def first_few(items: Sequence[Any], most: int = 8, *, separator: str = ", ") -> str:
    """The first few items, and how many more there are."""
    shown = separator.join(map(str, items[:most]))
    return f"{shown} and {len(items) - most:,} more" if len(items) > most else shown


def value_text(value: Any, write: Callable[[float], str] = number, most: int = MOST_NUMBERS) -> str:
    """One value as text; only the first few numbers of long vectors."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {write(share)}" for name, share in islice(value.items(), 2 * most))
    if isinstance(value, np.ndarray):
        numbers = np.ravel(value)
        return ", ".join(write(float(x)) for x in numbers[:most]) + (", …" if len(numbers) > most else "")
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "(empty)"
    return write(value) if isinstance(value, float) else str(value)


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip(' ,')}…"


def told_apart(names: Sequence[str], longest: int) -> dict[str, str]:
    """Names that fit beside a drawing. If some are too long, without the words that all begin with, since these tell
    no site from another.
    """
    long = len(names) > 1 and max(map(len, names)) > longest
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(min(names), max(names), strict=False)) if long else ()
    shared = "".join(first for first, _ in alike)
    begin = max(shared.rfind(mark) + 1 for mark in " -_./,")
    return {name: cut(f"…{name[begin:]}" if begin else name, longest) for name in names}
