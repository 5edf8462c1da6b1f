"""What came of a simulated plan: histograms of ranks, and how often matches were right."""

from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.plot.style import BLUE, GREY, INK, PALE, grid, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled()
def calibration(report: Any) -> "Figure":
    """Where the truth lay among draws of the posterior, one panel per quantity; then the reliability of matches.

    Bars are level, within the band, where the posterior can be believed. They are high at both ends where it is too
    narrow, and slope where it is off to one side. The band is twice the standard error over data sets, bar by bar.
    """
    pairs = report.reliability()
    figure, panels = grid(len(report.ranks) + bool(pairs), 4, width=2.1, height=1.7)
    for axes, (name, counts) in zip(panels, report.ranks.items(), strict=False):
        draw_ranks(
            axes, np.array([trial.ranks[name] for trial in report.trials if name in trial.ranks]), np.array(counts)
        )
        covered, error = report.coverage[name]
        axes.set_title(f"{name}\n{report.level:.0%} intervals: {covered:.0%} ± {error:.0%}", loc="left")
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
    axes.set(xlim=(0.0, 1.0), xticks=[0.0, 0.5, 1.0], yticks=[0, 1], xlabel="rank of the truth")


def draw_reliability(axes: "Axes", pairs: Any) -> None:
    said, true, _ = (np.array(column) for column in zip(*pairs, strict=True))
    axes.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linewidth=0.6)
    axes.plot(said, true, "o-", color=BLUE, markersize=3)
    axes.set(xlim=(0.0, 1.02), ylim=(0.0, 1.02), xticks=[0.0, 0.5, 1.0], yticks=[0.0, 0.5, 1.0])
    axes.set(xlabel="said", ylabel="right")
    axes.set_title("matches", loc="left")
