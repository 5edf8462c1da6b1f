"""Batch fits from several starts: the best is the one with the best bound, for no one may look at the test data."""

import numpy as np

from decbayes.families import Array
from paper.table import Table

BOUND = "bound"


def best_starts(table: Table, starts: int, measure: str) -> Array:
    """In each trial the measure of that batch start, among the first so many, whose bound is best."""
    found = []
    for trial in table.where(method="batch").distinct("trial"):
        rows = table.where(method="batch", trial=trial)
        values, bounds = rows.values(measure=measure)[:starts], rows.values(measure=BOUND)[:starts]
        if len(values) == starts:
            found.append(float(values[int(np.argmax(bounds))]))
    return np.array(found)


def all_starts_seconds(table: Table, starts: int) -> Array:
    """In each trial the time of so many starts, one after another."""
    rows = table.where(method="batch", measure=BOUND)
    spent = [rows.seconds(trial=trial)[:starts] for trial in rows.distinct("trial")]
    return np.array([seconds.sum() for seconds in spent if len(seconds) == starts])
