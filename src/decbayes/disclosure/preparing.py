"""Before a fit: refuse small data and columns that identify persons, and pool rare values."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from decbayes.columns import OTHER, Column, Gaussian, Missing, YesNo
from decbayes.columns.frames import pooled
from decbayes.columns.sums import LEAST
from decbayes.disclosure.identifiers import why_refused
from decbayes.disclosure.rules import Rules
from decbayes.errors import InvalidData, NotDisclosed
from decbayes.families import Array
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons


@dataclass(frozen=True)
class Prepared:
    """A model and data that obey disclosure rules, and what was changed to achieve that."""

    model: Model
    data: Any
    changed: tuple[str, ...] = ()
    persons: Persons = EACH


def prepared(
    model: Model,
    data: Any,
    rules: Rules,
    *,
    agreed: bool = False,
    persons: Any = None,
    blind: bool = True,
    fitted: bool = True,
) -> Prepared:
    """The model and the data without values of too few persons.

    Args:
        data: data as the model's `fit` takes them.
        agreed: whether other sites already use the same columns; categories then stay as they are.
        persons: a name or number per observation, if persons may have several observations.
        blind: whether to permute rare words, so that a fit cannot tell which of them occur.
        fitted: whether the model will be fitted to the data, or only scored on them.

    >>> table = {"ward": ["heart"] * 150 + ["bone"] * 48 + ["burns", "skin"], "age": np.arange(200.0) % 60}
    >>> model = db.LatentClasses.from_frame(table, components=2)
    >>> safe = db.disclosure.prepared(model, table, db.disclosure.Rules())
    >>> safe.model.columns["ward"].categories
    ('bone', 'heart', 'other')
    >>> safe.changed
    ("Column 'ward': rare categories count as the most common one.",)
    """
    count = model.count(data)
    people = Persons.of(persons).checked(count)
    check_disclosable(model)
    check_size(people.total(count), unit_of(model, people), rules)
    columns = getattr(model, "columns", None) if fitted else None
    if columns:
        described = columns if isinstance(columns, Mapping) else dict.fromkeys(columns, Gaussian())
        check_columns(described, rows_of(model, data), rules)
    try:
        model, data, changed = model.pooled(data, rules.least_cell, rules.least_outcome, agreed=agreed, persons=people)
    except InvalidData as error:
        raise NotDisclosed(str(error)) from None
    for name, column in getattr(model, "columns", {}).items() if isinstance(columns, Mapping) else ():
        check_levels(name, column, people.total(count), rules)
    if fitted:
        check_coefficients(model, people.total(count), rules)
    elif hasattr(model, "hides_outcome") and model.hides_outcome(data):
        raise NotDisclosed(STAYS.format(rules.least_cell))
    data = model.rare_unnamed(data, rules.least_documents, people) if blind else data
    return Prepared(model, data, tuple(changed), people)


def check_disclosable(model: Model) -> None:
    """Refuse models that do not state what their numbers count, since nobody knows what their files reveal."""
    kind = type(model)
    if kind.pooled is Model.pooled and kind.rare_hidden is Model.rare_hidden:
        raise NotDisclosed(
            f"{kind.__name__} does not say what its numbers count, so nobody knows what its files reveal. Let it "
            f"override `pooled`. {MADE_UP}"
        )


def unit_of(model: Model, persons: Persons) -> str:
    """The noun for what the rules count."""
    if persons.numbers is not None:
        return "persons"
    return {"word": "documents", "step": "sequences"}.get(model.unit, "observations")


def check_size(count: int, unit: str, rules: Rules) -> None:
    if count < rules.least_observations:
        there = f"There is 1 {unit.removesuffix('s')}" if count == 1 else f"There are {count} {unit}"
        raise NotDisclosed(f"{there}; a file needs at least {rules.least_observations}. {MADE_UP}")


def check_coefficients(model: Model, count: int, rules: Rules) -> None:
    terms = model.terms_to_learn
    if terms and count < rules.rows_per_coefficient * terms:
        raise NotDisclosed(
            f"{terms} coefficients of {count} persons: at least {rules.rows_per_coefficient:g} persons per coefficient "
            "are needed, or single persons could be identified from the file. Use fewer terms."
        )


def check_columns(columns: Mapping[str, Column], points: Array, rules: Rules) -> None:
    """Refuse columns that identify persons.

    Args:
        points: the coded values, a row of numbers per observation.

    >>> table = {"email": [f"{number}@example.org" for number in range(30)]}
    >>> columns = db.columns.columns_of(table)
    >>> db.disclosure.check_columns(columns, db.columns.coded(table, columns), db.disclosure.Rules())
    Traceback (most recent call last):
    decbayes.errors.NotDisclosed: Column 'email': its name says that it identifies persons. Leave it out (--columns ...
    """
    reasons = {
        name: why_refused(name, column, points[:, place]) for place, (name, column) in enumerate(columns.items())
    }
    refused = [f"Column '{name}': {reason}" for name, reason in reasons.items() if reason]
    if refused:
        how = " (--columns names the columns to use)" if any("Leave it out" in reason for reason in refused) else ""
        raise NotDisclosed(f"{'; '.join(refused)}{how}. {MADE_UP}")


def check_levels(name: str, column: Column, count: int, rules: Rules) -> None:
    levels = len([entry for entry in column.entries if entry and entry != OTHER])
    if levels > rules.most_levels or levels > count / rules.rows_per_level:
        raise NotDisclosed(
            f"Column '{name}' has {levels} categories of {count} persons; at most {rules.most_levels} and one per "
            f"{rules.rows_per_level:g} persons are allowed. Join categories, or leave the column out."
        )


def pooled_columns(
    columns: Mapping[str, Column], points: Array, rules: Rules, persons: Persons = EACH
) -> tuple[dict[str, Column], list[str]]:
    """Columns for a list that others get, without categories of too few persons, and what was changed."""
    check_size(persons.total(len(points)), "persons", rules)
    check_columns(columns, points, rules)
    counts = [persons.among(known) for known in ~np.isnan(points).T]
    scarce = [name for name, having in zip(columns, counts, strict=True) if 0 < having < rules.least_cell]
    answers = [name for name, column in columns.items() if isinstance(column, YesNo)]
    known = {name: column for name, column in columns.items() if name not in (*scarce, *answers)}
    places = {name: place for place, name in enumerate(columns)}
    kept, _, changed = pooled(
        points[:, [places[name] for name in known]], known, persons.counts, [rules.least_cell], agreed=False,
        predictors=True,
    )  # fmt: skip
    for name in (name for name in answers if name not in scarce):
        having = [persons.among(points[:, places[name]] == answer) for answer in (0.0, 1.0)]
        if any(0 < few < rules.least_cell for few in having):
            changed.append(RARE_ANSWERS.format(name, rules.least_cell, rules.least_cell / 2))
    for name, column in kept.items():
        check_levels(name, column, persons.total(len(points)), rules)
    changed += [
        f"Column '{name}': fewer than {rules.least_cell} persons have a value; it is missing." for name in scarce
    ]
    kept |= {name: columns[name] for name in answers}
    return {name: Missing() if name in scarce else kept[name] for name in columns}, changed


def listed(
    model: Model, data: Any, rules: Rules | None, persons: Persons = EACH, *, stated: Collection[str] = ()
) -> tuple[dict[str, Column], tuple[str, ...]]:
    """A site's list for others: the model's columns, sums for settings that are not `stated`, and what was changed."""
    model = model.unsettled(stated)
    safe = Prepared(model, data) if rules is None else prepared(model, data, rules, persons=persons, blind=False)
    columns: Mapping[str, Column] = getattr(safe.model, "columns")  # noqa: B009
    if model.summed_settings <= {*stated}:
        return {**columns}, safe.changed
    least = LEAST if rules is None else max(LEAST, rules.least_cell)
    return {**columns, **safe.model.sums(safe.data, least=least, persons=persons)}, safe.changed


def rows_of(model: Model, data: Any) -> Array:
    """The coded values of a table, or of all sequences concatenated."""
    steps: Any = getattr(model, "steps", None)
    points: Array = steps(data).points if steps is not None else getattr(model, "points")(data)  # noqa: B009
    return points


RARE_ANSWERS = (
    "Column '{0}': fewer than {1} persons gave one of the two answers. Fits hide who they are: classes assume {2:g} "
    "such persons, predictors none, and the file of a regression of '{0}' says only that they are few."
)
STAYS = (
    "Fewer than {} persons differ in the outcome here, and sums such as scores or robust errors would reveal who. "
    "Add up the scores of the other sites; for robust errors, merge and calibrate without this site."
)
MADE_UP = "For public or made-up data: --rules none."
