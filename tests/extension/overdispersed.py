"""A likelihood that decbayes does not ship, as its users would write one: a negative binomial with known r."""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from scipy.special import betaln, gammaln

import decbayes as db


@dataclass(frozen=True)
class NegativeBinomial:
    """x ~ NB(r, p_k) in each dimension, p_k with a Beta posterior. Features: x, Σ log Γ(x + r) / x!, 1."""

    r: float

    family = db.families.Beta()

    def features(self, points):
        ways = gammaln(points + self.r) - gammaln(points + 1) - gammaln(self.r)
        return np.column_stack([points, ways.sum(axis=1), np.ones(len(points))])

    def coefficients(self, natural):
        log_stop, log_go_on = np.split(self.family.expected_statistics(natural), 2, axis=1)
        one = np.ones((len(natural), 1))
        return np.hstack([log_go_on, one, self.r * log_stop.sum(axis=1, keepdims=True)]).T

    def contribution(self, sums):
        counts, number = sums[:, :-2], sums[:, -1:]
        return np.hstack([np.repeat(self.r * number, counts.shape[1], axis=1), counts])

    def log_predictive(self, natural, points):
        alpha, beta = (part.reshape(len(natural), -1) for part in self.family.columns(natural))
        counts = points[:, None, :]
        ways = gammaln(counts + self.r) - gammaln(counts + 1) - gammaln(self.r)
        return (ways + betaln(alpha + self.r, beta + counts) - betaln(alpha, beta)).sum(axis=2)


@db.register
@dataclass(frozen=True)
class OverdispersedCounts(db.extending.Mixture):
    """Clusters of counts that vary more than Poisson ones do: a mixture of negative binomials."""

    r: Annotated[float, "How often a trial succeeds before counting ends."] = field(default=2.0, kw_only=True)
    sweeps: int = field(default=1, kw_only=True, metadata=db.extending.LOCAL)

    command = "overdispersed"

    @property
    def likelihood(self):
        return NegativeBinomial(self.r)

    def component_prior(self):
        ones = np.ones((1, self.dimension))
        return self.likelihood.family.natural(alpha=ones, beta=ones)
