"""Small SVG drawings: intervals, ellipses, curves. The page's style classes set the colours."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, floor, log, log10

import numpy as np

from decbayes.families import Array
from decbayes.reporting.markup import Markup, coordinate, tag
from decbayes.views.values import Interval, number, range_text

COLOURS = 8  # classes c0 to c7 of the page's style
ROW, AXIS = 18.0, 22.0  # heights in pixels
DIGIT = 7.0  # its width
FEWEST_TICKS, MOST_FACTORS = 3, 6
LARGEST_LOG = 300.0


@dataclass(frozen=True)
class Scale:
    """Maps numbers from `low` to `high` to positions from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The position of a number; numbers beyond an end are at that end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 4) -> list[float]:
        """At least three round numbers within the range."""
        marks = [place * self.step(most) for place in self.places(most)]
        return marks if len(marks) >= FEWEST_TICKS else self.ticks(most + 1)

    def step(self, most: int) -> float:
        rough = (self.high - self.low) / most
        power = 10.0 ** floor(log10(rough))
        return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)

    def places(self, most: int) -> range:
        step = self.step(most)
        return range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)

    def factors(self) -> list[float]:
        """The logarithms of at least three round factors within the range."""
        low, high = exp(max(self.low, -LARGEST_LOG)), exp(min(self.high, LARGEST_LOG))
        base = next((base for base in (2.0, 10.0, 100.0, 1e4) if log(high / low, base) < MOST_FACTORS), 1e16)
        powers = range(ceil(log(low, base) - 1e-9), floor(log(high, base) + 1e-9) + 1)
        if len(powers) >= FEWEST_TICKS:
            return [power * log(base) for power in powers]
        return [log(tick) for tick in Scale(low, high, 0.0, 1.0).ticks() if tick > 0.0]


def spanning(values: Array, start: float, end: float, *, room: float = 0.04) -> Scale:
    """A scale that covers all finite numbers, with some room at both ends."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    spread = high - low or max(abs(high), 1.0)
    return Scale(low - room * spread, high + room * spread, start, end)


@dataclass(frozen=True)
class Line:
    """One line of a drawing of intervals; `look` is a style class, `size` the radius of the dot."""

    label: str
    value: Interval
    look: str = ""
    size: float = 3.5

    def text(self, write: Callable[[float], str]) -> str:
        return f"{self.label}: {write(self.value.mean)} ({range_text(self.value, write)})"


def readable(ticks: Sequence[float], scale: Scale, write: Callable[[float], str]) -> Sequence[float]:
    """Every tick, every second one and so on, so that their texts have room beside each other."""
    room = min((scale(right) - scale(left) for left, right in pairwise(ticks)), default=1.0)
    longest = DIGIT * (1 + max((len(write(tick)) for tick in ticks), default=0))
    return ticks[:: max(1, ceil(longest / room))]


def as_factor(value: float) -> str:
    return number(exp(min(value, LARGEST_LOG)))


def intervals(
    rows: Sequence[Line],
    *,
    name: str,
    width: float = 250.0,
    gutter: float = 34.0,
    null: float | None = None,
    factors: bool = False,
    axis: str = "",
) -> Markup:
    """A dot for each mean and a line for its interval, below each other, over a scale with a few round numbers.

    `null` is a number to compare with, drawn as a line. With `factors`, values are logarithms and labelled as factors;
    `axis` names the numbers.
    """
    ends = [[row.value.mean, row.value.low, row.value.high] for row in rows]
    values = np.array(ends + [[null] * 3] * (null is not None), dtype=float)
    scale, bottom = spanning(values, gutter, width - 8.0), ROW * len(rows)
    ticks, write = (scale.factors(), as_factor) if factors else (scale.ticks(), number)
    drawn = [tag("line", class_="grid", x1=scale(tick), x2=scale(tick), y1=0, y2=bottom) for tick in ticks]
    if null is not None:
        drawn.append(tag("line", class_="zero", x1=scale(null), x2=scale(null), y1=0, y2=bottom))
    for place, row in enumerate(rows):
        drawn.append(interval(row, scale, ROW * (place + 0.5), gutter, write))
    drawn += [
        tag("text", write(tick), class_="tick", x=scale(tick), y=bottom + 14.0)
        for tick in readable(ticks, scale, write)
    ]
    if axis:
        drawn.append(tag("text", axis, class_="tick name", x=(gutter + width) / 2, y=bottom + 30.0))
    return svg(drawn, width, bottom + AXIS + (16.0 if axis else 0.0), name)


def interval(row: Line, scale: Scale, y: float, gutter: float, write: Callable[[float], str]) -> Markup:
    return tag(
        "g",
        tag("title", row.text(write)),
        tag("text", row.label, class_="label", x=gutter - 8.0, y=y + 4.0),
        tag("line", class_="range", x1=scale(row.value.low), x2=scale(row.value.high), y1=y, y2=y),
        tag("circle", class_="dot", cx=scale(row.value.mean), cy=y, r=row.size),
        class_=row.look or None,
    )


def svg(children: Sequence[Markup], width: float, height: float, name: str, *, role: str = "img") -> Markup:
    """A drawing with a title for screen readers; it shrinks with the page and never grows.

    If it contains links, its role is "group", because an image has no content.
    """
    return tag(
        "svg",
        tag("title", name),
        children,
        viewBox=f"0 0 {coordinate(width)} {coordinate(height)}",
        role=role,
        style=f"max-width:{coordinate(width)}px",
    )


def polyline(points: Array, **attributes: str) -> Markup:
    """A line through points, as relative steps in tenths of a pixel: half the bytes of absolute positions."""
    tenths = np.round(10 * points).astype(int)
    steps = np.diff(tenths, axis=0)
    path = f"M{shorten(tenths[0])}l{' '.join(map(shorten, steps))}" if len(points) > 1 else ""
    return tag("path", d=path, **attributes)


def shorten(tenths: Array) -> str:
    return ",".join(coordinate(value / 10) for value in tenths)
