"""Mixtures of linear regressions: rows belong to hidden groups, each with coefficients and noise of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from decbayes.arguments import check_level
from decbayes.families import Array, MeanAndPrecision
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.model import Columns as Names
from decbayes.models.core.model import Row
from decbayes.models.core.points import check_structure
from decbayes.models.core.settings import Number
from decbayes.models.likelihoods.emissions import Emissions, Natural, Part, coefficients, plus
from decbayes.models.likelihoods.likelihood import summed
from decbayes.models.likelihoods.point_pass import PointBlocks
from decbayes.models.mixtures.clusters import Clusters
from decbayes.models.regressions._data import told
from decbayes.models.regressions._linear_likelihood import LinearLikelihood, LinearTable
from decbayes.models.regressions.table import FACTOR, Target, WhatToFit
from decbayes.models.tables.tabular import Agreed, Kinds
from decbayes.posterior import Posterior

# Halvings of an interval until its ends are known to all digits that matter.
HALVINGS = 60


@dataclass(frozen=True)
class RegressionMixture(LinearTable, Clusters):
    """Which group a row belongs to is hidden; within each, y ~ N(xβ_k, 1 / τ_k), with LinearRegression's prior."""

    ascent: Ascent = field(default=Ascent(restarts=19), kw_only=True)

    about: ClassVar[str] = "Groups of rows, each with a linear regression of its own."
    command: ClassVar[str] = "regression-mixture"
    example: ClassVar[str] = "patients.csv --components 2 --formula 'pressure ~ age'"
    caption: ClassVar[str] = "coefficients"

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        components: Number = 2,
        formula: WhatToFit = "",
        target: Target = "",
        columns: Names = "",
        kinds: Kinds = "",
        agreed_columns: Agreed = None,
        **options: Any,
    ) -> tuple[Self, Any]:
        """As other regressions; nothing varies from site to site but how frequent groups are."""
        said: dict[str, Any] = {"formula": formula, "target": target, "columns": columns, "kinds": kinds}
        return super().from_file(path, components=components, agreed_columns=agreed_columns, **said, **options)

    @property
    def likelihood(self) -> LinearLikelihood:
        size, zero = self.target_units()
        return LinearLikelihood(self.design, self.target_place, zero, size)

    @property
    def emissions(self) -> Emissions:
        places = tuple(range(len(self.columns)))
        return Emissions((Part(FACTOR, self.likelihood, self.coefficient_prior(), places, self.design.labels),))

    def points(self, data: Any, *, unseen: bool = False, target: bool = True) -> Array:
        """Rows as a matrix of numbers; with `unseen` the target may be missing."""
        return super().points(data, target=target and not unseen)

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """log p(y | x, posterior) per row, all parameters integrated out; `held` may have the targets."""
        return super().log_predictive(posterior, data if held is None else self.rows_with(data, held))

    def lines(self, posterior: Posterior, *, level: float = 0.9) -> list[Row]:
        """The coefficients of each group in the columns' own units, with intervals, for a data frame.

        Intervals take it as known who belongs to which group: too narrow where groups overlap.
        """
        check_level(level)
        check_structure(posterior, self.structure_for(posterior), "posterior")
        natural, (unit, offset) = posterior.natural[FACTOR], self.units_and_offset()
        low, mean, high = (self.family.quantile(natural, 0.5 + side * level).mean for side in (-0.5, 0.0, 0.5))
        parts = {name: value * unit + offset for name, value in (("mean", mean), ("low", low), ("high", high))}
        return [
            {"component": k, **row}
            for k in range(len(mean))
            for row in told(self.design.labels, {name: part[k] for name, part in parts.items()})
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
        noise = self.likelihood.scale / np.sqrt(self.family.expected(posterior.natural[FACTOR]).precision)
        texts: list[list[str]] = [[] for _ in noise]
        for row in self.lines(posterior):
            texts[row["component"]].append(f"{row['term']} {row['mean']:.3g}")
        return {"noise": noise, "coefficients": [", ".join(each) for each in texts]}

    def draw(
        self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator
    ) -> tuple[Array, NDArray[np.intp]]:
        """Rows with made-up predictors, and the group of each."""
        groups = rng.choice(len(parameters["weights"]), size=size, p=parameters["weights"])
        points, found = self.made_up_rows(size, rng), parameters[FACTOR]
        assert isinstance(found, MeanAndPrecision)
        noise = rng.standard_normal(size) / np.sqrt(found.precision[groups])
        drawn = np.einsum("nd,nd->n", self._matrix(points), found.mean[groups]) + noise
        unit, zero = self.target_units()
        points[:, self.target_place] = zero + unit * drawn
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
