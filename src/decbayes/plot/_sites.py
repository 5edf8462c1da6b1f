"""How sites relate: where their components went, the tree of all components, and the links between agents."""

from collections.abc import Iterable, Mapping, Sequence
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.merging import Alignment, Confidence, Tree, reading
from decbayes.merging.reading import CLOSE, DOUBTFUL
from decbayes.plot.style import BLUE, COLOURS, GREY, INK, NAIVE, NOTHING, bare, matplotlib, new_axes, shades, styled
from decbayes.remarks import by_number
from decbayes.views.findings import branches, least_sure
from decbayes.views.text_summary import cell_text, slot_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

LEAST_MARGIN = 0.1  # nats; below it, a match is a coin toss, and all such cells look alike
MOST_NAMES = 12  # sites in a legend


@styled()
def alignment(
    alignment: Alignment,
    *,
    names: Sequence[str] | None = None,
    confidence: Confidence | None = None,
    axes: "Axes | None" = None,
) -> "Axes":
    """Draw sites × slots: which components of each site went where, coloured by how sure that is.

    `alignment` is the result of `db.align`, and `names` are those of its sites. With `confidence`
    (`db.merging.confidence`) the colour is the probability that a component belongs there, otherwise the margin: the
    objective's loss in the next best slot, in nats. If a cell has several components, the least sure one counts. Framed
    cells are close calls; grey ones are empty. Slots that no site has filled are left out, and topics have their
    names. Coupled sets are side by side. `axes` are the axes to draw on, if given.

    >>> model, rng = db.GaussianMixture(2, 1, variance=1.0), np.random.default_rng(0)
    >>> sites = [np.array([0.0, 0.1, 9.0, 9.2]), np.array([8.9, 9.1, -0.1, 0.2])]
    >>> posteriors = [model.fit(points[:, None], rng=rng).posterior for points in sites]
    >>> axes = db.plot.alignment(db.align(posteriors), names=["north", "south"])
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['north', 'south']
    """
    check_kind(Alignment, alignment=alignment)
    sets = alignment.posteriors[0].structure.symmetry
    if not sets:
        raise StructureMismatch("This structure has no coupled sets, so nothing was aligned.")
    merged = alignment.merged()
    slots = [slot_labels(merged, coupled) for coupled in sets]
    values = reading.margins(alignment) if confidence is None else confidence.probabilities
    entries, sureness = [], []
    for coupled, filled in zip(sets, slots, strict=True):
        texts = [[*map(cell_text, row)] for row in reading.fillings(alignment, coupled)]
        entries.append(np.array(texts, dtype=object)[:, [*filled]])
        sureness.append(least_sure(alignment, coupled, values)[:, [*filled]])
    longest, rows = max(len(name) for filled in slots for name in filled.values()), len(alignment.posteriors)
    size = max(1.6 + 0.36 * sum(map(len, slots)), 3.0), max(0.7 + 0.26 * rows, 1.8) + 0.06 * longest
    axes = axes if axes is not None else new_axes(*size)
    draw_cells(axes, np.hstack(entries), np.hstack(sureness), probable=confidence is not None)
    name_slots(axes, [[*filled.values()] for filled in slots], upright=longest > 3)
    axes.set_yticks(range(rows), names if names is not None else map(str, range(rows)))
    axes.set(xlabel="slot", ylabel="site")
    return axes


def draw_cells(axes: "Axes", entries: NDArray[Any], sureness: Array, *, probable: bool) -> None:
    """Draw the matrix with its colours, frames and scale; `sureness` is a probability or a margin."""
    # A component that no other site has is alone in its slot, so its match cannot be wrong.
    sure = np.where(np.isnan(sureness), 1.0, sureness) if probable else finite(sureness)
    shown = np.where(entries != "", sure, np.nan)
    colours, largest = matplotlib("colors"), np.nanmax(shown, initial=2 * LEAST_MARGIN)
    scale = colours.Normalize(0.0, 1.0) if probable else colours.LogNorm(LEAST_MARGIN, largest)
    image = axes.imshow(shown, norm=scale, cmap=shades(), aspect="auto")
    axes.set_facecolor(NOTHING)
    write_cells(axes, entries, light=np.asarray(scale(shown)) < 0.55)
    frame_cells(axes, shown < (DOUBTFUL if probable else CLOSE))
    title = "probability" if probable else "margin (nats)"
    bar = axes.figure.colorbar(image, ax=axes, label=title, format="{x:g}")
    bar.outline.set_visible(False)
    bar.ax.minorticks_off()


def write_cells(axes: "Axes", entries: NDArray[Any], *, light: NDArray[np.bool_]) -> None:
    """Write each entry into its cell of a matrix, in a readable colour; removes the frame."""
    for (row, column), entry in np.ndenumerate(entries):
        ink = "black" if light[row, column] else "white"
        axes.text(column, row, str(entry), ha="center", va="center", color=ink)
    bare(axes)


def frame_cells(axes: "Axes", framed: NDArray[np.bool_]) -> None:
    """Draw a frame just inside each of these cells, so that neighbours keep theirs."""
    rectangle = matplotlib("patches").Rectangle
    for row, column in np.argwhere(framed):
        corner = (column - 0.46, row - 0.44)
        axes.add_patch(rectangle(corner, 0.92, 0.88, fill=False, edgecolor=NAIVE, linewidth=1.4))


def name_slots(axes: "Axes", sets: Sequence[Sequence[str]], *, upright: bool) -> None:
    """Label slots by name, or counted from 0 in each coupled set; a white line separates the sets."""
    names = [name for labels in sets for name in labels]
    axes.set_xticks(range(len(names)), names, rotation=90 if upright else 0)
    for edge in np.cumsum([*map(len, sets)])[:-1]:
        axes.axvline(edge - 0.5, color="white", linewidth=3)


def finite(margins: Array) -> Array:
    """Margins for a logarithmic scale; a component without a rival has an infinite one."""
    largest = margins[np.isfinite(margins)].max(initial=1.0)
    return np.clip(margins, LEAST_MARGIN, max(largest, 2 * LEAST_MARGIN))


@styled()
def tree(tree: Tree, *, names: Sequence[str] | None = None, axes: "Axes | None" = None) -> "Axes":
    """Draw a dendrogram of all sites' components; branches have their site's colour until they meet another site's.

    `tree` is the result of `db.merging.tree`, and `names` are those of its sites. `axes` are the axes to draw on, if
    given. Heights are the nats lost by joining, on a scale of log(1 + nats): components on long branches differ.

    >>> model, rng = db.GaussianMixture(2, 1, variance=1.0), np.random.default_rng(0)
    >>> sites = [np.array([0.0, 0.1, 9.0, 9.2]), np.array([8.9, 9.1, -0.1, 0.2])]
    >>> posteriors = [model.fit(points[:, None], rng=rng).posterior for points in sites]
    >>> db.plot.tree(db.merging.tree(posteriors)).get_ylabel()
    'nats lost by joining'
    """
    check_kind(Tree, tree=tree)
    layout = branches(tree)
    axes = axes if axes is not None else new_axes(min(2.5 + 0.09 * len(layout.leaves), 9.0), 3.0)
    colours = [*site_colours(len(tree.posteriors)), GREY]
    lines = matplotlib("collections").LineCollection(layout.lines, colors=[colours[site] for site in layout.owners])
    axes.add_collection(lines)
    axes.scatter(layout.feet, np.zeros(len(layout.leaves)), s=6.0, c=[colours[site] for site in layout.sites], zorder=3)
    tall, nats = layout.height, layout.ticks()
    axes.set(xlim=(0.0, 10.0 * len(layout.leaves)), ylim=(-0.04 * tall, 1.02 * tall), ylabel="nats lost by joining")
    axes.set_xticks([])
    axes.set_yticks(np.log1p(nats), [f"{value:,}" for value in nats])
    bare(axes)
    name_sites(axes, colours, names)
    return axes


def site_colours(count: int) -> list[str]:
    """Distinguishable colours for a few sites; a gradient for more."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    colours = matplotlib().colormaps["cividis"]
    return [matplotlib("colors").to_hex(colours(place)) for place in np.linspace(0.0, 0.95, count)]


def name_sites(axes: "Axes", colours: Sequence[str], names: Sequence[str] | None) -> None:
    """Add a legend beside the tree, unless there are too many sites to distinguish by colour."""
    labels = [*(names if names is not None else map(str, range(len(colours) - 1))), "several"]
    if len(labels) > MOST_NAMES:
        return
    line = matplotlib("lines").Line2D
    handles = [line([], [], color=colour, label=label) for colour, label in zip(colours, labels, strict=True)]
    axes.legend(handles=handles, title="site", loc="upper left", bbox_to_anchor=(1.0, 1.0))


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
    """Draw agents on a circle, and a line for each link.

    `links` are pairs of names. `values` (scores, for example) colour the agents, also those without links; agents
    without a value, or with NaN, are grey. `label` names the scale beside the network, which `scale=False` leaves out;
    `limits` are the numbers at its ends. `axes` are the axes to draw on, if given.

    >>> axes = db.plot.network([("a", "b"), ("b", "c")], values={"a": 0.1, "b": 0.9}, label="score")
    >>> [text.get_text() for text in axes.texts]
    ['a', 'b', 'c']
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
    """Draw a dot for each agent, coloured if there are values."""
    across, up = np.array(list(place.values())).reshape(-1, 2).T
    look: dict[str, Any] = {"s": 60, "zorder": 2, "edgecolors": INK, "linewidths": 0.6}
    if not values:
        return axes.scatter(across, up, color=BLUE, **look)
    shown = np.array([values.get(agent, np.nan) for agent in place])
    low, high = limits if limits is not None else (None, None)
    colours = shades()
    return axes.scatter(across, up, c=shown, cmap=colours, vmin=low, vmax=high, plotnonfinite=True, **look)


def circle(index: int, size: int) -> tuple[float, float]:
    """The position of one of `size` points on the unit circle, clockwise from the top."""
    angle = pi / 2 - 2 * pi * index / max(size, 1)
    return cos(angle), sin(angle)
