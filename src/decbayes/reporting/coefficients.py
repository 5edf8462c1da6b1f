"""Regressions in a report: each coefficient as every site has it alone, and merged."""

from typing import Any

import numpy as np

from decbayes.models.regressions.regression import Regression
from decbayes.reporting.drawing import intervals
from decbayes.reporting.findings import Findings
from decbayes.reporting.markup import Markup, joined, left_out, number, table, tag
from decbayes.reporting.mixtures import figure
from decbayes.reporting.profiles import LEVEL, interval_of

MOST_SITES, MOST_TERMS, MOST_PARAMETERS = 20, 24, 100
LONGEST = 14  # characters of a site's name in a drawing
Row = dict[str, Any]


def coefficients(found: Findings, model: Regression) -> Markup:
    """A table of the merged coefficients, and a drawing of each with those of the sites."""
    rows = model.coefficients(found.merged, level=LEVEL)
    told = [(row["term"], *map(number, (row["mean"], row["deviation"])), span(row)) for row in rows]
    head = ("term", "mean", "standard deviation", f"{LEVEL:.0%} interval")
    few = 1 < len(found.sites) <= MOST_SITES
    compared = [site for site in found.sites if few and found.evidence[site] >= found.least]
    own = {found.names[site]: model.coefficients(found.alignment.posteriors[site], level=LEVEL) for site in compared}
    drawings = [panel(row, {name: each[place] for name, each in own.items()}) for place, row in enumerate(rows)]
    drawn = figure(tag("div", drawings[:MOST_TERMS], class_="panels"), *notes(len(own), len(rows)))
    return joined([table(head, told, right=(1, 2, 3)), between(found, model), drawn])


def between(found: Findings, model: Regression) -> Markup | None:
    """How far terms differ from site to site, where they may."""
    rows = [(row["term"], number(row["mean"]), span(row)) for row in model.between(found.merged, level=LEVEL)]
    head = ("term that varies", "standard deviation from site to site", f"{LEVEL:.0%} interval")
    return table(head, rows, right=(1, 2)) if rows else None


def span(row: Row) -> str:
    return f"{number(row['low'])} to {number(row['high'])}"


def panel(merged: Row, own: dict[str, Row]) -> Markup:
    """One coefficient: all sites, one below the other, and what they say together."""
    lines = [*(interval_of(row, shortened(name)) for name, row in own.items()), interval_of(merged, "merged", "strong")]
    drawing = intervals(lines, name=merged["term"], width=320.0, gutter=100.0, zero=merged["term"] != "intercept")
    return tag("div", tag("h3", merged["term"]), drawing, class_="panel broad")


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def notes(sites: int, terms: int) -> list[str]:
    alone = "what each site says alone, the prior included, and merged. " if sites else "merged. "
    more = f"The first {MOST_TERMS} of {terms} terms are drawn." if terms > MOST_TERMS else ""
    return [f"Each coefficient with its {LEVEL:.0%} interval: ", alone, more]


def means_table(found: Findings) -> Markup:
    """Any posterior in numbers: mean, deviation and interval of each parameter, the first ones."""
    hidden = {(name, k) for each in found.sets for name in each.factors for k in np.flatnonzero(found.hidden(each))}
    told_of = found.merged.summary(top=10, level=LEVEL)
    rows = [row for row in told_of if (row["factor"], row["component"]) not in hidden]
    told = [
        (
            row["factor"],
            row["component"],
            row["entry"] or "–",
            *map(number, (row["mean"], row["deviation"])),
            bounds(row),
        )
        for row in rows[:MOST_PARAMETERS]
    ]
    head = ("factor", "component", "entry", "mean", "standard deviation", f"{LEVEL:.0%} interval")
    return joined([table(head, told, right=(3, 4, 5)), left_out(len(rows) - len(told), "further parameters are")])


def bounds(row: Row) -> str:
    return f"{number(row['lower'])} to {number(row['upper'])}"
