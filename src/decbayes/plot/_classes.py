"""Classes of a table: one panel per column, one line per class."""

from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.arguments import check_kind
from decbayes.columns import Column
from decbayes.errors import StructureMismatch
from decbayes.plot.style import BLUE, GREY, colour, grid, styled
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 40


@styled()
def classes(posterior: Posterior, *, across: int = 4, level: float = 0.9) -> "Figure":
    """What each class is like: its mean in each column with an interval, or the shares of the categories.

    Classes are listed from the most frequent to the rarest. Of a table with more than forty columns those are drawn in
    which classes differ most.
    """
    from decbayes.models.core.registry import model_for
    from decbayes.models.tables.profiles import profile_rows
    from decbayes.models.tables.tabular import Tabular

    check_kind(Posterior, posterior=posterior)
    model = model_for(posterior.structure)
    if not isinstance(model, Tabular):
        raise StructureMismatch(f"This is a posterior of {type(model).__name__}, not of a table's columns.")
    rows = profile_rows(model.columns, model.emissions, posterior, level)
    by_column = {name: [row for row in rows if row["column"] == name] for name in model.columns}
    shown = sorted(by_column, key=lambda name: -difference(by_column[name]))[:MOST_PANELS]
    chosen = [name for name in by_column if name in set(shown)]
    order, labels = class_order(posterior)
    figure, panels = grid(len(chosen), across, width=1.9, height=0.6 + 0.22 * len(order))
    for number, (axes, name) in enumerate(zip(panels, chosen, strict=True)):
        draw_column(axes, by_column[name], model.columns[name], order)
        axes.set(title=name, ylim=(len(order) - 0.4, -0.6))
        axes.set_yticks(range(len(order)), labels if number % across == 0 else [""] * len(order))
        axes.tick_params(axis="y", length=0)
    return figure


def class_order(posterior: Posterior) -> tuple[list[int], list[str]]:
    """Components by weight, and a label for each: states of a sequence have no weights."""
    name = "weights" if "weights" in posterior.structure.families else "start"
    weights = posterior.mean(name)
    order = np.argsort(-weights, kind="stable").tolist() if name == "weights" else list(range(len(weights)))
    shares = [f", {weights[k]:.0%}" if name == "weights" else "" for k in order]
    return order, [f"{k}{share}" for k, share in zip(order, shares, strict=True)]


def difference(rows: list[dict[str, Any]]) -> float:
    """How far apart components are in a column, in widths of their intervals."""
    means, widths = ([row[key] for row in rows] for key in ("mean", "high"))
    width = np.mean(np.abs(np.subtract(widths, means)))
    return float(np.std(means) / max(width, 1e-12))


def draw_column(axes: "Axes", rows: list[dict[str, Any]], column: Column, order: list[int]) -> None:
    if any(column.entries):
        draw_shares(axes, rows, column, order)
        return
    for place, component in enumerate(order):
        (row,) = [row for row in rows if row["component"] == component]
        axes.plot([row["low"], row["high"]], [place, place], color=GREY, linewidth=2.5, solid_capstyle="butt")
        axes.plot(row["mean"], place, "o", color=BLUE, markersize=3.5)
    axes.locator_params(axis="x", nbins=4)
    if column.shares:
        axes.set_xlim(-0.02, 1.02)


def draw_shares(axes: "Axes", rows: list[dict[str, Any]], column: Column, order: list[int]) -> None:
    """One bar per class, divided among the categories."""
    for place, component in enumerate(order):
        left = 0.0
        for number, category in enumerate(column.entries):
            share = next(r["mean"] for r in rows if r["component"] == component and r["category"] == category)
            axes.barh(place, share, left=left, height=0.7, color=colour(number), label=category if not place else None)
            left += share
    axes.set(xlim=(0.0, 1.0), xticks=[])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, handlelength=0.8, columnspacing=0.8)
