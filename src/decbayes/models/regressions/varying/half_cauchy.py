"""The standard deviation between groups with a half-Cauchy prior, on a grid: one sum per grid point and site.

Given Λ, and with each row's likelihood quadratic at the posterior (exact with Gaussian noise), everything is integrated
out in closed form:

    log p(rows | Λ) = A(λ0 + Σ_i c_i(Λ)) − A(λ0) + Σ_i n_i(Λ) + constant

where c_i is what site i adds to the coefficients once own parts are integrated out, and n_i a number. Both add up over
sites. One deviation at a time runs over the grid; correlations and all other deviations stay at the posterior.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.calibrated import PROBABILITIES
from decbayes.errors import NotCalibrated
from decbayes.families import Array
from decbayes.models.regressions.outcome import FACTOR
from decbayes.models.regressions.varying.variation import Grouping
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.models.regressions.regression import Regression

# The median of a deviation before any data, in units of the linear predictor, or of the noise if there is some.
SCALE = 1.0
# Grid points, and how far they reach in logarithms: so many of mean field's deviations, but at least this far.
STEPS, TIMES, LEAST = 121, 12.0, 4.0
# How much denser the grid is in its middle.
DENSER = 4.0


@dataclass(frozen=True, eq=False)
class HalfCauchy:
    """Deviations between groups of one regression, at one posterior."""

    model: "Regression"
    posterior: Posterior

    def __post_init__(self) -> None:
        if not self.model.varying:
            raise NotCalibrated("Nothing varies from site to site in this regression; `varying` says what does.")

    def sums(self, data: Any) -> Array:
        """(deviations, steps, d + 1): what a site's rows add, for each deviation and each value of it on the grid."""
        natural = self.posterior.natural
        climb = self.model.outcome.climb(self.model.problem(dict(natural), data))
        effects = climb.effects(natural)
        sums = []
        for place, grouping, coefficient in self._deviations():
            precision, steps = grouping.precision(natural), []
            for step in self.grid(grouping, coefficient):
                scale = np.ones(len(precision))
                scale[coefficient] = np.exp(-step)
                given = effects.at(place, scale[:, None] * precision * scale)
                left, number = climb.left(given)
                steps.append(np.append(left.ravel(), number + given.log_odds()))
            sums.append(np.array(steps))
        return np.array(sums)

    def grid(self, grouping: Grouping, coefficient: int) -> Array:
        """Logarithms of a deviation, relative to its estimate."""
        shape, _ = grouping.marginal(self.posterior.natural)
        reach = max(TIMES * 0.5 / np.sqrt(shape[coefficient]), LEAST)
        return np.asarray(reach * np.sinh(DENSER * np.linspace(-1.0, 1.0, STEPS)) / np.sinh(DENSER))

    def quantiles(self, sums: Array) -> Mapping[str, Array]:
        """By factor (probabilities, V): quantiles of each deviation, from the sums of all sites."""
        family, before = self.model.outcome.family, self.posterior.structure.prior[FACTOR]
        found: dict[str, list[Array]] = {}
        for (_, grouping, coefficient), rows in zip(self._deviations(), sums, strict=True):
            shape, rate = grouping.marginal(self.posterior.natural)
            middle, steps = np.sqrt(rate / shape)[coefficient], self.grid(grouping, coefficient)
            height = [family.log_partition(before + row[None, :-1]) + row[-1] for row in rows]
            deviations = middle * np.exp(steps)
            prior = np.log(deviations) - np.log1p((deviations / SCALE) ** 2) + np.log(np.gradient(steps))
            odds = np.exp(np.array(height) + prior - np.max(np.array(height) + prior))
            # Half of a point's probability lies below it.
            below = (np.cumsum(odds) - 0.5 * odds) / odds.sum()
            found.setdefault(grouping.factor, []).append(np.interp(PROBABILITIES, below, deviations))
        return {factor: np.stack(columns, axis=1) for factor, columns in found.items()}

    def _deviations(self) -> Iterator[tuple[int, Grouping, int]]:
        for place, grouping in enumerate(self.model.variation.groupings):
            for coefficient in range(len(grouping.places)):
                yield place, grouping, coefficient
