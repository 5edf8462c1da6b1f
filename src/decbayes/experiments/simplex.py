"""Samples on the simplex of three weights, coloured by the three means."""

from typing import TYPE_CHECKING

import numpy as np

from decbayes.experiments.mixture_example import Draws
from decbayes.experiments.style import GREY, INK, canvas
from decbayes.families import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
DARKEST, BRIGHTEST = -1.8, 3.8  # means this far out are black and full in their colour channel


def simplex_grid(rows: list[list[tuple[str, Draws]]], *, width: float, corners: bool = True) -> "Figure":
    """One panel for each (title, draws), triangles alike; the colour key stands under the grid."""
    across = max(len(row) for row in rows)
    panel = width / across
    figure = canvas(width, len(rows) * (0.86 * panel + 0.2) + 0.2)
    grid = figure.subplots(len(rows), across, squeeze=False)
    for row, line in zip(rows, grid, strict=True):
        for (title, draws), axes in zip(row, line, strict=True):
            draw_simplex(axes, draws, dot=2.2 if panel > 1.6 else 0.8, corners=corners)
            axes.set_title(title, color=INK, pad=10 if corners else 3)
    figure.supxlabel(
        "position: π     colour: μ₁ red, μ₂ green, μ₃ blue, the larger the brighter", fontsize=6.5, color=INK
    )
    return figure


def draw_simplex(axes: "Axes", draws: Draws, *, dot: float, corners: bool) -> None:
    outline = np.vstack([CORNERS, CORNERS[:1]])
    axes.plot(*outline.T, color=GREY, linewidth=0.6, zorder=0)
    across, up = (draws.weights @ CORNERS).T
    axes.scatter(across, up, s=dot, c=colours(draws.means), linewidths=0, rasterized=True)
    if corners:
        for name, (x, y), side in zip(("π₁ = 1", "π₂ = 1", "π₃ = 1"), CORNERS, ("top", "top", "bottom"), strict=True):
            axes.text(x, y + (0.02 if side == "bottom" else -0.02), name, ha="center", va=side, fontsize=7, color=INK)
    axes.set_aspect("equal")
    axes.set_xlim(-0.12, 1.12) if corners else axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.1 if corners else -0.02, 0.9)
    axes.set_axis_off()


def colours(means: Array) -> Array:
    """(draws, 3): the three means as red, green and blue."""
    return np.clip((means - DARKEST) / (BRIGHTEST - DARKEST), 0.0, 1.0)
