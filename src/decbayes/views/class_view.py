"""Classes of a table, and states of sequences, column by column."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from decbayes.columns import YesNo
from decbayes.errors import InvalidData
from decbayes.models.tables.latent_classes import LatentClasses
from decbayes.models.tables.profiles import narrow_columns, profile_rows
from decbayes.posterior import Posterior
from decbayes.views.values import Interval, Matrix, Part, Profile, Row, Shape, Shares, Trace
from decbayes.views.view import LEVEL, TOP, View, interval_of

# A column gains nothing by separate distributions for each class; with a single class it breaks even, up to rounding.
LEAST_GAIN = -1e-6


class ClassView(View):
    name: ClassVar[str] = "classes"
    by_column: ClassVar[bool] = True

    def parts(
        self, posterior: Posterior, *, shape: Shape | None = None, top: int = TOP, level: float = LEVEL
    ) -> Sequence[Part]:
        """The mean of each column with an interval, or the shares of its categories."""
        rows = profile_rows(self.model.columns, self.model.emissions, posterior, level)
        cells: dict[int, dict[str, list[Any]]] = {}
        for row in rows:
            cells.setdefault(row["component"], {}).setdefault(row["column"], []).append(row)
        weights = self.weights(posterior, len(cells))
        facts = [{key: row[key] for key in row if key not in self.model.columns} for row in self.rows(posterior)]
        return [Profile(self.profile(cells[k]), weights[k], facts=self.facts(facts[k])) for k in range(len(cells))]

    def profiles(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Profile]:
        """As drawn, but a yes/no column has categories."""
        parts = [part for part in self.parts(posterior, level=level) if isinstance(part, Profile)]
        yes = {name: column.yes for name, column in self.model.columns.items() if isinstance(column, YesNo)}
        return [
            replace(part, columns={name: categories(value, yes.get(name, "")) for name, value in part.columns.items()})
            for part in parts
        ]

    def in_units(self, row: Row) -> Row:
        """A row about a real column in the units of the data, because sites center and scale such columns."""
        column = self.model.columns.get(row["entry"])
        if column is None or row["quantity"] not in ("mean", "precision"):
            return row
        zero, unit = column.zero_and_unit if row["quantity"] == "mean" else (0.0, column.zero_and_unit[1] ** -2.0)
        moved = {name: zero + unit * row[name] for name in ("mean", "lower", "upper") if name in row}
        return {**row, **moved, "deviation": unit * row["deviation"]}

    def profile(self, cells: Mapping[str, Sequence[Any]]) -> dict[str, Interval | Shares]:
        return {name: self.value(name, cells[name]) for name in self.model.columns}

    def value(self, name: str, rows: Sequence[Any]) -> Interval | Shares:
        unit = "probability" if self.model.columns[name].shown_as_share else ""
        values = {row["category"]: Interval(row["mean"], row["low"], row["high"], unit=unit) for row in rows}
        return values[""] if "" in values else Shares(values)

    def tables(self, posterior: Posterior) -> Mapping[str, Sequence[Row]]:
        """Columns that cost more than they reveal about the class, apart from those that do not fit their scale."""
        if not isinstance(self.model, LatentClasses):
            return {}
        narrow = narrow_columns(self.model.columns, self.model.emissions, posterior)
        fitting = {*self.model.columns} - {row["column"] for row in narrow}
        rows = [row for row in self.model.separation(posterior) if row["gain"] < LEAST_GAIN]
        tables: dict[str, Sequence[Row]] = {
            "columns that do not distinguish classes: fit without them (--columns)": [
                row for row in rows if row["column"] in fitting
            ],
            "columns whose agreed scale does not fit their values: agree on columns again, and fit again": narrow,
        }
        return {title: listed for title, listed in tables.items() if listed}

    def weights(self, posterior: Posterior, count: int) -> Sequence[float | None]:
        """How frequent each class is."""
        return [float(weight) for weight in posterior.mean("weights")]


class StateView(ClassView):
    name: ClassVar[str] = "states"

    def weights(self, posterior: Posterior, count: int) -> Sequence[float | None]:
        """None: states keep their order, which shows how they follow each other."""
        return [None] * count

    def profiles(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Profile]:
        """Adds the length of a visit: 1 / (1 − p) steps, if a step stays with probability p."""
        parts = super().profiles(posterior, level=level)
        moves = (row for row in posterior.summary(top=len(parts), level=level) if row["factor"] == "transitions")
        stays = [interval_of(row) for row in moves if row["entry"] == str(row["component"])]
        visits = [Interval(*map(duration, (stay.mean, stay.low, stay.high))) for stay in stays]
        pairs = zip(parts, visits, strict=True)
        return [replace(part, columns={**part.columns, "steps per visit": visit}) for part, visit in pairs]

    def matrix(self, posterior: Posterior) -> Matrix:
        return Matrix(
            posterior.mean("transitions"), "from \\ to", "How often each state is followed by each other one."
        )

    def trace(self, posterior: Posterior, sequence: Any) -> Trace:
        steps = self.model.steps([sequence])
        if len(steps.ends) != 1:
            raise InvalidData("Only one sequence can be drawn at a time.")
        path = self.model.path(posterior, [sequence])[0]
        return Trace(tuple(self.model.columns), steps.points, path, self.model.assign(posterior, [sequence]))


def categories(value: Interval | Shares, yes: str) -> Interval | Shares:
    return Shares({yes: value}) if yes and isinstance(value, Interval) else value


def duration(stay: float) -> float:
    """The mean number of steps of a visit: 1 / (1 − p)."""
    return 1.0 / max(1.0 - stay, 1e-9)


def by_weight(parts: Mapping[int, Profile]) -> list[int]:
    """Components, most frequent first if they have weights."""
    return sorted(parts, key=lambda slot: -(parts[slot].weight or 0.0))


def most_different(parts: Sequence[Profile], most: int) -> list[str]:
    """The columns in which components differ most, in widths of their intervals; in the order of the table."""
    names = [*parts[0].columns]
    ranked = sorted(names, key=lambda name: -difference([part.columns[name] for part in parts]))
    return [name for name in names if name in set(ranked[:most])]


def difference(values: Sequence[Interval | Shares]) -> float:
    """How much components differ in a column, or in the category in which they differ most."""
    entries = [value.of if isinstance(value, Shares) else {"": value} for value in values]
    return max(spread([shares[name] for shares in entries]) for name in entries[0])


def spread(values: Sequence[Interval]) -> float:
    width = float(np.mean([abs(value.high - value.mean) for value in values]))
    return float(np.std([value.mean for value in values]) / max(width, 1e-12))
