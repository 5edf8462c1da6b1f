"""Kinds of columns that decbayes does not ship, as its users would write them: each in one class, registered once."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlog1py

from decbayes.columns import Column, Gaussian, register
from decbayes.columns.cells import as_numbers, refuse
from decbayes.families import Gamma
from decbayes.models.likelihoods.columnwise import Numbers
from decbayes.models.tables.factors import ColumnFactor


@register
@dataclass(frozen=True)
class Duration(Gaussian):
    """A positive number whose logarithm is Gaussian; centre and scale are those of the logarithm."""

    kind: ClassVar[str] = "duration"

    def coded(self, values):
        numbers = as_numbers(values)
        refuse(numbers <= 0, "not positive")
        return np.log(numbers)

    def decoded(self, numbers):
        return np.exp(numbers)

    def shown(self, numbers):
        return np.exp(numbers)

    @classmethod
    def found_in(cls, values):
        return super().found_in(np.log(as_numbers(values)))


@dataclass(frozen=True)
class Exponential(Numbers):
    """x ~ Exponential(rate_k) in each column: Gamma posteriors. Function: x."""

    expects = "numbers from 0 on"

    @property
    def family(self):
        return Gamma()

    def values(self, points):
        return points

    def terms(self, natural):
        log_rate, rate = np.split(self.family.expected_statistics(natural), 2, axis=1)
        return -rate, log_rate

    def added(self, sums, counts):
        return np.hstack([counts, -sums])

    def counts(self, contribution):
        return np.split(contribution, 2, axis=1)[0]

    def log_predictive(self, natural, points):
        shape, rate = self.family.columns(natural)
        density = np.log(shape / rate) - xlog1py(shape + 1, points[:, None] / rate)
        return np.nansum(density, axis=2)

    def draw(self, parameters, components, rng):
        return rng.exponential(1.0 / parameters[components])

    def outside(self, points):
        return points < 0

    def expected(self, natural):
        shape, rate = self.family.columns(natural)
        return rate / shape

    def quantile(self, natural, share, stretch=1.0):
        return 1.0 / self.family.quantile(natural, 1.0 - share, stretch)

    def cumulative(self, natural, place, values):
        shape, rate = (part[:, place] for part in self.family.columns(natural))
        return -np.expm1(-xlog1py(shape, np.maximum(values, 0.0)[:, None] / rate))


def exponential(model, columns):
    mean = np.array([[column.mean for column in columns.values()]])
    return Exponential(), Gamma().natural(shape=np.ones_like(mean), rate=mean)


@register
@dataclass(frozen=True)
class Wait(Column):
    """How long something took, if it happens at a constant rate; `mean` is how long the prior expects it to take."""

    mean: float = 1.0

    kind: ClassVar[str] = "wait"
    factor: ClassVar[ColumnFactor] = ColumnFactor("waits", exponential)

    def coded(self, values):
        numbers = as_numbers(values)
        refuse(numbers < 0, "negative")
        return numbers

    @classmethod
    def found_in(cls, values):
        return cls(float(np.nanmean(as_numbers(values)).round(2)))

    @classmethod
    def agreed(cls, columns):
        return cls(float(np.mean([column.mean for column in columns])))

    def made_up(self, size, rng):
        return rng.exponential(self.mean, size=size)

    @property
    def zero_and_unit(self):
        return self.mean, self.mean
