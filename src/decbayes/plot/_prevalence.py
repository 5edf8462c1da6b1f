"""Shares of topics over time, or by site."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from decbayes.errors import InvalidData
from decbayes.plot.style import COLOURS, new_axes, styled
from decbayes.views.values import cut, told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Characters of a topic in the legend, of a name below the axis, and of one that needs no turning.
LONGEST, NAME, FITS = 32, 18, 10


@styled()
def prevalence(rows: Sequence[Any], *, most: int = 6, axes: "Axes | None" = None) -> "Axes":
    """Draw the shares of the largest topics over time with bands, or by site with error bars if there are no periods.

    `rows` are those of `db.texts.prevalence(…).rows(posterior)`, and `most` is the number of topics to draw. `axes` are
    the axes to draw on, if given.

    >>> words = ["ball", "goal", "team", "vote", "party", "law"]
    >>> counts = np.array([[5, 4, 3, 0, 0, 0], [0, 0, 0, 4, 5, 3]] * 20)
    >>> posterior = db.LatentDirichletAllocation(2, words).fit(counts, rng=0).posterior
    >>> shares = db.texts.prevalence(posterior, counts, periods=["2023"] * 20 + ["2024"] * 20)
    >>> len(db.plot.prevalence(shares.rows(posterior)).lines)
    2
    """
    if not rows:
        raise InvalidData("There are no shares to draw.")
    overall = [row for row in rows if row["site"] == "all" and row["period"] == "all"]
    largest = [row["topic"] for row in sorted(overall, key=lambda row: -row["share"])[:most]]
    over_time = [row for row in rows if row["period"] != "all"]
    groups = over_time or [row for row in rows if row["site"] != "all"] or overall
    labels = sorted({row["period"] if over_time else row["site"] for row in groups})
    each = 0.35 if over_time else 0.09 * len(largest)
    axes = axes if axes is not None else new_axes(max(4.5, each * len(labels)), 2.8)
    for place, topic in enumerate(largest):
        chosen = sorted((row for row in groups if row["topic"] == topic), key=lambda row: (row["period"], row["site"]))
        across = [labels.index(row["period"] if over_time else row["site"]) for row in chosen]
        name = cut(chosen[0]["name"] or f"topic {topic}", LONGEST)
        shares, colour = [row["share"] for row in chosen], COLOURS[place % len(COLOURS)]
        if over_time:
            axes.plot(across, shares, color=colour, label=name)
            bounds = [row["low"] for row in chosen], [row["high"] for row in chosen]
            axes.fill_between(across, *bounds, color=colour, alpha=0.15, linewidth=0)
        else:
            errors = [[row["share"] - row["low"] for row in chosen], [row["high"] - row["share"] for row in chosen]]
            shifted = [value + 0.1 * (place - len(largest) / 2) for value in across]
            axes.errorbar(shifted, shares, errors, fmt="o", markersize=4, color=colour, label=name, capsize=2)
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    texts = told_apart(labels, NAME)
    many = len(labels) > 6 or max(map(len, texts.values())) > FITS
    axes.set_xticks(range(len(labels)), texts.values(), **turned if many else {})
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set(ylabel="share of documents", ylim=(0.0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes
