"""What the components of a table's model are like: means and intervals of every column, and what sets each apart."""

from typing import Any

import numpy as np

from decbayes.arguments import check_level
from decbayes.columns import Categorical, Columns, Gaussian, Poisson, YesNo
from decbayes.families import Array
from decbayes.models.columnwise import Columnwise
from decbayes.models.emissions import Emissions, Part
from decbayes.posterior import Posterior

Row = dict[str, Any]

# How many columns are named that set a component apart from the others.
STANDING_OUT = 3


def column_likelihood(part: Part) -> Columnwise:
    assert isinstance(part.likelihood, Columnwise), "tables have no others"
    return part.likelihood


def entries(columns: Columns, part: Part) -> list[tuple[str, str]]:
    """The column, and the category if it has any, of each entry of a part."""
    names = [list(columns)[place] for place in part.places]
    return [(name, category) for name in names for category in categories_of(columns, name)]


def categories_of(columns: Columns, name: str) -> tuple[str, ...]:
    column = columns[name]
    return column.categories if isinstance(column, Categorical) else ("",)


def profile_rows(columns: Columns, emissions: Emissions, posterior: Posterior, level: float) -> list[Row]:
    """One row per component and column, and per category of a categorical one."""
    check_level(level)
    rows = []
    for part in emissions.parts:
        likelihood, natural = column_likelihood(part), posterior.natural[part.name]
        mean = likelihood.expected(natural)
        low, high = (likelihood.quantile(natural, 0.5 + side * level) for side in (-0.5, 0.5))
        for entry, (name, category) in enumerate(entries(columns, part)):
            rows += [
                {
                    "component": k,
                    "column": name,
                    "category": category,
                    "mean": float(mean[k, entry]),
                    "low": float(low[k, entry]),
                    "high": float(high[k, entry]),
                }
                for k in range(len(mean))
            ]
    order = {name: place for place, name in enumerate(columns)}
    return sorted(rows, key=lambda row: (row["component"], order[row["column"]]))


def class_summaries(
    columns: Columns, emissions: Emissions, posterior: Posterior, top: int, weights: Array
) -> list[Row]:
    """For each component what sets it apart, and every column in a few numbers."""
    means = {
        entry: mean
        for part in emissions.parts
        for entry, mean in zip(entries(columns, part), expected(part, posterior).T, strict=True)
    }
    standing = [standing_out(columns, means, weights, k) for k in range(len(weights))]
    return [{"stands out by": standing[k], **summary(columns, means, k, top)} for k in range(len(weights))]


def expected(part: Part, posterior: Posterior) -> Array:
    return column_likelihood(part).expected(posterior.natural[part.name])


def summary(columns: Columns, means: dict[tuple[str, str], Array], component: int, top: int) -> Row:
    row: Row = {}
    for name in columns:
        shares = {category: float(means[name, category][component]) for category in categories_of(columns, name)}
        largest = sorted(shares, key=lambda category: -shares[category])[:top]
        row[name] = shares[""] if "" in shares else {category: shares[category] for category in largest}
    return row


def standing_out(
    columns: Columns, means: dict[tuple[str, str], Array], weights: Array, component: int
) -> tuple[str, ...]:
    """The entries in which a component is furthest from all others together, in their own standard deviations."""

    def distance(entry: tuple[str, str]) -> float:
        value, overall = means[entry][component], float(weights @ means[entry])
        return float(abs(value - overall) / typical_deviation(columns[entry[0]], overall))

    furthest = sorted(means, key=lambda entry: -distance(entry))[:STANDING_OUT]
    return tuple(entry_text(columns, entry, float(means[entry][component])) for entry in furthest)


def typical_deviation(column: Any, mean: float) -> float:
    if isinstance(column, Gaussian):
        return column.scale
    return float(np.sqrt(mean if isinstance(column, Poisson) else mean * (1 - mean))) or 1.0


def entry_text(columns: Columns, entry: tuple[str, str], value: float) -> str:
    name, category = entry
    if category or isinstance(columns[name], YesNo):
        return f"{name}{' ' if category else ''}{category} {value:.0%}"
    return f"{name} {value:.3g}"
