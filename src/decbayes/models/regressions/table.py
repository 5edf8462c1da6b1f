"""The tables of regressions: what the columns hold, which of them are terms, and rows from frames and files."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.columns import Column, Gaussian, columns_of, plain
from decbayes.columns.frames import coded, is_frame, known, names_in, rows_in, warn
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array
from decbayes.inputs.frames import read_frame
from decbayes.inputs.tables import Report
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.model import Columns as Names
from decbayes.models.core.model import Model, ignore, split_names
from decbayes.models.core.points import as_points, check_held
from decbayes.models.core.transforms import Observed
from decbayes.models.regressions._data import asked_for, check_among, complete, report_far
from decbayes.models.regressions.design import Design, Formula, needed, parsed
from decbayes.models.tables.tabular import Agreed, Kinds, columns_text, kinds_from, read_columns
from decbayes.structure import Structure

FACTOR = "coefficients"

WhatToFit = Annotated[str, "What to fit, as in 'pressure ~ age + sex'; or name a --target."]
Target = Annotated[str, "The column to predict, from all others."]


@dataclass(frozen=True)
class RegressionTable(Model):
    """How one column depends on others: a linear predictor Xβ, and an outcome y whose distribution depends on it.

    `columns` says what the columns hold, the `target` among them. `terms` are the columns to use, all others if not
    given, or several joined by ":" for their product. Real columns are in agreed units, (x − centre) / scale, so that
    priors mean the same for all of them.

    Data are data frames with these columns, or matrices of numbers in their order, with categories as numbers from 0
    on.
    """

    target: Annotated[str, "The column to predict."] = ""
    columns: Mapping[str, Column] = field(default_factory=dict, kw_only=True)
    terms: tuple[str, ...] = field(default=(), kw_only=True)
    intercept: Annotated[bool, "Whether there is an intercept."] = field(default=True, kw_only=True)
    ascent: Ascent = field(default=Ascent(passes=100, tolerance=1e-10), kw_only=True)

    from_data: ClassVar[frozenset[str]] = frozenset({"columns", "terms", "intercept"})
    caption: ClassVar[str] = "term"
    outcome: ClassVar[type[Column]] = Gaussian
    """What the target holds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", known(self.columns))
        if self.target not in self.columns:
            raise InvalidStructure(f"The target '{self.target}' is not among the columns; say what it holds.")
        others = tuple(name for name in self.columns if name != self.target)
        object.__setattr__(self, "terms", tuple(self.terms) or others)
        object.__setattr__(self, "intercept", bool(self.intercept))
        self.check_target(self.columns[self.target])
        if not self.design.labels:
            raise InvalidStructure("A regression needs an intercept, or a term.")

    @abstractmethod
    def coefficient_prior(self) -> Array:
        """(1, d): its prior."""

    @classmethod
    @abstractmethod
    def prior_settings(cls, prior: Array) -> dict[str, float]:
        """The settings that a prior tells."""

    def check_target(self, column: Column) -> None:
        if not isinstance(column, self.outcome):
            raise InvalidStructure(
                f"The target of {type(self).__name__} is {self.outcome.kind}; '{self.target}' is {column.kind}."
            )

    @cached_property
    def design(self) -> Design:
        if self.target in needed(self.columns, "", self.terms):
            raise InvalidStructure(f"The target '{self.target}' cannot be a term of its own regression.")
        predictors = {name: column for name, column in self.columns.items() if name != self.target}
        return Design(predictors, self.terms, self.intercept)

    @cached_property
    def target_place(self) -> int:
        """Where the target is among the columns."""
        return list(self.columns).index(self.target)

    def target_units(self) -> tuple[float, float]:
        """One unit of the linear predictor, and its zero, as the target has them."""
        return 1.0, 0.0

    def units_and_offset(self) -> tuple[Array, Array]:
        """One unit of each coefficient, and its zero, as columns and target have them."""
        size, zero = self.target_units()
        offset = np.zeros(len(self.design.labels))
        offset[: int(self.intercept)] = zero
        return size / self.design.units, offset

    def constants(self) -> Mapping[str, Any]:
        """What sites must agree on beside the prior."""
        told = {"target": self.target, "columns": plain(self.columns), "terms": list(self.terms)}
        return told | {"intercept": self.intercept}

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        told = super().settings_of(structure)
        return told | {"terms": tuple(told["terms"]), **cls.prior_settings(structure.prior[FACTOR][:1])}

    def points(self, data: Any, *, target: bool = True) -> Array:
        """Rows as a matrix of numbers; the target is NaN where it is not needed."""
        points = self._coded(data, target) if is_frame(data) else self._numbers(data)
        looked_at = [place for place, name in enumerate(self.columns) if target or name != self.target]
        gaps = np.isnan(points[:, looked_at]).any(axis=1)
        if gaps.any():
            raise InvalidData(
                f"{gaps.sum():,} of {len(points):,} rows have missing values, the first is number {gaps.argmax()}. A "
                "regression needs complete rows: leave these out, or fill them in with LatentClasses.fill."
            )
        return points

    def _coded(self, frame: Any, target: bool) -> Array:
        known = {name: column for name, column in self.columns.items() if target or name != self.target}
        # A mean without terms needs no column to predict it.
        points = coded(frame, known) if known else np.empty((rows_in(frame), 0))
        return points if target else np.insert(points, self.target_place, np.nan, axis=1)

    def _numbers(self, data: Any) -> Array:
        return as_points(data, len(self.columns), unseen=True)

    def rows_with(self, data: Any, held: Any) -> Array:
        """Whole rows as numbers, of which the targets were held out."""
        width, (seen, hidden) = len(self.columns), map(self._numbers, (data, held))
        check_held(seen[:, :width], hidden[:, :width])
        if not np.isnan(np.delete(hidden[:, :width], self.target_place, axis=1)).all():
            raise InvalidData(f"A regression predicts its target: only values of '{self.target}' can be held out.")
        return np.where(np.isnan(hidden), seen, hidden)

    def parts(self, data: Any) -> tuple[Array, Array]:
        """(N, D) numbers of the terms and (N,) targets, as coded."""
        points = self.points(data)
        return self._matrix(points), self._targets(points)

    @classmethod
    def kind_of(cls, frame: Any, target: str) -> str:
        """What the target holds, in a frame that nobody has agreed on."""
        return cls.outcome.kind

    @property
    def remark(self) -> str:
        """What else somebody who fits a file should know of its target."""
        return ""

    def check_outcomes(self, targets: Array) -> None:
        """Refuse values that the target cannot have; frames are checked by their columns."""

    def design_of(self, data: Any) -> Array:
        """(N, D) numbers of the terms; the target need not be known."""
        return self._matrix(self.points(data, target=False))

    def _matrix(self, points: Array) -> Array:
        return self.design.matrix(np.delete(points[:, : len(self.columns)], self.target_place, axis=1))

    def _targets(self, points: Array) -> Array:
        """The targets of whole rows, as they are coded, once rows have been looked at."""
        report_far(self.columns, self.target, points)
        targets = points[:, self.target_place]
        self.check_outcomes(targets)
        return targets

    def made_up_rows(self, size: int, rng: np.random.Generator) -> Array:
        return np.column_stack([column.made_up(size, rng) for column in self.columns.values()])

    def count(self, data: Any) -> int:
        return rows_in(data) if is_frame(data) else len(self._numbers(data))

    def taken(self, data: Any, rows: NDArray[np.intp]) -> Any:
        return self.points(data)[rows]

    def joined(self, shards: Sequence[Any]) -> Array:
        return np.concatenate([self.points(shard) for shard in shards])

    @classmethod
    def formula_settings(cls, said: Formula) -> dict[str, Any]:
        """What a formula says besides target and terms."""
        if said.varying:
            raise InvalidStructure(
                f"{cls.__name__} has no terms that vary from site to site; leave '( … | … )' out of the formula."
            )
        return {"intercept": said.intercept}

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        formula: str = "",
        *,
        target: str = "",
        kinds: Mapping[str, str] | None = None,
        report: Report = warn,
        **settings: Any,
    ) -> Self:
        """The regression of a data frame: by a formula such as "visits ~ age + sex", or of the target on all others.

        Columns are what their types and values say; `kinds` says where these mislead.
        """
        if not formula and not target:
            raise ValueError("Say what to predict: a formula such as 'target ~ column + column', or the target.")
        names = [name for name in names_in(frame) if name != settings.get("by")]
        terms: tuple[str, ...] = ()
        if formula:
            said = parsed(formula, names_in(frame))
            target, terms, settings = said.target, said.terms, {**cls.formula_settings(said), **settings}
            names = needed(names_in(frame), target, terms)
        check_among(target, names_in(frame))
        asked = {target: cls.kind_of(frame, target), **(kinds or {})}
        columns = columns_of(frame, asked, names=names, report=report)
        # Among predictors whole numbers are numbers like others.
        others = {name: column.as_predictor for name, column in columns.items() if name not in asked}
        others = {name: kind for name, kind in others.items() if kind}
        columns |= columns_of(frame, others, names=others, report=report) if others else {}
        return cls(target=target, columns=columns, terms=terms, **settings)

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        formula: WhatToFit = "",
        target: Target = "",
        columns: Names = "",
        kinds: Kinds = "",
        agreed_columns: Agreed = None,
        report: Report = ignore,
        **settings: Any,
    ) -> tuple[Self, Any]:
        """Say what to fit with --formula, or the --target. Texts are categorical, true and false are yes/no, other
        columns are real. Rows with missing values are left out.
        """
        if not formula and not target:
            raise ValueError("Say --formula 'target ~ column + column', or --target.")
        if agreed_columns is None:
            chosen = split_names(columns)
            read = read_frame(path, [*chosen, settings["by"]] if chosen and "by" in settings else chosen)
            frame = complete(path, asked_for(read, formula, settings.get("by", "")), report).data
            model = cls.from_frame(frame, formula, target=target, kinds=kinds_from(kinds), report=report, **settings)
            report(f"{path}: {columns_text(model.columns)}{model.remark}")
            return model, model.points(frame)
        agreed: Mapping[str, Column] = read_columns(agreed_columns)
        terms: tuple[str, ...] = ()
        if formula:
            said = parsed(formula, [*agreed, *names_in(read_frame(path))])
            target, terms, settings = said.target, said.terms, {**cls.formula_settings(said), **settings}
            agreed = {name: agreed[name] for name in needed(agreed, target, terms)}
        model = cls(
            target=target, columns={n: c for n, c in agreed.items() if n != settings.get("by")}, terms=terms, **settings
        )
        return model, model.read(path, report=report)

    def stream(self, path: Any, *, columns: str = "", report: Report = ignore, **sources: Any) -> Iterator[Observed]:
        """The predictors of a file; rows in which one is missing get no prediction."""
        yield complete(path, self._frame(Path(path), [name for name in self.columns if name != self.target]), report)

    def read(self, path: Path, *, columns: str = "", report: Report = ignore) -> Any:
        """The agreed columns of a file, without rows in which something is missing."""
        return self.points(complete(path, self._frame(path, list(self.columns)), report).data)

    def _frame(self, path: Path, names: list[str]) -> Mapping[str, Any]:
        return read_frame(path, names)
