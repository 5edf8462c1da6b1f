"""Sites × components as a table with shades, or as a picture where there are too many of either."""

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.merging import reading
from decbayes.merging.reading import DISAGREES
from decbayes.reporting.findings import Findings
from decbayes.reporting.markup import Markup, image, number, tag
from decbayes.reporting.mixtures import figure
from decbayes.symmetry import CoupledSet

MOST_ROWS, MOST_COLUMNS = 60, 40
BLUE = (0x1B, 0x6C, 0xA8)
SHADES = 10


def matrix(found: Findings, coupled: CoupledSet) -> Markup:
    """Who has what: the site's own numbers of components in each slot, shaded by its evidence."""
    sites, slots = found.shared[coupled].evidence.shape
    drawn = table(found, coupled) if sites <= MOST_ROWS and slots <= MOST_COLUMNS else picture(found, coupled)
    return figure(drawn, *caption(found, coupled, sites <= MOST_ROWS and slots <= MOST_COLUMNS))


def caption(found: Findings, coupled: CoupledSet, written: bool) -> list[str]:
    shade = "The stronger the blue, the larger the share of the site's own evidence."
    if not written:
        sites, slots = found.shared[coupled].evidence.shape
        return [f"{sites:,} sites from top to bottom, by name, {slots} components from left to right. {shade}"]
    return [
        "Numbers are the site's own labels (1+3 where two share a slot). ",
        shade,
        f" ? marks a close call ({found.sureness[coupled].words}). ",
        "≠ marks where a site disagrees with all others together.",
    ]


def shades(evidence: Array) -> Array:
    """The share of each site's own evidence in each slot, 0 to 1, such that small shares can be seen."""
    own = evidence.sum(axis=1, keepdims=True)
    return np.asarray(np.sqrt(np.divide(evidence, own, out=np.zeros_like(evidence), where=own > 0)))


def table(found: Findings, coupled: CoupledSet) -> Markup:
    fillings, shade = reading.fillings(found.alignment, coupled), shades(found.shared[coupled].evidence)
    against = disagreements(found, coupled)
    slots = range(shade.shape[1])
    head = tag("tr", tag("th", "site", scope="col"), [tag("th", slot, scope="col") for slot in slots])
    rows = [
        tag(
            "tr",
            tag("th", found.names[site], scope="row"),
            [cell(found, coupled, (site, slot), fillings[site][slot], shade, against) for slot in slots],
        )
        for site in found.sites
    ]
    return tag("table", tag("thead", head), tag("tbody", rows), class_="matrix")


def disagreements(found: Findings, coupled: CoupledSet) -> NDArray[np.bool_]:
    """Sites × slots: where a site's version and everybody else's are more likely two things than one."""
    return np.asarray(found.slots(found.sets.index(coupled))[1] < DISAGREES)


def cell(
    found: Findings,
    coupled: CoupledSet,
    place: tuple[int, int],
    components: tuple[int, ...],
    shade: Array,
    against: NDArray[np.bool_],
) -> Markup:
    if not components:
        return tag("td")
    sure = found.sureness[coupled]
    marks = "?" * bool(sure.close[place]) + "≠" * bool(against[place])
    observations, value = number(found.shared[coupled].evidence[place]), number(sure.values[place])
    return tag(
        "td",
        "+".join(map(str, components)),
        tag("sup", marks) if marks else None,
        class_=f"s{min(int(SHADES * shade[place]), SHADES - 1)}",
        title=f"{found.names[place[0]]}, component {place[1]}: {observations} {found.unit}, {sure.name} {value}",
    )


def picture(found: Findings, coupled: CoupledSet) -> Markup:
    """One pixel per site and component: sites as rows, in the order of their names."""
    shade = shades(found.shared[coupled].evidence)
    pixels = np.empty((*shade.shape, 4), dtype=np.uint8)
    pixels[..., :3] = BLUE
    pixels[..., 3] = np.round(255 * shade)
    sites, slots = shade.shape
    return tag("img", src=image(pixels), alt=f"{sites} sites × {slots} components", class_="pixels overview")
