"""The tree of all sites' components as a drawing: which join first, and which slot each went into."""

from itertools import groupby

import numpy as np

from decbayes.families import Array
from decbayes.merging import Alignment, Tree, tree
from decbayes.merging.base.canonical import canonical_order
from decbayes.plot._tree import branches, legs_and_bars
from decbayes.reporting.drawing import COLOURS, Scale, svg
from decbayes.reporting.findings import Findings
from decbayes.reporting.markup import Markup, coordinate, counted, tag
from decbayes.reporting.mixtures import figure

MOST_LEAVES = 600
LEFT, WIDTH, HEIGHT, FEET = 60.0, 900.0, 300.0, 34.0
CAPTION = (
    "Heights are the nats that a join loses, on a scale of log(1 + nats). "
    "Below: the number of the merged component that each went into."
)


def dendrogram(found: Findings) -> Markup | None:
    """The tree, or what to do where it would have too many leaves; nothing where there can be none."""
    if not found.alignment.structure.resizable or len(found.sites) < 2:
        return None
    (coupled,) = found.sets
    leaves = sum(map(len, (own[coupled] for own in found.alignment.assignments)))
    if leaves > MOST_LEAVES:
        text = f"A tree of {leaves:,} components cannot be read here. Draw it alone: decbayes merge … --tree tree.svg"
        return tag("p", text, class_="note")
    return drawn(found, tree(found.alignment.posteriors))


def drawn(found: Findings, grown: Tree) -> Markup:
    laid, sites = branches(grown), grown.sites()
    feet, owned = 5.0 + 10.0 * np.arange(len(sites)), sites[laid["leaves"]]
    lines, owner = legs_and_bars(laid, dict(zip(feet.tolist(), owned.tolist(), strict=True)))
    across = Scale(0.0, 10.0 * len(sites), LEFT, WIDTH - 10.0)
    up = Scale(0.0, float(np.max(laid["dcoord"], initial=1.0)), HEIGHT - FEET, 10.0)
    paths: dict[str, str] = {}
    for line, site in zip(lines, owner, strict=True):
        (x, y), (right, top) = ((coordinate(across(point[0])), coordinate(up(point[1]))) for point in line)
        paths[look(found, site)] = paths.get(look(found, site), "") + f"M{x} {y}L{right} {top}"
    marks = [tag("path", d=path, class_=f"branch {name}") for name, path in sorted(paths.items())]
    marks += heights(up) + slot_marks(slots_of(found.alignment), laid["leaves"], across)
    title = f"Tree of {counted(len(sites), 'component')} of {counted(len(found.sites), 'site')}"
    return figure(svg(marks, WIDTH, HEIGHT, title), f"{CAPTION} ", legend(found))


def look(found: Findings, site: int) -> str:
    """A colour per site where there are few, one ink where several meet or sites are too many for colours."""
    coloured = site >= 0 and len(found.sites) <= COLOURS
    return f"c{site}" if coloured else "several"


def legend(found: Findings) -> Markup:
    if len(found.sites) > COLOURS:
        return tag("span", "Sites are too many for colours.")
    keys = [tag("span", tag("i", class_=f"key b{place}"), found.names[site]) for place, site in enumerate(found.sites)]
    return tag("span", keys, tag("span", tag("i", class_="key several"), "several sites"), class_="legend")


def heights(up: Scale) -> list[Markup]:
    nats = [0, *(10**power for power in range(int(np.log10(max(np.expm1(up.high), 1.0))) + 1))]
    places = [up(float(np.log1p(value))) + 4.0 for value in nats]
    return [tag("text", f"{each:,}", class_="label", x=LEFT - 8.0, y=y) for each, y in zip(nats, places, strict=True)]


def slots_of(alignment: Alignment) -> Array:
    """The slot of each leaf: leaves are in canonical order."""
    (coupled,) = alignment.structure.symmetry
    order, readings = canonical_order(alignment.posteriors)
    return np.concatenate([alignment.assignments[site][coupled][readings[site].components[coupled]] for site in order])


def slot_marks(slots: Array, leaves: list[int], across: Scale) -> list[Markup]:
    """A line below each run of leaves that share a slot, and the slot's number."""
    marks, start, y = [], 0, HEIGHT - FEET + 10.0
    for slot, run in groupby(slots[leaves].tolist()):
        end = start + len(list(run))
        left, right = across(10.0 * start + 1.5), across(10.0 * end - 1.5)
        marks.append(tag("line", class_="run", x1=left, x2=right, y1=y, y2=y))
        marks.append(tag("text", slot, class_="tick", x=(left + right) / 2, y=y + 15.0))
        start = end
    return marks
