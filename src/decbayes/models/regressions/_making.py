"""Regressions from frames and files: the columns that a formula or a target needs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import columns_listed, some
from decbayes.columns import Categorical, Column, columns_of
from decbayes.columns.frames import is_frame, names_in, rows_in
from decbayes.columns.sums import columns_among
from decbayes.errors import InvalidData, InvalidStructure, warn
from decbayes.families import Array
from decbayes.inputs.mixed_tables import read_frame
from decbayes.inputs.tables import Report
from decbayes.models.core.model import ignore, split_names
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.transforms import Observed
from decbayes.models.regressions.formulas.design import needed
from decbayes.models.regressions.formulas.formula import Formula, formula_of, parsed
from decbayes.models.regressions.rows.rare_rows import pooled_rows
from decbayes.models.regressions.rows.table import Table, complete
from decbayes.models.tables.tabular import columns_text, kinds_from, read_list

Target = Annotated[str, "The column to predict, from all others."]


class Tabled:
    """Common to all models over the rows of a `table`: making them from a frame, and reading data."""

    @property
    def table(self) -> Table:
        """Rows as numbers."""
        raise NotImplementedError

    outcome: ClassVar[Any]
    level: ClassVar[str] = ""
    """The name of the column of levels in formulas, if an observation counts as several rows."""
    no_terms: ClassVar[tuple[str, ...]] = ("offset", "weights")
    """Settings that name columns, or expressions of columns, but no terms."""

    @property
    def formula(self) -> str:
        """The formula, as `from_frame` takes it."""
        return formula_of(self)

    @classmethod
    def left_side(cls, text: str) -> tuple[str, dict[str, str]]:
        """The target named by the left side of a formula, and further settings."""
        return text, {}

    @classmethod
    def completed(cls, settings: Any, frame: Any, columns: Mapping[str, Column], target: str) -> Any:
        """Settings, completed by those that the frame decides unless stated."""
        return settings

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
        """The model of a data frame: by a formula such as "visits ~ age + sex", or of the target on all others.

        Types and values of columns say what they hold; `kinds` corrects misleading ones.
        """
        model: Self = model_of_frame(cls, frame, formula, target, kinds, report, settings)
        return model

    def read(self, path: Path, *, columns: str = "", report: Report = ignore) -> Any:
        """The agreed columns of a file, without rows with missing values."""
        return self.table.read(path, report)

    def persons(self, path: Any, column: str, **reading_options: Any) -> Persons:
        return self.table.persons(Path(path), column)

    def stream(
        self, path: Any, *, columns: str = "", report: Report = ignore, **reading_options: Any
    ) -> Iterator[Observed]:
        """The predictors of a file; rows with a missing one get no prediction."""
        return self.table.stream(Path(path), report)

    def count(self, data: Any) -> int:
        return rows_in(data) if is_frame(data) else len(self.table.numbers(data))

    @property
    def terms_to_learn(self) -> int:
        return len(self.table.design.labels)

    def pooled(
        self, data: Any, least: int, least_outcome: int, *, agreed: bool, persons: Persons = EACH
    ) -> tuple[Self, Any, list[str]]:
        columns, points, remarks = pooled_rows(
            self.table, data, least, least_outcome, self.outcome.common, agreed=agreed, persons=persons
        )
        changed: Self = self if agreed else replace(self, columns=columns)  # type: ignore[type-var]
        return changed, points, remarks

    def taken(self, data: Any, rows: NDArray[np.intp]) -> Any:
        return self.table.points(data)[rows]

    def joined(self, shards: Sequence[Any]) -> Array:
        return np.concatenate([self.table.points(shard) for shard in shards])


def model_of_frame(
    model: Any, frame: Any, formula: str, target: str, kinds: Mapping[str, str] | None, report: Report, settings: Any
) -> Any:
    """The regression of a data frame: by a formula, or of the target on all other columns."""
    if not formula and not target:
        raise ValueError("Say what to predict: a formula such as 'target ~ column + column', or the target.")
    names = [name for name in names_in(frame) if name not in group_columns(settings)]
    terms: tuple[str, ...] = ()
    if formula:
        target, terms, settings = formula_settings(model, formula, names_in(frame), settings)
        check_among(target, names_in(frame))  # before its column is needed
        names = needed(names_in(frame), target, *terms, *columns_besides_terms(model, settings), further=model.level)
    check_among(target, names_in(frame))
    chosen = {target: "", **(kinds or {})}
    named = Categorical.kind if settings.get("yes") else ""
    chosen[target] = chosen[target] or named or model.outcome.kind_in(frame, target)
    # Integers among predictors are real numbers.
    likely = columns_of(frame, chosen, names=names, report=ignore)
    others = {name: column.as_predictor for name, column in likely.items() if name not in chosen}
    known = chosen | {name: kind for name, kind in others.items() if kind}
    columns = columns_of(frame, known, names=names, piled=columns_besides_terms(model, settings), report=report)
    settings = model.completed(settings, frame, columns, target)
    return model(target=target, columns=columns, terms=terms, **settings)


def model_of_file(
    model: Any, path: Path, *, formula: str, target: str, columns: str, kinds: str, agreed_columns: Path | None,
    report: Report, **settings: Any,
) -> tuple[Any, Array]:  # fmt: skip
    """The regression of a file, and its complete rows."""
    if not formula and not target:
        raise ValueError(f"Say what to fit, for example: decbayes fit {model.command} {model.example}")
    if agreed_columns is None:
        chosen = split_names(columns)
        read = read_frame(path, [*chosen, *group_columns(settings)] if chosen else chosen)
        frame = complete(path, needed_columns(model, read, formula, settings), report).data
        unused = [name for name in kinds_from(kinds) if name in read and name not in frame]
        if unused:
            raise InvalidData(
                f"The formula does not use {some(unused)}: leave it out of --kinds, or add it to the formula."
            )
        regression = model_of_frame(model, frame, formula, target, kinds_from(kinds), report, settings)
        report(f"{path}: {columns_text(regression.columns)}")
        return regression, regression.points(frame)
    further = names_in(read_frame(path)) if formula else ()
    regression = model_of_list(model, agreed_columns, formula, target, settings, further)
    return regression, regression.read(path, report=report)


def model_of_list(
    model: Any, path: Path, formula: str, target: str, settings: Any, further: Iterable[str] = (), *, plan: bool = False
) -> Any:
    """The regression of a list of columns; its sums settle what is not stated, except in a plan without sums."""
    rows = read_list(path)
    columns = columns_among(rows)
    sums = {name: row for name, row in rows.items() if name not in columns}
    regression = model_of_columns(model, columns, formula, target, settings, further)
    if model.summed_settings <= settings.keys() or (plan and not sums):
        return regression
    stated = {name: settings[name] for name in model.summed_settings & settings.keys()}
    return replace(regression.settled(sums), **stated)


def model_of_columns(
    model: Any, agreed: Mapping[str, Column], formula: str, target: str, settings: Any, further: Iterable[str] = ()
) -> Any:
    """The regression of agreed columns, before there are data."""
    terms: tuple[str, ...] = ()
    listed, weights = agreed, settings.get("weights", "")
    if weights and weights not in agreed:
        raise InvalidStructure(
            f"The list of columns has no weights '{weights}'. Make it with `decbayes columns --weights {weights}`."
        )
    if formula:
        target, terms, settings = formula_settings(model, formula, [*agreed, *further], settings)
        wanted = needed(agreed, target, *terms, *columns_besides_terms(model, settings), further=model.level)
        agreed = {name: agreed[name] for name in wanted}
    by = settings.get("by", "")
    if isinstance(listed.get(by), Categorical):
        warn(
            f"'{by}' names sites, or groups that one site has. The list of columns has it with levels: those that "
            f"several sites share would be other groups at each. Write such levels as a term: '{by} + (1 | site)'."
        )
    agreed = {name: column for name, column in agreed.items() if name not in group_columns(settings)}
    return model(target=target, columns=agreed, terms=terms, **settings)


def formula_settings(model: Any, formula: str, names: Sequence[str], settings: Any) -> tuple[str, tuple[str, ...], Any]:
    """The target, the terms and the settings of a formula, in addition to those given."""
    wanted, named = formula_for(model, formula, names)
    varying = {"varying": wanted.varying, "by": wanted.by, "correlated": wanted.correlated} if wanted.varying else {}
    varying |= {"varying_within": wanted.varying_within, "within": wanted.within} if wanted.within else {}
    if varying and "varying" not in model.from_data:
        raise InvalidStructure(
            f"{model.__name__} has no terms that vary from site to site; leave '( … | … )' out of the formula."
        )
    added = {"offset": wanted.offset} if wanted.offset else {}
    if added and "offset" not in model.from_data:
        raise InvalidStructure(f"{model.__name__} has no offset; leave it out of the formula.")
    return wanted.target, wanted.terms, {"intercept": wanted.intercept, **varying, **added, **named, **settings}


def formula_for(model: Any, formula: str, names: Iterable[str]) -> tuple[Formula, dict[str, str]]:
    """A parsed formula, and the settings that its left side names."""
    if not isinstance(formula, str):
        raise InvalidStructure(f"A formula is a string, such as 'target ~ term + term'; not {type(formula).__name__}.")
    left, sign, right = formula.partition("~")
    target, named = model.left_side(left.strip()) if sign else (left, {})
    others = [name for name in names if name not in named.values()]
    return parsed(f"{target} {sign} {right}", others, further=model.level), named


def columns_besides_terms(model: Any, settings: Mapping[str, Any]) -> list[str]:
    return [settings.get(name, "") for name in model.no_terms]


def needed_columns(
    model: Any, frame: Mapping[str, Any], formula: str, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    for by in group_columns(settings):
        if by not in frame:
            raise InvalidData(
                f"There is no column '{by}' to name sites; the columns are {columns_listed(tuple(frame))}."
            )
    if not formula:
        return frame
    wanted, named = formula_for(model, formula, frame)
    check_among(wanted.target, list(frame))
    groups = group_columns({"by": wanted.by, "within": wanted.within, **settings})
    texts = wanted.target, *wanted.terms, wanted.offset, *columns_besides_terms(model, settings), *named.values()
    names = needed(frame, *texts, further=model.level)
    return {name: frame[name] for name in [*names, *groups]}


def group_columns(settings: Mapping[str, Any]) -> list[str]:
    """The columns that name sites and groups inside them."""
    return [settings[name] for name in ("by", "within") if settings.get(name)]


def check_among(target: str, names: Sequence[str]) -> None:
    if target not in names:
        what = f"There is no column '{target}' to predict; the columns are {columns_listed(names)}."
        raise InvalidStructure(what + (" Add such a function of a column as a column first." if "(" in target else ""))
