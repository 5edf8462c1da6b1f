"""Three shares as a point in a triangle."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from decbayes.errors import InvalidData
from decbayes.models.core.points import as_numbers
from decbayes.plot.style import BLUE, GREY, new_axes, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    """Probability vectors of three entries as points of a triangle, such as samples of a mixture's weights.

    A corner is certainty of the entry it is labelled with; without `labels` corners have no names. `colours` are
    matplotlib's, one for all points or one each.
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
    margin = 0.15 if labels else 0.02  # names of neighbouring triangles must not meet
    axes.set(xlim=(-margin, 1 + margin), ylim=(-0.02, CORNERS[2, 1] + 0.02))
    axes.set_axis_off()
    return axes
