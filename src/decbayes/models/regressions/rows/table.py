"""The rows of a regression: agreed columns, the target among them, as numbers; from frames and from files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import hypot
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import names_of
from decbayes.columns import OTHER, Column, plain
from decbayes.columns.cells import is_missing, text_of
from decbayes.columns.column import SOLVABLE
from decbayes.columns.frames import check_agreed, coded, is_frame, known, names_in, rows_in, unagreed_in, values_in
from decbayes.errors import InvalidData, InvalidStructure, warn
from decbayes.families import Array
from decbayes.inputs.mixed_tables import read_frame
from decbayes.inputs.tables import Report, RowsLeftOut
from decbayes.models.core.model import ignore
from decbayes.models.core.persons import Persons, most_common
from decbayes.models.core.points import as_numbers, as_points, check_held, unagreed_values
from decbayes.models.core.transforms import Observed
from decbayes.models.regressions.formulas.design import Design, PerLevel, needed
from decbayes.models.regressions.formulas.expressions import Expression, expression_of
from decbayes.models.regressions.rows.stacking import Stack
from decbayes.remarks import Remark

Gaps = NDArray[np.bool_]

# Warning limits in agreed units; weak priors of the noise allow for distant targets.
FAR, FAR_TARGET = 20.0, 1000.0


class Rows(NamedTuple):
    """The input of a regression: design matrix, target, offset and weight of each row, its constant of the
    log-likelihood, and its observation's number.
    """

    matrix: Array
    targets: Array
    offset: Array
    weights: Array
    constant: Array
    observation: NDArray[np.intp]


@dataclass(frozen=True)
class Table:
    """The contents of columns, which of them are terms, and which of these vary between sites.

    Rows are data frames with these columns, or matrices of numbers in their order, with categories as numbers from 0.
    If something varies, the number of a row's site follows after the columns, NaN if it is not named, and then that of
    its group inside the site, if something varies between these.
    """

    target: str
    columns: Mapping[str, Column]
    terms: Sequence[str] = ()
    intercept: bool = True
    varying: Sequence[str] = ()
    by: str = ""
    correlated: bool = False
    varying_within: Sequence[str] = ()
    within: str = ""
    offset: str = ""
    weights: str = ""
    stack: Stack | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", known(self.columns))
        if self.target not in self.columns:
            formula = "This is a formula: `from_frame(frame, formula)` makes a model of it."
            remedy = formula if "~" in self.target else "Say what it holds."
            raise InvalidStructure(f"The target '{self.target}' is not among the columns. {remedy}")
        apart = {self.target, *needed(self.columns, self.offset, self.weights, *self.outcomes)}
        others = tuple(name for name in self.columns if name not in apart)
        terms = names_of(terms=self.terms) or others
        if self.baseline is not None:
            terms = (self.baseline.name, *(term for term in terms if term != self.baseline.name))
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "intercept", bool(self.intercept) and self.baseline is None)
        if self.weights and self.columns[self.weights].flag:
            raise InvalidStructure(f"The weights '{self.weights}' must be a column of numbers.")
        _ = self.added  # raises now if it is not numeric
        written = dict(zip(self.terms, self.design.canonical, strict=True))
        object.__setattr__(self, "terms", tuple(written.values()))
        del self.__dict__["design"]  # cached with the terms as given
        for name in ("varying", "varying_within"):
            varying = names_of(**{name: getattr(self, name)})
            object.__setattr__(self, name, tuple(written.get(term, term) for term in varying))
        if not self.design.labels:
            raise InvalidStructure("A regression needs an intercept, or a term.")
        if self.by and not self.varying:
            raise InvalidStructure(f"Sites are in '{self.by}', but no term varies: name terms with `varying`.")
        self.check_groups()
        several = max(len(self.places), len(self.places_within)) > 1
        object.__setattr__(self, "correlated", bool(self.correlated) and several)

    def check_groups(self) -> None:
        """Columns that name groups cannot be columns of the regression; groups inside sites need sites that vary."""
        for name, setting, groups in ((self.by, "by", "sites"), (self.within, "within", "groups inside sites")):
            if name in self.columns:
                raise InvalidStructure(
                    f"'{name}' names {groups} (`{setting}`), and cannot also be a column of the regression."
                )
        if bool(self.within) != bool(self.varying_within):
            raise InvalidStructure("Groups inside sites need both: `within` names them, `varying_within` what varies.")
        if self.within and (not self.varying or self.within == self.by):
            raise InvalidStructure(
                f"'{self.within}' names groups inside sites: say with `varying` what differs between sites, too, or "
                "name the groups with `by` if there is no level above them."
            )

    @property
    def baseline(self) -> Stack | None:
        """The stack, if its levels replace the intercept."""
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

    @cached_property
    def added(self) -> Expression | None:
        """The offset of the linear predictor."""
        return expression_of(self.offset, self.columns) if self.offset else None

    def named(self, points: Array) -> dict[str, Array]:
        """The values of each column."""
        return {name: points[:, place] for place, name in enumerate(self.columns)}

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """The coefficients that vary between sites."""
        return np.array(self.design.places(self.varying), dtype=np.intp)

    @cached_property
    def places_within(self) -> NDArray[np.intp]:
        """The coefficients that vary between groups inside sites."""
        return np.array(self.design.places(self.varying_within), dtype=np.intp)

    @cached_property
    def places_of_other(self) -> NDArray[np.intp]:
        """The coefficients of categories that count as "other", which are not the same ones at all sites."""
        parts = [label.split(":") for label in self.design.labels]
        others = [any(part.endswith(f"={OTHER}") for part in of_label) for of_label in parts]
        return np.flatnonzero(others)

    @property
    def depth(self) -> int:
        """How many group numbers follow after the columns."""
        return bool(self.varying) + bool(self.varying_within)

    @property
    def predictors(self) -> tuple[str, ...]:
        """The columns that a prediction needs."""
        return tuple(name for name in self.columns if name not in (self.target, self.weights, *self.outcomes))

    @cached_property
    def target_place(self) -> int:
        """The position of the target among the columns."""
        return list(self.columns).index(self.target)

    def constants(self) -> dict[str, Any]:
        """What sites must agree on."""
        named = {"by": self.by, "correlated": self.correlated, "within": self.within}
        named |= {"varying_within": list(self.varying_within)}
        varying = {"varying": list(self.varying), **{name: value for name, value in named.items() if value}}
        varying = varying if self.varying else {}
        terms = {"terms": list(self.terms), "intercept": self.intercept}
        apart = {name: text for name, text in (("offset", self.offset), ("weights", self.weights)) if text}
        stacked = {} if self.stack is None else self.stack.constants()
        return {"target": self.target, "columns": plain(self.columns), **terms, **varying, **apart, **stacked}

    def check_outcome(self, targets: Array, least: int, persons: Persons) -> None:
        """A rare outcome singles out its persons, whatever the predictors."""
        values = np.unique(targets)
        few = persons.among(targets != most_common(targets))
        if 0 < few < least:
            raise InvalidData(
                f"All but fewer than {least} persons have the same '{self.target}', and the file would single out the "
                "others. A merge without such sites overestimates the rare outcome: choose one that more persons "
                "have, or put several small sites into one file."
            )
        squares = self.columns[self.target].factor == "real" and len(values) <= SOLVABLE
        if squares and any(persons.among(targets == value) < least for value in values):
            raise InvalidData(
                f"Fewer than {least} persons have one of the {len(values)} values of '{self.target}', and the file "
                "would reveal how many. Join values."
            )

    def target_units(self, size: float, zero: float) -> tuple[float, float]:
        """The unit and the zero of a target that has these in agreed units: it is centred only if some coefficients add
        a constant to every row. `y ~ x - 1` goes through the origin."""
        return (size, zero) if self.design.own_units[1].any() else (hypot(size, zero), 0.0)

    def own_units(self, size: float, zero: float) -> tuple[Array, Array]:
        """Convert coefficients to those of columns and target in their own units, given the target's unit and zero: a
        matrix, and a constant to add.
        """
        change, level = self.design.own_units
        return size * change, zero * level

    def points(self, data: Any, *, target: bool = True) -> Array:
        """Rows as a matrix of numbers; the target is NaN if not needed."""
        points = self._coded(data, target) if is_frame(data) else self.numbers(data)
        used = [place for place, name in enumerate(self.columns) if target or name in self.predictors]
        gaps = np.isnan(points[:, used]).any(axis=1)
        if gaps.any():
            raise InvalidData(
                f"{gaps.sum():,} of {len(points):,} rows have missing values; the first is row {gaps.argmax()}, "
                "counted from 0. A regression needs complete rows: leave these out, or use LatentClasses.imputations."
            )
        return points

    def unagreed(self, data: Any) -> tuple[Remark, ...]:
        """Remarks on values in a frame that are not agreed on; matrices of numbers have none."""
        names = names_in(data) if is_frame(data) else ()  # without likelihoods of classes, which come later
        texts = unagreed_in(data, {name: column for name, column in self.columns.items() if name in names})
        return tuple(unagreed_values(text.column, text.share) for text in texts)

    def _coded(self, frame: Any, target: bool) -> Array:
        used = {name: column for name, column in self.columns.items() if target or name in self.predictors}
        for text in () if target else unagreed_in(frame, used, remedy=""):
            if text.share == 1.0:
                check_agreed(text.column, used[text.column], values_in(frame, text.column))
            warn(text)
        points = np.full((rows_in(frame), len(self.columns)), np.nan)
        if used:  # a mean without terms needs no columns
            points[:, [place for place, name in enumerate(self.columns) if name in used]] = coded(frame, used)
        names = [self.by, self.within][: self.depth]
        return np.column_stack([points, *(group_numbers(frame, name, len(points)) for name in names)])

    def numbers(self, data: Any) -> Array:
        """Check a matrix; without a column for the site, rows are from one site."""
        rows, width = as_numbers(data), len(self.columns)
        if rows.ndim == 2 and width <= rows.shape[1] < width + self.depth:
            unnamed = np.full((len(rows), width + self.depth - rows.shape[1]), np.nan)
            rows = np.column_stack([rows[:, :width], unnamed, rows[:, width:]])
        return as_points(rows, width + self.depth, unseen=True)

    def with_targets(self, data: Any, targets: Any) -> Array:
        """Complete rows as numbers, with their held-out targets."""
        width, (seen, hidden) = len(self.columns), map(self.numbers, (data, targets))
        check_held(seen[:, :width], hidden[:, :width])
        if not np.isnan(np.delete(hidden[:, :width], self.target_place, axis=1)).all():
            raise InvalidData(f"A regression predicts its target: only values of '{self.target}' can be held out.")
        return np.where(np.isnan(hidden), seen, hidden)

    def parts(self, data: Any) -> tuple[Array, Array]:
        """(N, D) design matrix and (N,) targets, as coded."""
        points = self.points(data)
        return self.matrix(points), self.targets(points)

    def matrix(self, points: Array) -> Array:
        """(N, D): the design matrix; the target need not be known."""
        return self.design.matrix(np.delete(points[:, : len(self.columns)], self.target_place, axis=1))

    def targets(self, points: Array) -> Array:
        """The coded targets of complete rows, after a check of the rows' units."""
        level = "" if self.stack is None else self.stack.name
        report_far(self.columns, self.target, needed(self.columns, *self.terms, further=level), points)
        return points[:, self.target_place]

    def rows(self, points: Array, *, every: bool = False) -> Rows:
        """The rows that observations become; `every`: one for each level, whatever the outcome."""
        values, offset = self.named(points), np.zeros(len(points))
        if self.added is not None:
            offset += self.added.checked(values)
        weights = values[self.weights] if self.weights else np.ones(len(points))
        if (weights < 0).any():
            raise InvalidData(f"The weights '{self.weights}' must not be negative.")
        if self.stack is None:
            constant, rows = np.zeros(len(points)), np.arange(len(points))
            return Rows(self.matrix(points), values[self.target], offset, weights, constant, rows)
        stacked = self.stack.every(len(points)) if every else self.stack.rows(values[self.target], values)
        observation, matrix = stacked.observation, self._at_levels(points, stacked.observation, stacked.level)
        added = offset[observation] + stacked.offset
        if stacked.minus is not None:
            differences = np.flatnonzero(~np.isnan(stacked.minus))
            matrix[differences] -= self._at_levels(points, observation[differences], stacked.minus[differences])
            added[differences] = 0.0
        return Rows(matrix, stacked.target, added, weights[observation], stacked.constant, observation)

    def _at_levels(self, points: Array, observation: NDArray[np.intp], level: Array) -> Array:
        """The design matrix of some observations at these levels of the stack."""
        numbers = np.column_stack([points[observation, : len(self.columns)], level])
        return self.design.matrix(np.delete(numbers, self.target_place, axis=1))

    def names(self, points: Array) -> Array:
        """(N, 1) or (N, 2): the number of each row's site, and of its group inside that; NaN if unnamed."""
        return points[:, len(self.columns) :] if self.varying else np.full((len(points), 1), np.nan)

    def group_names(self, data: Any, numbers: Sequence[Array]) -> dict[str, str]:
        """The local names of these sites and groups, by their numbers."""
        every = np.concatenate(numbers)
        names = {str(number): "here" if np.isnan(number) else f"{number:g}" for number in every}
        for column in (self.by, self.within):
            if is_frame(data) and column in names_in(data):
                texts = sorted({text_of(value) for value in values_in(data, column)})
                names |= {str(np.float64(number_of(text))): text for text in texts}
        return names

    def typical(self) -> Array:
        """One row with the agreed centre of each real column, and the first category of all others."""
        zeros = np.array([column.zero_and_unit[0] for column in self.columns.values()])
        return np.append(zeros, np.full(self.depth, np.nan))

    def made_up(self, size: int, rng: np.random.Generator) -> Array:
        """Plausible rows for these columns."""
        return np.column_stack([column.made_up(size, rng) for column in self.columns.values()])

    def read(self, path: Path, report: Report) -> Array:
        """The agreed columns of a file, without rows with missing values."""
        rows = complete(path, self._frame(path, list(self.columns)), report).data
        points = self.points(rows)
        for text in unagreed_in(rows, self.columns):
            report(text)
        return points

    def persons(self, path: Path, column: str) -> Persons:
        """The person behind each complete row of a file."""
        labels = read_frame(path, [column])[column]
        rows = complete(path, self._frame(path, list(self.columns)), ignore).rows
        return Persons.of(labels[rows])

    def stream(self, path: Path, report: Report) -> Iterator[Observed]:
        """The predictors of a file; rows with a missing one get no prediction."""
        yield complete(path, self._frame(path, list(self.predictors)), report)

    def _frame(self, path: Path, names: list[str]) -> Mapping[str, Any]:
        """Some columns of a file, and those that name sites and groups if it has them."""
        frame = read_frame(path)
        if any(name not in frame for name in names):
            return read_frame(path, names)  # which says what is missing
        return {name: frame[name] for name in frame if name in names or name in (self.by, self.within)} or frame


def complete(path: Path, frame: Mapping[str, Any], report: Report) -> Observed:
    """The complete rows of a file, and their positions."""
    gaps: Gaps = np.any([[is_missing(value) for value in values] for values in frame.values()], axis=0)
    if gaps.all():
        raise InvalidData(f"{path}: every row has a missing value, and a regression needs complete rows.")
    if gaps.any():
        text = f"{path}: {gaps.sum():,} of {len(gaps):,} rows have missing values and are left out."
        report(RowsLeftOut(text, int(gaps.sum()), "missing values"))
    whole = {name: values[~gaps] for name, values in frame.items()}
    return Observed(whole, rows=np.flatnonzero(~gaps), size=len(gaps))


def report_far(columns: Mapping[str, Column], target: str, used: Sequence[str], points: Array) -> None:
    """Warn if a real column is far from zero in agreed units: priors would pull its coefficients away."""
    for place, (name, column) in enumerate(columns.items()):
        if column.factor == "real" and len(points) and name in (target, *used):
            centre, scale = column.zero_and_unit
            away = abs(float(points[:, place].mean()) - centre) / scale
            if away > (FAR_TARGET if name == target else FAR):
                warn(
                    f"Column '{name}' is on average {away:.3g} agreed units from its agreed centre, where the prior "
                    "pulls coefficients to. Check its unit, and that sites have agreed on its centre and scale."
                )


def group_numbers(frame: Any, by: str, rows: int) -> Array:
    """A number for the group of each row, by its name in a column; NaN without such a column.

    The same name has the same number everywhere. Names themselves go nowhere.
    """
    if not by or by not in names_in(frame):
        return np.full(rows, np.nan)
    values = values_in(frame, by)
    unnamed = np.array([is_missing(value) for value in values], dtype=bool)
    if unnamed.any():
        raise InvalidData(f"{unnamed.sum():,} of {rows:,} rows do not name their group in '{by}'.")
    names = list(map(text_of, values))
    numbers = {name: number_of(name) for name in set(names)}
    return np.array([numbers[name] for name in names])


def number_of(name: str) -> float:
    """A 48-bit hash, which a float holds exactly."""
    return float(int.from_bytes(blake2b(name.encode(), digest_size=6).digest(), "big"))
