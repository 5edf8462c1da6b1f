"""What changed from one merge to another."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from decbayes.plot.style import COLOURS, GREY, new_axes, styled
from decbayes.views.comparison import Change
from decbayes.views.values import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOUR_OF = {"same": GREY, "changed": COLOURS[1], "appeared": COLOURS[2], "vanished": COLOURS[7]}
LONGEST = 36


@styled()
def changes(changes: Sequence[Change], *, axes: "Axes | None" = None) -> "Axes":
    """Draw the share of each component before (ring) and after (dot); those that moved most are on top.

    `changes` is the result of `db.texts.compare`. `axes` are the axes to draw on, if given.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> monday = model.fit(np.array([[-9.0], [-8.0], [9.0], [8.0]]), rng=0).posterior
    >>> axes = db.plot.changes(db.texts.compare(monday, monday))
    >>> len(axes.get_yticklabels())
    2
    """
    order = sorted(changes, key=lambda change: abs(change.share_after - change.share_before))
    axes = axes if axes is not None else new_axes(5.5, 0.6 + 0.2 * max(len(order), 3))
    for place, change in enumerate(order):
        colour = COLOUR_OF[change.fate]
        axes.plot([change.share_before, change.share_after], [place, place], color=colour, linewidth=1.4)
        axes.plot(change.share_before, place, "o", markerfacecolor="white", color=colour, markersize=5)
        axes.plot(change.share_after, place, "o", color=colour, markersize=5)
    axes.set_yticks(range(len(order)), [cut(change.name, LONGEST) for change in order])
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set(xlabel="share before (ring) and after (dot)", xlim=(0.0, None), ylim=(-0.5, len(order) - 0.5))
    for fate, colour in COLOUR_OF.items():
        if any(change.fate == fate for change in order):
            axes.plot([], [], "o", color=colour, label=fate, markersize=5)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(COLOUR_OF))
    return axes
