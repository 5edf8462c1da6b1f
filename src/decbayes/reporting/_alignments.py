"""Which component of which site went where: a matrix of sites × components, and the tree of all components."""

from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.merging import Alignment, Tree, reading, tree
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.reading import DISAGREES
from decbayes.reporting.drawing import COLOURS, DIGIT, Scale, svg
from decbayes.reporting.markup import Markup, concat, coordinate, figure, image, left_out, note, table, tag
from decbayes.structure import CoupledSet
from decbayes.views import Findings
from decbayes.views.findings import branches
from decbayes.views.text_summary import cell_text
from decbayes.views.values import count_of, number, plural

MOST_ROWS, MOST_COLUMNS, MOST_CLOSE = 60, 40, 40
BLUE = (0x1B, 0x6C, 0xA8)
SHADES = 10
MOST_LEAVES = 600
LEFT, WIDTH, HEIGHT, FEET = 60.0, 900.0, 312.0, 46.0
SHADE = "Darker blue: a larger share of the site's own data."


def support(findings: Findings) -> Markup:
    """Sites × components, then the close calls."""
    return concat([[matrix(findings, coupled), close_calls(findings, coupled)] for coupled in findings.sets])


def matrix(findings: Findings, coupled: CoupledSet) -> Markup:
    """The site's component numbers in each slot, or a picture if there are too many."""
    sites, slots = findings.shared[coupled].evidence.shape
    if sites > MOST_ROWS or slots > MOST_COLUMNS:
        sizes = f"{sites:,} sites from top to bottom, by name, {findings.nouns(slots)} from left to right."
        return figure(picture(findings, coupled), f"{sizes} {SHADE}")
    compared = findings.influence.comparisons
    return figure(
        matrix_table(findings, coupled),
        f"Numbers are those of the site's own {plural(findings.view.noun, 2)} (1+3 if two of them are one here, 5× if "
        "five). ",
        SHADE,
        " ? marks a close call.",
        f" ≠ marks a {findings.view.noun} that the site disagrees about." if "log BF" in compared else "",
    )


def shades(evidence: Array) -> Array:
    """The share of each site's evidence in each slot, 0 to 1, scaled so that small shares are visible."""
    totals = evidence.sum(axis=1, keepdims=True)
    return np.asarray(np.sqrt(np.divide(evidence, totals, out=np.zeros_like(evidence), where=totals > 0)))


def matrix_table(findings: Findings, coupled: CoupledSet) -> Markup:
    fillings, shade = reading.fillings(findings.alignment, coupled), shades(findings.shared[coupled].evidence)
    # The site's version and all other versions together are more likely two things than one.
    against = findings.slots(findings.sets.index(coupled))[1] < DISAGREES
    slots = findings.filled_slots(coupled)
    labels = findings.labels(coupled)
    across = [tag("th", tag("span", labels[slot]), scope="col", title=slot) for slot in slots]
    head = tag("tr", tag("th", "site", scope="col"), across)
    rows = [
        tag(
            "tr",
            tag("th", findings.names[site], scope="row"),
            [cell(findings, coupled, (site, slot), fillings[site][slot], shade, against) for slot in slots],
        )
        for site in findings.sites
    ]
    upright = any(isinstance(name, str) for name in labels)
    return tag("table", tag("thead", head), tag("tbody", rows), class_="matrix named" if upright else "matrix")


def cell(
    findings: Findings,
    coupled: CoupledSet,
    place: tuple[int, int],
    components: tuple[int, ...],
    shade: Array,
    against: NDArray[np.bool_],
) -> Markup:
    if not components:
        return tag("td")
    sureness = findings.sureness[coupled]
    marks = "?" * bool(sureness.close[place]) + "≠" * bool(against[place])
    amount, value = findings.shared[coupled].evidence[place], sureness.text(*place)
    counts = f"{number(round(amount))} {findings.view.counted}s"
    return tag(
        "td",
        cell_text(components),
        tag("sup", marks) if marks else None,
        class_=f"s{min(int(SHADES * shade[place]), SHADES - 1)}",
        title=f"{findings.names[place[0]]}, component {place[1]}: {counts}, {sureness.name} {value}",
    )


def picture(findings: Findings, coupled: CoupledSet) -> Markup:
    """One pixel per site and component, with sites as rows, sorted by name."""
    shade = shades(findings.shared[coupled].evidence)
    pixels = np.empty((*shade.shape, 4), dtype=np.uint8)
    pixels[..., :3] = BLUE
    pixels[..., 3] = np.round(255 * shade)
    sites, slots = shade.shape
    return tag("img", src=image(pixels), alt=f"{sites} sites × {slots} components", class_="pixels overview")


def close_calls(findings: Findings, coupled: CoupledSet) -> Markup | None:
    """The least certain matches, the least certain first."""
    sure, slots = findings.sureness[coupled], findings.alignment.slots(coupled)
    places = [(site, int(k)) for site in findings.sites for k in np.flatnonzero(sure.components[site] < sure.bound)]
    if not places:
        return None
    evidence, titles = reading.observations(findings.alignment, coupled), findings.titles(coupled)
    rows = [
        (
            *(findings.names[site], k, titles[slots[site][k]]),
            *(sure.worded(sure.components[site][k]), number(round(evidence[site][k]))),
        )
        for site, k in sorted(places, key=lambda place: sure.components[place[0]][place[1]])[:MOST_CLOSE]
    ]
    shown = table(
        ("site", f"its {findings.view.noun}", "went into", sure.name, f"{findings.view.counted}s"), rows, right=(3, 4)
    )
    more = left_out(len(places) - len(rows), "close call")
    return concat([tag("h3", f"Close calls ({sure.limit})"), shown, more])


def dendrogram(findings: Findings) -> Markup | None:
    """The tree of all components, if the model allows any number of them and the tree is readable."""
    if not findings.alignment.structure.resizable or len(findings.sites) < 2:
        return None
    (coupled,) = findings.sets
    leaves = sum(len(assignment[coupled]) for assignment in findings.alignment.assignments)
    if leaves > MOST_LEAVES:
        return note(
            f"A tree of {leaves:,} components is too large to read here. Draw it with decbayes merge … --tree tree.svg"
        )
    return tag("div", draw_tree(findings, tree(findings.alignment.posteriors)), class_="tree")


def draw_tree(findings: Findings, components_tree: Tree) -> Markup:
    layout = branches(components_tree)
    across = Scale(0.0, 10.0 * len(layout.leaves), LEFT, WIDTH - 10.0)
    up = Scale(0.0, layout.height, HEIGHT - FEET, 10.0)
    paths: dict[str, str] = {}
    for line, site in zip(layout.lines, layout.owners, strict=True):
        (x, y), (right, top) = ((coordinate(across(point[0])), coordinate(up(point[1]))) for point in line)
        paths[look(findings, site)] = paths.get(look(findings, site), "") + f"M{x} {y}L{right} {top}"
    marks = [tag("path", d=path, class_=f"branch {name}") for name, path in sorted(paths.items())]
    for nats in layout.ticks():
        marks.append(tag("text", f"{nats:,}", class_="label", x=LEFT - 8.0, y=up(float(np.log1p(nats))) + 4.0))
    middle = f"translate(12 {(HEIGHT - FEET) / 2:.0f}) rotate(-90)"
    marks.append(tag("text", "nats lost by joining", class_="tick name", transform=middle))
    marks += slot_marks(slots_of(findings.alignment), layout.leaves, across)
    title = f"Tree of {count_of(len(layout.leaves), 'component')} of {count_of(len(findings.sites), 'site')}"
    caption = "Heights are on a scale of log(1 + nats). Below: the merged component that each went into. "
    return figure(svg(marks, WIDTH, HEIGHT, title), caption, legend(findings))


def look(findings: Findings, site: int) -> str:
    """A colour per site, or one colour where several sites meet or there are too many."""
    coloured = site >= 0 and len(findings.sites) <= COLOURS
    return f"c{site}" if coloured else "several"


def legend(findings: Findings) -> Markup:
    if len(findings.sites) > COLOURS:
        return tag("span", "Too many sites for colours.")
    keys = [tag("span", tag("i", class_=f"key b{site}"), findings.names[site]) for site in findings.sites]
    return tag("span", keys, tag("span", tag("i", class_="key several"), "several sites"), class_="legend")


def slots_of(alignment: Alignment) -> Array:
    """The slot of each leaf; leaves are in canonical order."""
    (coupled,) = alignment.structure.symmetry
    order, readings = canonical_order(alignment.posteriors)
    return np.concatenate([alignment.assignments[site][coupled][readings[site].components[coupled]] for site in order])


def slot_marks(slots: Array, leaves: list[int], across: Scale) -> list[Markup]:
    """A line below each run of leaves that share a slot, with the slot's number."""
    marks, start, y, text_end = [], 0, HEIGHT - FEET + 10.0, 0.0
    for slot, run in groupby(slots[leaves].tolist()):
        end = start + len(list(run))
        left, right = across(10.0 * start + 1.5), across(10.0 * end - 1.5)
        marks.append(tag("line", class_="run", x1=left, x2=right, y1=y, y2=y))
        middle, half = (left + right) / 2, DIGIT * (len(str(slot)) + 1) / 2
        lower = middle - half < text_end  # it would cover the number before
        marks.append(tag("text", slot, class_="tick", x=middle, y=y + (27.0 if lower else 15.0)))
        start, text_end = end, text_end if lower else middle + half
    return marks
