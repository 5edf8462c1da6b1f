"""How figures look: column width, small type, direct labels, one colour a method throughout."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN, FULL = 3.4, 7.0  # widths in inches of one and of both columns of a paper

INK, GREY = "#222222", "#8a8a8a"
AMPS, BATCH, NAIVE, AGENTS = "#1b6ca8", "#444444", "#c8553d", "#b08900"

SETTINGS = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "lines.linewidth": 1.2,
    "svg.hashsalt": "decbayes",  # the same table gives the same bytes
    "svg.fonttype": "path",
}


@contextmanager
def styled() -> Iterator[None]:
    from matplotlib import rc_context

    with rc_context(SETTINGS):
        yield


def canvas(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", folder: Path, name: str) -> tuple[Path, Path]:
    """NAME.png for pages and NAME.svg for papers."""
    picture, drawing = folder / f"{name}.png", folder / f"{name}.svg"
    figure.savefig(picture, dpi=200)
    figure.savefig(drawing, metadata={"Date": None})
    return picture, drawing
