"""Models of tables: what they have in common, and tables from frames and files."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import Above, check_positive
from decbayes.columns import KINDS, Column, Poisson, columns_of, declared, plain
from decbayes.columns.frames import Columns, coded, is_frame, known, pooled, unagreed_in
from decbayes.columns.sums import columns_among
from decbayes.errors import InvalidData, InvalidStructure, warn
from decbayes.families import Array
from decbayes.inputs.mixed_tables import read_frame
from decbayes.inputs.tables import Report
from decbayes.models.core.model import Columns as Names
from decbayes.models.core.model import Model, ignore, split_names
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.points import as_points
from decbayes.models.likelihoods.emissions import Emissions
from decbayes.models.likelihoods.point_pass import PointBlocks
from decbayes.models.likelihoods.real import DiagonalCovariance, RealColumns
from decbayes.models.mixtures.column_remarks import table_remarks
from decbayes.models.mixtures.prior_remarks import KIND, named, outweighed
from decbayes.models.tables.factors import FACTORS, emissions
from decbayes.posterior import Posterior
from decbayes.remarks import Remark
from decbayes.structure import Structure

# Integers with a larger mean may not be counts.
LARGE_COUNT = 5.0
Kinds = Annotated[str, "What a column holds, if its values mislead: age=real,grade=categorical."]
Agreed = Annotated[Path | None, "Columns that sites have agreed on; see `decbayes columns`."]


@dataclass(frozen=True, kw_only=True)
class Tabular(Model):
    """A model whose observations are rows of a table.

    `columns` says what each column holds: {"sex": Categorical("f", "m"), "age": Gaussian(centre=50, scale=20)}. Data
    are data frames with at least these columns, in any order, or matrices of numbers in the order of the columns, with
    categories as numbers from 0. NaN, None and the like are missing values.

    Priors: `category_prior` is α of each category, `yes_no_prior` that of yes and of no. The prior mean of a count
    weighs at most `count_prior` observations and at most as many events. The prior mean of a real column is its centre,
    with the weight of `prior_strength` observations; its variance is `prior_scale` squared units, with that of
    `prior_degrees`.
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    category_prior: Annotated[float, "α of each category.", Above(0)] = 0.5
    yes_no_prior: Annotated[float, "α of yes and of no.", Above(0)] = 0.5
    count_prior: Annotated[float, "Weight of a count's prior mean, in observations or events.", Above(0)] = 0.5
    prior_strength: Annotated[float, "Weight of a real column's prior centre, in observations.", Above(0)] = 0.01
    prior_degrees: Annotated[float, "Weight of a real column's prior scale, in observations.", Above(0)] = 2.0
    prior_scale: Annotated[float, "The prior variance of a real column, in its own squared units.", Above(0)] = 0.3

    example: ClassVar[str] = "patients.csv"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", known(self.columns))
        if not self.columns:
            remedy = "say what they hold with `columns`, or let `from_frame` find it"
            raise InvalidStructure(f"A table has one column or more: {remedy}.")
        check_positive(
            category_prior=self.category_prior,
            yes_no_prior=self.yes_no_prior,
            count_prior=self.count_prior,
            prior_strength=self.prior_strength,
            prior_degrees=self.prior_degrees,
            prior_scale=self.prior_scale,
        )

    @cached_property
    def emissions(self) -> Emissions:
        """How columns depend on the component."""
        return emissions(self)

    def points(self, data: Any, *, unseen: bool = False) -> Array:
        """Rows as a matrix of numbers, NaN where a value is missing."""
        points = coded(data, self.columns) if is_frame(data) else as_points(data, len(self.columns), unseen=True)
        self.emissions.check(points, tuple(self.columns))
        return points

    def of_units(self, posterior: Posterior, points: Array, filled: NDArray[np.bool_]) -> tuple[Remark, ...]:
        """A remark on real columns that lie so far from their agreed units that the prior outweighs the data, from the
        components that are `filled`.
        """
        names = list(self.columns)
        for part in self.emissions.parts:
            likelihood = part.likelihood
            if isinstance(likelihood, RealColumns) and "strength" in likelihood.family.parameters(part.prior):
                units = likelihood.in_units(part.of(points))
                natural = posterior.natural[part.name][filled]
                places = outweighed(likelihood.family, part.prior, natural, units, self.prior_degrees)
                if len(places):
                    columns = named([names[place] for place in part.places], places)
                    what = f"The agreed centre or scale of {columns} does not fit, and the prior outweighs the data."
                    return (Remark(KIND, what, "Agree on these columns again (decbayes columns), and fit again."),)
        return ()

    def of_columns(self, blocks: PointBlocks, *, correlated: bool = False) -> tuple[Remark, ...]:
        """Remarks on columns that mislead a fit; they may be `correlated` within a component."""
        return table_remarks(blocks, self.columns, correlated=correlated)

    def count(self, data: Any) -> int:
        return len(self.points(data))

    def taken(self, data: Any, rows: NDArray[np.intp]) -> Any:
        return self.points(data)[rows]

    def joined(self, shards: Sequence[Any]) -> Any:
        return np.concatenate([self.points(shard) for shard in shards])

    def pooled(
        self, data: Any, least: int, least_outcome: int, *, agreed: bool, persons: Persons = EACH
    ) -> tuple[Self, Any, list[str]]:
        columns, points, remarks = pooled(self.points(data), self.columns, persons.counts, [least], agreed=agreed)
        return self if agreed else replace(self, columns=columns), points, remarks

    def constants(self) -> Mapping[str, Any]:
        return {"columns": plain(self.columns)}

    @classmethod
    def real_likelihood(cls, constants: Mapping[str, Any], **units: Any) -> RealColumns:
        """The distribution of real columns, given the model's constants."""
        return DiagonalCovariance(**units)

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        settings = super().settings_of(structure)
        for name, factor in FACTORS.items():
            settings |= factor.settings(cls, structure) if name in structure.prior else {}
        return settings

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        kinds: Mapping[str, str] | None = None,
        names: Iterable[str] = (),
        report: Report = warn,
        **settings: Any,
    ) -> Self:
        """The model of a data frame's columns, inferred from their types and values; `kinds` corrects misleading ones.

        `report` receives remarks on columns that look misread (default: warnings); `names` selects columns.
        """
        return cls(columns=columns_of(frame, kinds, names=names, report=report), **settings)

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        columns: Names = "",
        kinds: Kinds = "",
        agreed_columns: Agreed = None,
        report: Report = ignore,
        **settings: Any,
    ) -> tuple[Self, Any]:
        """Text columns are categorical; true and false, or 0 and 1, are yes/no; integers whose smallest value is 0 or 1
        are counts; all others are real. Missing values are empty, NA, NaN, null or ?.
        """
        if agreed_columns is None:
            frame = read_frame(path, split_names(columns))
            model = cls.from_frame(frame, kinds=kinds_from(kinds), report=report, **settings)
            report(f"{path}: {columns_text(model.columns)}{counts_hint(model.columns, kinds)}")
        else:
            model = cls(columns=read_columns(agreed_columns), **settings)
            frame = read_frame(path, list(model.columns))
        return model, model.points(frame)

    def read(self, path: Path, *, columns: str = "", report: Report = ignore) -> Any:
        """The agreed columns of a file."""
        frame = read_frame(path, list(self.columns))
        points = self.points(frame)
        for text in unagreed_in(frame, self.columns):
            report(text)
        return points


def columns_text(columns: Columns) -> str:
    """What a table's columns hold, in a sentence."""
    kinds = {kind: [name for name, column in columns.items() if column.kind == kind] for kind in KINDS}
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)


def counts_hint(columns: Columns, kinds: str) -> str:
    """What to do if large integers that were not declared as counts are days or amounts."""
    asked = kinds_from(kinds)
    large = [
        name
        for name, column in columns.items()
        if isinstance(column, Poisson) and column.mean >= LARGE_COUNT and name not in asked
    ]
    remedy = quote(",".join(f"{name}=real" for name in large))
    return f". Whole numbers are taken as counts; for days, ages or amounts: --kinds {remedy}" if large else ""


def kinds_from(text: str) -> dict[str, str]:
    """{"age": "real"} from "age=real"."""
    pairs = [part.partition("=") for part in split_names(text)]
    wrong = [name for name, sign, kind in pairs if not (name and sign and kind)]
    if wrong:
        raise InvalidData(f"'{wrong[0]}' is not of the form COLUMN=KIND.")
    return {name.strip(): kind.strip() for name, _, kind in pairs}


def read_columns(path: Path) -> dict[str, Column]:
    """Columns from a file that `decbayes columns` wrote."""
    return columns_among(read_list(path))


def read_list(path: Path) -> dict[str, Column]:
    """Columns from such a file, with any sums over rows in it."""
    try:
        return declared(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError, InvalidStructure) as error:
        raise InvalidData(f"{path} does not list columns, as `decbayes columns` does ({error}).") from None


def columns_file(columns: Columns) -> str:
    """The text of the file that `read_list` reads: columns and sums, one per line."""
    rows = ",\n ".join(json.dumps(row, ensure_ascii=False) for row in plain(columns))
    return f"[{rows}]\n"
