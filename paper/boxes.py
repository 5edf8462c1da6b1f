"""Box plots as in the paper: box from the 25th to the 75th percentile, median inside, whiskers to the extremes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.families import Array
from decbayes.plot.style import INK
from paper.claims import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Series:
    """One method's numbers over trials (and agents), and the time it took."""

    label: str
    values: Array
    seconds: Array
    colour: str


def draw_boxes(axes: "Axes", series: Sequence[Series], *, digits: int = 2) -> None:
    """One horizontal box a method, from top to bottom, its median written beside it."""
    places, shown = rows_with_values(series)
    boxes = axes.boxplot(
        [one.values for one in shown],
        positions=list(places),
        orientation="horizontal",
        widths=0.6,
        whis=(0, 100),
        showcaps=False,
        patch_artist=True,
        manage_ticks=False,
    )
    for index, one in enumerate(shown):
        paint(boxes, index, one.colour)
        axes.annotate(
            number(float(np.median(one.values)), digits),
            (float(np.max(one.values)), float(places[index])),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=6.5,
            color=one.colour,
        )
    name_rows(axes, series)
    axes.margins(x=0.15)


def draw_times(axes: "Axes", series: Sequence[Series]) -> None:
    """One dot a method at its median time, on a logarithmic axis, the seconds written beside it."""
    places, shown = rows_with_values(series)
    for one, place in zip(shown, places, strict=True):
        median = float(np.median(one.seconds))
        axes.plot(median, place, "o", markersize=4, color=one.colour)
        text = f"{median:.0f} s" if median >= 10 else f"{median:.1f} s"
        axes.annotate(
            text,
            (median, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=6.5,
            color=one.colour,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.margins(x=0.25)
    name_rows(axes, series)


def rows_with_values(series: Sequence[Series]) -> tuple[Array, list[Series]]:
    """What there is to draw, each in its own row from the top, whether or not those above it have values."""
    filled = [index for index, one in enumerate(series) if len(one.values)]
    return np.array([len(series) - 1.0 - index for index in filled]), [series[index] for index in filled]


def name_rows(axes: "Axes", series: Sequence[Series]) -> None:
    axes.set_yticks(range(len(series))[::-1], [one.label for one in series])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.6, len(series) - 0.4)


def paint(boxes: dict[str, Any], index: int, colour: str) -> None:
    """Box, whiskers and median of one series in its colour."""
    from matplotlib.artist import setp

    setp(boxes["boxes"][index], facecolor=colour, alpha=0.35, edgecolor=colour, linewidth=0.8)
    setp(boxes["whiskers"][2 * index : 2 * index + 2], color=colour, linewidth=0.8)
    setp(boxes["medians"][index], color=INK, linewidth=1.2)
