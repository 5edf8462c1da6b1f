"""Likelihoods of yes/no, count and categorical columns; those of real columns are in `real.py`."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln

from decbayes.families import Array, Beta, Dirichlets, Gamma
from decbayes.families.matrices import split
from decbayes.models.core.points import LARGEST
from decbayes.models.likelihoods.columnwise import Columnwise, Numbers, filled_with_means, most_probable


@dataclass(frozen=True)
class YesOrNo(Columnwise):
    """x ~ Bernoulli(θ_k) in each column: Beta posteriors. Function: x."""

    expects: ClassVar[str] = "0 or 1"
    numeric: ClassVar[bool] = False

    @property
    def family(self) -> Beta:
        return Beta()

    def values(self, points: Array) -> Array:
        return points

    def terms(self, natural: Array) -> tuple[Array, Array]:
        log_yes, log_no = split(self.family.expected_statistics(natural), 2)
        return log_yes - log_no, log_no

    def added(self, sums: Array, counts: Array) -> Array:
        return np.hstack([sums, counts - sums])

    def counts(self, contribution: Array) -> Array:
        return np.asarray(sum(split(contribution, 2)))

    def log_predictive(self, natural: Array, points: Array) -> Array:
        share = self.expected(natural)
        present = ~np.isnan(points)
        yes = np.where(present, points, 0.0)
        return np.asarray(yes @ np.log(share).T + (present - yes) @ np.log1p(-share).T)

    def draw(self, parameters: Array, components: NDArray[np.intp], rng: np.random.Generator) -> Array:
        share = parameters.reshape(len(parameters), -1)[components]
        return (rng.random(share.shape) < share).astype(np.float64)

    def outside(self, points: Array) -> NDArray[np.bool_]:
        """Neither 0 nor 1, unless the column has one share for all rows, as disclosure rules write it."""
        return np.asarray(~np.isnan(points) & (points != 0) & (points != 1) & ~one_share(points))

    def predicted(self, natural: Array, place: int, shares: Array, level: float) -> dict[str, Array]:
        yes = self.expected(natural)[:, place]
        return most_probable(shares @ np.column_stack([1.0 - yes, yes]))


@dataclass(frozen=True)
class Counted(Numbers):
    """x ~ Poisson(rate_k) in each column: Gamma posteriors. Functions: x, and Σ log x! of the row."""

    expects: ClassVar[str] = "whole numbers from 0 on"
    whole: ClassVar[bool] = True

    @property
    def family(self) -> Gamma:
        return Gamma()

    def values(self, points: Array) -> Array:
        return np.column_stack([points, np.nansum(gammaln(points + 1), axis=1)])

    def terms(self, natural: Array) -> tuple[Array, Array]:
        log_rate, rate = split(self.family.expected_statistics(natural), 2)
        return np.column_stack([log_rate, -np.ones(len(rate))]), -rate

    def added(self, sums: Array, counts: Array) -> Array:
        return np.hstack([sums[:, :-1], -counts])

    def counts(self, contribution: Array) -> Array:
        return -split(contribution, 2)[1]

    def dimension(self, width: int) -> int:
        return width - 1

    def log_predictive(self, natural: Array, points: Array) -> Array:
        shape, rate = self.family.columns(natural)
        factorials = np.nansum(gammaln(points + 1), axis=1)
        density = np.empty((len(points), len(shape)))
        for k in range(len(shape)):
            constant = shape[k] * np.log(rate[k]) - gammaln(shape[k])
            terms = constant + gammaln(points + shape[k]) - (points + shape[k]) * np.log1p(rate[k])
            density[:, k] = np.nansum(terms, axis=1) - factorials
        return density

    def draw(self, parameters: Array, components: NDArray[np.intp], rng: np.random.Generator) -> Array:
        return rng.poisson(parameters[components]).astype(np.float64)

    def outside(self, points: Array) -> NDArray[np.bool_]:
        return np.asarray(~np.isnan(points) & ((points < 0) | (points != np.rint(points)) | (points >= LARGEST)))

    def embedded(self, points: Array) -> Array:
        # The square root stabilises the variance of counts.
        return filled_with_means(2.0 * np.sqrt(points))

    def cumulative(self, natural: Array, place: int, values: Array) -> Array:
        shape, rate = (part[:, place] for part in self.family.columns(natural))
        below = betainc(shape, np.floor(values)[:, None] + 1.0, rate / (rate + 1))
        return np.where(values[:, None] < 0, 0.0, below)


@dataclass(frozen=True)
class Categories(Columnwise):
    """x is one of `sizes[d]` categories in column d: Dirichlet posteriors. Functions: one indicator per category.

    Between 0 and 1, x is the share of the second of two categories, as disclosure rules write it for all rows.
    """

    sizes: tuple[int, ...] = (2,)

    expects: ClassVar[str] = "numbers of categories, from 0 to one less than there are"
    numeric: ClassVar[bool] = False

    @cached_property
    def _family(self) -> Dirichlets:
        return Dirichlets(self.sizes)

    @property
    def family(self) -> Dirichlets:
        return self._family

    def values(self, points: Array) -> Array:
        which = np.zeros((len(points), sum(self.sizes)))
        rows, columns = np.nonzero(~np.isnan(points))
        codes, starts = points[rows, columns], self.family.starts[columns]
        first = codes.astype(np.intp)
        second = codes - first
        which[rows, starts + first] = 1.0 - second
        shared = second > 0.0
        which[rows[shared], starts[shared] + 1] = second[shared]
        return which

    def terms(self, natural: Array) -> tuple[Array, Array]:
        # A missing value has no indicator set, so no constant is needed.
        return self.family.expected_statistics(natural), np.zeros((len(natural), len(self.sizes)))

    def added(self, sums: Array, counts: Array) -> Array:
        return sums

    def counts(self, contribution: Array) -> Array:
        return self.family.sums(contribution)

    def seeing(self, points: Array) -> Self:
        return self

    def dimension(self, width: int) -> int:
        return len(self.sizes)

    def log_predictive(self, natural: Array, points: Array) -> Array:
        return np.asarray(self.values(points) @ np.log(self.expected(natural)).T)

    def draw(self, parameters: Array, components: NDArray[np.intp], rng: np.random.Generator) -> Array:
        groups = np.split(parameters, self.family.starts[1:], axis=1)
        drawn = [draw_categories(shares[components], rng) for shares in groups]
        return np.column_stack(drawn).astype(np.float64)

    def outside(self, points: Array) -> NDArray[np.bool_]:
        whole = (points >= 0) & (points < np.array(self.sizes)) & (points == np.rint(points))
        return np.asarray(~np.isnan(points) & ~whole & ~(one_share(points) & (np.array(self.sizes) == 2)))

    def embedded(self, points: Array) -> Array:
        return self.values(points)

    def of_column(self, natural: Array, place: int, columns: int) -> tuple[Dirichlets, Array]:
        start, size = self.family.starts[place], self.sizes[place]
        return Dirichlets((size,)), natural[:, start : start + size]

    def predicted(self, natural: Array, place: int, shares: Array, level: float) -> dict[str, Array]:
        return most_probable(shares @ np.split(self.expected(natural), self.family.starts[1:], axis=1)[place])


def one_share(points: Array) -> NDArray[np.bool_]:
    """Which columns have the same value between 0 and 1 in all rows."""
    known = ~np.isnan(points)
    lowest = np.where(known, points, np.inf).min(axis=0, initial=np.inf)
    highest = np.where(known, points, -np.inf).max(axis=0, initial=-np.inf)
    return np.asarray((lowest == highest) & (lowest > 0) & (lowest < 1))


def draw_categories(shares: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw one category per row of shares."""
    steps = np.cumsum(shares, axis=1)
    drawn = (rng.random((len(shares), 1)) * steps[:, -1:] >= steps).sum(axis=1)
    return np.asarray(np.minimum(drawn, shares.shape[1] - 1), dtype=np.intp)
