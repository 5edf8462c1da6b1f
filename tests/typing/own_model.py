"""A model and a likelihood of one's own, with types."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

import decbayes as db

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Times:
    """x ~ Exponential(rate_k)."""

    @property
    def family(self) -> db.families.Gamma:
        return db.families.Gamma()

    def features(self, points: Matrix) -> Matrix:
        return np.column_stack([points, np.ones(len(points))])

    def coefficients(self, natural: Matrix) -> Matrix:
        log_rate, rate = np.split(self.family.expected_statistics(natural), 2, axis=1)
        return np.hstack([-rate, log_rate]).T

    def contribution(self, sums: Matrix) -> Matrix:
        return np.hstack([sums[:, 1:], -sums[:, :1]])

    def log_predictive(self, natural: Matrix, points: Matrix) -> Matrix:
        shape, rate = self.family.columns(natural)
        return np.asarray(np.log(shape / rate).T - (shape.T + 1) * np.log1p(points / rate.T))


@db.register
@dataclass(frozen=True)
class TypedTimes(db.extending.Mixture):
    """Clusters of waiting times."""

    prior_rate: float = field(default=0.1, kw_only=True)

    @property
    def likelihood(self) -> Times:
        return Times()

    def component_prior(self) -> Matrix:
        return db.families.Gamma().natural(shape=[[1.0]], rate=[[self.prior_rate]])


def longest(values: ArrayLike) -> float:
    """The mean waiting time of the slowest cluster."""
    posterior = TypedTimes(2, columns=["minutes"]).fit(values, rng=0).posterior
    return float(1.0 / posterior.mean("components").min())


seconds: float = longest([[1.0], [20.0]])
