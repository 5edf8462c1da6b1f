"""Samples on the simplex of three weights, coloured by the three means."""

from typing import TYPE_CHECKING

import numpy as np

from decbayes.families import Array
from decbayes.plot import simplex
from decbayes.plot.style import canvas
from paper.mixture_example import Draws

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CORNERS = ("π₁ = 1", "π₂ = 1", "π₃ = 1")
DARKEST, BRIGHTEST = -1.8, 3.8  # means this far out are black and full in their colour channel


def simplex_grid(rows: list[list[tuple[str, Draws]]], *, width: float, corners: bool = True) -> "Figure":
    """One panel for each (title, draws), triangles alike; the colour key stands under the grid."""
    across = max(len(row) for row in rows)
    panel = width / across
    figure = canvas(width, len(rows) * (0.86 * panel + 0.2) + 0.2)
    grid = figure.subplots(len(rows), across, squeeze=False)
    for row, line in zip(rows, grid, strict=True):
        for (title, draws), axes in zip(row, line, strict=True):
            dot = 2.2 if panel > 1.6 else 0.8
            simplex(draws.weights, colours=colours(draws.means), labels=CORNERS if corners else (), dot=dot, axes=axes)
            axes.set_title(title, pad=12 if corners else 3)
    figure.supxlabel("position: π     colour: μ₁ red, μ₂ green, μ₃ blue, the larger the brighter", fontsize=6.5)
    return figure


def colours(means: Array) -> Array:
    """(draws, 3): the three means as red, green and blue."""
    return np.clip((means - DARKEST) / (BRIGHTEST - DARKEST), 0.0, 1.0)
