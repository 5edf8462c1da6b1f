"""The size of variation between groups: the posterior of the precision Λ of their deviations.

Deviations are independent, each with a Gamma, or correlated, with one Wishart for all of them. A priori both agree on
a single deviation: with `degrees` d and `between` b the prior of 1 / Σ_vv is Gamma(½d, ½db).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from decbayes.families import Array, Family, Gamma, Wishart

BETWEEN = "variation"
"""The factor of Λ between sites."""
WITHIN = "variation within sites"
"""The factor of Λ between groups inside sites."""

# Draws for quantiles of correlations, with a fixed seed.
DRAWS = 4000


@dataclass(frozen=True)
class Grouping:
    """One grouping of rows: the coefficients that vary between its groups, and whether their deviations correlate."""

    factor: str
    places: NDArray[np.intp]
    correlated: bool

    @property
    def family(self) -> Family:
        return Wishart() if self.correlated else Gamma()

    def prior(self, degrees: float, between: float) -> Array:
        side = len(self.places)
        if self.correlated:
            scale = degrees * between * np.eye(side)
            return Wishart().natural(degrees=[degrees + side - 1.0], inverse_scale=scale)
        shape = np.full((1, side), 0.5 * degrees)
        return Gamma().natural(shape=shape, rate=shape * between)

    def marginal(self, natural: Mapping[str, Array]) -> tuple[Array, Array]:
        """(V,) and (V,): 1 / Σ_vv of each coefficient is Gamma with this shape and rate, whatever the others are."""
        if not self.correlated:
            shape, rate = Gamma().columns(natural[self.factor][0])
            return shape, rate
        degrees, inverse_scale = Wishart().columns(natural[self.factor][0])
        side = len(self.places)
        return np.full(side, 0.5 * (degrees - side + 1.0)), 0.5 * np.diag(inverse_scale)

    def precision(self, natural: Mapping[str, Array]) -> Array:
        """(V, V): E[Λ]."""
        expected = self.family.expected(natural[self.factor])[0]
        return np.asarray(expected if self.correlated else np.diag(expected))

    def variance(self, natural: Mapping[str, Array]) -> Array:
        """(V, V): E[Λ⁻¹], or something large if that is infinite."""
        shape, rate = self.marginal(natural)
        wide = np.maximum(shape - 1.0, 0.5)
        if not self.correlated:
            return np.diag(rate / wide)
        _, inverse_scale = Wishart().columns(natural[self.factor][0])
        return np.asarray(0.5 * inverse_scale / wide[0])

    def updated(self, before: Mapping[str, Array], squares: Array) -> Array:
        """Λ given (G, V, V), E[τuuᵀ] of each group."""
        total = squares.sum(axis=0)
        if self.correlated:
            sums = np.append(float(len(squares)), -0.5 * total.ravel())
        else:
            sums = np.concatenate([np.full(len(total), 0.5 * len(squares)), -0.5 * np.diag(total)])
        return np.asarray(before[self.factor] + sums[None, :])

    def groups(self, contribution: Array) -> Array:
        """The number of groups in a contribution, for each coefficient that varies between them."""
        return contribution[:, :1] if self.correlated else 2.0 * np.split(contribution, 2, axis=1)[0]

    def log_determinant(self, natural: Mapping[str, Array]) -> float:
        """E[log|Λ|]."""
        mean = self.family.expected_statistics(natural[self.factor])[0]
        return float(2.0 * mean[0] if self.correlated else mean[: len(self.places)].sum())

    def bound(self, natural: Mapping[str, Array], before: Mapping[str, Array], squares: Array) -> float:
        """The terms of the bound from E[log p(u | Λ)] of all groups and from Λ, without ½ log 2π per entry."""
        summed = float(np.sum(self.precision(natural) * squares.sum(axis=0)))
        deviations = 0.5 * (len(squares) * self.log_determinant(natural) - summed)
        return deviations - self.family.kl(natural[self.factor], before[self.factor])

    def uncertain(self, natural: Mapping[str, Array], contribution: Array) -> Array:
        """(V,): the variance of the mean of all groups' deviations that is due to uncertainty of Λ.

        With Λ known at its mean, the deviations of G groups leave their mean with a variance of E[Λ]⁻¹ / G; over all
        values of Λ it is E[Λ⁻¹] / G.
        """
        groups = np.broadcast_to(self.groups(contribution)[0], self.places.shape)
        known = np.diag(np.linalg.inv(self.precision(natural)))
        more = np.diag(self.variance(natural)) - known
        return np.asarray(np.where(groups > 1.0, more, 0.0) / np.maximum(groups, 1.0))

    def drawn(self, precision: Any, size: int, rng: np.random.Generator) -> Array:
        """(size, V): deviations of `size` groups, given a draw of Λ."""
        normal = rng.standard_normal((size, len(self.places)))
        if not self.correlated:
            return np.asarray(normal / np.sqrt(precision[0]))
        return np.asarray(np.linalg.solve(np.linalg.cholesky(precision[0]).T, normal.T).T)

    def correlations(self, natural: Mapping[str, Array]) -> Iterator[tuple[int, int, Array]]:
        """Each pair of coefficients, and draws of the correlation of their deviations."""
        if self.correlated:
            drawn = np.linalg.inv(Wishart().sample(natural[self.factor], DRAWS, np.random.default_rng(0))[:, 0])
            scale = np.sqrt(np.diagonal(drawn, axis1=-2, axis2=-1))
            for one, other in combinations(range(len(self.places)), 2):
                yield one, other, drawn[:, one, other] / (scale[:, one] * scale[:, other])

    def entries(self, matrix: Array) -> Array:
        """The entries of a (V, V) matrix that the family has: all of them, or the diagonal."""
        return np.asarray(matrix.ravel() if self.correlated else np.diag(matrix))

    def directions(self) -> Iterator[Array]:
        """(V, V) symmetric steps of Λ, one for each of these entries."""
        side = len(self.places)
        for one in range(side):
            for other in range(side) if self.correlated else (one,):
                step = np.zeros((side, side))
                step[one, other] += 0.5
                step[other, one] += 0.5
                yield step


@dataclass(frozen=True)
class Variation:
    """What varies between sites, and between groups inside sites: at most one grouping each."""

    groupings: tuple[Grouping, ...] = ()

    @property
    def there(self) -> bool:
        return bool(self.groupings)

    def precisions(self, natural: Mapping[str, Array]) -> tuple[Array, ...]:
        return tuple(grouping.precision(natural) for grouping in self.groupings)

    def added(self, natural: Mapping[str, Array], covariance: Array, *, inner: bool = False) -> Array:
        """A covariance of coefficients, plus that of a new site's deviation, or only of a new group's `inner` one."""
        wider = covariance.copy()
        for grouping in self.groupings[1:] if inner else self.groupings:
            wider[np.ix_(grouping.places, grouping.places)] += grouping.variance(natural)
        return wider

    def updated(self, before: Mapping[str, Array], squares: tuple[Array, ...]) -> dict[str, Array]:
        pairs = zip(self.groupings, squares, strict=True)
        return {grouping.factor: grouping.updated(before, square) for grouping, square in pairs}

    def bound(self, natural: Mapping[str, Array], before: Mapping[str, Array], squares: tuple[Array, ...]) -> float:
        pairs = zip(self.groupings, squares, strict=True)
        return sum(grouping.bound(natural, before, square) for grouping, square in pairs)

    def widening(self, natural: Mapping[str, Array], contribution: Mapping[str, Array], covariance: Array) -> Array:
        """(D,): how many times wider coefficients are because Λ is uncertain; 1 where nothing varies."""
        more = np.zeros(len(covariance))
        for grouping in self.groupings:
            more[grouping.places] += grouping.uncertain(natural, contribution[grouping.factor])
        return np.asarray(np.sqrt(1.0 + more / np.diag(covariance)))


def deviation_between(shape: Array, rate: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of 1 / √Λ if Λ is Gamma; infinite if undefined."""
    few = np.where(shape > 0.5, shape, np.nan)
    mean = np.sqrt(rate) * np.exp(gammaln(few - 0.5) - gammaln(few))
    variance = rate / np.where(shape > 1.0, shape - 1.0, np.nan) - mean**2
    return np.nan_to_num(mean, nan=np.inf), np.nan_to_num(np.sqrt(variance), nan=np.inf)
