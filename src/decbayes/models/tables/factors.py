"""Distributions of columns within a component: one factor of the posterior for all columns that name it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.columns import Column
from decbayes.families import Array
from decbayes.models.likelihoods.columnwise import Columnwise
from decbayes.models.likelihoods.discrete import Categories, Counted, YesOrNo
from decbayes.models.likelihoods.emissions import Emissions, Part
from decbayes.structure import Structure

if TYPE_CHECKING:
    from decbayes.models.tables.tabular import Tabular

Members = Mapping[str, Any]
"""The columns of one factor, with the attributes that it reads."""


@dataclass(frozen=True)
class ColumnFactor:
    """A likelihood for columns, with its prior.

    `part` takes the model and the factor's columns by name; it returns their likelihood and the prior that all
    components share, (1, d). `settings` inverts it: it recovers the model's settings from the prior in a structure.
    """

    name: str
    part: Callable[["Tabular", Members], tuple[Columnwise, Array]]
    settings: Callable[[type["Tabular"], Structure], dict[str, float]] = lambda model, structure: {}


def categories(model: "Tabular", columns: Members) -> tuple[Columnwise, Array]:
    likelihood = Categories(tuple(len(column.entries) for column in columns.values()))
    alpha = np.full((1, sum(likelihood.sizes)), float(model.category_prior))
    return likelihood, likelihood.family.natural(alpha=alpha)


def yes_or_no(model: "Tabular", columns: Members) -> tuple[Columnwise, Array]:
    alpha = np.full((1, len(columns)), float(model.yes_no_prior))
    return YesOrNo(), YesOrNo().family.natural(alpha=alpha, beta=alpha)


def counts(model: "Tabular", columns: Members) -> tuple[Columnwise, Array]:
    means = np.array([[column.mean for column in columns.values()]])
    shape, rate = np.minimum(means, 1.0), 1.0 / np.maximum(means, 1.0)
    return Counted(), Counted().family.natural(shape=model.count_prior * shape, rate=model.count_prior * rate)


def real(model: "Tabular", columns: Members) -> tuple[Columnwise, Array]:
    names = ("centre", "scale", "resolution")
    units = {name: tuple(getattr(column, name) for column in columns.values()) for name in names}
    likelihood = model.real_likelihood(model.constants(), **units)
    weights = {"strength": float(model.prior_strength), "degrees": float(model.prior_degrees)}
    return likelihood, likelihood.prior(len(columns), **weights, scale=float(model.prior_scale))


def count_prior(model: type["Tabular"], structure: Structure) -> dict[str, float]:
    parameters = structure.families["counts"].parameters(structure.prior["counts"][:1])
    return {"count_prior": float(max(part[0, 0] for part in parameters.values()))}


FACTORS = {
    factor.name: factor
    for factor in (
        ColumnFactor(
            "categorical", categories, lambda model, structure: {"category_prior": first(structure, "categorical") + 1}
        ),
        ColumnFactor("yes_no", yes_or_no, lambda model, structure: {"yes_no_prior": first(structure, "yes_no") + 1}),
        ColumnFactor("counts", counts, count_prior),
        ColumnFactor(
            "real",
            real,
            lambda model, structure: model.real_likelihood(structure.model).settings(structure.prior["real"][:1]),
        ),
    )
}
"""The factors that columns can name, in their order within a posterior; others follow."""


def first(structure: Structure, name: str) -> float:
    return float(structure.prior[name][0, 0])


def factor_of(column: Column) -> ColumnFactor:
    return column.factor if isinstance(column.factor, ColumnFactor) else FACTORS[column.factor]


def emissions(model: "Tabular") -> Emissions:
    """One part for each factor that a column names."""
    factors = {**FACTORS, **{factor.name: factor for factor in map(factor_of, model.columns.values())}}
    parts = []
    for factor in factors.values():
        columns = {name: column for name, column in model.columns.items() if factor_of(column) == factor}
        if columns:
            places = tuple(place for place, name in enumerate(model.columns) if name in columns)
            entries = [(name, entry) for name, column in columns.items() for entry in column.entries]
            labels = [f"{name}={entry}" if entry else name for name, entry in entries]
            parts.append(Part(factor.name, *factor.part(model, columns), places, tuple(labels)))
    return Emissions(tuple(parts))
