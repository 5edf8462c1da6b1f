"""Likelihoods of real columns: independent with unknown or known variances, or correlated."""

from abc import abstractmethod
from dataclasses import dataclass
from math import isqrt, log, pi
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, stdtr

from decbayes.families import Array, DiagonalGaussian, MeanAndPrecision, NormalGamma, NormalWishart
from decbayes.families.gaussians.gaussian import diagonal
from decbayes.families.matrices import split, upper
from decbayes.models.core.points import LARGEST
from decbayes.models.likelihoods.columnwise import Numbers
from decbayes.models.likelihoods.likelihood import LOG_2_PI, FullCovariance

Covariance = Literal["diagonal", "full"]


@dataclass(frozen=True)
class RealColumns(Numbers):
    """Gaussian columns. z = (x − centre) / scale is in agreed units, which keeps large offsets out of the sums.

    A value rounded to a multiple of `resolution` stands for all values around it, whose mean square is larger by
    resolution² / 12: so equal values do not make a class infinitely narrow.
    """

    centre: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    resolution: tuple[float, ...] = (0.0,)

    expects: ClassVar[str] = f"finite numbers below {LARGEST:g}"

    @abstractmethod
    def prior(self, columns: int, *, strength: float, degrees: float, scale: float) -> Array:
        """(1, d): a mean of 0 that weighs `strength` observations, a variance `scale` that weighs `degrees`."""

    @abstractmethod
    def settings(self, prior: Array) -> dict[str, float]:
        """Recover the settings from a prior."""

    @abstractmethod
    def marginal(self, natural: Array) -> tuple[Array, Array, Array]:
        """(K, D): centre, spread and degrees of freedom of the predictive Student-t of each column."""

    def cumulative(self, natural: Array, place: int, values: Array) -> Array:
        centre, spread, freedom = (part[:, place] for part in self.marginal(natural))
        z = (values - column_setting(self.centre, place)) / column_setting(self.scale, place)
        return np.asarray(stdtr(freedom, (z[:, None] - centre) / spread))

    def outside(self, points: Array) -> NDArray[np.bool_]:
        return np.asarray(np.abs(points) >= LARGEST)

    def in_units(self, points: Array) -> Array:
        if self.centre == (0.0,) and self.scale == (1.0,):
            return points
        return np.asarray((points - np.array(self.centre)) / np.array(self.scale))

    def from_units(self, z: Array) -> Array:
        return np.asarray(z * np.array(self.scale) + np.array(self.centre))

    def expected(self, natural: Array) -> Array:
        return self.from_units(self.family.columns(natural)[0])

    @property
    def rounding(self) -> Array:
        """The part of the mean square of z that rounding hides."""
        return np.asarray((np.array(self.resolution) / self.scale) ** 2 / 12)


@dataclass(frozen=True)
class DiagonalCovariance(RealColumns):
    """x ~ N(μ_k, diag(1 / τ_k)), both unknown: a Normal-Gamma posterior in each column. Functions: z, z²."""

    @property
    def family(self) -> NormalGamma:
        return NormalGamma()

    def prior(self, columns: int, *, strength: float, degrees: float, scale: float) -> Array:
        zero, shape = np.zeros((1, columns)), 0.5 * degrees
        return self.family.natural(mean=zero, strength=zero + strength, shape=zero + shape, rate=zero + shape * scale)

    def settings(self, prior: Array) -> dict[str, float]:
        _, strength, shape, rate = (float(part[0, 0]) for part in self.family.columns(prior))
        return {"prior_strength": strength, "prior_degrees": 2.0 * shape, "prior_scale": rate / shape}

    def values(self, points: Array) -> Array:
        z = self.in_units(points)
        return np.column_stack([z, z**2 + self.rounding])

    def terms(self, natural: Array) -> tuple[Array, Array]:
        log_precision, precision, shift, square = split(self.family.expected_statistics(natural), 4)
        constant = 0.5 * (log_precision - square - LOG_2_PI) - np.log(self.scale)
        return np.hstack([shift, -0.5 * precision]), constant

    def added(self, sums: Array, counts: Array) -> Array:
        first, second = split(sums, 2)
        return np.hstack([0.5 * counts, -0.5 * second, first, -0.5 * counts])

    def counts(self, contribution: Array) -> Array:
        shape, _, _, strength = split(contribution, 4)
        return np.hstack([2.0 * shape, -2.0 * strength])

    def dimension(self, width: int) -> int:
        return width // 2

    def log_predictive(self, natural: Array, points: Array) -> Array:
        mean, strength, shape, rate = self.family.columns(natural)
        scale = rate * (1 + 1 / strength)  # of the Student-t with twice `shape` degrees of freedom
        constant = gammaln(shape + 0.5) - gammaln(shape) - 0.5 * np.log(2 * pi * scale) - np.log(self.scale)
        z = self.in_units(points)
        density = np.empty((len(points), len(mean)))
        for k in range(len(mean)):
            square = np.log1p((z - mean[k]) ** 2 / (2 * scale[k]))
            density[:, k] = np.nansum(constant[k] - (shape[k] + 0.5) * square, axis=1)
        return density

    def draw(self, parameters: MeanAndPrecision, components: NDArray[np.intp], rng: np.random.Generator) -> Array:
        mean, precision = parameters.mean[components], parameters.precision[components]
        return self.from_units(mean + rng.standard_normal(mean.shape) / np.sqrt(precision))

    def marginal(self, natural: Array) -> tuple[Array, Array, Array]:
        mean, strength, shape, rate = self.family.columns(natural)
        return mean, np.sqrt(rate / shape * (1 + 1 / strength)), 2 * shape

    def quantile(self, natural: Array, share: float, stretch: Any = 1.0) -> Array:
        return self.from_units(self.family.quantile(natural, share, stretch).mean)


@dataclass(frozen=True)
class KnownVariances(RealColumns):
    """z ~ N(μ_k, variance) with the variance known: Gaussian posteriors. Functions: z, and Σ z² of the row."""

    variance: float = 1.0

    @property
    def family(self) -> DiagonalGaussian:
        return DiagonalGaussian()

    def prior(self, columns: int, *, strength: float, degrees: float, scale: float) -> Array:
        return self.family.natural(mean=np.zeros((1, columns)), variance=self.variance / strength)

    def settings(self, prior: Array) -> dict[str, float]:
        return {"prior_strength": self.variance / float(self.family.columns(prior)[1][0, 0])}

    def values(self, points: Array) -> Array:
        z = self.in_units(points)
        return np.column_stack([z, np.nansum(z**2, axis=1)])

    def terms(self, natural: Array) -> tuple[Array, Array]:
        mean, square = split(self.family.expected_statistics(natural), 2)
        constant = -0.5 * (square / self.variance + LOG_2_PI + log(self.variance)) - np.log(self.scale)
        return np.column_stack([mean, np.full(len(mean), -0.5)]) / self.variance, constant

    def added(self, sums: Array, counts: Array) -> Array:
        return np.hstack([sums[:, :-1], -0.5 * counts]) / self.variance

    def counts(self, contribution: Array) -> Array:
        return -2.0 * self.variance * split(contribution, 2)[1]

    def dimension(self, width: int) -> int:
        return width - 1

    def log_predictive(self, natural: Array, points: Array) -> Array:
        mean, spread = self.family.columns(natural)
        z, variance = self.in_units(points), spread + self.variance
        constant = -0.5 * (LOG_2_PI + np.log(variance)) - np.log(self.scale)
        terms = [constant[k] - 0.5 * (z - mean[k]) ** 2 / variance[k] for k in range(len(mean))]
        return np.column_stack([np.nansum(term, axis=1) for term in terms])

    def draw(self, parameters: Array, components: NDArray[np.intp], rng: np.random.Generator) -> Array:
        mean = parameters[components]
        return self.from_units(mean + np.sqrt(self.variance) * rng.standard_normal(mean.shape))

    def marginal(self, natural: Array) -> tuple[Array, Array, Array]:
        mean, spread = self.family.columns(natural)
        return mean, np.sqrt(spread + self.variance), np.full(mean.shape, np.inf)

    def expected(self, natural: Array) -> Array:
        return self.from_units(self.family.expected(natural))

    def quantile(self, natural: Array, share: float, stretch: Any = 1.0) -> Array:
        return self.from_units(self.family.quantile(natural, share, stretch))


@dataclass(frozen=True)
class Correlated(RealColumns):
    """z ~ N(μ_k, Λ_k⁻¹) over all columns together: a Normal-Wishart posterior. Functions: half of zzᵀ, z.

    A row must be complete or empty: the posterior of a missing value would depend on the others.
    """

    expects: ClassVar[str] = (
        f"finite numbers below {LARGEST:g}, and be missing only where all real columns are: "
        "covariance='full' needs whole rows"
    )
    together: ClassVar[bool] = True

    @property
    def family(self) -> NormalWishart:
        return NormalWishart()

    def prior(self, columns: int, *, strength: float, degrees: float, scale: float) -> Array:
        """Each column alone has the prior of `DiagonalCovariance`."""
        inverse = degrees * scale * np.eye(columns)
        freedom = degrees + columns - 1
        return self.family.natural(
            mean=np.zeros((1, columns)), strength=strength, degrees=freedom, inverse_scale=inverse
        )

    def settings(self, prior: Array) -> dict[str, float]:
        mean, strength, freedom, inverse = self.family.columns(prior)
        degrees = float(freedom[0]) - mean.shape[1] + 1
        scale = float(inverse[0, 0, 0]) / degrees
        return {"prior_strength": float(strength[0]), "prior_degrees": degrees, "prior_scale": scale}

    def outside(self, points: Array) -> NDArray[np.bool_]:
        missing = np.isnan(points)
        return np.asarray(super().outside(points) | (missing & ~missing.all(axis=1, keepdims=True)))

    def values(self, points: Array) -> Array:
        features = FullCovariance().features(self.in_units(points))[:, :-1]
        features[:, np.flatnonzero(upper(np.eye(points.shape[1])))] += self.rounding
        return np.asarray(features)

    def terms(self, natural: Array) -> tuple[Array, Array]:
        slopes = FullCovariance().coefficients(natural).T
        # Rows are complete or empty, so each column gets an equal part of the one constant.
        side = self.dimension(slopes.shape[1] - 1)
        return slopes[:, :-1], np.tile(slopes[:, -1:] / side, side) - np.log(self.scale)

    def added(self, sums: Array, counts: Array) -> Array:
        return FullCovariance().contribution(np.hstack([sums, counts[:, :1]]))

    def counts(self, contribution: Array) -> Array:
        return np.column_stack([contribution[:, 0], -2.0 * contribution[:, -1]])

    def dimension(self, width: int) -> int:
        return (isqrt(8 * width + 9) - 3) // 2  # inverts side (side + 1) / 2 + side

    def log_predictive(self, natural: Array, points: Array) -> Array:
        units = np.where(np.isnan(points), 0.0, np.log(self.scale)).sum(axis=1, keepdims=True)
        return np.asarray(FullCovariance().log_predictive(natural, self.in_units(points)) - units)

    def draw(self, parameters: MeanAndPrecision, components: NDArray[np.intp], rng: np.random.Generator) -> Array:
        return self.from_units(FullCovariance().draw(parameters, components, rng))

    def marginal(self, natural: Array) -> tuple[Array, Array, Array]:
        mean, strength, degrees, inverse = self.family.columns(natural)
        freedom = np.tile((degrees - mean.shape[1] + 1)[:, None], mean.shape[1])
        return mean, np.sqrt(diagonal(inverse) / freedom * (1 + 1 / strength)[:, None]), freedom

    def quantile(self, natural: Array, share: float, stretch: Any = 1.0) -> Array:
        return self.from_units(self.family.quantile(natural, share, stretch).mean)


def real_likelihood(covariance: Covariance = "diagonal", variance: float | None = None, **units: Any) -> RealColumns:
    """The likelihood of real columns with this covariance, or with a known variance."""
    if variance is not None:
        return KnownVariances(variance=variance, **units)
    return DiagonalCovariance(**units) if covariance == "diagonal" else Correlated(**units)


def column_setting(values: tuple[float, ...], place: int) -> float:
    """A setting of one column; a single number applies to all."""
    return values[place] if len(values) > 1 else values[0]
