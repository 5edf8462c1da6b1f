"""Effects of covariates on topics."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from decbayes.errors import InvalidData
from decbayes.plot.style import COLOURS, new_axes, styled
from decbayes.views.values import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST = 32


@styled()
def topic_effects(rows: Sequence[Any], *, most: int = 12, axes: "Axes | None" = None) -> "Axes":
    """Draw how many times larger each topic's share is after a change of each covariate, with intervals.

    `rows` are those of `db.texts.effects(…).rows(posterior)`, and `most` is the number of topics to draw, those with
    the clearest effects first. `axes` are the axes to draw on, if given. Each term has a colour; pale intervals
    contain 1.

    >>> words = ["ball", "goal", "team", "vote", "party", "law"]
    >>> counts = np.array([[5, 4, 3, 0, 0, 0]] * 20 + [[0, 0, 0, 4, 5, 3]] * 20)
    >>> topics = db.LatentDirichletAllocation(2, words).fit(counts, rng=0).posterior
    >>> found = db.texts.effects(topics, counts, {"year": [2023] * 18 + [2024] * 22}, "year")
    >>> db.plot.topic_effects(found.rows(topics)).get_xscale()
    'log'
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if not rows:
        raise InvalidData("There are no effects to draw.")
    terms = list(dict.fromkeys(row["term"] for row in rows))
    order = sorted({row["topic"] for row in rows}, key=lambda topic: clearest(rows, topic))[-most:]
    axes = axes if axes is not None else new_axes(5.0, 0.8 + (0.16 + 0.14 * len(terms)) * len(order))
    for place, term in enumerate(terms):
        chosen = {row["topic"]: row for row in rows if row["term"] == term}
        colour = COLOURS[place % len(COLOURS)]
        for height, row in enumerate(chosen[topic] for topic in order):
            clear = row["low"] > 1.0 or row["high"] < 1.0
            at = height - 0.7 * ((place + 0.5) / len(terms) - 0.5)
            label = term if height == len(order) - 1 else None
            axes.plot([row["low"], row["high"]], [at, at], color=colour, alpha=1.0 if clear else 0.4, linewidth=1.6)
            axes.plot([row["ratio"]], [at], "o", color=colour, alpha=1.0 if clear else 0.4, markersize=4, label=label)
    axes.axvline(1.0, color="0.6", linewidth=0.8, zorder=0)
    axes.set(xscale="log", xlabel="share after the change / before")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    names = {row["topic"]: row["name"] or f"topic {row['topic']}" for row in rows}
    axes.set_yticks(range(len(order)), [cut(names[topic], LONGEST) for topic in order])
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes


def clearest(rows: Sequence[Any], topic: int) -> float:
    """The largest distance of a topic's intervals from 1, as a ratio."""
    return max(float(max(row["low"], 1.0 / row["high"])) for row in rows if row["topic"] == topic)
