"""Checks of one site's data before a fit: columns, missing values, rare levels, the outcome, what would be hidden.

The results are for the owner of the data only: they may quote categories, and stay at the site.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from decbayes.base.display import digits
from decbayes.columns import OTHER, Column, YesNo
from decbayes.columns.frames import coded
from decbayes.disclosure.preparing import MADE_UP, prepared
from decbayes.disclosure.rarities import Statement
from decbayes.disclosure.rules import Rules
from decbayes.errors import DecbayesError, InvalidData
from decbayes.families import Array
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons

MUCH_MISSING = 0.2
FEW_EVENTS = 10.0  # events per coefficient, below which estimates lean on the prior
MOST_LEVELS = 12


def check(
    model: Model,
    data: Any,
    *,
    frame: Any = None,
    rules: Rules | None = None,
    persons: Persons = EACH,
    units: Mapping[str, str] | None = None,
) -> list[Statement]:
    """What the owner of data should know before they are fitted.

    Args:
        data: data as the model's `fit` takes them.
        frame: the table that they come from, including rows with missing values.
        rules: the disclosure rules; nothing is hidden without them.
        units: the agreed units of columns.

    >>> from decbayes import study
    >>> table = {"ward": ["heart"] * 40 + ["bone"] * 38 + ["skin"] * 2, "died": [True] * 3 + [False] * 77}
    >>> model = db.LogisticRegression.from_frame(table, "died ~ ward")
    >>> said = study.check(model, model.points(table), frame=table, rules=db.disclosure.Rules())
    >>> [statement.text for statement in said if statement.topic == "outcome"]
    ['3 of 80 rows are yes: 1 per coefficient. Below 10, estimates lean on the prior']
    """
    columns = getattr(model, "columns", None)
    statements = [*about_rows(model, data, frame, persons)]
    if isinstance(columns, Mapping) and frame is not None:
        points = coded(frame, columns)
        for place, (name, column) in enumerate(columns.items()):
            statements += about_column(name, column, points[:, place], (units or {}).get(name, ""))
    statements += about_units(columns or (), units or {})
    statements += [*about_outcome(model, data), *about_words(model, data, rules, persons)]
    return statements + ([] if rules is None else [*about_hiding(model, data, rules, persons)])


def about_rows(model: Model, data: Any, frame: Any, persons: Persons) -> Iterator[Statement]:
    used = model.count(data)
    unit = {"word": "documents", "step": "sequences"}.get(model.unit, "rows")
    text = f"{used:,} {unit} can be used"
    if persons.numbers is not None:
        text += f", of {persons.total(used):,} persons"
    if frame is not None and unit == "rows":
        total = len(next(iter(frame.values()))) if isinstance(frame, Mapping) else len(frame)
        left = total - used
        text += f"; {left:,} of {total:,} are left out, because something is missing" if left > 0 else ""
        yield Statement("rows", text, "look" if left > MUCH_MISSING * total else "fine")
        return
    yield Statement(unit, text, "fine" if used else "stop")


def about_column(name: str, column: Column, values: Array, unit: str) -> Iterator[Statement]:
    """A column's values, and how often one is missing."""
    topic, known = f"column '{name}'", values[~np.isnan(values)]
    missing = len(values) - len(known)
    gaps = f"; {missing:,} of {len(values):,} values are missing" if missing else ""
    if not len(known):
        yield Statement(topic, "no value at all", "stop")
        return
    levels = [entry for entry in column.entries if entry]
    if levels:
        times = [int((known == place).sum()) for place in range(len(levels))]
        text = ", ".join(f"{level} {count:,}" for level, count in zip(levels, times, strict=True))
        text = (
            f"rows per level: {text}"
            if len(levels) <= MOST_LEVELS
            else f"{len(levels)} levels of {min(times)} rows or more"
        )
        text = f"{column.kind}, {text}"
    elif column.flag:
        no, yes = answers(column)
        text = f"{column.kind}: {int(known.sum()):,} {yes}, {int((known == 0).sum()):,} {no}"
    else:
        low, middle, high = (digits(value, 4) for value in np.quantile(known, [0.05, 0.5, 0.95]).tolist())
        text = f"{column.kind}: median {middle}, 90 % of values from {low} to {high} {unit}".rstrip()
    one_value = len(np.unique(known)) == 1
    doubtful = missing > MUCH_MISSING * len(values) or one_value
    yield Statement(
        topic, f"{text}{gaps}{'; all values are the same' if one_value else ''}", "look" if doubtful else "fine"
    )


def about_units(columns: Collection[str], units: Mapping[str, str]) -> Iterator[Statement]:
    """Units of columns that are not used, usually a typing error."""
    for name in units:
        if name not in columns:
            yield Statement(
                "units", f"the protocol has a unit for '{name}', which is not among the columns used", "look"
            )


def about_outcome(model: Model, data: Any) -> Iterator[Statement]:
    """Whether a regression's outcome is informative: both classes, enough events, no separation, its spread."""
    table, outcome = getattr(model, "table", None), getattr(model, "outcome", None)
    if table is None or outcome is None or not model.count(data):
        return
    column = model.columns[table.target]  # type: ignore[attr-defined]
    points = np.asarray(data)
    targets = points[:, table.target_place]
    if column.flag:
        yield from about_events(model, targets, answers(column))
        yield from about_separation(model, points, targets)
    elif column.kind == "count":
        yield from about_spread(model, data, targets)


def answers(column: Column) -> tuple[str, str]:
    """No and yes, in the column's own words."""
    if isinstance(column, YesNo):
        return column.answers
    return (column.entries[0], column.entries[1]) if len(column.entries) == 2 else ("no", "yes")


def about_events(model: Model, targets: Array, words: tuple[str, str]) -> Iterator[Statement]:
    rarer, count = min(targets.sum(), len(targets) - targets.sum()), len(targets)
    name, other = reversed(words) if targets.sum() <= count / 2 else words
    if rarer == 0:
        text = f"all {count:,} rows are {other}: alone, these data say little. They still count in the merge"
        yield Statement("outcome", text, "look")
        return
    per_coefficient = rarer / max(model.terms_to_learn, 1)
    text = f"{rarer:,.0f} of {count:,} rows are {name}: {math.floor(per_coefficient)} per coefficient"
    few = per_coefficient < FEW_EVENTS
    yield Statement(
        "outcome",
        text + (f". Below {FEW_EVENTS:g}, estimates lean on the prior" if few else ""),
        "look" if few else "fine",
    )


def about_separation(model: Model, points: Array, targets: Array) -> Iterator[Statement]:
    """Levels and numbers that determine the outcome: without a prior, their coefficients would be infinite."""
    table: Any = getattr(model, "table")  # noqa: B009
    columns: Any = getattr(model, "columns")  # noqa: B009
    if targets.min() == targets.max():
        return
    for name in table.predictors:
        column, values = columns[name], points[:, list(columns).index(name)]
        levels = [entry for entry in column.entries if entry]
        if levels or column.flag:
            names = levels or answers(column)
            alone = [names[place] for place in range(len(names)) if constant(targets[values == place])]
            if alone:
                text = f"within {', '.join(alone)} all outcomes are the same (separation): the prior decides there"
                yield Statement(f"column '{name}'", text, "look")
        elif apart(values[targets == 0], values[targets == 1]):
            yield Statement(
                f"column '{name}'", "it separates the two outcomes: the prior decides its coefficient", "look"
            )


def constant(targets: Array) -> bool:
    return len(targets) > 0 and bool(targets.min() == targets.max())


def apart(first: Array, second: Array) -> bool:
    return bool(first.max() < second.min() or second.max() < first.min())


def about_spread(model: Model, data: Any, targets: Array) -> Iterator[Statement]:
    """Whether counts vary more than a Poisson regression allows."""
    text = f"counts from {targets.min():,.0f} to {targets.max():,.0f}, mean {digits(targets.mean(), 3)}"
    predict = getattr(model, "predict", None)
    if predict is None or type(model).__name__ != "PoissonRegression":
        yield Statement("outcome", text)
        return
    posterior = model.fit(data).posterior
    expected = predict(posterior, np.asarray(data))["mean"]
    freedom = max(len(targets) - model.terms_to_learn, 1)
    spread = float(((targets - expected) ** 2).mean() / expected.mean() * len(targets) / freedom)
    if any(remark.kind == "overdispersion" for remark in posterior.remarks):
        advice = "intervals of a Poisson regression would be too narrow. Agree on negative-binomial-regression"
        yield Statement("outcome", f"{text}; the variance is {spread:.1f} times that of a Poisson: {advice}", "look")
    else:
        yield Statement("outcome", f"{text}; the variance is {spread:.1f} times that of a Poisson")


def about_words(model: Model, data: Any, rules: Rules | None, persons: Persons) -> Iterator[Statement]:
    """The lengths of texts, and the number of rare words."""
    having: Any = getattr(model, "documents_with", None)
    if having is None:
        return
    units = np.asarray(model.units(data))
    empty = int((units == 0).sum())
    text = f"{units.sum():,.0f} words, {np.median(units):,.0f} in the median document"
    yield Statement("words", text + (f"; {empty:,} documents have none" if empty else ""), "look" if empty else "fine")
    if rules is not None:
        rare = int(((counts := having(data, persons)) > 0).sum() - (counts >= rules.least_documents).sum())
        yield Statement(
            "rare words", f"{rare:,} of {len(counts):,} words have fewer than {rules.least_documents} documents"
        )


def about_hiding(model: Model, data: Any, rules: Rules, persons: Persons) -> Iterator[Statement]:
    """What the rules would hide or refuse."""
    try:
        changed = prepared(model, data, rules, persons=persons, blind=False).changed
    except (DecbayesError, InvalidData) as error:
        yield Statement("rules", str(error).replace(MADE_UP, "").strip(), "stop")  # rules are the protocol's
        return
    for text in changed:
        yield Statement("hidden", text, "look")
    if not changed:
        yield Statement(
            "hidden", f"no value is rarer than the rules allow ({rules.least_cell} persons); '{OTHER}' is not needed"
        )
