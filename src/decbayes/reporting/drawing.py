"""Small SVG drawings: intervals, ellipses, curves. Classes of the page's style give the colours."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np

from decbayes.families import Array
from decbayes.reporting.markup import Markup, coordinate, tag
from decbayes.views.values import Interval, number, range_text

COLOURS = 8  # classes c0 to c7 of the page's style
ROW, AXIS = 18.0, 22.0  # heights in pixels


@dataclass(frozen=True)
class Scale:
    """Maps numbers from `low` to `high` to places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a number; numbers beyond an end are at that end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 4) -> list[float]:
        """A few round numbers within."""
        rough = (self.high - self.low) / most
        power = 10.0 ** floor(log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
        first = ceil(self.low / step - 1e-9)
        return [place * step for place in range(first, floor(self.high / step + 1e-9) + 1)]


def spanning(values: Array, start: float, end: float, *, room: float = 0.04) -> Scale:
    """A scale that covers all finite numbers, with some room at both ends."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    spread = high - low or max(abs(high), 1.0)
    return Scale(low - room * spread, high + room * spread, start, end)


@dataclass(frozen=True)
class Line:
    """One line of a drawing of intervals; `look` is a class of the page's style."""

    label: str
    value: Interval
    look: str = ""

    @property
    def text(self) -> str:
        return f"{self.label}: {number(self.value.mean)} ({range_text(self.value)})"


def intervals(
    rows: Sequence[Line], *, name: str, width: float = 250.0, gutter: float = 34.0, null: float | None = None
) -> Markup:
    """A dot for each mean and a line for its interval, one below the other, over a scale with a few round numbers.

    `null` is a number to compare with, drawn as a line.
    """
    ends = [[row.value.mean, row.value.low, row.value.high] for row in rows]
    values = np.array(ends + [[null] * 3] * (null is not None), dtype=float)
    scale, bottom = spanning(values, gutter, width - 8.0), ROW * len(rows)
    drawn = [tag("line", class_="grid", x1=scale(tick), x2=scale(tick), y1=0, y2=bottom) for tick in scale.ticks()]
    if null is not None:
        drawn.append(tag("line", class_="zero", x1=scale(null), x2=scale(null), y1=0, y2=bottom))
    for place, row in enumerate(rows):
        drawn.append(interval(row, scale, ROW * (place + 0.5), gutter))
    drawn += [tag("text", number(tick), class_="tick", x=scale(tick), y=bottom + 14.0) for tick in scale.ticks()]
    return svg(drawn, width, bottom + AXIS, name)


def interval(row: Line, scale: Scale, y: float, gutter: float) -> Markup:
    return tag(
        "g",
        tag("title", row.text),
        tag("text", row.label, class_="label", x=gutter - 8.0, y=y + 4.0),
        tag("line", class_="range", x1=scale(row.value.low), x2=scale(row.value.high), y1=y, y2=y),
        tag("circle", class_="dot", cx=scale(row.value.mean), cy=y, r=3.5),
        class_=row.look or None,
    )


def svg(children: Sequence[Markup], width: float, height: float, name: str) -> Markup:
    """A drawing with a title for screen readers; it shrinks with the page and never grows."""
    return tag(
        "svg",
        tag("title", name),
        children,
        viewBox=f"0 0 {coordinate(width)} {coordinate(height)}",
        role="img",
        style=f"max-width:{coordinate(width)}px",
    )


def polyline(points: Array, **attributes: str) -> Markup:
    """A line through points, relative steps in tenths of a pixel: half the bytes of absolute places."""
    tenths = np.round(10 * points).astype(int)
    steps = np.diff(tenths, axis=0)
    path = f"M{shorten(tenths[0])}l{' '.join(map(shorten, steps))}" if len(points) > 1 else ""
    return tag("path", d=path, **attributes)


def shorten(tenths: Array) -> str:
    return ",".join(coordinate(value / 10) for value in tenths)
