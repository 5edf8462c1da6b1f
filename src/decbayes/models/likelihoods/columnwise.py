"""Likelihoods of tables: columns are independent given the component, so any value may be missing.

    log p(x | θ) = Σ_d [x_d observed] · (values(x_d) · slopes_d(θ) + constant_d(θ))

A missing value adds nothing and removes its column's constant. Columns with missing values (`gaps`) therefore need an
indicator feature; the constants of all other columns are one sum.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array, Family
from decbayes.models.core.settings import LOCAL

# Bisection steps, enough for full double precision.
HALVINGS = 80


@dataclass(frozen=True, kw_only=True)
class Columnwise(ABC):
    """Independent columns. A subclass defines functions of a value, their coefficients, and what their sums add."""

    gaps: tuple[int, ...] = field(default=(), metadata=LOCAL)

    expects: ClassVar[str]
    """What values must be, for error messages."""

    numeric: ClassVar[bool] = True
    """Whether the contribution of a value grows with its size."""

    together: ClassVar[bool] = False
    """Whether a row has values in all columns or in none."""

    @property
    @abstractmethod
    def family(self) -> Family:
        """The conjugate family, with all columns in one row."""

    @abstractmethod
    def values(self, points: Array) -> Array:
        """(N, p): the functions of each value in which the log-likelihood is linear; NaN or 0 for missing values."""

    @abstractmethod
    def terms(self, natural: Array) -> tuple[Array, Array]:
        """(K, p) slopes and (K, D) constants of the expected log-likelihood."""

    @abstractmethod
    def added(self, sums: Array, counts: Array) -> Array:
        """(K, d): what sums of the functions over `counts` values per column add to the natural parameters."""

    @abstractmethod
    def counts(self, contribution: Array) -> Array:
        """(K, …): the number of values of each column, once for each parameter that shows it."""

    @abstractmethod
    def log_predictive(self, natural: Array, points: Array) -> Array:
        """(N, K): log ∫ p(x_n | θ_k) q(θ_k) dθ_k of the observed values."""

    @abstractmethod
    def draw(self, parameters: Any, components: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """(N, D): one observation from each of these components, with parameters as the family draws them."""

    @abstractmethod
    def outside(self, points: Array) -> NDArray[np.bool_]:
        """Values that the likelihood cannot produce; missing values are fine."""

    def expected(self, natural: Array) -> Array:
        """(K, entries): the mean of a new value, or its probability: one entry per column, or per category."""
        return np.asarray(self.family.expected(natural)).reshape(len(natural), -1)

    def quantile(self, natural: Array, share: float, stretch: Any = 1.0) -> Array:
        """(K, entries): the quantile of the parameter behind `expected`.

        `stretch` widens its distribution, as in `Family.quantile`.
        """
        return np.asarray(self.family.quantile(natural, share, stretch)).reshape(len(natural), -1)

    @abstractmethod
    def predicted(self, natural: Array, place: int, shares: Array, level: float) -> dict[str, Array]:
        """Predict one column in some rows, given the probability of each component there, (N, K).

        Numbers come with an interval (`low`, `high`) of that level, categories with a `probability`.
        """

    def of_column(self, natural: Array, place: int, columns: int) -> tuple[Family, Array]:
        """The family of one column, and its part of the natural parameters."""
        return self.family, natural[:, place::columns]

    def embedded(self, points: Array) -> Array:
        """(N, q): values as coordinates for the choice of first centres; missing ones are means."""
        return filled_with_means(points)

    def seeing(self, points: Array) -> Self:
        """The same likelihood, for points with these gaps."""
        return replace(self, gaps=tuple(np.flatnonzero(np.isnan(points).any(axis=0)).tolist()))

    def features(self, points: Array) -> Array:
        values, last = self.values(points), np.ones(len(points))
        if not self.gaps:
            return np.column_stack([values, last])
        values = np.where(np.isnan(values), 0.0, values)
        return np.column_stack([values, ~np.isnan(points[:, self.gaps]), last])

    def coefficients(self, natural: Array) -> Array:
        slopes, constants = self.terms(natural)
        apart = constants[:, self.gaps]
        rest = constants.sum(axis=1, keepdims=True) - apart.sum(axis=1, keepdims=True)
        return np.concatenate([slopes, apart, rest], axis=1).T

    def contribution(self, sums: Array) -> Array:
        width = sums.shape[1] - 1 - len(self.gaps)
        values, masked, count = sums[:, :width], sums[:, width:-1], sums[:, -1:]
        counts = np.repeat(count, self.dimension(width), axis=1)
        counts[:, self.gaps] = masked
        return self.added(values, counts)

    def dimension(self, width: int) -> int:
        """The number of columns whose values have `width` functions together."""
        return width


class Numbers(Columnwise):
    """Columns of numbers: a missing one is predicted by its mean (its median if `whole`) and an interval."""

    whole: ClassVar[bool] = False

    @abstractmethod
    def cumulative(self, natural: Array, place: int, values: Array) -> Array:
        """(N, K): the probability that a new value in this column is at most `values`."""

    def predicted(self, natural: Array, place: int, shares: Array, level: float) -> dict[str, Array]:
        low, middle, high = (
            self.quantiles(natural, place, shares, share) for share in (0.5 - 0.5 * level, 0.5, 0.5 + 0.5 * level)
        )
        mean = shares @ self.expected(natural)[:, place]
        return {"value": middle if self.whole else mean, "low": low, "high": high}

    def quantiles(self, natural: Array, place: int, shares: Array, level: float) -> Array:
        """The quantile of a new value in each row, by bisection."""
        centre = self.expected(natural)[:, place]
        reach = np.ptp(centre) + np.abs(centre).max() + 1.0
        low, high = np.full(len(shares), centre.min() - reach), np.full(len(shares), centre.max() + reach)

        def below(values: Array) -> Array:
            return np.asarray(np.sum(shares * self.cumulative(natural, place, values), axis=1))

        for _ in range(HALVINGS):
            low, high = (
                np.where(below(low) > level, low - (high - low), low),
                np.where(below(high) < level, high + (high - low), high),
            )
            middle = 0.5 * (low + high)
            under = below(middle) < level
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return np.ceil(np.round(high, 9)) if self.whole else high


def most_probable(probability: Array) -> dict[str, Array]:
    """The most probable category in each row of (N, C) probabilities."""
    return {"value": probability.argmax(axis=1).astype(np.float64), "probability": probability.max(axis=1)}


def filled_with_means(points: Array) -> Array:
    """Replace missing values by the means of their columns."""
    present = ~np.isnan(points)
    if present.all():
        return points
    means = np.where(present, points, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    return np.where(present, points, means)
