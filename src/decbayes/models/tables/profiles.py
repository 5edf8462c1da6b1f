"""Profiles of a table's components, column by column, and predictions of missing values."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from decbayes.base.arguments import check_level
from decbayes.base.display import digits
from decbayes.columns import Column, decoded
from decbayes.columns.frames import Columns
from decbayes.families import Array, dense
from decbayes.families.matrices import split
from decbayes.models.likelihoods.columnwise import Columnwise
from decbayes.models.likelihoods.emissions import Emissions, Part
from decbayes.models.likelihoods.real import DiagonalCovariance
from decbayes.posterior import Posterior

Row = dict[str, Any]

# Columns to name that set a component apart from the others.
STANDING_OUT = 3
# A component with fewer observations is empty.
LEAST_EVIDENCE, NO_DATA = 0.5, ("no data",)
# Values that vary by less than this part of the agreed scale do not fit it: by default the prior variance then weighs
# as much as 240 observations of a component. Sites that differ, by age or year, vary by more. Smaller variances than
# LEAST_VARIANCE, in squared agreed scales, are rounding.
TINY, LEAST_VARIANCE = 0.05, 1e-12


def column_likelihood(part: Part) -> Columnwise:
    assert isinstance(part.likelihood, Columnwise), "tables have no others"
    return part.likelihood


def entries(columns: Columns, part: Part) -> list[tuple[str, str]]:
    names = [list(columns)[place] for place in part.places]
    return [(name, category) for name in names for category in columns[name].entries]


def profile_rows(columns: Columns, emissions: Emissions, posterior: Posterior, level: float) -> list[Row]:
    """One row per component and column, or per category of a categorical column."""
    check_level(level)
    rows = []
    for part in emissions.parts:
        likelihood, natural = column_likelihood(part), posterior.natural[part.name]
        values, wider = {"mean": likelihood.expected(natural)}, posterior.stretch(part.name)
        values |= {
            end: likelihood.quantile(natural, 0.5 + side * level, wider) for end, side in (("low", -0.5), ("high", 0.5))
        }
        for entry, (name, category) in enumerate(entries(columns, part)):
            shown = {key: columns[name].shown(value[:, entry]) for key, value in values.items()}
            rows += [
                {"component": k, "column": name, "category": category}
                | {key: float(value[k]) for key, value in shown.items()}
                | {"uncertainty": posterior.uncertainty}
                for k in range(len(natural))
            ]
    order = {name: place for place, name in enumerate(columns)}
    return sorted(rows, key=lambda row: (row["component"], order[row["column"]]))


def class_summaries(
    columns: Columns, emissions: Emissions, posterior: Posterior, top: int, weights: Array, evidence: Array
) -> list[Row]:
    """What sets each component apart, and every column in a few numbers.

    Components without evidence have nothing that sets them apart, unless each has its own prior.
    """
    means = {
        entry: mean
        for part in emissions.parts
        for entry, mean in zip(entries(columns, part), expected(part, posterior).T, strict=True)
    }
    filled = (evidence >= LEAST_EVIDENCE) | (not posterior.structure.resizable)
    standing = [standing_out(columns, means, weights, k) if filled[k] else NO_DATA for k in range(len(weights))]
    return [{"stands out by": standing[k], **summary(columns, means, k, top)} for k in range(len(weights))]


def expected(part: Part, posterior: Posterior) -> Array:
    return column_likelihood(part).expected(posterior.natural[part.name])


def summary(columns: Columns, means: dict[tuple[str, str], Array], component: int, top: int) -> Row:
    row: Row = {}
    for name, column in columns.items():
        shown = {category: float(column.shown(means[name, category])[component]) for category in column.entries}
        largest = sorted(shown, key=lambda category: -shown[category])[:top]
        row[name] = shown[""] if "" in shown else {category: shown[category] for category in largest}
    return row


def standing_out(
    columns: Columns, means: dict[tuple[str, str], Array], weights: Array, component: int
) -> tuple[str, ...]:
    """The entries in which a component is furthest from all others together, in standard deviations of the entry."""

    def distance(entry: tuple[str, str]) -> float:
        value, overall = means[entry][component], float(weights @ means[entry])
        return float(abs(value - overall) / columns[entry[0]].typical_deviation(overall))

    furthest = sorted(means, key=lambda entry: -distance(entry))[:STANDING_OUT]
    return tuple(entry_text(columns[entry[0]], entry, means[entry][component]) for entry in furthest)


def entry_text(column: Column, entry: tuple[str, str], value: Array) -> str:
    shown = f"{value:.0%}" if column.shown_as_share else digits(float(column.shown(value)), 3)
    return " ".join([*filter(None, entry), shown])


def separation(columns: Columns, emissions: Emissions, posterior: Posterior) -> list[Row]:
    """The gain of each column from component-specific distributions over a common one: its log Bayes factor.

    Σ_k [A(λ0 + c_k) − A(λ0)] − [A(λ0 + Σ_k c_k) − A(λ0)],   given the memberships
    """
    names, rows = list(columns), []
    for part in emissions.parts:
        likelihood, added = column_likelihood(part), dense(posterior.contribution[part.name])
        for within, place in enumerate(part.places):
            width = len(part.places)
            family, prior = likelihood.of_column(posterior.structure.prior[part.name], within, width)
            _, components = likelihood.of_column(added, within, width)
            least, together = family.log_partition(prior[:1]), prior[:1] + components.sum(axis=0, keepdims=True)
            apart = family.log_partition(prior + components) - len(prior) * least
            gain = float(apart - (family.log_partition(together) - least))
            rows.append({"column": names[place], "gain": gain, "probability": float(expit(gain))})
    return sorted(rows, key=lambda row: -row["gain"])


def narrow_columns(columns: Columns, emissions: Emissions, posterior: Posterior) -> list[Row]:
    """The real columns whose values vary, but over a tiny part of the agreed scale.

    The prior then expects far wider components, and hides what the column tells about them.
    """
    names, rows = list(columns), []
    for part in emissions.parts:
        if not isinstance(part.likelihood, DiagonalCovariance):
            continue
        half, squares, sums, _ = split(dense(posterior.contribution[part.name]).sum(axis=0), 4)
        count, rounding = np.maximum(2.0 * half, LEAST_EVIDENCE), part.likelihood.rounding
        variance = -2.0 * squares / count - (sums / count) ** 2 - rounding
        # The values of constant columns vary by no more than rounding: of values, or of sums.
        for within in np.flatnonzero((variance > np.maximum(rounding, LEAST_VARIANCE)) & (variance < TINY**2)):
            name = names[part.places[within]]
            scale = columns[name].zero_and_unit[1]
            rows.append({"column": name, "deviation": float(np.sqrt(variance[within])) * scale, "agreed scale": scale})
    return rows


@dataclass(frozen=True)
class Filled:
    """A table without gaps, and the uncertainty of each filled value.

    `columns` is the table, as `pandas.DataFrame` takes it: means in real columns, medians in counts, and the most
    probable category elsewhere. `rows` has one row per missing value: its place, the `value`, and an interval from
    `low` to `high`, or the `probability` of a category or of yes or no.
    """

    columns: dict[str, Any]
    rows: list[dict[str, Any]]


def fill(
    columns: Columns, emissions: Emissions, posterior: Posterior, points: Array, joint: Array, level: float
) -> Filled:
    """Fill in missing values of `points`; `joint` are the log probabilities of each row and component."""
    check_level(level)
    shares, complete, rows = np.asarray(softmax(joint, axis=1)), points.copy(), []
    names = list(columns)
    for part in emissions.parts:
        likelihood, natural = column_likelihood(part), posterior.natural[part.name]
        for within, place in enumerate(part.places):
            missing, column = np.flatnonzero(np.isnan(points[:, place])), columns[names[place]]
            if len(missing):
                predicted = likelihood.predicted(natural, within, shares[missing], level)
                complete[missing, place] = predicted["value"]
                shown = {k: v if k == "probability" else column.decoded(v) for k, v in predicted.items()}
                rows += [
                    {
                        "row": int(row),
                        "column": names[place],
                        **{key: json_value(values[n]) for key, values in shown.items()},
                    }
                    for n, row in enumerate(missing)
                ]
    rows.sort(key=lambda row: (row["row"], names.index(row["column"])))
    return Filled(decoded(complete, columns), rows)


def json_value(value: Any) -> Any:
    """Convert NumPy scalars to values that JSON has."""
    return value.item() if isinstance(value, np.generic) else value
