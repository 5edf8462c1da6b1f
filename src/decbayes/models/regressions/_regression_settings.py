"""The settings of a regression, and the structure that they describe."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from decbayes.base.arguments import Above, check_positive
from decbayes.columns import Column
from decbayes.families import Array, Family
from decbayes.inputs.tables import Report
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.model import Columns as Names
from decbayes.models.core.model import Model, ignore, split_names
from decbayes.models.core.settings import LOCAL
from decbayes.models.regressions._making import Tabled, Target, model_of_file, model_of_list
from decbayes.models.regressions.formulas.formula import INTERCEPT
from decbayes.models.regressions.outcome import Outcome
from decbayes.models.regressions.rows.stacking import Stack
from decbayes.models.regressions.rows.table import Table
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.models.regressions.varying.variation import BETWEEN, WITHIN, Grouping, Variation
from decbayes.models.tables.tabular import Agreed, Kinds
from decbayes.structure import Structure


@dataclass(frozen=True)
class RegressionSettings(Tabled, Model):
    """Settings of a regression: columns, terms, what varies between sites, and priors.

    `columns` says what the columns hold, the `target` among them. `terms` are columns (default: all others), functions
    of them such as "log(dose)" or "ns(age, df=4)", or products of several, joined by ":". `offset`, such as
    "log(years)", is added to xβ with coefficient 1; `weights` is the column with the weights of rows. Real columns are
    in agreed units, (x − centre) / scale, so that priors mean the same for all. Each coefficient has the prior variance
    `prior_variance`.

    Coefficients of the terms in `varying`, or the "intercept", are β + u at each site, u ~ N(0, Λ⁻¹). A site is a place
    that holds rows or, if it holds rows of several, what the column `by` names; nobody else sees these names. If
    something varies, matrices have a number for the site after the columns. The u of several coefficients are
    independent, with a Gamma for the precision of each, or `correlated`, with one Wishart. The prior of 1 / Λ is
    `prior_between`, with the weight of `between_degrees` sites. Terms in `varying_within` also vary between groups
    inside a site, such as wards, which the column `within` names; matrices have their number after the site's.
    """

    target: Annotated[str, "The column to predict."] = ""
    _: KW_ONLY
    columns: Mapping[str, Column] = field(default_factory=dict)
    terms: Sequence[str] = ()
    intercept: Annotated[bool, "Whether there is an intercept."] = True
    varying: Sequence[str] = ()
    by: str = ""
    correlated: bool = False
    varying_within: Sequence[str] = ()
    within: str = ""
    offset: str = ""
    weights: str = ""
    prior_between: Annotated[float, "Prior variance between sites of the terms that vary.", Above(0)] = 0.1
    between_degrees: Annotated[float, "Weight of this prior variance, in sites.", Above(0)] = 1.0
    prior_variance: Annotated[float, "The prior variance of each coefficient, in agreed units.", Above(0)] = 10.0
    ascent: Ascent = field(default=Ascent(passes=100, tolerance=1e-10), metadata=LOCAL)

    from_data: ClassVar[frozenset[str]] = frozenset(
        {"columns", "terms", "intercept", "offset", "weights"}
        | {"varying", "by", "correlated", "varying_within", "within"}
    )
    caption: ClassVar[str] = "term"
    view: ClassVar[str] = "coefficients"
    made_up: ClassVar[bool] = True
    may_vary: ClassVar[bool] = True
    """Whether coefficients may vary between sites."""
    outcome: ClassVar[Outcome]
    """What the target holds, and how it depends on xβ."""

    def __post_init__(self) -> None:
        check_positive(prior_between=self.prior_between, between_degrees=self.between_degrees)
        check_positive(prior_variance=self.prior_variance)
        super().__post_init__()
        if self._approximation not in ("variational", "laplace"):
            raise ValueError(f"approximation is 'variational' or 'laplace', not {self._approximation!r}.")
        if self.varying and self._approximation == "laplace":
            raise ValueError("What varies from site to site needs approximation='variational'.")
        for name in ("columns", "terms", "intercept", "varying", "correlated", "varying_within"):
            object.__setattr__(self, name, getattr(self.table, name))
        self.outcome.check_column(type(self).__name__, self.target, self.columns[self.target])

    @cached_property
    def table(self) -> Table:
        """Rows as numbers."""
        return Table(
            self.target, self.columns, self.terms, self.intercept, self.varying, self.by, self.correlated,
            self.varying_within, self.within, self.offset, self.weights, self.stack,
        )  # fmt: skip

    @property
    def record(self) -> str:  # type: ignore[override]
        """A row whose weight is 3 is data of three persons, so that the number of rows is none of persons."""
        return "weighted row" if self.weights else "observation"

    @property
    def stack(self) -> Stack | None:
        """How an observation becomes several rows, if it does."""
        return None

    @property
    def predicted_levels(self) -> tuple[str, ...]:
        """The outcome levels for which `predict` has a column each; none if it has one number per row."""
        return ()

    @cached_property
    def variation(self) -> Variation:
        """What varies between sites, and inside sites."""
        places = {BETWEEN: self.table.places, WITHIN: self.table.places_within}
        named = {factor: varying for factor, varying in places.items() if len(varying)}
        return Variation(tuple(Grouping(f, some, self.correlated and len(some) > 1) for f, some in named.items()))

    def group_name(self, grouping: Grouping) -> str:
        """What the groups are: sites, or the name of the column that names them or the groups inside them."""
        return (self.by or "site") if grouping.factor == BETWEEN else self.within

    @property
    def subject(self) -> str:
        """What the effects are on, in words."""
        return self.outcome.modelled(self.target, self.columns[self.target])

    @property
    def legend(self) -> str:
        """The levels of the outcome, if their names do not say it."""
        return ""

    @property
    def modelled(self) -> str:
        weighted = f"weighted by {self.weights}" if self.weights else ""
        what = ", ".join(filter(None, (self.subject, self.outcome.assumed, f"by {self.formula}", weighted)))
        return "; ".join(filter(None, (what, self.legend)))

    @property
    def target_units(self) -> tuple[float, float]:
        """The unit and the zero of the linear predictor, in terms of the target."""
        return self.table.target_units(*self.outcome.units(self.columns[self.target]))

    @property
    def coefficient_units(self) -> Array:
        """The unit of each coefficient, in terms of columns and target."""
        return self.target_units[0] / self.table.design.units

    @cached_property
    def baseline_places(self) -> frozenset[int]:
        """The coefficients that predictions start from: the intercept, or one per level of a stack."""
        names = [INTERCEPT] * self.intercept if self.table.baseline is None else [self.table.baseline.name]
        return frozenset(self.table.design.places(names))

    @property
    def _approximation(self) -> str:
        return getattr(self, "approximation", "variational")

    def described(self) -> Structure:
        labels = self.table.design.labels
        families: dict[str, Family] = {FACTOR: self.outcome.family}
        prior, named = {FACTOR: self.outcome.prior(len(labels), self)}, {FACTOR: labels}
        for grouping in self.variation.groupings:
            families[grouping.factor] = grouping.family
            prior[grouping.factor] = grouping.prior(float(self.between_degrees), float(self.prior_between))
            named[grouping.factor] = tuple(labels[place] for place in grouping.places)
        constants = {"name": type(self).__name__, **self.constants()}
        return Structure(families=families, prior=prior, labels=named, model=constants)

    def constants(self) -> dict[str, Any]:
        """What sites must agree on besides the prior."""
        return self.table.constants()

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        settings = super().settings_of(structure) | cls.outcome.settings(structure.prior[FACTOR])
        if BETWEEN in structure.prior:
            correlated = structure.families[BETWEEN].name == "Wishart"
            grouping = Grouping(BETWEEN, np.arange(len(structure.labels[BETWEEN])), correlated)
            shape, rate = grouping.marginal(structure.prior)
            settings |= {"prior_between": float(rate[0] / shape[0]), "between_degrees": 2.0 * float(shape[0])}
        return settings

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        formula: Annotated[str, "What to fit, as in 'visits ~ age + sex + (1 | site)'; or name a --target."] = "",
        target: Target = "",
        varying: Annotated[str, "Terms that differ from site to site, or 'intercept', separated by commas."] = "",
        by: Annotated[str, "The column that names sites, where a file has several."] = "",
        weights: Annotated[str, "The column that says how often a row counts."] = "",
        columns: Names = "",
        kinds: Kinds = "",
        agreed_columns: Agreed = None,
        report: Report = ignore,
        **options: Any,
    ) -> tuple[Self, Any]:
        """Give a --formula, or name the --target column. Text columns are categorical, true and false are yes/no, all
        others are real. Rows with missing values are left out.
        """
        options |= {"varying": tuple(split_names(varying))} if varying else {}
        options |= {name: value for name, value in (("by", by), ("weights", weights)) if value}
        options |= {"formula": formula, "target": target, "columns": columns, "kinds": kinds}
        return model_of_file(cls, path, agreed_columns=agreed_columns, report=report, **options)

    @classmethod
    def without_data(
        cls,
        *,
        agreed_columns: Agreed = None,
        formula: Annotated[str, "With --agreed-columns: what will be fitted, as in 'visits ~ age + sex'."] = "",
        **settings: Any,
    ) -> Self:
        if agreed_columns is None:
            raise ValueError("Name the columns that sites have agreed on: --agreed-columns FILE, and a --formula.")
        target = settings.pop("target", "")
        model: Self = model_of_list(cls, agreed_columns, formula, target, settings, plan=True)
        return model
