"""Probabilities: samples in a triangle, and whether the posteriors of a simulated plan are calibrated."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from decbayes.errors import InvalidData
from decbayes.models.core.points import as_numbers
from decbayes.plot.style import BLUE, GREY, INK, PALE, grid, new_axes, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


@styled()
def simplex(
    shares: ArrayLike,
    *,
    colours: Any = None,
    labels: Sequence[str] = ("1", "2", "3"),
    dot: float = 2.2,
    axes: "Axes | None" = None,
) -> "Axes":
    """Draw probability vectors of three entries as points of a triangle, such as samples of a mixture's weights.

    `shares` has one row per point. `labels` name the corners, each of which is certainty of its entry; an empty tuple
    leaves them out. `colours` are matplotlib's, one for all points or one each, and `dot` is the size of points. `axes`
    are the axes to draw on, if given.

    >>> axes = db.plot.simplex([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]], labels=("north", "south", "west"))
    >>> [text.get_text() for text in axes.texts]
    ['north', 'south', 'west']
    """
    points = as_numbers(shares)
    if points.ndim != 2 or points.shape[1] != 3:
        raise InvalidData(f"A triangle shows rows of three probabilities; the shape is {points.shape}.")
    axes = axes if axes is not None else new_axes(2.6, 2.4)
    axes.plot(*CORNERS[[0, 1, 2, 0]].T, color=GREY, linewidth=0.6, zorder=0)
    across, up = (points @ CORNERS).T
    axes.scatter(across, up, c=BLUE if colours is None else colours, s=dot, linewidths=0, rasterized=True)
    for label, corner, side in zip(labels, CORNERS, (-1, -1, 1), strict=bool(labels)):
        align = "bottom" if side > 0 else "top"
        axes.annotate(label, corner, (0, 3 * side), textcoords="offset points", ha="center", va=align)
    axes.set_aspect("equal")
    margin = 0.15 if labels else 0.02  # names of neighbouring triangles must not overlap
    axes.set(xlim=(-margin, 1 + margin), ylim=(-0.02, CORNERS[2, 1] + 0.02))
    axes.set_axis_off()
    return axes


@styled()
def calibration(report: Any) -> "Figure":
    """Draw the rank of the truth among posterior draws, one panel per quantity; then the reliability of matches.

    `report` is the result of `db.checking.try_plan`. If the posterior is calibrated, bars are level, within the band.
    They are high at both ends if it is too narrow, and slope if it is off to one side. The band is twice the standard
    error over data sets, bar by bar.

    >>> model = db.models.GaussianMean(dimension=1)
    >>> tried = db.checking.try_plan(db.checking.Plan(model, sites=2, observations=20), data_sets=3)
    >>> db.plot.calibration(tried).axes[0].get_xlabel()
    'rank of the truth'
    """
    pairs = report.reliability()
    figure, panels = grid(len(report.ranks) + bool(pairs), 4, width=2.1, height=1.7)
    for axes, (name, counts) in zip(panels, report.ranks.items(), strict=False):
        draw_ranks(
            axes, np.array([trial.ranks[name] for trial in report.trials if name in trial.ranks]), np.array(counts)
        )
        axes.set_title(f"{name}\n{report.level:.0%} intervals:\n{report.coverage[name]}", loc="left")
    if pairs:
        draw_reliability(panels[-1], pairs)
    return figure


def draw_ranks(axes: "Axes", by_trial: Any, counts: Any) -> None:
    total, bars = max(counts.sum(), 1), len(counts)
    heights = counts * bars / total
    shares = by_trial / np.maximum(by_trial.sum(axis=1, keepdims=True), 1) * bars
    error = shares.std(axis=0, ddof=1).mean() / np.sqrt(len(shares)) if len(shares) > 1 else 0.0
    axes.axhspan(1.0 - 2.0 * error, 1.0 + 2.0 * error, color=PALE, linewidth=0)
    axes.bar((np.arange(bars) + 0.5) / bars, heights, width=0.8 / bars, color=BLUE)
    axes.axhline(1.0, color=INK, linewidth=0.6)
    axes.set(xlim=(0.0, 1.0), xticks=[0.0, 0.5, 1.0], yticks=[0, 1], xlabel="rank of the truth", ylabel="density")


def draw_reliability(axes: "Axes", pairs: Any) -> None:
    stated, right, _ = (np.array(column) for column in zip(*pairs, strict=True))
    axes.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linewidth=0.6)
    axes.plot(stated, right, "o-", color=BLUE, markersize=3)
    axes.set(xlim=(0.0, 1.02), ylim=(0.0, 1.02), xticks=[0.0, 0.5, 1.0], yticks=[0.0, 0.5, 1.0])
    axes.set(xlabel="stated probability", ylabel="share right")
    axes.set_title("matches", loc="left")
