"""Classes of a table and states of sequences in a report: a panel per column, and how states follow each other."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from decbayes.columns import Column
from decbayes.families import Array
from decbayes.models.sequences.hidden_markov import HiddenMarkov
from decbayes.models.tables.profiles import profile_rows
from decbayes.models.tables.tabular import Tabular
from decbayes.plot._classes import class_order, difference
from decbayes.posterior import Posterior
from decbayes.reporting.drawing import COLOURS, Interval, intervals
from decbayes.reporting.markup import Markup, joined, tag
from decbayes.reporting.mixtures import figure

MOST_COLUMNS, MOST_CLASSES = 24, 40
MOST_CATEGORIES = 8
LEVEL = 0.9
Row = dict[str, Any]


def profiles(model: Tabular, posterior: Posterior, slots: Sequence[int]) -> Markup:
    """What each class is like: its mean in each column with an interval, or the shares of the categories."""
    rows = profile_rows(model.columns, model.emissions, posterior, LEVEL)
    order = [k for k in class_order(posterior)[0] if k in set(slots)][:MOST_CLASSES]
    by_column = {name: [row for row in rows if row["column"] == name] for name in model.columns}
    ranked = sorted(by_column, key=lambda name: -difference(by_column[name]))[:MOST_COLUMNS]
    chosen = [name for name in by_column if name in set(ranked)]
    drawings = [panel(name, by_column[name], model.columns[name], order) for name in chosen]
    shown = figure(tag("div", drawings, class_="panels"), " ".join(notes(len(slots), by_column, chosen, order)))
    return joined([shown, transitions(posterior) if isinstance(model, HiddenMarkov) else None])


def notes(count: int, columns: dict[str, Any], chosen: Sequence[str], order: Sequence[int]) -> list[str]:
    left_out = len(columns) - len(chosen)
    return [
        f"Means with {LEVEL:.0%} intervals, or shares of categories, from the most frequent to the rarest.",
        "Intervals are those of the mean field: too narrow where components overlap.",
        *([f"The {len(chosen)} columns in which components differ most; {left_out} are left out."] * (left_out > 0)),
        *([f"The {len(order)} most frequent of {count} components."] * (count > len(order))),
    ]


def panel(name: str, rows: Sequence[Row], column: Column, order: Sequence[int]) -> Markup:
    drawing = shares(rows, column, order) if any(column.entries) else means(name, rows, order)
    return tag("div", tag("h3", name), drawing, class_="panel")


def means(name: str, rows: Sequence[Row], order: Sequence[int]) -> Markup:
    by_class = {row["component"]: row for row in rows}
    return intervals([interval_of(by_class[k], str(k)) for k in order], name=name)


def interval_of(row: Row, label: str, look: str = "") -> Interval:
    return Interval(label, row["mean"], row["low"], row["high"], look)


def shares(rows: Sequence[Row], column: Column, order: Sequence[int]) -> Markup:
    """One bar per class, divided among the most frequent categories; a legend below."""
    share = {(row["component"], row["category"]): row["mean"] for row in rows}
    frequent = sorted(column.entries, key=lambda each: -sum(share[k, each] for k in order))[:MOST_CATEGORIES]
    kept = [category for category in column.entries if category in set(frequent)]
    bars = [
        tag("div", tag("span", k, class_="no"), tag("span", segments(share, k, kept), class_="stack"), class_="share")
        for k in order
    ]
    keys = [tag("span", tag("i", class_=f"key b{place % COLOURS}"), name) for place, name in enumerate(kept)]
    left_out = len(column.entries) - len(kept)
    more = tag("span", f"and {left_out} rarer ones, left blank") if left_out else None
    return joined([bars, tag("p", keys, more, class_="legend")])


def segments(share: dict[tuple[int, str], float], component: int, categories: Sequence[str]) -> list[Markup]:
    return [
        tag(
            "i",
            class_=f"b{place % COLOURS}",
            style=f"width:{100 * share[component, category]:.1f}%",
            title=f"{category} {share[component, category]:.0%}",
        )
        for place, category in enumerate(categories)
    ]


def transitions(posterior: Posterior) -> Markup | None:
    """From each state to each state, as a table of probabilities."""
    probability: Array = np.asarray(posterior.mean("transitions"))
    if len(probability) > MOST_CLASSES:
        return None
    head = tag("tr", tag("th", "from \\ to", scope="col"), [tag("th", k, scope="col") for k in range(len(probability))])
    body = [tag("tr", tag("th", k, scope="row"), map(move, row)) for k, row in enumerate(probability)]
    table = tag("table", tag("thead", head), tag("tbody", body), class_="matrix")
    return figure(table, "How often each state is followed by each other.")


def move(probability: float) -> Markup:
    return tag("td", f"{probability:.0%}" if probability >= 0.005 else "", class_=f"s{min(int(10 * probability), 9)}")
