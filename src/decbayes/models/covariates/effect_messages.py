"""What sites agree on before they estimate effects of covariates on topics, and their messages about them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from decbayes.columns import Column, columns_of, declared, plain
from decbayes.columns.cells import is_missing
from decbayes.columns.frames import names_in, values_in
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array
from decbayes.models.core.model import ignore
from decbayes.models.regressions.formulas.design import Design, needed
from decbayes.models.regressions.formulas.formula import parsed
from decbayes.models.regressions.messages.one_broadcast import Quadratic

FORMAT = "decbayes prevalence by covariates 1"
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class Plan:
    """The topics, by the digest of their merge; the contents of the covariates, and the terms made of them."""

    posterior: str
    columns: Mapping[str, Column]
    terms: tuple[str, ...]

    @classmethod
    def of(cls, posterior: str, frame: Mapping[str, Any], formula: str, columns: Mapping[str, Column] | None) -> "Plan":
        """The plan of a formula such as "year + paper"; columns that are not agreed are inferred from their values."""
        text = formula.strip().removeprefix("~")
        wanted = parsed(f"topics ~ {text}", [*(columns or frame)])
        if wanted.varying or wanted.offset or not wanted.intercept or not wanted.terms:
            raise InvalidStructure("Name covariates, as in 'year + paper': no offset, no '- 1', no '(1 | site)'.")
        names = needed(columns or frame, *wanted.terms)
        if columns is not None:
            return cls(posterior, {name: columns[name] for name in names}, wanted.terms)
        likely = columns_of(frame, names=names, report=ignore)
        numbers = {name: column.as_predictor for name, column in likely.items() if column.as_predictor}
        return cls(posterior, columns_of(frame, numbers, names=names, report=ignore), wanted.terms)

    @cached_property
    def design(self) -> Design:
        return Design(self.columns, self.terms, intercept=True)

    def plain(self) -> dict[str, Any]:
        return {"posterior": self.posterior, "columns": plain(self.columns), "terms": list(self.terms)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.plain() == other.plain()

    __hash__ = None  # type: ignore[assignment]


class Message(NamedTuple):
    """A site's log-likelihood of all coefficients, topic by topic, expanded to second order.

    `spread` is Σ u uᵀ over documents or persons, where u are their slopes: the uncertainty of the shift under any
    model.
    """

    documents: int
    round: int
    likelihood: Quadratic
    spread: Array

    def plain(self) -> dict[str, Any]:
        above = np.triu_indices(len(self.likelihood.shift))
        numbers = {
            "shift": self.likelihood.shift,
            "precision": self.likelihood.precision[above],
            "spread": self.spread[above],
        }
        written = {name: [float(f"{value:.10g}") for value in values] for name, values in numbers.items()}
        return {"documents": self.documents, "round": self.round, **written}

    @classmethod
    def of_plain(cls, stored: Any, coefficients: int) -> "Message":
        """Read the output of `plain`; `coefficients` is their number per topic."""
        shift, *uppers = (np.array(stored[name], dtype=np.float64) for name in ("shift", "precision", "spread"))
        side = len(shift)
        proper = (
            all(type(stored[name]) is int for name in ("documents", "round"))
            and stored["documents"] > 0 <= stored["round"]
            and side > 0 == side % coefficients
            and all(upper.shape == (side * (side + 1) // 2,) for upper in uppers)
            and all(bool(np.isfinite(part).all()) for part in (shift, *uppers))
        )
        if not proper:
            raise ValueError
        precision, spread = (mirrored(upper, side) for upper in uppers)
        return cls(stored["documents"], stored["round"], Quadratic(shift, precision), spread)


def mirrored(upper: Array, side: int) -> Array:
    """A matrix from its upper half; refused if it has negative directions."""
    matrix = np.zeros((side, side))
    matrix[np.triu_indices(side)] = upper
    matrix = matrix + matrix.T - np.diag(np.diag(matrix))
    if np.linalg.eigvalsh(matrix).min() < -1e-6 * (1.0 + np.abs(upper).max()):
        raise ValueError
    return matrix


def plan_of_plain(stored: Any) -> Plan:
    plan = Plan(stored["posterior"], declared(stored["columns"]), tuple(stored["terms"]))
    if not isinstance(plan.posterior, str) or not plan.terms or not all(isinstance(term, str) for term in plan.terms):
        raise ValueError
    _ = plan.design.labels  # refuses terms of other columns
    return plan


def with_years(frame: Any) -> dict[str, Any]:
    """Columns of a frame; dates, such as 2024-05-31, become fractional years."""
    return {name: np.array([*as_years(values_in(frame, name))], dtype=object) for name in names_in(frame)}


def as_years(values: Any) -> Iterator[Any]:
    """Values, converted if all that are not missing are dates."""
    dates = [None if is_missing(value) or value == "" else day_of(value) for value in values]
    present = [not is_missing(value) and value != "" for value in values]
    if not any(present) or any(known and day is None for known, day in zip(present, dates, strict=True)):
        yield from (None if isinstance(value, str) and not value else value for value in values)
        return
    for day in dates:
        if day is None:
            yield None
        else:
            first, length = date(day.year, 1, 1), date(day.year, 12, 31).timetuple().tm_yday
            yield day.year + (day - first).days / length


def day_of(value: Any) -> date | None:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[D]").astype(object)
    if isinstance(value, date):
        return value.date() if isinstance(value, datetime) else value
    if not isinstance(value, str) or not DATE.match(value):
        return None
    try:
        return date.fromisoformat(value[:10])
    except ValueError:
        raise InvalidData("A date is not in the calendar, such as 2024-02-30. Correct it, or leave it empty.") from None


def clipped(precision: Array) -> Array:
    """The nearest positive semidefinite precision: documents with little information may have the wrong curvature."""
    learned = np.flatnonzero(precision.any(axis=1))
    values, axes = np.linalg.eigh(precision[np.ix_(learned, learned)])
    result = np.zeros_like(precision)  # exactly zero without information
    result[np.ix_(learned, learned)] = (axes * np.maximum(values, 0.0)) @ axes.T
    return result
