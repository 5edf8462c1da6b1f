"""Mixtures of linear regressions: rows belong to hidden groups, each with coefficients and noise of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log, pi
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, stdtr, stdtrit

from decbayes.arguments import Above, check_level, check_positive
from decbayes.columns import Gaussian, plain
from decbayes.errors import InvalidStructure
from decbayes.families import Array, GaussianGamma, MeanAndPrecision
from decbayes.families.matrices import flat
from decbayes.models.ascent import Ascent
from decbayes.models.centres import summed
from decbayes.models.clusters import Clusters
from decbayes.models.design import Design
from decbayes.models.emissions import Emissions, Natural, Part, coefficients, plus
from decbayes.models.model import Columns as Names
from decbayes.models.model import Number, Row
from decbayes.models.point_pass import PointBlocks
from decbayes.models.points import check_structure
from decbayes.models.regression_data import made_up
from decbayes.models.regression_table import RegressionTable
from decbayes.models.tabular import Agreed, Kinds
from decbayes.posterior import Posterior
from decbayes.structure import Structure

FACTOR = "coefficients"
# Halvings of an interval until its ends are known to all digits that matter.
HALVINGS = 60


@dataclass(frozen=True)
class LinearResponse:
    """y ~ N(xβ_k, 1 / τ_k), both unknown, of rows coded as columns say. Features: y², xy, products of two of x, 1."""

    design: Design
    place: int
    centre: float
    scale: float

    @property
    def family(self) -> GaussianGamma:
        return GaussianGamma()

    def parts(self, points: Array) -> tuple[Array, Array]:
        """(N, D) numbers of the terms, and (N,) targets in agreed units."""
        rows = self.design.matrix(np.delete(points, self.place, axis=1))
        return rows, (points[:, self.place] - self.centre) / self.scale

    def features(self, points: Array) -> Array:
        x, y = self.parts(points)
        first, second = np.triu_indices(x.shape[1])
        return np.column_stack([y**2, x * y[:, None], x[:, first] * x[:, second], np.ones(len(x))])

    def coefficients(self, natural: Array) -> Array:
        mean, side = self.family.mean(natural), self.family.dimension(natural.shape[1])
        first, second = np.triu_indices(side)
        products = mean[:, 2 + side :].reshape(-1, side, side)[:, first, second] * np.where(first == second, 1.0, 2.0)
        constant = 0.5 * (mean[:, :1] - log(2 * pi)) - log(self.scale)
        return np.hstack([-0.5 * mean[:, 1:2], mean[:, 2 : 2 + side], -0.5 * products, constant]).T

    def contribution(self, sums: Array) -> Array:
        side = len(self.design.labels)
        square, shift, products, count = np.split(sums, [1, 1 + side, -1], axis=1)
        first, second = np.triu_indices(side)
        whole = np.zeros((len(sums), side, side))
        whole[:, first, second] = whole[:, second, first] = products
        return np.hstack([0.5 * count, -0.5 * square, shift, -0.5 * flat(whole)])

    def student(self, natural: Array, rows: Array) -> tuple[Array, Array, Array]:
        """Mean and scale of y, (N, K), in agreed units, and degrees of freedom, (K,)."""
        mean, weight, shape, rate = self.family.columns(natural)
        spread = np.einsum("nd,kde,ne->nk", rows, np.linalg.inv(weight), rows)
        return rows @ mean.T, np.sqrt(rate / shape * (1.0 + spread)), 2.0 * shape

    def log_predictive(self, natural: Array, points: Array) -> Array:
        """A target that nobody has seen says nothing."""
        rows, targets = self.parts(points)
        mean, scale, degrees = self.student(natural, rows)
        z = (targets[:, None] - mean) / scale
        constant = gammaln(0.5 * (degrees + 1)) - gammaln(0.5 * degrees) - 0.5 * np.log(degrees * pi)
        density = constant - np.log(scale * self.scale) - 0.5 * (degrees + 1) * np.log1p(z**2 / degrees)
        return np.where(np.isnan(targets)[:, None], 0.0, density)


@dataclass(frozen=True)
class RegressionMixture(RegressionTable, Clusters):
    """Which group a row belongs to is hidden; within each, y ~ N(xβ_k, 1 / τ_k), with LinearRegression's prior."""

    prior_variance: Annotated[float, "Prior variance of coefficients, in variances of the noise.", Above(0)] = field(
        default=100.0, kw_only=True
    )
    prior_noise: Annotated[float, "The prior noise variance, in the target's own squared units.", Above(0)] = field(
        default=0.5, kw_only=True
    )
    prior_degrees: Annotated[float, "Observations that the prior noise weighs.", Above(0)] = field(
        default=1.0, kw_only=True
    )
    ascent: Ascent = field(default=Ascent(restarts=19), kw_only=True)

    about: ClassVar[str] = "Groups of rows, each with a linear regression of its own."
    command: ClassVar[str] = "regression-mixture"
    example: ClassVar[str] = "patients.csv --components 2 --formula 'pressure ~ age'"
    caption: ClassVar[str] = "coefficients"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(
            prior_variance=self.prior_variance, prior_noise=self.prior_noise, prior_degrees=self.prior_degrees
        )
        if self.varying:
            raise InvalidStructure("Groups of a mixture differ already; `varying` is for regressions of one group.")

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        components: Number = 2,
        formula: Annotated[str, "What to fit, as in 'pressure ~ age + sex'; or name a --target."] = "",
        target: Annotated[str, "The column to predict, from all others."] = "",
        columns: Names = "",
        kinds: Kinds = "",
        agreed_columns: Agreed = None,
        **options: Any,
    ) -> tuple[Self, Any]:
        """As other regressions; nothing varies from site to site but how frequent groups are."""
        said: dict[str, Any] = {"formula": formula, "target": target, "columns": columns, "kinds": kinds}
        return super().from_file(path, components=components, agreed_columns=agreed_columns, **said, **options)

    @property
    def likelihood(self) -> LinearResponse:
        column = self.columns[self.target]
        assert isinstance(column, Gaussian)
        return LinearResponse(self.design, list(self.columns).index(self.target), column.centre, column.scale)

    @property
    def emissions(self) -> Emissions:
        side, shape = len(self.design.labels), 0.5 * float(self.prior_degrees)
        weight = np.eye(side) / float(self.prior_variance)
        prior = GaussianGamma().natural(
            mean=np.zeros((1, side)), scaled_precision=weight, shape=shape, rate=shape * float(self.prior_noise)
        )
        return Emissions((Part(FACTOR, self.likelihood, prior, tuple(range(len(self.columns))), self.design.labels),))

    def points(self, data: Any, *, unseen: bool = False, target: bool = True) -> Array:
        """Rows as a matrix of numbers; with `unseen` the target may be missing."""
        return super().points(data, target=target and not unseen)

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """log p(y | x, posterior) per row, all parameters integrated out; `held` may have the targets."""
        return super().log_predictive(posterior, data if held is None else self.rows_with(data, held))

    def constants(self) -> Mapping[str, Any]:
        return {
            "target": self.target,
            "columns": plain(self.columns),
            "terms": list(self.terms),
            "intercept": self.intercept,
        }

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        told = super().settings_of(structure)
        usual = GaussianGamma().parameters(structure.prior[FACTOR][:1])
        shape = float(usual["shape"][0])
        noise = {"prior_noise": float(usual["rate"][0]) / shape, "prior_degrees": 2.0 * shape}
        variance = 1.0 / float(usual["scaled_precision"][0, 0, 0])
        return {**told, "terms": tuple(told["terms"]), "prior_variance": variance, **noise}

    def lines(self, posterior: Posterior, *, level: float = 0.9) -> list[Row]:
        """The coefficients of each group in the columns' own units, with intervals, for a data frame.

        Intervals take it as known who belongs to which group: too narrow where groups overlap.
        """
        check_level(level)
        check_structure(posterior, self.structure_for(posterior), "posterior")
        response, natural = self.likelihood, posterior.natural[FACTOR]
        unit, offset = response.scale / self.design.units, np.zeros(len(self.design.labels))
        offset[: int(self.intercept)] = response.centre
        low, mean, high = (GaussianGamma().quantile(natural, 0.5 + side * level).mean for side in (-0.5, 0.0, 0.5))
        parts = {name: value * unit + offset for name, value in (("mean", mean), ("low", low), ("high", high))}
        return [
            {"component": k, "term": label, **{name: float(part[k, place]) for name, part in parts.items()}}
            for k in range(len(mean))
            for place, label in enumerate(self.design.labels)
        ]

    def predict(self, posterior: Posterior, data: Any, *, level: float = 0.9) -> dict[str, Array]:
        """For each row the mean of the target, and an interval that holds a new one with that probability."""
        check_level(level)
        check_structure(posterior, self.structure_for(posterior), "posterior")
        response, weights = self.likelihood, posterior.mean("weights")
        mean, scale, degrees = response.student(posterior.natural[FACTOR], self.design_of(data))
        low, high = (quantile(mean, scale, degrees, weights, 0.5 + side * level) for side in (-0.5, 0.5))
        parts = {"mean": mean @ weights, "low": low, "high": high}
        return {name: response.centre + response.scale * values for name, values in parts.items()}

    def profile(self, posterior: Posterior) -> Mapping[str, Any]:
        rows = self.lines(posterior)
        texts = ["" for _ in posterior.mean("weights")]
        for row in rows:
            texts[row["component"]] += f"{', ' if texts[row['component']] else ''}{row['term']} {row['mean']:.3g}"
        noise = self.likelihood.scale / np.sqrt(GaussianGamma().expected(posterior.natural[FACTOR]).precision)
        return {"noise": noise, "coefficients": texts}

    def draw(
        self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator
    ) -> tuple[Array, NDArray[np.intp]]:
        """Rows with made-up predictors, and the group of each."""
        groups = rng.choice(len(parameters["weights"]), size=size, p=parameters["weights"])
        points = np.column_stack([made_up(column, size, rng) for column in self.columns.values()])
        response, found = self.likelihood, parameters[FACTOR]
        assert isinstance(found, MeanAndPrecision)
        rows, _ = response.parts(points)
        noise = rng.standard_normal(size) / np.sqrt(found.precision[groups])
        drawn = np.einsum("nd,nd->n", rows, found.mean[groups]) + noise
        points[:, response.place] = response.centre + response.scale * drawn
        return points, groups

    def _begin(self, blocks: PointBlocks, before: Natural, rng: np.random.Generator) -> Natural:
        """Each group begins with the fit of a few random rows, and every row with the group that predicts it best."""
        if self.start_from is not None:
            return super()._begin(blocks, before, rng)
        emissions, count = blocks.emissions, len(before["weights"])
        few = 2 * (len(self.design.labels) + 1)
        picked = emissions.features(rng.permutation(blocks.sample(few * count, rng)))
        groups = summed(picked, np.arange(len(picked)) % count, count)
        first = coefficients(emissions, plus(emissions, before, groups))
        sums = [summed(features, np.argmax(features @ first, axis=1), count) for features in blocks.features()]
        return plus(emissions, before, np.add.reduce(sums))


def quantile(mean: Array, scale: Array, degrees: Array, weights: Array, share: float) -> Array:
    """The quantile of mixtures of Student's t, (N,), by bisection between those of their parts."""
    each = mean + scale * stdtrit(degrees, share)
    low, high = each.min(axis=1), each.max(axis=1)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        above = stdtr(degrees, (middle[:, None] - mean) / scale) @ weights > share
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))
