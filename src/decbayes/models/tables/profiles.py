"""What the components of a table's model are like, column by column; and missing values predicted from the others."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from decbayes.arguments import check_level
from decbayes.columns import Categorical, Columns, Gaussian, Poisson, YesNo, decoded
from decbayes.families import Array
from decbayes.models.likelihoods.columnwise import Columnwise
from decbayes.models.likelihoods.discrete import Categories, Counted
from decbayes.models.likelihoods.emissions import Emissions, Part
from decbayes.models.likelihoods.real import RealColumns
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


# Halving an interval so often leaves no digit unknown.
HALVINGS = 80


@dataclass(frozen=True)
class Filled:
    """A table without gaps, and how sure each filled value is.

    `columns` is the table, as `pandas.DataFrame` takes it: means in real columns, medians in those of counts, the most
    probable category elsewhere. `rows` has one row per value that was missing: its place, the `value`, and `low` and
    `high` around it, or, of categories and yes or no, the `probability` of the value.
    """

    columns: dict[str, Any]
    rows: list[dict[str, Any]]


def fill(
    columns: Columns, emissions: Emissions, posterior: Posterior, points: Array, joint: Array, level: float
) -> Filled:
    """Fill in what is missing of `points`; `joint` are the log probabilities of each row and component."""
    check_level(level)
    shares, complete, rows = np.asarray(softmax(joint, axis=1)), points.copy(), []
    names = list(columns)
    for part in emissions.parts:
        likelihood, natural = column_likelihood(part), posterior.natural[part.name]
        for within, place in enumerate(part.places):
            missing = np.flatnonzero(np.isnan(points[:, place]))
            if len(missing):
                found = predicted(likelihood, natural, within, shares[missing], level)
                complete[missing, place] = found["value"]
                shown = {**found, "value": columns[names[place]].decoded(found["value"])}
                rows += [
                    {"row": int(row), "column": names[place], **{key: plain(each[n]) for key, each in shown.items()}}
                    for n, row in enumerate(missing)
                ]
    rows.sort(key=lambda row: (row["row"], names.index(row["column"])))
    return Filled(decoded(complete, columns), rows)


def predicted(likelihood: Columnwise, natural: Array, place: int, shares: Array, level: float) -> dict[str, Any]:
    """The value of one column in some rows, given how probable each component is there."""
    if isinstance(likelihood, RealColumns | Counted):
        tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        low, middle, high = (
            quantiles(likelihood, natural, place, shares, share) for share in (tails[0], 0.5, tails[1])
        )
        mean = shares @ likelihood.expected(natural)[:, place]
        return {"value": middle if isinstance(likelihood, Counted) else mean, "low": low, "high": high}
    probability = shares @ category_shares(likelihood, natural, place)
    return {"value": probability.argmax(axis=1).astype(np.float64), "probability": probability.max(axis=1)}


def category_shares(likelihood: Columnwise, natural: Array, place: int) -> Array:
    """(K, C): how probable the categories of one column are, or no and yes."""
    expected = likelihood.expected(natural)
    if not isinstance(likelihood, Categories):
        return np.column_stack([1.0 - expected[:, place], expected[:, place]])
    return np.split(expected, likelihood.family.starts[1:], axis=1)[place]


def quantiles(likelihood: RealColumns | Counted, natural: Array, place: int, shares: Array, level: float) -> Array:
    """For each row the value below which a new one lies with that probability, by bisection."""
    centre = likelihood.expected(natural)[:, place]
    reach = np.ptp(centre) + np.abs(centre).max() + 1.0
    low, high = np.full(len(shares), centre.min() - reach), np.full(len(shares), centre.max() + reach)

    def below(values: Array) -> Array:
        return np.asarray(np.sum(shares * likelihood.cumulative(natural, place, values), axis=1))

    for _ in range(HALVINGS):
        low, high = (
            np.where(below(low) > level, low - (high - low), low),
            np.where(below(high) < level, high + (high - low), high),
        )
        middle = 0.5 * (low + high)
        under = below(middle) < level
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return np.ceil(np.round(high, 9)) if isinstance(likelihood, Counted) else high


def plain(value: Any) -> Any:
    """A value that JSON has, too."""
    return value.item() if isinstance(value, np.generic) else value
