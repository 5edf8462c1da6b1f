"""The tables of regressions: what the columns hold, which of them are terms, and rows from frames and files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.columns import Column, Gaussian, Poisson, coded, columns_of, declared, is_frame, names_in, warn
from decbayes.columns.frames import values_in
from decbayes.columns.kinds import text_of
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array
from decbayes.inputs.frames import read_frame
from decbayes.inputs.tables import Report
from decbayes.models.ascent import Ascent
from decbayes.models.design import Design
from decbayes.models.formulas import Formula, needed, parsed
from decbayes.models.model import Columns as Names
from decbayes.models.model import Model, ignore, split_names
from decbayes.models.points import as_numbers, as_points, check_held
from decbayes.models.regression_data import complete, number_of, predictors, report_gaps, site_numbers, with_sites
from decbayes.models.tabular import Agreed, Kinds, columns_text, kinds_from, read_columns
from decbayes.models.transforms import Observed


@dataclass(frozen=True)
class RegressionTable(Model):
    """How one column depends on others: a linear predictor Xβ, and an outcome y whose distribution depends on it.

    `columns` says what the columns hold, the `target` among them. `terms` are the columns to use, all others if not
    given, or several joined by ":" for their product. Real columns are in agreed units, (x − centre) / scale, so that
    priors mean the same for all of them.

    Coefficients of the terms in `varying`, or the "intercept", differ from site to site. A site is a place that holds
    rows, or, where its rows are of several, what the column `by` names; nobody else sees these names.

    Data are data frames with these columns, or matrices of numbers in their order, with categories as numbers from 0
    on, and a number for the site behind them where something varies.
    """

    target: Annotated[str, "The column to predict."] = ""
    columns: Mapping[str, Column] = field(default_factory=dict, kw_only=True)
    terms: tuple[str, ...] = field(default=(), kw_only=True)
    intercept: Annotated[bool, "Whether there is an intercept."] = field(default=True, kw_only=True)
    varying: tuple[str, ...] = field(default=(), kw_only=True)
    by: str = field(default="", kw_only=True)
    ascent: Ascent = field(default=Ascent(passes=100, tolerance=1e-10), kw_only=True)

    from_data: ClassVar[frozenset[str]] = frozenset({"columns", "terms", "intercept", "varying", "by"})
    caption: ClassVar[str] = "term"
    outcome: ClassVar[type[Column]] = Gaussian
    """What the target holds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", declared(self.columns))
        if self.target not in self.columns:
            raise InvalidStructure(f"The target '{self.target}' is not among the columns; say what it holds.")
        others = tuple(name for name in self.columns if name != self.target)
        object.__setattr__(self, "terms", tuple(self.terms) or others)
        object.__setattr__(self, "intercept", bool(self.intercept))
        object.__setattr__(self, "varying", tuple(self.varying))
        self.check_target(self.columns[self.target])
        if not self.design.labels:
            raise InvalidStructure("A regression needs an intercept, or a term.")
        if self.by and (not self.varying or self.by in self.columns):
            raise InvalidStructure(
                f"`by` names the column of sites by which something is `varying`; '{self.by}' is none of the columns "
                "that the regression is about."
            )
        _ = self.places

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
    def places(self) -> NDArray[np.intp]:
        """Which coefficients differ from site to site."""
        return np.array(self.design.places(self.varying), dtype=np.intp)

    def points(self, data: Any, *, target: bool = True) -> Array:
        """Rows as a matrix of numbers; the target is NaN where it is not needed, and a site that nobody names is."""
        needed = dict(self.columns) if target else {n: c for n, c in self.columns.items() if n != self.target}
        if is_frame(data):
            # A mean without terms needs no column to predict it.
            rows = len(values_in(data, names_in(data)[0]))
            points = coded(data, needed) if needed else np.empty((rows, 0))
            place = list(self.columns).index(self.target)
            points = points if target else np.insert(points, place, np.nan, axis=1)
            points = np.column_stack([points, site_numbers(data, self.by, rows)]) if self.varying else points
        else:
            points = as_points(self._with_sites(data), len(self.columns) + bool(self.varying), unseen=True)
        looked_at = [place for place, name in enumerate(self.columns) if name in needed]
        gaps = np.isnan(points[:, looked_at]).any(axis=1)
        if gaps.any():
            raise InvalidData(
                f"{gaps.sum():,} of {len(points):,} rows have missing values, the first is number {gaps.argmax()}. A "
                "regression needs complete rows: leave these out, or fill them in with LatentClasses.fill."
            )
        return points

    def _with_sites(self, data: Any) -> Any:
        """Where something varies, a matrix has a column for the site; without one all rows are of one."""
        rows = as_numbers(data)
        if not self.varying or rows.ndim != 2 or rows.shape[1] != len(self.columns):
            return rows
        return np.column_stack([rows, np.full(len(rows), np.nan)])

    def rows_with(self, data: Any, held: Any) -> Array:
        """Whole rows as numbers, of which the targets were held out."""
        width, place = len(self.columns), list(self.columns).index(self.target)
        both = width + bool(self.varying)
        seen, hidden = (as_points(self._with_sites(part), both, unseen=True) for part in (data, held))
        check_held(seen[:, :width], hidden[:, :width])
        if not np.isnan(np.delete(hidden[:, :width], place, axis=1)).all():
            raise InvalidData(f"A regression predicts its target: only values of '{self.target}' can be held out.")
        return np.where(np.isnan(hidden), seen, hidden)

    def parts(self, data: Any) -> tuple[Array, Array]:
        """(N, D) numbers of the terms and (N,) targets, as coded."""
        points = self.points(data)
        targets = points[:, list(self.columns).index(self.target)]
        self.check_outcomes(targets)
        return self._matrix(points), targets

    def sites(self, data: Any) -> Array:
        """(N,): the number of each row's site, NaN where nobody names one."""
        points = self.points(data, target=False)
        return points[:, -1] if self.varying else np.full(len(points), np.nan)

    def site_names(self, data: Any) -> dict[str, str]:
        """What the sites of these rows are called here, by their numbers."""
        names = {str(number): "here" if np.isnan(number) else f"{number:g}" for number in np.unique(self.sites(data))}
        if is_frame(data) and self.by in names_in(data):
            texts = sorted({text_of(value) for value in values_in(data, self.by)})
            names |= {str(np.float64(number_of(text))): text for text in texts}
        return names

    def check_outcomes(self, targets: Array) -> None:
        """Refuse values that the target cannot have; frames are checked by their columns."""

    def design_of(self, data: Any) -> Array:
        """(N, D) numbers of the terms; the target need not be known."""
        return self._matrix(self.points(data, target=False))

    def _matrix(self, points: Array) -> Array:
        place, width = list(self.columns).index(self.target), len(self.columns)
        return self.design.matrix(np.delete(points[:, :width], place, axis=1))

    def count(self, data: Any) -> int:
        return len(self.points(data, target=False))

    def taken(self, data: Any, rows: NDArray[np.intp]) -> Any:
        return self.points(data)[rows]

    def joined(self, shards: Sequence[Any]) -> Array:
        return np.concatenate([self.points(shard) for shard in shards])

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
        names = [name for name in names_in(frame) if name != settings.get("by")]
        terms: tuple[str, ...] = ()
        if formula:
            said = parsed(formula, names_in(frame))
            target, terms, settings = said.target, said.terms, {**settings_in(said), **settings}
            names = needed(names_in(frame), target, terms)
        known = {**({target: cls.outcome.kind} if target in names_in(frame) else {}), **(kinds or {})}
        found = columns_of(frame, known, names=names, report=report)
        # Among predictors whole numbers are numbers like others.
        counts = {n: "real" for n, c in found.items() if isinstance(c, Poisson) and n != target and n not in known}
        columns = {**found, **(columns_of(frame, counts, names=counts, report=report) if counts else {})}
        return cls(target=target, columns={name: columns[name] for name in found}, terms=terms, **settings)

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        formula: Annotated[str, "What to fit, as in 'visits ~ age + sex + (1 | site)'; or name a --target."] = "",
        target: Annotated[str, "The column to predict, from all others."] = "",
        varying: Annotated[str, "Terms that differ from site to site, or 'intercept', separated by commas."] = "",
        by: Annotated[str, "The column that names sites, where a file has several."] = "",
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
        settings |= {"varying": tuple(split_names(varying))} if varying else {}
        settings |= {"by": by} if by else {}
        if agreed_columns is None:
            chosen = split_names(columns)
            frame = complete(path, read_frame(path, [*chosen, by] if chosen and by else chosen), formula, report)
            model = cls.from_frame(frame, formula, target=target, kinds=kinds_from(kinds), report=report, **settings)
            report(f"{path}: {columns_text(model.columns)}")
            return model, model.points(frame)
        agreed: Mapping[str, Column] = read_columns(agreed_columns)
        terms: tuple[str, ...] = ()
        if formula:
            said = parsed(formula, [*agreed, *names_in(read_frame(path))])
            target, terms, settings = said.target, said.terms, {**settings_in(said), **settings}
            agreed = {name: agreed[name] for name in needed(agreed, target, terms)}
        model = cls(
            target=target, columns={n: c for n, c in agreed.items() if n != settings.get("by")}, terms=terms, **settings
        )
        return model, model.read(path, report=report)

    def stream(self, path: Any, *, columns: str = "", report: Report = ignore, **sources: Any) -> Iterator[Observed]:
        """The predictors of a file; rows in which one is missing get no prediction."""
        yield predictors(Path(path), [name for name in self.columns if name != self.target], self.by, report)

    def read(self, path: Path, *, columns: str = "", report: Report = ignore) -> Any:
        """The agreed columns of a file, without rows in which something is missing."""
        frame = with_sites(path, list(self.columns), self.by)
        points = coded(frame, self.columns)
        sites = site_numbers(frame, self.by, len(points), gaps=True)
        gaps = np.asarray(np.isnan(points).any(axis=1) | (self.by in frame and np.isnan(sites)))
        report_gaps(path, gaps, report)
        return (np.column_stack([points, sites]) if self.varying else points)[~gaps]


def settings_in(said: Formula) -> dict[str, Any]:
    """What a formula says besides target and terms; only of what varies where something does."""
    varying = {"varying": said.varying, "by": said.by} if said.varying else {}
    return {"intercept": said.intercept, **varying}
