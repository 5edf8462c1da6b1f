"""A model that decbayes does not ship, as its users would write one: a mixture of waiting times, in one file."""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from scipy.special import xlog1py

import decbayes as db


@dataclass(frozen=True)
class ExponentialTimes:
    """x ~ Exponential(rate_k) in each dimension; rates have a Gamma posterior. Features: x, 1."""

    family = db.families.Gamma()

    def features(self, points):
        return np.column_stack([points, np.ones(len(points))])

    def coefficients(self, natural):
        log_rate, rate = np.split(self.family.expected_statistics(natural), 2, axis=1)
        return np.hstack([-rate, log_rate.sum(axis=1, keepdims=True)]).T

    def contribution(self, sums):
        times, count = sums[:, :-1], sums[:, -1:]
        return np.hstack([np.repeat(count, times.shape[1], axis=1), -times])

    def log_predictive(self, natural, points):
        shape, rate = self.family.columns(natural)
        lomax = np.log(shape / rate) - xlog1py(shape + 1, points[:, None, :] / rate)
        return np.nansum(lomax, axis=2)

    def draw(self, parameters, components, rng):
        return rng.exponential(1.0 / parameters[components])


@dataclass(frozen=True)
class WaitingTimes(db.extending.Mixture):
    """Clusters of waiting times: a mixture of exponential distributions."""

    prior_shape: Annotated[float, "Shape of a rate's Gamma prior."] = field(default=1.0, kw_only=True)
    prior_rate: Annotated[float, "Rate of a rate's Gamma prior."] = field(default=0.1, kw_only=True)

    command = "times"

    @property
    def likelihood(self):
        return ExponentialTimes()

    def component_prior(self):
        ones = np.ones((1, self.dimension))
        return db.families.Gamma().natural(shape=self.prior_shape * ones, rate=self.prior_rate * ones)
