"""The tree of all sites' components, with sites as colours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.arguments import check_kind
from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging import Tree
from decbayes.plot.style import COLOURS, GREY, bare, matplotlib, new_axes, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMES = 12  # sites in the legend


@styled()
def tree(found: Tree, *, names: Sequence[str] | None = None, axes: "Axes | None" = None) -> "Axes":
    """A dendrogram: branches have their site's colour until they meet another site's.

    Heights are the nats that a join loses, on a scale of log(1 + nats): components on long branches differ.
    """
    check_kind(Tree, found=found)
    sites, drawn = found.sites(), branches(found)
    axes = axes if axes is not None else new_axes(min(2.5 + 0.09 * len(sites), 9.0), 3.0)
    colours = [*site_colours(len(found.posteriors)), GREY]
    feet, owned = 5.0 + 10.0 * np.arange(len(sites)), sites[drawn["leaves"]]
    lines, owner = legs_and_bars(drawn, dict(zip(feet.tolist(), owned.tolist(), strict=True)))
    axes.add_collection(matplotlib("collections").LineCollection(lines, colors=[colours[site] for site in owner]))
    axes.scatter(feet, np.zeros(len(sites)), s=6.0, c=[colours[site] for site in owned], zorder=3)
    tall = float(np.max(drawn["dcoord"], initial=1.0))
    nats = [0, *(10**power for power in range(int(np.log10(np.expm1(tall))) + 1))]
    axes.set(xlim=(0.0, 10.0 * len(sites)), ylim=(-0.04 * tall, 1.02 * tall), ylabel="nats lost by joining")
    axes.set_xticks([])
    axes.set_yticks(np.log1p(nats), [f"{value:,}" for value in nats])
    bare(axes)
    name_sites(axes, colours, names)
    return axes


def branches(found: Tree) -> dict[str, Any]:
    """SciPy's layout of the tree; a branch's colour is the number of the site that all below it belong to, or −1."""
    from scipy.cluster.hierarchy import dendrogram

    linkage = found.linkage()
    owner = owners(linkage, found.sites())
    linkage[:, 2] = np.log1p(np.maximum(linkage[:, 2], 0.0))
    laid: dict[str, Any] = dendrogram(linkage, no_plot=True, link_color_func=lambda node: str(owner[node]))
    return laid


def legs_and_bars(drawn: dict[str, Any], owned: dict[float, int]) -> tuple[list[Array], list[int]]:
    """Lines of all joins and who they belong to: a leg to what is below it. `owned` is the site at each foot."""
    lines, owner = [], []
    joins = zip(drawn["icoord"], drawn["dcoord"], map(int, drawn["color_list"]), strict=True)
    for across, up, whose in sorted(joins, key=lambda join: join[1][1]):
        corners = np.column_stack([across, up])
        lines += [corners[:2], corners[1:3], corners[2:]]
        owner += [owned[across[0]], whose, owned[across[3]]]
        owned[0.5 * (across[0] + across[3])] = whose
    return lines, owner


def owners(linkage: Array, sites: Indices) -> list[int]:
    """The one site that all leaves below a node belong to, −1 if there are several."""
    owner: list[int] = sites.tolist()
    for first, second in linkage[:, :2].astype(int).tolist():
        owner.append(owner[first] if owner[first] == owner[second] else -1)
    return owner


def site_colours(count: int) -> list[str]:
    """Colours that eyes tell apart for a few sites; for more, a range of them."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    colours = matplotlib().colormaps["cividis"]
    return [matplotlib("colors").to_hex(colours(place)) for place in np.linspace(0.0, 0.95, count)]


def name_sites(axes: "Axes", colours: Sequence[str], names: Sequence[str] | None) -> None:
    """A legend beside the tree, unless there are too many sites to tell their colours apart."""
    labels = [*(names if names is not None else map(str, range(len(colours) - 1))), "several"]
    if len(labels) > MOST_NAMES:
        return
    line = matplotlib("lines").Line2D
    handles = [line([], [], color=colour, label=label) for colour, label in zip(colours, labels, strict=True)]
    axes.legend(handles=handles, title="site", loc="upper left", bbox_to_anchor=(1.0, 1.0))
