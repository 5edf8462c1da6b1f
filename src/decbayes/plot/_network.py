"""Who speaks with whom."""

import re
from collections.abc import Iterable, Mapping
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.plot.style import BLUE, GREY, INK, new_axes, shades, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection


@styled()
def network(
    links: Iterable[tuple[str, str]],
    *,
    values: Mapping[str, float] | None = None,
    label: str = "",
    limits: tuple[float, float] | None = None,
    scale: bool = True,
    axes: "Axes | None" = None,
) -> "Axes":
    """Agents on a circle and a line for each link.

    `values` (scores, say, or how much each has heard of) colours the agents, also those without links; agents
    without a value, or with NaN, are grey. The scale beside the network, unless `scale` is False, is named `label`;
    `limits` are the numbers at its two ends.
    """
    pairs = list(links)
    agents = sorted({agent for pair in pairs for agent in pair} | set(values or ()), key=by_number)
    place = {agent: circle(index, len(agents)) for index, agent in enumerate(agents)}
    axes = axes if axes is not None else new_axes(3.4 if values and scale else 2.8, 2.8)
    for pair in pairs:
        axes.plot(*np.array([place[agent] for agent in pair]).T, color=GREY, linewidth=0.6, zorder=1)
    for agent, (right, up) in place.items():
        side = "center" if abs(right) < 0.3 else "left" if right > 0 else "right"
        axes.annotate(agent, (right, up), (8 * right, 9 * up), textcoords="offset points", ha=side, va="center")
    dots = draw_agents(axes, place, values or {}, limits)
    if values and scale:
        axes.figure.colorbar(dots, ax=axes, label=label, shrink=0.7).outline.set_visible(False)
    axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15))
    axes.set_aspect("equal")
    axes.set_axis_off()
    return axes


def draw_agents(
    axes: "Axes",
    place: Mapping[str, tuple[float, float]],
    values: Mapping[str, float],
    limits: tuple[float, float] | None,
) -> "PathCollection":
    """A dot for each agent, coloured where there are values."""
    across, up = np.array(list(place.values())).reshape(-1, 2).T
    look: dict[str, Any] = {"s": 60, "zorder": 2, "edgecolors": INK, "linewidths": 0.6}
    if not values:
        return axes.scatter(across, up, color=BLUE, **look)
    shown = np.array([values.get(agent, np.nan) for agent in place])
    low, high = limits if limits is not None else (None, None)
    colours = shades()
    return axes.scatter(across, up, c=shown, cmap=colours, vmin=low, vmax=high, plotnonfinite=True, **look)


def by_number(name: str) -> list[str | int]:
    """Agents that are numbered stand in the order of their numbers: 2 before 10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def circle(index: int, size: int) -> tuple[float, float]:
    """The place of one of so many on the unit circle, clockwise from the top."""
    angle = pi / 2 - 2 * pi * index / max(size, 1)
    return cos(angle), sin(angle)
