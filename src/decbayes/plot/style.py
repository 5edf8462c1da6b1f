"""The style of pictures: small type, few lines, labels next to what they name."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, Any

from decbayes.base.arguments import check_whole
from decbayes.base.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GREY, PALE = "#222222", "#8a8a8a", "#d9d9d9"
BLUE = "#1b6ca8"

# Colours for categories, which eyes of every kind can distinguish: see tests/test_plot.py.
COLOURS = ("#1b6ca8", "#d9603b", "#12a57b", "#c79fbf", "#c79100", "#74bdea", "#45237d", "#6b1740")
# Colours for numbers: the larger, the darker.
SHADES = ("#e3eef7", "#a9cbe6", "#5f9fd0", "#1b6ca8", "#0b3c63")
NOTHING = "#d0d0d0"  # where there is no number

DPI = 200  # of pictures, by default

# One colour per method, wherever methods are compared.
AMPS, BATCH, NAIVE, SITES = BLUE, "#444444", "#c8553d", "#b08900"

SETTINGS = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.prop_cycle": f"cycler(color={list(COLOURS)!r})",
    "lines.linewidth": 1.2,
    "legend.fontsize": 7.5,
    "legend.title_fontsize": 7.5,
    "legend.frameon": False,
    "svg.hashsalt": "decbayes",  # the same numbers give the same bytes
    "svg.fonttype": "path",
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of decbayes; also a decorator, `@styled()`."""
    with matplotlib().rc_context(SETTINGS):
        yield


def canvas(width: float, height: float) -> "Figure":
    """A figure of this size in inches; does not touch pyplot's global state."""
    figure: Figure = matplotlib("figure").Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    return figure


def new_axes(width: float, height: float) -> "Axes":
    return canvas(width, height).add_subplot()


def grid(panels: int, across: int, *, width: float, height: float) -> "tuple[Figure, list[Axes]]":
    """A figure with panels in rows, each of this size."""
    check_whole(1, across=across)
    columns = min(across, panels)
    rows = ceil(panels / columns)
    figure = canvas(width * columns, height * rows)
    return figure, [figure.add_subplot(rows, columns, number + 1) for number in range(panels)]


def colour(number: int) -> str:
    """The colour of one of several things; repeats after eight."""
    return COLOURS[number % len(COLOURS)]


def shades() -> Any:
    """The colour map for numbers; missing ones are grey."""
    return matplotlib("colors").LinearSegmentedColormap.from_list("decbayes", SHADES).with_extremes(bad=NOTHING)


def bare(axes: "Axes") -> None:
    """Remove the frame and tick marks, because the drawing has its own edges. Tick labels stay."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def matplotlib(part: str = "") -> Any:
    return require(f"matplotlib.{part}" if part else "matplotlib", extra="plot", task="A picture")
