"""Missing values of a table, predicted from the others of the same row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from decbayes.arguments import check_level
from decbayes.columns import Columns, decoded
from decbayes.families import Array
from decbayes.models.columnwise import Columnwise
from decbayes.models.emissions import Emissions
from decbayes.models.profiles import column_likelihood
from decbayes.models.real_likelihoods import RealColumns
from decbayes.models.table_likelihoods import Categories, Counted
from decbayes.posterior import Posterior

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
