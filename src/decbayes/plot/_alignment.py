"""An alignment as a matrix: sites × slots."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from decbayes.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.merging import Alignment, Confidence, reading
from decbayes.merging.reading import CLOSE, DOUBTFUL
from decbayes.plot.style import NAIVE, NOTHING, bare, matplotlib, new_axes, shades, styled
from decbayes.symmetry import CoupledSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_MARGIN = 0.1  # nats: below, a match is as good as a coin toss, and all such cells look alike


@styled()
def alignment(
    found: Alignment,
    *,
    names: Sequence[str] | None = None,
    confidence: Confidence | None = None,
    axes: "Axes | None" = None,
) -> "Axes":
    """Sites × slots: which components of each site went where, coloured by how sure that is.

    With `confidence` the colour is the probability that a component belongs there, else the margin: what the objective
    loses in the next best slot, in nats. Of several components in one cell the least counts. Framed cells are close
    calls; in grey ones a site has put nothing. Coupled sets stand side by side.
    """
    check_kind(Alignment, found=found)
    sets = found.posteriors[0].structure.symmetry
    if not sets:
        raise StructureMismatch("This structure has no coupled sets, so nothing was aligned.")
    labels = [cell_labels(found, coupled) for coupled in sets]
    filled = np.hstack(labels) != ""
    values = reading.margins(found) if confidence is None else confidence.probabilities
    sureness = np.hstack([least_sure(found, coupled, values) for coupled in sets])
    axes = (
        axes
        if axes is not None
        else new_axes(max(1.6 + 0.36 * sureness.shape[1], 3.0), max(0.7 + 0.26 * len(sureness), 1.8))
    )
    # A component that nobody else has is alone in its slot: nothing can be wrong with that match.
    sure = finite(sureness) if confidence is None else np.where(np.isnan(sureness), 1.0, sureness)
    shown = np.where(filled, sure, np.nan)
    scale = margin_scale(shown) if confidence is None else matplotlib("colors").Normalize(0.0, 1.0)
    image = axes.imshow(shown, norm=scale, cmap=shades(), aspect="auto")
    axes.set_facecolor(NOTHING)
    entries = np.hstack(labels)
    write_cells(axes, entries, light=np.asarray(scale(shown)) < 0.55)
    frame_cells(axes, shown < (CLOSE if confidence is None else DOUBTFUL))
    name_slots(axes, [each.shape[1] for each in labels])
    axes.set_yticks(range(len(shown)), names if names is not None else map(str, range(len(shown))))
    axes.set(xlabel="slot", ylabel="site")
    title = "margin (nats)" if confidence is None else "probability"
    bar = axes.figure.colorbar(image, ax=axes, label=title, format="{x:g}")
    bar.outline.set_visible(False)
    bar.ax.minorticks_off()
    return axes


def margin_scale(shown: Array) -> Any:
    return matplotlib("colors").LogNorm(LEAST_MARGIN, np.nanmax(shown, initial=2 * LEAST_MARGIN))


def cell_labels(found: Alignment, coupled: CoupledSet) -> NDArray[Any]:
    """Sites × slots: the components in each cell, "1+4" where there are two."""
    return np.array(
        [["+".join(map(str, cell)) for cell in row] for row in reading.fillings(found, coupled)], dtype=object
    )


def least_sure(found: Alignment, coupled: CoupledSet, values: Sequence[Mapping[CoupledSet, Array]]) -> Array:
    """Sites × slots: the smallest value of the components in each cell; NaN where there are none."""
    least = np.full((len(values), found.structure.components(coupled)), np.nan)
    for row, own, assignment, seen in zip(least, values, found.assignments, reading.seen(found, coupled), strict=True):
        np.fmin.at(row, assignment[coupled][seen], own[coupled][seen])
    return least


def write_cells(axes: "Axes", entries: NDArray[Any], *, light: NDArray[np.bool_]) -> None:
    """Each entry in its cell of a matrix drawn by imshow, in an ink that can be read there; the frame goes."""
    for (row, column), entry in np.ndenumerate(entries):
        ink = "black" if light[row, column] else "white"
        axes.text(column, row, str(entry), ha="center", va="center", color=ink)
    bare(axes)


def frame_cells(axes: "Axes", framed: NDArray[np.bool_]) -> None:
    """A frame just inside each of these cells, so that neighbours keep theirs."""
    rectangle = matplotlib("patches").Rectangle
    for row, column in np.argwhere(framed):
        corner = (column - 0.46, row - 0.44)
        axes.add_patch(rectangle(corner, 0.92, 0.88, fill=False, edgecolor=NAIVE, linewidth=1.4))


def name_slots(axes: "Axes", sizes: Sequence[int]) -> None:
    """Slots are counted anew in each coupled set; a white line parts the sets."""
    slots = [str(slot) for size in sizes for slot in range(size)]
    axes.set_xticks(range(len(slots)), slots)
    for edge in np.cumsum(sizes)[:-1]:
        axes.axvline(edge - 0.5, color="white", linewidth=3)


def finite(margins: Array) -> Array:
    """Margins that a logarithmic scale can show; a component without a rival has an infinite one."""
    largest = margins[np.isfinite(margins)].max(initial=1.0)
    return np.clip(margins, LEAST_MARGIN, max(largest, 2 * LEAST_MARGIN))
