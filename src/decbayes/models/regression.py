"""What all regressions share: columns and a target, coefficients with intervals, files and frames."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.arguments import Above, check_level, check_positive
from decbayes.columns import (
    Column,
    Gaussian,
    Poisson,
    coded,
    columns_of,
    declared,
    is_frame,
    names_in,
    plain,
    warn,
)
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array, Family
from decbayes.inputs.frames import read_frame
from decbayes.inputs.tables import Report
from decbayes.models.ascent import Ascent
from decbayes.models.design import Design, needed, parsed
from decbayes.models.model import Columns as Names
from decbayes.models.model import Model, Row, ignore, split_names
from decbayes.models.points import as_points, check_structure
from decbayes.models.regression_data import complete, made_up, predictors, report_gaps
from decbayes.models.tabular import Agreed, Kinds, columns_text, kinds_from, read_columns
from decbayes.models.transforms import Observed, Transform
from decbayes.posterior import Posterior
from decbayes.structure import Structure

FACTOR = "coefficients"


@dataclass(frozen=True)
class Regression(Model):
    """How one column depends on others: a linear predictor Xβ, and an outcome y whose distribution depends on it.

    `columns` says what the columns hold, the `target` among them. `terms` are the columns to use, all others if not
    given, or several joined by ":" for their product. Real columns are in agreed units, (x − centre) / scale, so that
    `prior_variance`, the variance of each coefficient, means the same for all of them.

    Data are data frames with these columns, or matrices of numbers in their order, with categories as numbers from 0
    on.
    """

    target: Annotated[str, "The column to predict."] = ""
    columns: Mapping[str, Column] = field(default_factory=dict, kw_only=True)
    terms: tuple[str, ...] = field(default=(), kw_only=True)
    intercept: Annotated[bool, "Whether there is an intercept."] = field(default=True, kw_only=True)
    prior_variance: Annotated[float, "The prior variance of each coefficient, in agreed units.", Above(0)] = field(
        default=10.0, kw_only=True
    )
    ascent: Ascent = field(default=Ascent(passes=100, tolerance=1e-10), kw_only=True)

    from_data: ClassVar[frozenset[str]] = frozenset({"columns", "terms", "intercept"})
    caption: ClassVar[str] = "term"
    outcome: ClassVar[type[Column]] = Gaussian
    """What the target holds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(prior_variance=self.prior_variance)
        object.__setattr__(self, "columns", declared(self.columns))
        if self.target not in self.columns:
            raise InvalidStructure(f"The target '{self.target}' is not among the columns; say what it holds.")
        others = tuple(name for name in self.columns if name != self.target)
        object.__setattr__(self, "terms", tuple(self.terms) or others)
        object.__setattr__(self, "intercept", bool(self.intercept))
        self.check_target(self.columns[self.target])
        if not self.design.labels:
            raise InvalidStructure("A regression needs an intercept, or a term.")

    def check_target(self, column: Column) -> None:
        if not isinstance(column, self.outcome):
            raise InvalidStructure(
                f"The target of {type(self).__name__} is {self.outcome.kind}; '{self.target}' is {column.kind}."
            )

    @property
    @abstractmethod
    def family(self) -> Family:
        """The family of the coefficients."""

    @abstractmethod
    def coefficient_prior(self) -> Array:
        """(1, d): its prior."""

    @abstractmethod
    def interval(self, posterior: Posterior, level: float) -> tuple[Array, Array, Array, Array]:
        """Mean, standard deviation, lower and upper end of each coefficient, in agreed units."""

    @abstractmethod
    def draw_outcomes(self, parameters: Any, design: Array, rng: np.random.Generator) -> Array:
        """One value of the target per row, as its column is coded."""

    @abstractmethod
    def predicted(self, posterior: Posterior, design: Array, level: float) -> dict[str, Array]:
        """The mean of the target per row, and an interval."""

    @cached_property
    def design(self) -> Design:
        if self.target in needed(self.columns, "", self.terms):
            raise InvalidStructure(f"The target '{self.target}' cannot be a term of its own regression.")
        predictors = {name: column for name, column in self.columns.items() if name != self.target}
        return Design(predictors, self.terms, self.intercept)

    def agreement(self) -> Structure:
        return Structure(
            families={FACTOR: self.family},
            prior={FACTOR: self.coefficient_prior()},
            labels={FACTOR: self.design.labels},
            model={
                "name": type(self).__name__,
                "target": self.target,
                "columns": plain(self.columns),
                "terms": list(self.terms),
                "intercept": self.intercept,
            },
        )

    def points(self, data: Any, *, target: bool = True) -> Array:
        """Rows as a matrix of numbers; the target is NaN where it is not needed."""
        needed = dict(self.columns) if target else {n: c for n, c in self.columns.items() if n != self.target}
        if is_frame(data):
            points = coded(data, needed)
            place = list(self.columns).index(self.target)
            points = points if target else np.insert(points, place, np.nan, axis=1)
        else:
            points = as_points(data, len(self.columns), unseen=True)
        looked_at = [place for place, name in enumerate(self.columns) if name in needed]
        gaps = np.isnan(points[:, looked_at]).any(axis=1)
        if gaps.any():
            raise InvalidData(
                f"{gaps.sum():,} of {len(points):,} rows have missing values, the first is number {gaps.argmax()}. A "
                "regression needs complete rows: leave these out, or fill them in with LatentClasses.fill."
            )
        return points

    def parts(self, data: Any) -> tuple[Array, Array]:
        """(N, D) numbers of the terms and (N,) targets, as coded."""
        points = self.points(data)
        place = list(self.columns).index(self.target)
        targets = points[:, place]
        self.check_outcomes(targets)
        return self.design.matrix(np.delete(points, place, axis=1)), targets

    def check_outcomes(self, targets: Array) -> None:
        """Refuse values that the target cannot have; frames are checked by their columns."""

    def design_of(self, data: Any) -> Array:
        """(N, D) numbers of the terms; the target need not be known."""
        points = self.points(data, target=False)
        return self.design.matrix(np.delete(points, list(self.columns).index(self.target), axis=1))

    def count(self, data: Any) -> int:
        return len(self.points(data, target=False))

    def taken(self, data: Any, rows: NDArray[np.intp]) -> Any:
        return self.points(data)[rows]

    def joined(self, shards: Sequence[Any]) -> Array:
        return np.concatenate([self.points(shard) for shard in shards])

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """log p(y | x, posterior) per row, all parameters integrated out; `held` may have the targets."""
        check_structure(posterior, self.structure, "posterior")
        if held is not None:
            seen, hidden = (as_points(part, len(self.columns), unseen=True) for part in (data, held))
            data = np.where(np.isnan(hidden), seen, hidden)
        return self.log_density(posterior, *self.parts(data))

    @abstractmethod
    def log_density(self, posterior: Posterior, design: Array, targets: Array) -> Array:
        """log p(y | x, posterior) per row."""

    def assign(self, posterior: Posterior, data: Any) -> Array:
        """There is one component, and it accounts for everything."""
        check_structure(posterior, self.structure, "posterior")
        return np.ones((self.count(data), 1))

    def information(self, posterior: Posterior, data: Any) -> Array:
        """Nothing is hidden: the coefficients have one posterior together, and its intervals need no correction."""
        return np.zeros((posterior.structure.prior[FACTOR].size,) * 2)

    def predict(self, posterior: Posterior, data: Any, *, level: float = 0.9) -> dict[str, Array]:
        """For each row the `mean` of the target, and `low` and `high` of an interval around it, for a data frame."""
        check_level(level)
        check_structure(posterior, self.structure, "posterior")
        return self.predicted(posterior, self.design_of(data), level)

    def coefficients(self, posterior: Posterior, *, level: float = 0.9) -> list[dict[str, Any]]:
        """What the target changes by with one unit of each term, in the columns' own units, with intervals.

        The intercept is where all real columns are at their agreed centres, and all others at zero or at their first
        category.
        """
        check_level(level)
        check_structure(posterior, self.structure, "posterior")
        size, zero = self.target_units()
        offset = np.zeros(len(self.design.labels))
        offset[: int(self.intercept)] = zero
        mean, deviation, low, high = self.interval(posterior, level)
        unit = size / self.design.units
        shown = {"mean": mean * unit + offset, "deviation": deviation * unit}
        shown |= {"low": low * unit + offset, "high": high * unit + offset}
        return [
            {"term": label, **{name: float(values[place]) for name, values in shown.items()}}
            for place, label in enumerate(self.design.labels)
        ]

    def target_units(self) -> tuple[float, float]:
        """One unit of the linear predictor, and its zero, as the target has them."""
        return 1.0, 0.0

    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """Each coefficient with its interval."""
        return [*self.coefficients(posterior)]

    def draw(
        self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator, *, data: Any = None
    ) -> tuple[Array, NDArray[np.float64]]:
        """Rows with made-up predictors, or with those of `data`, and the linear predictor of each."""
        place = list(self.columns).index(self.target)
        if data is None:
            points = np.column_stack([made_up(column, size, rng) for column in self.columns.values()])
        else:
            points = self.points(data, target=False)[:size]
        design = self.design.matrix(np.delete(points, place, axis=1))
        points[:, place] = self.draw_outcomes(parameters[FACTOR], design, rng)
        return points, design @ self.drawn_coefficients(parameters[FACTOR])

    def drawn_coefficients(self, parameters: Any) -> Array:
        return np.asarray(parameters[0])

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        told = super().settings_of(structure)
        return {**told, "terms": tuple(told["terms"]), **cls.prior_settings(structure.prior[FACTOR])}

    @classmethod
    @abstractmethod
    def prior_settings(cls, prior: Array) -> dict[str, float]:
        """The settings that a prior tells."""

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
        terms: tuple[str, ...] = ()
        if formula:
            target, terms, intercept = parsed(formula, names_in(frame))
            settings = {"intercept": intercept, **settings}
        known = {**({target: cls.outcome.kind} if target in names_in(frame) else {}), **(kinds or {})}
        names = needed(names_in(frame), target, terms) if formula else names_in(frame)
        found = columns_of(frame, known, names=names, report=report)
        # Among predictors whole numbers are numbers like others.
        counts = {n: "real" for n, c in found.items() if isinstance(c, Poisson) and n != target and n not in known}
        columns = {**found, **(columns_of(frame, counts, names=counts, report=report) if counts else {})}
        return cls(target, columns={name: columns[name] for name in found}, terms=terms, **settings)

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        formula: Annotated[str, "What to fit, as in 'visits ~ age + sex'; or name a --target."] = "",
        target: Annotated[str, "The column to predict, from all others."] = "",
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
            frame = complete(path, read_frame(path, split_names(columns)), formula, report)
            model = cls.from_frame(frame, formula, target=target, kinds=kinds_from(kinds), report=report, **settings)
            report(f"{path}: {columns_text(model.columns)}")
            return model, model.points(frame)
        agreed: Mapping[str, Column] = read_columns(agreed_columns)
        terms: tuple[str, ...] = ()
        if formula:
            target, terms, settings["intercept"] = parsed(formula, agreed)
            agreed = {name: agreed[name] for name in needed(agreed, target, terms)}
        model = cls(target, columns=agreed, terms=terms, **settings)
        return model, model.read(path, report=report)

    def stream(self, path: Any, *, columns: str = "", report: Report = ignore, **sources: Any) -> Iterator[Observed]:
        """The predictors of a file; rows in which one is missing get no prediction."""
        yield predictors(Path(path), [name for name in self.columns if name != self.target], report)

    def transform(self, posterior: Posterior) -> Transform:
        """The mean of the target and an interval of 90 %."""

        def predicted(data: Any) -> Array:
            return np.column_stack([*self.predict(posterior, data).values()])

        return Transform(("mean", "low", "high"), predicted, shares=False)

    def read(self, path: Path, *, columns: str = "", report: Report = ignore) -> Any:
        """The agreed columns of a file, without rows in which something is missing."""
        points = coded(read_frame(path, list(self.columns)), self.columns)
        gaps = np.asarray(np.isnan(points).any(axis=1))
        report_gaps(path, gaps, report)
        return points[~gaps]
