"""Bounded slopes and weights of single rows: the statistics of private releases of regressions.

    slope:  ψ(y, f) with E[ψ | f] = 0      weight:  E[∂ψ/∂f] = E[ψ · score]

Clipping a slope moves its expectation, which is known under the model and subtracted: estimates stay consistent.
Weights are those of the clipped slopes. Factors that depend only on predictors affect nothing but efficiency.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, expit, ndtr, pdtr

from decbayes.families import Array

Observations = NDArray[np.intp]
# Larger exponents are no counts, and their squares would overflow.
HIGHEST = 30.0


class Slopes(NamedTuple):
    """The slope and the weight of each row; `squares` of slopes if the noise of the outcome is estimated."""

    slope: Array
    weight: Array
    squares: Array | None = None


class Scores(ABC):
    """Bounds: |slope| ≤ `steepest` and weight ≤ `heaviest`, summed over the rows of an observation."""

    steepest: float
    heaviest: float
    bend: ClassVar[float] = 1.0
    """The relative change of the weight with f: 0 if the slope is linear."""
    start: float = 0.0
    """The initial intercept."""
    useless: ClassVar[float] = 10.0
    loss: ClassVar[float] = 20.0
    estimates_noise: ClassVar[bool] = False

    @abstractmethod
    def slopes(self, targets: Array, linear: Array, observation: Observations, deviation: float) -> Slopes:
        """Slopes of rows, given the linear predictor; `deviation` is that of the outcome's noise, if any."""


class YesNoScores(Scores):
    """y − p is within ±1."""

    steepest, heaviest = 1.0, 0.25

    def slopes(self, targets: Array, linear: Array, observation: Observations, deviation: float) -> Slopes:
        probable = expit(linear)
        return Slopes(targets - probable, probable * (1.0 - probable))


@dataclass(frozen=True)
class RealScores(Scores):
    """Residuals clipped at some deviations of the noise, estimated by earlier rounds; symmetric, so centred."""

    steepest, heaviest = 1.0, 1.0
    bend: ClassVar[float] = 0.3
    loss: ClassVar[float] = 28.0
    estimates_noise: ClassVar[bool] = True
    reach: ClassVar[float] = 2.5

    def slopes(self, targets: Array, linear: Array, observation: Observations, deviation: float) -> Slopes:
        residual = (targets - linear) / (self.reach * deviation)
        clipped = residual.clip(-1.0, 1.0)
        return Slopes(clipped, (np.abs(residual) <= 1.0).astype(np.float64), clipped**2)

    def variance(self, mean_square: float, deviation: float) -> float:
        """The variance of Gaussian noise whose clipped squares have this mean, in squares of the clip."""
        clip = self.reach * deviation
        low, high = 1e-6, 10.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if clipped_square(clip / (middle * deviation)) < mean_square else (low, middle)
        return float((low * deviation) ** 2)


def clipped_square(reach: float) -> float:
    """E[min(z², k²)] / k² for a standard normal z."""
    density = np.exp(-0.5 * reach * reach) / np.sqrt(2 * np.pi)
    inside = 2.0 * ndtr(reach) - 1.0 - 2.0 * reach * density
    return float(inside / reach**2 + 2.0 * (1.0 - ndtr(reach)))


@dataclass(frozen=True)
class CountScores(Scores):
    """Counts clipped so that no slope exceeds two deviations of a typical one, minus their expectation.

    `typical` is the agreed mean of the counts; the variance is mean + mean² / `dispersion`, and the slope of a count is
    (y − mean) / (1 + mean / dispersion).
    """

    typical: float
    dispersion: float = np.inf
    useless: ClassVar[float] = 20.0
    loss: ClassVar[float] = 45.0

    @property
    def start(self) -> float:  # type: ignore[override]
        return float(np.log(self.typical))

    @property
    def most(self) -> float:
        """Two deviations of the slope of a typical count."""
        return 2.0 * float(np.sqrt(self.typical / (1.0 + self.typical / self.dispersion)))

    @property
    def heaviest(self) -> float:  # type: ignore[override]
        return 3.0 * self.typical / (1.0 + self.typical / self.dispersion)

    @property
    def steepest(self) -> float:  # type: ignore[override]
        # The expectation of a clipped residual is at most a tenth of the clip, as the tests of all mechanisms check.
        return 1.1 * self.most

    def slopes(self, targets: Array, linear: Array, observation: Observations, deviation: float) -> Slopes:
        mean = np.exp(linear.clip(-HIGHEST, HIGHEST))
        scale = 1.0 / (1.0 + mean / self.dispersion)
        low, high = np.maximum(mean - self.most / scale, 0.0), mean + self.most / scale
        expected, covariance = self.clipped_moments(mean, low, high)
        weight = scale**2 * covariance
        factor = np.minimum(1.0, self.heaviest / np.maximum(weight, 1e-300))
        slope = factor * scale * (targets.clip(low, high) - expected)
        return Slopes(slope.clip(-self.steepest, self.steepest), factor * weight)

    def clipped_moments(self, mean: Array, low: Array, high: Array) -> tuple[Array, Array]:
        """E[z] and Cov[z, y] of a count y clipped to z, by sums of probabilities up to the clips."""
        none_low, none_high = self.partial(mean, low), self.partial(mean, high)
        between = [above - below for above, below in zip(none_high, none_low, strict=True)]
        expected = low * none_low[0] + between[1] + high * (1.0 - none_high[0])
        crossed = low * none_low[1] + between[2] + high * (mean - none_high[1])
        return expected, np.maximum(crossed - expected * mean, 0.0)

    def partial(self, mean: Array, most: Array) -> tuple[Array, Array, Array]:
        """P(y ≤ t), E[y; y ≤ t] and E[y²; y ≤ t]."""
        whole, factor = np.floor(most), 1.0 + 1.0 / self.dispersion
        first = mean * self.below(mean, whole - 1.0, 1)
        second = mean**2 * factor * self.below(mean, whole - 2.0, 2)
        return self.below(mean, whole, 0), first, first + second

    def below(self, mean: Array, most: Array, more: int) -> Array:
        """P(y ≤ t) with `more` dispersion and the same chance: y p(y) is such a distribution, shifted."""
        possible = most >= 0.0
        t = np.maximum(most, 0.0)
        if np.isinf(self.dispersion):
            return np.where(possible, pdtr(t, mean), 0.0)
        chance = self.dispersion / (self.dispersion + mean)
        return np.where(possible, betainc(self.dispersion + more, t + 1.0, chance), 0.0)


class EventScores(Scores):
    """Events and time at risk of persons. Time after which an event was likelier than not is left out.

    A person leaves when the cumulative hazard at the anchor reaches 1. That depends on nothing later, so slopes keep
    their expectation 0. A person's rows have a total slope of at most √2: events and hazards of one person have the
    same predictors, and partly cancel.
    """

    steepest, heaviest = float(np.sqrt(2.0)), 1.0
    useless: ClassVar[float] = 20.0
    loss: ClassVar[float] = 45.0
    most: ClassVar[float] = 1.0

    def slopes(self, targets: Array, linear: Array, observation: Observations, deviation: float) -> Slopes:
        hazard = np.exp(np.minimum(linear, HIGHEST))
        left = np.maximum(self.most - earlier(hazard, observation), 0.0)
        stayed = np.minimum(hazard, left)
        return Slopes(np.where(hazard <= left, targets, 0.0) - stayed, stayed)


def earlier(values: Array, observation: Observations) -> Array:
    """The sum of an observation's earlier rows, for each row. Not even rounding depends on other observations."""
    first = np.flatnonzero(np.diff(observation, prepend=-1))
    lengths = np.diff(np.append(first, len(observation)))
    number, place = np.repeat(np.arange(len(first)), lengths), np.arange(len(observation)) - np.repeat(first, lengths)
    table = np.zeros((len(first), lengths.max(initial=0) + 1))
    table[number, place + 1] = values
    return np.asarray(np.cumsum(table, axis=1)[number, place])
