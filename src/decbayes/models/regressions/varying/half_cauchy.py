"""The standard deviations between groups with half-Cauchy priors: one sum per value of them and site.

Given Λ, and with each row's likelihood expanded at the posterior (exact for Gaussian noise), all else is integrated out
in closed form:

    log p(rows | Λ) = A(λ0 + Σ_i c_i(Λ)) − A(λ0) + Σ_i n_i(Λ) + constant

where c_i is what site i adds to the coefficients once its deviations are integrated out, and n_i a number. Both add up
over sites. Independent standard deviations run over a grid one at a time, with all others at the posterior. Correlated
ones, and their correlations, take quasi-random joint values around the posterior, weighted by their probability; a
priori all correlation matrices are equally probable. All sites use the same values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.calibrated import PROBABILITIES
from decbayes.errors import NotCalibrated
from decbayes.families import Array
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.models.regressions.varying.variation import Grouping
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.models.regressions.regression import Regression

# The prior median of a standard deviation, in units of the linear predictor, or of the noise if there is any.
SCALE = 1.0
# Grid points, and their reach in logarithms: TIMES mean-field deviations, but at least LEAST.
STEPS, TIMES, LEAST = 121, 12.0, 4.0
# How much denser the grid is in its middle.
DENSER = 4.0
# Joint values of correlated deviations per dimension, and their spread relative to mean field.
SPREAD_STEPS, WIDER = 500, 3.0
# The widest spread of correlations, on Fisher's scale, at which nothing is known about them.
WIDEST = 1.2
# Beyond this, in logarithms, everything is 0, infinite or fully correlated.
FARTHEST = 7.0


@dataclass(frozen=True, eq=False)
class Scan:
    """Values that some deviations of one grouping take: Λ, the quantities of interest, and their log prior."""

    place: int
    grouping: Grouping
    precisions: Array
    values: Array
    log_prior: Array

    def quantiles(self, log_likelihood: Array) -> Array:
        """(probabilities, values)."""
        height = log_likelihood + self.log_prior
        odds = np.exp(height - height.max())
        columns = []
        for column in self.values.T:
            order = np.argsort(column, kind="stable")
            rising = odds[order]
            # Half of a point's probability lies below it.
            below = (np.cumsum(rising) - 0.5 * rising) / rising.sum()
            columns.append(np.interp(PROBABILITIES, below, column[order]))
        return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class HalfCauchy:
    """Deviations between groups of one regression, at one posterior."""

    model: "Regression"
    posterior: Posterior

    def __post_init__(self) -> None:
        if not self.model.varying:
            raise NotCalibrated("Nothing varies between sites in this regression: name terms with `varying`.")

    def sums(self, data: Any) -> Array:
        """(values, d + 1): what a site's rows add, for all values of all scans."""
        climb = self.model.outcome.climb(self.model.problem(dict(self.posterior.natural), data))
        effects, sums = climb.effects(self.posterior.natural), []
        for scan in self.scans:
            for precision in scan.precisions:
                given = effects.at(scan.place, precision)
                contribution, number = climb.marginal(given)
                sums.append(np.append(contribution.ravel(), number + given.log_odds()))
        return np.array(sums)

    def quantiles(self, sums: Array) -> Mapping[str, Array]:
        """(probabilities, V + pairs) by factor: each deviation and each correlation, from the sums of all sites."""
        family, before = self.model.outcome.family, self.posterior.structure.prior[FACTOR]
        if sums.shape != (sum(len(scan.values) for scan in self.scans), before.size + 1):
            raise NotCalibrated("The sums on the grid are not those of this posterior's deviations.")
        if not all(family.contains(before + row[None, :-1]) for row in sums):
            raise NotCalibrated("The sums on the grid are damaged: no rows add up to them. Write the parts again.")
        height = np.array([family.log_partition(before + row[None, :-1]) + row[-1] for row in sums])
        quantiles: dict[str, list[Array]] = {}
        for scan in self.scans:
            heights, height = np.split(height, [len(scan.values)])
            quantiles.setdefault(scan.grouping.factor, []).append(scan.quantiles(heights))
        return {factor: np.concatenate(columns, axis=1) for factor, columns in quantiles.items()}

    @cached_property
    def scans(self) -> tuple[Scan, ...]:
        return tuple(
            scan
            for place, grouping in enumerate(self.model.variation.groupings)
            for scan in (self._together if grouping.correlated else self._one_by_one)(place, grouping)
        )

    def _middle(self, grouping: Grouping) -> tuple[Array, Array]:
        """(V,) each: deviations at the posterior, and the mean-field deviation of their logarithms."""
        shape, rate = grouping.marginal(self.posterior.natural)
        return np.sqrt(rate / shape), 0.5 / np.sqrt(shape)

    def _one_by_one(self, place: int, grouping: Grouping) -> Iterator[Scan]:
        (middle, relative), precision = self._middle(grouping), grouping.precision(self.posterior.natural)
        for coefficient, width in enumerate(relative):
            reach = max(TIMES * width, LEAST)
            steps = reach * np.sinh(DENSER * np.linspace(-1.0, 1.0, STEPS)) / np.sinh(DENSER)
            precisions = np.repeat(precision[None], STEPS, axis=0)
            precisions[:, coefficient, coefficient] *= np.exp(-2.0 * steps)
            values = middle[coefficient] * np.exp(steps)[:, None]
            yield Scan(place, grouping, precisions, values, half_cauchy(values) + np.log(np.gradient(steps)))

    def _together(self, place: int, grouping: Grouping) -> Iterator[Scan]:
        middle, relative = self._middle(grouping)
        covariance = np.linalg.inv(grouping.precision(self.posterior.natural))
        scale, side = np.sqrt(np.diag(covariance)), len(middle)
        centre = np.append(np.log(middle), np.arctanh(partial_correlations(covariance / np.outer(scale, scale))))
        pairs = len(centre) - side
        width = WIDER * np.append(relative, np.full(pairs, np.sqrt(2.0) * relative.mean()))
        width[side:] = np.minimum(width[side:], WIDEST)
        steps = student_steps(SPREAD_STEPS * len(centre), len(centre))
        numbers = centre + np.clip(width * steps, -FARTHEST, FARTHEST)
        deviations, partial = np.exp(numbers[:, :side]), np.tanh(numbers[:, side:])
        correlations = of_partial(partial, side)
        precisions = np.linalg.inv(correlations) / (deviations[:, :, None] * deviations[:, None, :])
        within = [1.0 + 0.5 * (side - 2 - column) for row in range(side) for column in range(row)]
        prior = half_cauchy(deviations) + np.log1p(-(partial**2)) @ np.array(within)
        values = [deviations, *(correlations[:, [one], other] for one, other in combinations(range(side), 2))]
        rarity = 1.5 * np.log(2.0 + steps**2).sum(axis=1)
        yield Scan(place, grouping, precisions, np.concatenate(values, axis=1), prior + rarity)


def half_cauchy(deviations: Array) -> Array:
    """Log prior of the logarithms of deviations."""
    return np.asarray((np.log(deviations) - np.log1p((deviations / SCALE) ** 2)).sum(axis=1))


def student_steps(count: int, side: int) -> Array:
    """(count, side): quasi-random values of Student's t with two degrees of freedom."""
    share = even_points(count, side)
    return np.asarray((2.0 * share - 1.0) / np.sqrt(2.0 * share * (1.0 - share)))


def even_points(count: int, side: int) -> Array:
    """(count, side): evenly spread points in the unit cube, the same everywhere.

    An additive recurrence whose steps are powers of the root of xˢ⁺¹ = x + 1, the golden ratio if s is 1: no dimension
    repeats another.
    """
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (side + 1))
    return np.asarray((0.5 + np.outer(np.arange(1, count + 1), root ** -np.arange(1.0, side + 1))) % 1.0)


def partial_correlations(correlation: Array) -> Array:
    """Of each coefficient with each earlier one, given those before that."""
    root = np.linalg.cholesky(correlation)
    left = np.sqrt(1.0 - np.cumsum(root**2, axis=1) + root**2)
    return np.array([root[row, column] / left[row, column] for row in range(len(root)) for column in range(row)])


def of_partial(partial: Array, side: int) -> Array:
    """(N, V, V): the correlation matrices with these partial correlations."""
    root, places = np.zeros((len(partial), side, side)), iter(range(partial.shape[1]))
    for row in range(side):
        left = np.ones(len(partial))
        for column in range(row):
            correlation = partial[:, next(places)]
            root[:, row, column] = correlation * np.sqrt(left)
            left = left * (1.0 - correlation**2)
        root[:, row, row] = np.sqrt(left)
    return root @ np.swapaxes(root, -1, -2)
