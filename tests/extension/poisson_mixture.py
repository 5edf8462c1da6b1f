"""A model that decbayes does not ship, as its users would write one: a mixture of Poisson counts, in one file."""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from scipy.special import gammaln

import decbayes as db


@dataclass(frozen=True)
class PoissonCounts:
    """x ~ Poisson(rate_k) in each dimension; rates have a Gamma posterior. Features: x, Σ log x!, 1."""

    family = db.families.Gamma()

    def features(self, points):
        return np.column_stack([points, gammaln(points + 1).sum(axis=1), np.ones(len(points))])

    def coefficients(self, natural):
        log_rate, rate = np.split(self.family.mean(natural), 2, axis=1)
        return np.hstack([log_rate, -np.ones((len(rate), 1)), -rate.sum(axis=1, keepdims=True)]).T

    def contribution(self, sums):
        counts, times = sums[:, :-2], sums[:, -1:]
        return np.hstack([counts, -np.repeat(times, counts.shape[1], axis=1)])

    def log_predictive(self, natural, points):
        shape, rate = self.family.columns(natural)
        x = points[:, None, :]
        negative_binomial = gammaln(x + shape) - gammaln(shape) - gammaln(x + 1)
        return np.nansum(negative_binomial + shape * np.log(rate) - (x + shape) * np.log1p(rate), axis=2)


@dataclass(frozen=True)
class PoissonMixture(db.Mixture):
    """Clusters of counts: a mixture of Poisson distributions."""

    prior_shape: Annotated[float, "Shape of a rate's Gamma prior."] = field(default=1.0, kw_only=True)
    prior_rate: Annotated[float, "Rate of a rate's Gamma prior."] = field(default=0.1, kw_only=True)

    command = "counts"

    @property
    def likelihood(self):
        return PoissonCounts()

    def component_prior(self):
        ones = np.ones((1, self.dimension))
        return db.families.Gamma().natural(shape=self.prior_shape * ones, rate=self.prior_rate * ones)
