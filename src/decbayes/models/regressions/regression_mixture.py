"""Mixtures of linear regressions: rows belong to hidden groups, each with its own coefficients and noise."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from math import log, pi
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from decbayes.base.arguments import Above, check_level, check_positive
from decbayes.base.display import digits
from decbayes.columns import Column
from decbayes.families import Array, GaussianGamma, MeanAndPrecision
from decbayes.families.matrices import flat, folded, mirrored, upper_products
from decbayes.inputs.tables import Report
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.model import Columns as Names
from decbayes.models.core.model import Row, ignore
from decbayes.models.core.points import check_structure, of_own_posterior
from decbayes.models.core.settings import LOCAL, Width
from decbayes.models.likelihoods.emissions import Emissions, Natural, Part, coefficients, plus
from decbayes.models.likelihoods.likelihood import summed
from decbayes.models.likelihoods.point_pass import PointBlocks
from decbayes.models.likelihoods.starts import Start
from decbayes.models.mixtures.clusters import Clusters
from decbayes.models.regressions._estimates import term_rows
from decbayes.models.regressions._making import Tabled, Target, model_of_file
from decbayes.models.regressions.formulas.design import Design
from decbayes.models.regressions.linear import Linear, log_student, student_scale
from decbayes.models.regressions.rows.table import Table
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.models.tables.tabular import Agreed, Kinds
from decbayes.posterior import Posterior
from decbayes.structure import Structure

# Bisection steps, enough for all digits that matter.
HALVINGS = 60


@dataclass(frozen=True)
class LinearLikelihood:
    """y ~ N(xβ_k, 1 / τ_k), both unknown, for coded rows. Features: y², xy, products of two of x, 1."""

    design: Design
    place: int
    centre: float
    scale: float

    @property
    def family(self) -> GaussianGamma:
        return GaussianGamma()

    def parts(self, points: Array) -> tuple[Array, Array]:
        """(N, D) design matrix, and (N,) targets in agreed units."""
        rows = self.design.matrix(np.delete(points, self.place, axis=1))
        return rows, (points[:, self.place] - self.centre) / self.scale

    def features(self, points: Array) -> Array:
        x, y = self.parts(points)
        return np.column_stack([y**2, x * y[:, None], upper_products(x), np.ones(len(x))])

    def coefficients(self, natural: Array) -> Array:
        mean, side = self.family.expected_statistics(natural), self.family.dimension(natural.shape[1])
        products = folded(mean[:, 2 + side :].reshape(-1, side, side))
        constant = 0.5 * (mean[:, :1] - log(2 * pi)) - log(self.scale)
        return np.hstack([-0.5 * mean[:, 1:2], mean[:, 2 : 2 + side], -0.5 * products, constant]).T

    def contribution(self, sums: Array) -> Array:
        side = len(self.design.labels)
        square, shift, products, count = np.split(sums, [1, 1 + side, -1], axis=1)
        return np.hstack([0.5 * count, -0.5 * square, shift, -0.5 * flat(mirrored(products, side))])

    def student(self, natural: Array, rows: Array) -> tuple[Array, Array, Array]:
        """Mean and scale of y, (N, K), in agreed units, and degrees of freedom, (K,)."""
        mean, weight, shape, rate = self.family.columns(natural)
        spread = np.einsum("nd,kde,ne->nk", rows, np.linalg.inv(weight), rows)
        return rows @ mean.T, student_scale(shape, rate, spread), 2.0 * shape

    def log_predictive(self, natural: Array, points: Array) -> Array:
        """Missing targets add nothing."""
        rows, targets = self.parts(points)
        density = log_student(targets[:, None], *self.student(natural, rows)) - log(self.scale)
        return np.where(np.isnan(targets)[:, None], 0.0, density)


@dataclass(frozen=True)
class RegressionMixture(Tabled, Clusters):
    """Hidden groups of rows, each with its own linear regression.

    Within group k, y ~ N(xβ_k, 1 / τ_k), with the prior of `LinearRegression`. `components` is the number of groups, or
    "auto" to find it; `weight_prior` is α of their weights, and `start_from` how a fit starts. All else is as in
    `LinearRegression`, except that nothing varies between sites.

    >>> rng = np.random.default_rng(0)
    >>> dose, group = rng.uniform(0, 10, 200), rng.integers(2, size=200)
    >>> trial = {"dose": dose, "effect": np.where(group, 2 * dose, 5 - dose) + rng.normal(0, 0.3, 200)}
    >>> model = db.RegressionMixture.from_frame(trial, "effect ~ dose", components=2, ascent=db.Ascent(restarts=2))
    >>> posterior = model.fit(trial, rng=1).posterior
    >>> sorted(round(row["mean"], 1) for row in model.lines(posterior) if row["term"] == "dose")
    [-1.0, 2.0]
    """

    target: Annotated[str, "The column to predict."] = ""
    _: KW_ONLY
    columns: Mapping[str, Column] = field(default_factory=dict)
    terms: Sequence[str] = ()
    intercept: Annotated[bool, "Whether there is an intercept."] = True
    prior_variance: Annotated[float, "Prior variance of coefficients, in variances of the noise.", Above(0)] = 100.0
    prior_noise: Annotated[float, "The prior noise variance, in the target's own squared units.", Above(0)] = 0.5
    prior_degrees: Annotated[float, "Weight of the prior noise, in observations.", Above(0)] = 1.0
    ascent: Ascent = field(default=Ascent(restarts=19), metadata=LOCAL)

    about: ClassVar[str] = "Groups of rows, each with its own linear regression."
    command: ClassVar[str] = "regression-mixture"
    example: ClassVar[str] = "patients.csv --components 2 --formula 'pressure ~ age'"
    caption: ClassVar[str] = "coefficients"
    view: ClassVar[str] = "lines"
    from_data: ClassVar[frozenset[str]] = frozenset({"columns", "terms", "intercept"})
    outcome: ClassVar[Linear] = Linear()
    made_up: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(prior_variance=self.prior_variance, prior_noise=self.prior_noise)
        check_positive(prior_degrees=self.prior_degrees)
        super().__post_init__()
        for name in ("columns", "terms", "intercept"):
            object.__setattr__(self, name, getattr(self.table, name))
        self.outcome.check_column(type(self).__name__, self.target, self.columns[self.target])

    @cached_property
    def table(self) -> Table:
        """Rows as numbers."""
        return Table(self.target, self.columns, self.terms, self.intercept)

    @property
    def likelihood(self) -> LinearLikelihood:
        size, zero = self.table.target_units(*self.outcome.units(self.columns[self.target]))
        return LinearLikelihood(self.table.design, self.table.target_place, zero, size)

    @property
    def emissions(self) -> Emissions:
        places, labels = tuple(range(len(self.columns))), self.table.design.labels
        return Emissions((Part(FACTOR, self.likelihood, self.outcome.prior(len(labels), self), places, labels),))

    def constants(self) -> Mapping[str, Any]:
        return self.table.constants()

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        return super().settings_of(structure) | cls.outcome.settings(structure.prior[FACTOR][:1])

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        components: Width = 2,
        formula: Annotated[str, "What to fit, as in 'pressure ~ age + sex'; or name a --target."] = "",
        target: Target = "",
        columns: Names = "",
        kinds: Kinds = "",
        agreed_columns: Agreed = None,
        report: Report = ignore,
        **options: Any,
    ) -> tuple[Self, Any]:
        """As for other regressions, but only the frequencies of the groups differ between sites."""
        options |= {"formula": formula, "target": target, "columns": columns, "kinds": kinds}
        return model_of_file(cls, path, components=components, agreed_columns=agreed_columns, report=report, **options)

    def points(self, data: Any, *, unseen: bool = False) -> Array:
        """Rows as a matrix of numbers; with `unseen` the target may be missing."""
        return self.table.points(data, target=not unseen)

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """log p(y | x, posterior) per row, all parameters integrated out; `held` may have the targets."""
        return super().log_predictive(posterior, data if held is None else self.table.with_targets(data, held))

    def lines(self, posterior: Posterior, *, level: float = 0.9) -> list[Row]:
        """The coefficients of each group in the columns' own units, with intervals, for a data frame.

        Intervals treat group membership as known: they are too narrow where groups overlap.
        """
        check_level(level)
        check_structure(posterior, self.structure_for(posterior), "posterior")
        natural, likelihood = posterior.natural[FACTOR], self.likelihood
        change, offset = self.table.own_units(likelihood.scale, likelihood.centre)
        stretches = likelihood.family.stretches(natural, posterior.stretch(FACTOR))
        rows: list[Row] = []
        for component, wider in enumerate(next(iter(stretches.values()))):
            part = natural[component : component + 1]
            mean, deviation, low, high = self.outcome.interval(part, level, change, wider)
            parts = {"mean": mean + offset, "deviation": deviation, "low": low + offset, "high": high + offset}
            rows += [{"component": component, **row} for row in term_rows(self.table.design.labels, parts)]
        return rows

    def predict(self, posterior: Posterior, data: Any, *, level: float = 0.9) -> dict[str, Array]:
        """The mean of the target in each row, and an interval that holds a new value with that probability."""
        check_level(level)
        check_structure(posterior, self.structure_for(posterior), "posterior")
        response, weights = self.likelihood, posterior.mean("weights")
        rows = self.table.matrix(self.points(data, unseen=True))
        mean, scale, degrees = response.student(posterior.natural[FACTOR], rows)
        low, high = (quantile(mean, scale, degrees, weights, 0.5 + side * level) for side in (-0.5, 0.5))
        parts = {"mean": mean @ weights, "low": low, "high": high}
        return {name: response.centre + response.scale * values for name, values in parts.items()}

    @of_own_posterior
    def profile(self, posterior: Posterior) -> Mapping[str, Any]:
        noise = self.likelihood.scale / np.sqrt(self.outcome.family.expected(posterior.natural[FACTOR]).precision)
        texts: list[list[str]] = [[] for _ in noise]
        for row in self.lines(posterior):
            texts[row["component"]].append(f"{row['term']} {digits(row['mean'], 3)}")
        return {"noise": noise, "coefficients": [", ".join(terms) for terms in texts]}

    def draw(
        self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator
    ) -> tuple[Array, NDArray[np.intp]]:
        """Rows with made-up predictors, and the group of each."""
        groups = rng.choice(len(parameters["weights"]), size=size, p=parameters["weights"])
        points, drawn = self.table.made_up(size, rng), parameters[FACTOR]
        assert isinstance(drawn, MeanAndPrecision)
        noise = rng.standard_normal(size) / np.sqrt(drawn.precision[groups])
        linear = np.einsum("nd,nd->n", self.table.matrix(points), drawn.mean[groups])
        likelihood = self.likelihood
        points[:, self.table.target_place] = likelihood.centre + likelihood.scale * (linear + noise)
        return points, groups

    def _starts(self, points: int, alone: bool) -> Sequence[Start]:
        return super()._starts(points, alone=False)

    def _begin(self, blocks: PointBlocks, before: Natural, kind: Start, rng: np.random.Generator) -> Natural:
        """Start each group from a few random rows, and each row in the group that predicts it best."""
        if self.start_from is not None:
            return super()._begin(blocks, before, kind, rng)
        emissions, count = blocks.emissions, len(before["weights"])
        few = 2 * (len(self.table.design.labels) + 1)
        picked = emissions.features(rng.permutation(blocks.sample(few * count, rng)))
        groups = summed(picked, np.arange(len(picked)) % count, count)
        first = coefficients(emissions, plus(emissions, before, groups))
        sums = [summed(features, np.argmax(features @ first, axis=1), count) for features in blocks.features()]
        return plus(emissions, before, np.add.reduce(sums))


def quantile(mean: Array, scale: Array, degrees: Array, weights: Array, share: float) -> Array:
    """(N,): the quantile of mixtures of Student's t, by bisection between those of their parts."""
    components = mean + scale * stdtrit(degrees, share)
    low, high = components.min(axis=1), components.max(axis=1)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        above = stdtr(degrees, (middle[:, None] - mean) / scale) @ weights > share
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))
