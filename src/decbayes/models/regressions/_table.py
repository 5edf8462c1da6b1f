"""The rows of a regression: agreed columns, the target among them, as numbers; from frames and from files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.arguments import names_of
from decbayes.columns import Column, plain
from decbayes.columns.cells import is_missing, text_of
from decbayes.columns.column import SOLVABLE, Having, too_few
from decbayes.columns.frames import coded, is_frame, known, names_in, pooled, report_unagreed, rows_in, values_in, warn
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array
from decbayes.inputs.mixed_tables import read_frame
from decbayes.inputs.tables import LeftOut, Report
from decbayes.models.core.model import ignore
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.points import as_numbers, as_points, check_held
from decbayes.models.core.transforms import Observed
from decbayes.models.regressions.formulas.design import Design, PerLevel, needed
from decbayes.models.regressions.formulas.expressions import Expression, expression_of
from decbayes.models.regressions.stacking import Stack

Gaps = NDArray[np.bool_]

# In agreed units. A prior of the noise that says little allows for targets that are far away.
FAR, FAR_TARGET = 20.0, 1000.0


class Rows(NamedTuple):
    """What a regression is computed from: numbers of the terms, target, offset and weight of each row, what is added to
    its log-likelihood, and the number of the observation that it is a row of.
    """

    matrix: Array
    targets: Array
    offset: Array
    weights: Array
    constant: Array
    observation: NDArray[np.intp]


@dataclass(frozen=True)
class Table:
    """What the columns hold, which of them are terms, and which of these vary from site to site.

    Rows are data frames with these columns, or matrices of numbers in their order, with categories as numbers from 0
    on. If something varies, the number of a row's site follows behind the columns, NaN if nobody names it.
    """

    target: str
    columns: Mapping[str, Column]
    terms: Sequence[str] = ()
    intercept: bool = True
    varying: Sequence[str] = ()
    by: str = ""
    offset: str = ""
    weights: str = ""
    stack: Stack | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", known(self.columns))
        if self.target not in self.columns:
            raise InvalidStructure(f"The target '{self.target}' is not among the columns; say what it holds.")
        apart = {self.target, *needed(self.columns, self.offset, self.weights, *self.outcomes)}
        others = tuple(name for name in self.columns if name not in apart)
        terms = names_of(terms=self.terms) or others
        if self.baseline is not None:
            terms = (self.baseline.name, *(term for term in terms if term != self.baseline.name))
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "intercept", bool(self.intercept) and self.baseline is None)
        self.check_apart()
        written = dict(zip(self.terms, self.design.canonical, strict=True))
        object.__setattr__(self, "terms", tuple(written.values()))
        del self.__dict__["design"]  # which has the terms as they were given
        varying = names_of(varying=self.varying)
        object.__setattr__(self, "varying", tuple(written.get(name, name) for name in varying))
        if not self.design.labels:
            raise InvalidStructure("A regression needs an intercept, or a term.")
        if self.by and not self.varying:
            raise InvalidStructure(f"Sites are in '{self.by}', but nothing is said to vary: name it with `varying`.")
        if self.by in self.columns:
            raise InvalidStructure(f"'{self.by}' names sites (`by`), and can be no column of the regression as well.")
        _ = self.places

    @property
    def baseline(self) -> Stack | None:
        """The stack, if its levels take the place of the intercept."""
        return None if self.stack is None or self.stack.crossed else self.stack

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Columns that hold the outcome, besides the target."""
        return () if self.stack is None else self.stack.needs

    @cached_property
    def design(self) -> Design:
        level = "" if self.stack is None else self.stack.name
        if self.target in needed(self.columns, *self.terms, self.offset, self.weights, further=level):
            raise InvalidStructure(f"The target '{self.target}' cannot be a term of its own regression.")
        predictors = {name: column for name, column in self.columns.items() if name != self.target}
        if self.stack is not None:
            if self.stack.name in self.columns:
                raise InvalidStructure(f"Rename the column '{self.stack.name}': the name is needed here.")
            predictors[self.stack.name] = self.stack.column
        kind = PerLevel if self.stack is not None and self.stack.crossed else Design
        return kind(predictors, tuple(self.terms), self.intercept)

    def check_apart(self) -> None:
        """An offset is a number, and so is a weight."""
        if self.weights and (self.weights not in self.columns or self.columns[self.weights].flag):
            raise InvalidStructure(f"The weights '{self.weights}' are no column of numbers.")
        _ = self.added

    @cached_property
    def added(self) -> Expression | None:
        """What the linear predictor has besides xβ."""
        return expression_of(self.offset, self.columns) if self.offset else None

    def offsets(self, points: Array) -> Array:
        """(N,): what each row adds to xβ."""
        values = {name: points[:, place] for place, name in enumerate(self.columns)}
        return np.zeros(len(points)) if self.added is None else self.added.checked(values) + np.zeros(len(points))

    def row_weights(self, points: Array) -> Array:
        """(N,): how often each row counts."""
        if not self.weights:
            return np.ones(len(points))
        weights = points[:, list(self.columns).index(self.weights)]
        if (weights < 0).any():
            raise InvalidData(f"The weights '{self.weights}' must be numbers from 0 on.")
        return np.asarray(weights)

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Which coefficients differ from site to site."""
        return np.array(self.design.places(self.varying), dtype=np.intp)

    @property
    def predictors(self) -> tuple[str, ...]:
        """The columns that a prediction needs."""
        return tuple(name for name in self.columns if name not in (self.target, self.weights, *self.outcomes))

    @cached_property
    def target_place(self) -> int:
        """Where the target is among the columns."""
        return list(self.columns).index(self.target)

    def constants(self) -> dict[str, Any]:
        """What sites must agree on."""
        varying = {"varying": list(self.varying), **({"by": self.by} if self.by else {})} if self.varying else {}
        terms = {"terms": list(self.terms), "intercept": self.intercept}
        apart = {name: text for name, text in (("offset", self.offset), ("weights", self.weights)) if text}
        stacked = {} if self.stack is None else self.stack.constants()
        return {"target": self.target, "columns": plain(self.columns), **terms, **varying, **apart, **stacked}

    def pooled(
        self, data: Any, least: int, least_outcome: int, *, agreed: bool, persons: Persons = EACH
    ) -> tuple[Any, Array, list[str]]:
        """Columns and rows without levels that few have, few of one outcome included; and what was changed."""
        points = self.points(data)
        targets = points[:, self.target_place]
        if self.stack is not None:
            targets = self.stack.stated(targets, dict(zip(self.columns, points.T, strict=False)))
        self.check_outcome(targets, least, persons)
        groups = outcome_groups(targets, each=self.stack is not None and self.stack.crossed)

        def having(rows: NDArray[np.bool_]) -> Array:
            return np.array([persons.among(rows), *(persons.among(rows & group) for group in groups)])

        minima = [least] + [least_outcome] * len(groups)
        used = [place for place, name in enumerate(self.columns) if name not in (self.target, *self.outcomes)]
        predictors = {name: self.columns[name] for name in np.array([*self.columns])[used]}
        columns, others, remarks = pooled(points[:, used], predictors, having, minima, agreed=agreed, predictors=True)
        changed = points.copy()
        changed[:, used] = others
        kept = {name: columns.get(name, column) for name, column in self.columns.items()}
        told = replace(self, columns=kept)
        told.check_combinations(changed, having, minima)
        told.check_levels(changed, least, persons)
        return kept, told.larger_sites(changed, least, persons), remarks

    def check_outcome(self, targets: Array, least: int, persons: Persons) -> None:
        """An outcome that few persons have singles these out, whatever the predictors."""
        values = np.unique(targets)
        few = persons.among(targets != most_common(targets))
        if 0 < few < least:
            raise InvalidData(
                f"All but fewer than {least} persons have the same '{self.target}', and the file would single out the "
                "others. Predict something that more persons differ in."
            )
        squares = self.columns[self.target].factor == "real" and len(values) <= SOLVABLE
        if squares and any(persons.among(targets == value) < least for value in values):
            raise InvalidData(
                f"Fewer than {least} persons have one of the {len(values)} values of '{self.target}', and the file "
                "would tell how many. Join values."
            )

    def check_levels(self, points: Array, least: int, persons: Persons) -> None:
        """Where observations count as several rows, sums over a level tell how many had which outcome there."""
        if self.stack is None:
            return
        values = dict(zip(self.columns, points.T, strict=False))
        for name, which in self.stack.singled_out(points[:, self.target_place], values):
            if 0 < persons.among(which) < least:
                raise InvalidData(
                    f"Fewer than {least} persons here have an outcome in '{name}', and the file would single them "
                    f"out. {self.stack.remedy}"
                )

    def check_combinations(self, points: Array, having: Having, least: Sequence[float]) -> None:
        """Products of columns may single rows out although neither column does."""
        few, rows = [], self.rows(points)
        for term in (term for term in self.terms if term not in self.columns):
            numbers = rows.matrix[:, self.design.places([term])]
            groups = [
                having(of_observations(rows.observation, column != most_common(column), len(points)))
                for column in numbers.T
            ]
            if too_few(np.array(groups).reshape(-1, len(least)), np.asarray(least, dtype=np.float64)).any():
                few.append(term)
        if few:
            raise InvalidData(
                f"Too few persons here have some of the combinations in '{few[0]}', and the file would single them "
                "out. Leave the product out of the formula, or join categories."
            )

    def larger_sites(self, points: Array, least: int, persons: Persons) -> Array:
        """Sites within the file with few persons count as one, with as many others as it takes to have enough."""
        if not self.varying:
            return points
        sites, place = np.unique(points[:, -1], return_inverse=True)
        having = np.array([persons.among(place.reshape(-1) == site) for site in range(len(sites))])
        joined = np.zeros(len(points), dtype=np.bool_)
        for site in np.argsort(having, kind="stable"):
            if having[site] < least or 0 < persons.among(joined) < least:
                joined |= place.reshape(-1) == site
        if not joined.any():
            return points
        return np.column_stack([points[:, :-1], np.where(joined, points[joined, -1].min(), points[:, -1])])

    def units_and_offset(self, size: float, zero: float) -> tuple[Array, Array]:
        """One unit of each coefficient, and its zero, where the target has this unit and this zero."""
        offset = np.zeros(len(self.design.labels))
        offset[: int(self.intercept)] = zero
        return size / self.design.units, offset

    def points(self, data: Any, *, target: bool = True) -> Array:
        """Rows as a matrix of numbers; the target is NaN where it is not needed."""
        points = self._coded(data, target) if is_frame(data) else self.numbers(data)
        used = [place for place, name in enumerate(self.columns) if target or name in self.predictors]
        gaps = np.isnan(points[:, used]).any(axis=1)
        if gaps.any():
            raise InvalidData(
                f"{gaps.sum():,} of {len(points):,} rows have missing values, the first is number {gaps.argmax()}. A "
                "regression needs complete rows: leave these out, or fill them in with LatentClasses.fill."
            )
        return points

    def _coded(self, frame: Any, target: bool) -> Array:
        used = {name: column for name, column in self.columns.items() if target or name in self.predictors}
        points = np.full((rows_in(frame), len(self.columns)), np.nan)
        if used:  # a mean without terms needs no column to predict it
            points[:, [place for place, name in enumerate(self.columns) if name in used]] = coded(frame, used)
        return np.column_stack([points, site_numbers(frame, self.by, len(points))]) if self.varying else points

    def numbers(self, data: Any) -> Array:
        """A matrix as it is; one without a column for the site has rows of one site."""
        rows = as_numbers(data)
        if self.varying and rows.ndim == 2 and rows.shape[1] == len(self.columns):
            rows = np.column_stack([rows, np.full(len(rows), np.nan)])
        return as_points(rows, len(self.columns) + bool(self.varying), unseen=True)

    def with_targets(self, data: Any, targets: Any) -> Array:
        """Whole rows as numbers, of which the targets were held out."""
        width, (seen, hidden) = len(self.columns), map(self.numbers, (data, targets))
        check_held(seen[:, :width], hidden[:, :width])
        if not np.isnan(np.delete(hidden[:, :width], self.target_place, axis=1)).all():
            raise InvalidData(f"A regression predicts its target: only values of '{self.target}' can be held out.")
        return np.where(np.isnan(hidden), seen, hidden)

    def parts(self, data: Any) -> tuple[Array, Array]:
        """(N, D) numbers of the terms and (N,) targets, as coded."""
        points = self.points(data)
        return self.matrix(points), self.targets(points)

    def matrix(self, points: Array) -> Array:
        """(N, D): numbers of the terms; the target need not be known."""
        return self.design.matrix(np.delete(points[:, : len(self.columns)], self.target_place, axis=1))

    def targets(self, points: Array) -> Array:
        """The targets of whole rows, as they are coded, once the units of rows have been checked."""
        level = "" if self.stack is None else self.stack.name
        report_far(self.columns, self.target, needed(self.columns, *self.terms, further=level), points)
        return points[:, self.target_place]

    def rows(self, points: Array, *, every: bool = False) -> Rows:
        """The rows that observations count as; `every`: one for each level, whatever the outcome."""
        offset, weights = self.offsets(points), self.row_weights(points)
        if self.stack is None:
            targets = points[:, self.target_place]
            return Rows(self.matrix(points), targets, offset, weights, np.zeros(len(points)), np.arange(len(points)))
        values = {name: points[:, place] for place, name in enumerate(self.columns)}
        stacked = self.stack.every(len(points)) if every else self.stack.rows(values[self.target], values)
        of, matrix = stacked.observation, self._at_levels(points, stacked.observation, stacked.level)
        added = offset[of] + stacked.offset
        if stacked.minus is not None:
            apart = np.flatnonzero(~np.isnan(stacked.minus))
            matrix[apart] -= self._at_levels(points, of[apart], stacked.minus[apart])
            added[apart] = 0.0
        return Rows(matrix, stacked.target, added, weights[of], stacked.constant, of)

    def _at_levels(self, points: Array, observation: NDArray[np.intp], level: Array) -> Array:
        """Numbers of the terms, of some observations at these levels of the stack."""
        numbers = np.column_stack([points[observation, : len(self.columns)], level])
        return self.design.matrix(np.delete(numbers, self.target_place, axis=1))

    def sites(self, points: Array) -> Array:
        """(N,): the number of each row's site, NaN where nobody names one."""
        return points[:, -1] if self.varying else np.full(len(points), np.nan)

    def site_names(self, data: Any, numbers: Array) -> dict[str, str]:
        """What these sites are called here, by their numbers."""
        names = {str(number): "here" if np.isnan(number) else f"{number:g}" for number in numbers}
        if is_frame(data) and self.by in names_in(data):
            texts = sorted({text_of(value) for value in values_in(data, self.by)})
            names |= {str(np.float64(number_of(text))): text for text in texts}
        return names

    def typical(self) -> Array:
        """One row with the agreed centre of each real column, and the first category of all others."""
        zeros = np.array([column.zero_and_unit[0] for column in self.columns.values()])
        return np.append(zeros, np.nan) if self.varying else zeros

    def made_up(self, size: int, rng: np.random.Generator) -> Array:
        """Rows that the columns might hold."""
        return np.column_stack([column.made_up(size, rng) for column in self.columns.values()])

    def count(self, data: Any) -> int:
        return rows_in(data) if is_frame(data) else len(self.numbers(data))

    def joined(self, shards: Sequence[Any]) -> Array:
        return np.concatenate([self.points(shard) for shard in shards])

    def read(self, path: Path, report: Report) -> Array:
        """The agreed columns of a file, without rows in which something is missing."""
        rows = complete(path, self._frame(path, list(self.columns)), report).data
        report_unagreed(rows, self.columns, report)
        return self.points(rows)

    def persons(self, path: Path, column: str) -> Persons:
        """Whom each complete row of a file is about."""
        labels = read_frame(path, [column])[column]
        rows = complete(path, self._frame(path, list(self.columns)), ignore).rows
        return Persons.of(labels[rows])

    def stream(self, path: Path, report: Report) -> Iterator[Observed]:
        """The predictors of a file; rows in which one is missing get no prediction."""
        yield complete(path, self._frame(path, list(self.predictors)), report)

    def _frame(self, path: Path, names: list[str]) -> Mapping[str, Any]:
        """Some columns of a file, and the one that names sites if it has that."""
        frame = read_frame(path)
        if any(name not in frame for name in names):
            return read_frame(path, names)  # which says what is missing
        return {name: frame[name] for name in frame if name in names or name == self.by} or frame


def of_observations(observation: NDArray[np.intp], rows: Gaps, count: int) -> Gaps:
    """Which of so many observations have one of some rows."""
    return np.asarray(np.bincount(observation, weights=rows, minlength=count) > 0)


def outcome_groups(targets: Array, *, each: bool = False) -> list[Gaps]:
    """Rows whose outcome is not the most common one; and of two outcomes also those with the other. Or of `each`."""
    if each:
        return [targets == value for value in np.unique(targets)]
    others = targets != most_common(targets)
    return [others, ~others] if len(np.unique(targets)) == 2 else [others]


def most_common(numbers: Array) -> float:
    """The value that most rows have, the smallest of several."""
    values, times = np.unique(numbers, return_counts=True)
    return float(values[times.argmax()]) if len(values) else np.nan


def complete(path: Path, frame: Mapping[str, Any], report: Report) -> Observed:
    """The rows of a file in which nothing is missing, and which rows these are."""
    gaps: Gaps = np.any([[is_missing(value) for value in values] for values in frame.values()], axis=0)
    if gaps.all():
        raise InvalidData(f"{path}: every row has a missing value, and a regression needs complete rows.")
    if gaps.any():
        text = f"{path}: {gaps.sum():,} of {len(gaps):,} rows have missing values and are left out."
        report(LeftOut(text, int(gaps.sum()), "missing values"))
    whole = {name: values[~gaps] for name, values in frame.items()}
    return Observed(whole, rows=np.flatnonzero(~gaps), size=len(gaps))


def report_far(
    columns: Mapping[str, Column], target: str, used: Sequence[str], points: Array, report: Report = warn
) -> None:
    """Priors assume that real columns are near zero, in agreed units; else they pull coefficients away."""
    for place, (name, column) in enumerate(columns.items()):
        if column.factor == "real" and len(points) and name in (target, *used):
            centre, scale = column.zero_and_unit
            away = abs(float(points[:, place].mean()) - centre) / scale
            if away > (FAR_TARGET if name == target else FAR):
                report(
                    f"Column '{name}' is on average {away:.3g} agreed units from its agreed centre, where the prior "
                    "pulls coefficients to. Give it a centre and a scale, or let sites agree on them."
                )


def site_numbers(frame: Any, by: str, rows: int) -> Array:
    """A number for the site of each row, by its name in a column; NaN if there is no such column.

    The same name is the same number wherever it is met. Names themselves go nowhere.
    """
    if not by or by not in names_in(frame):
        return np.full(rows, np.nan)
    values = values_in(frame, by)
    unnamed = np.array([is_missing(value) for value in values], dtype=bool)
    if unnamed.any():
        raise InvalidData(f"{unnamed.sum():,} of {rows:,} rows do not name their site in '{by}'.")
    names = list(map(text_of, values))
    numbers = {name: number_of(name) for name in set(names)}
    return np.array([numbers[name] for name in names])


def number_of(name: str) -> float:
    """48 bits, which a float holds exactly."""
    return float(int.from_bytes(blake2b(name.encode(), digest_size=6).digest(), "big"))
