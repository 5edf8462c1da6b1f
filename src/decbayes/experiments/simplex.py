"""Samples on the simplex of three weights, coloured by the three means."""

from typing import TYPE_CHECKING

import numpy as np

from decbayes.experiments.mixture_example import Draws
from decbayes.experiments.style import GREY, INK, bare, canvas
from decbayes.families import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
DARKEST, BRIGHTEST = -1.8, 3.8  # means this far out are black and full in their colour channel


def simplex_grid(rows: list[list[tuple[str, Draws]]], *, width: float, corners: bool = True) -> "Figure":
    """One panel for each (title, draws); the colour key stands under the grid."""
    across = max(len(row) for row in rows)
    figure = canvas(width, len(rows) * (0.95 * width / across + 0.12) + 0.2)
    grid = figure.subplots(len(rows), across, squeeze=False)
    for row, line in zip(rows, grid, strict=True):
        for axes in line:
            bare(axes)
        for (title, draws), axes in zip(row, line, strict=False):
            draw_simplex(axes, draws, dot=2.2 if width / across > 1.6 else 0.8, corners=corners)
            axes.set_title(title, color=INK, pad=2)
    figure.supxlabel("position: weights π    colour: red μ₁, green μ₂, blue μ₃ (dark −1.8, bright 3.8)", fontsize=6.5)
    return figure


def draw_simplex(axes: "Axes", draws: Draws, *, dot: float, corners: bool) -> None:
    outline = np.vstack([CORNERS, CORNERS[:1]])
    axes.plot(*outline.T, color=GREY, linewidth=0.6, zorder=0)
    axes.scatter(*(draws.weights @ CORNERS).T, s=dot, c=colours(draws.means), linewidths=0, rasterized=True)
    if corners:
        for name, (x, y), side in zip(("π₁ = 1", "π₂ = 1", "π₃ = 1"), CORNERS, ("top", "top", "bottom"), strict=True):
            axes.text(x, y + (0.02 if side == "bottom" else -0.02), name, ha="center", va=side, fontsize=7, color=INK)
    axes.set_aspect("equal")
    axes.set_xlim(-0.1, 1.1)
    axes.set_ylim(-0.1, 0.97)


def colours(means: Array) -> Array:
    """(draws, 3): the three means as red, green and blue."""
    return np.clip((means - DARKEST) / (BRIGHTEST - DARKEST), 0.0, 1.0)
