"""Protect rows of few persons: levels, outcomes, combinations and groups that would single somebody out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from decbayes.columns.categories import assumed_share
from decbayes.columns.column import Column, Having, too_few
from decbayes.columns.frames import pooled
from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.models.core.persons import Persons, most_common, outcome_groups
from decbayes.models.regressions.formulas.design import mentioned
from decbayes.models.regressions.rows.table import Gaps, Table
from decbayes.models.regressions.varying.site_effects import same

# A computed term shows those who have this share of its squared distances from the median: others hardly add to it.
DOMINANT = 0.999

FEW = (
    "Fewer than {least} persons differ in '{target}': the file says that there are some and hides who they are. It "
    "does not tell what the outcome depends on{events}."
)


def pooled_rows(
    table: Table,
    data: Any,
    least: int,
    least_outcome: int,
    common: Sequence[float] = (),
    *,
    agreed: bool,
    persons: Persons,
) -> tuple[Any, Array, list[str]]:
    """Columns and rows without rare levels, also among persons of one outcome; and what was changed.

    If nearly all rows have one of the `common` outcomes, those of the others are hidden, and the site is not lost.
    """
    points, hidden = few_hidden(table, table.points(data), least, common, persons)
    targets = points[:, table.target_place]
    if table.stack is not None:
        targets = table.stack.stated(targets, table.named(points))
    table.check_outcome(targets, least, persons)
    groups = outcome_groups(targets, each=table.stack is not None and table.stack.crossed)

    def having(rows: Gaps) -> Array:
        return np.array([persons.among(rows), *(persons.among(rows & group) for group in groups)])

    minima = [least] + [least_outcome] * len(groups)
    used = [place for place, name in enumerate(table.columns) if name not in (table.target, *table.outcomes)]
    predictors = {name: table.columns[name] for name in np.array([*table.columns])[used]}
    columns, others, remarks = pooled(points[:, used], predictors, having, minima, agreed=agreed, predictors=True)
    changed = points.copy()
    changed[:, used] = others
    kept = {name: columns.get(name, column) for name, column in table.columns.items()}
    if hidden and not table.columns[table.target].flag:  # its mean would tell how many events there are
        kept[table.target] = type(table.columns[table.target]).found_in(points[:, table.target_place])
    check_ends(table, kept, least)
    pooled_table = replace(table, columns=kept)
    check_levels(pooled_table, changed, least, persons)
    check_combinations(pooled_table, changed, having, minima)
    return kept, larger_sites(pooled_table, changed, least, persons), hidden + remarks


def few_hidden(
    table: Table, points: Array, least: int, common: Sequence[float], persons: Persons
) -> tuple[Array, list[str]]:
    """Replace the outcomes by one share for all rows if fewer than `least` persons differ from a `common` one.

    Only where a likelihood of their number is known: each person has one row with the weight 1, and nothing varies.
    """
    targets = points[:, table.target_place]
    usual, rows = most_common(targets), len(points)
    few = persons.among(targets != usual)
    alike = persons.total(rows) == rows and not table.weights and not table.varying
    if usual not in common or not (alike and 0 < few < least):
        return points, []
    events = (
        "" if table.columns[table.target].flag else ", and counts one event per person: too few if some have several"
    )
    changed = points.copy()
    changed[:, table.target_place] = abs(usual - assumed_share(rows, least))
    return changed, [FEW.format(least=least, target=table.target, events=events)]


def check_ends(table: Table, kept: Mapping[str, Column], least: int) -> None:
    """Refuse splines whose ends follow from values that only a few persons have, and that the rules have replaced."""
    for term in (term for term in table.terms if "bounds=" in term):
        for name in mentioned(table.columns, term):
            if kept[name] != table.columns[name]:
                raise InvalidData(
                    f"Fewer than {least} persons differ in '{name}', and the ends of a spline of it would tell by how "
                    f"much. Leave '{name}' out of the formula."
                )


def check_levels(table: Table, points: Array, least: int, persons: Persons) -> None:
    """If observations become several rows, sums over a level reveal how many had which outcome there."""
    if table.stack is None:
        return
    # Hidden outcomes do not count, and everybody at a level is alike.
    targets = np.floor(points[:, table.target_place])
    for name, which in table.stack.singled_out(targets, table.named(points)):
        if 0 < persons.among(which) < least:
            raise InvalidData(
                f"Fewer than {least} persons here have an outcome in '{name}', and the file would single them "
                f"out. {table.stack.remedy}"
            )


def check_combinations(table: Table, points: Array, having: Having, least: Sequence[float]) -> None:
    """Products of columns, and numbers computed from them, may single rows out although no column does."""
    rows = table.rows(points)
    for term in (term for term in table.terms if term not in table.columns):
        numbers = rows.matrix[:, table.design.places([term])]
        others = [np.bincount(rows.observation, column != most_common(column), len(points)) for column in numbers.T]
        groups = [having(count > 0) for count in others]
        groups += [having(dominant(rows.observation, column, len(points))) for column in numbers.T]
        if too_few(np.array(groups).reshape(-1, len(least)), np.asarray(least, dtype=np.float64)).any():
            which, remedy = "combinations", "Leave the product out of the formula, or join categories."
            if ":" not in term:
                which, remedy = "values", "Leave it out of the formula, or cap the values that it is computed from."
            if table.baseline is not None and term == table.baseline.name:
                which, remedy = "levels", table.baseline.remedy
            raise InvalidData(
                f"Too few persons here have some of the {which} in '{term}', and the file would single them out. "
                f"{remedy}"
            )


def dominant(observation: Any, numbers: Array, count: int) -> Gaps:
    """The few observations to which nearly all of a term's squared distances from its median belong."""
    squares = np.bincount(observation, (numbers - np.median(numbers)) ** 2, count)
    largest_first = np.argsort(-squares, kind="stable")
    shares = np.cumsum(squares[largest_first])
    chosen = np.zeros(count, dtype=np.bool_)
    if shares[-1] > 0.0:
        chosen[largest_first[: int(np.searchsorted(shares, DOMINANT * shares[-1])) + 1]] = True
    return chosen


def larger_sites(table: Table, points: Array, least: int, persons: Persons) -> Array:
    """Join small sites within the file into one, with as many others as needed to have enough persons; likewise groups
    inside a site.
    """
    changed, width = points.copy(), len(table.columns)
    if table.varying:
        changed[:, width] = larger_groups(points[:, width], np.ones(len(points), dtype=np.bool_), least, persons)
    for site in np.unique(changed[:, width]) if table.within else ():
        at_site = same(changed[:, width], site)
        changed[at_site, width + 1] = larger_groups(changed[:, width + 1], at_site, least, persons)[at_site]
    return changed


def larger_groups(groups: Array, among: Gaps, least: int, persons: Persons) -> Array:
    """Numbers of the groups of some rows; groups of few persons are joined into one that has enough."""
    numbers = np.unique(groups[among])
    having = np.array([persons.among(among & same(groups, number)) for number in numbers])
    joined = np.zeros(len(groups), dtype=np.bool_)
    for place in np.argsort(having, kind="stable"):
        if having[place] < least or 0 < persons.among(joined) < least:
            joined |= among & same(groups, numbers[place])
    return np.where(joined, groups[joined].min(), groups) if joined.any() else groups
