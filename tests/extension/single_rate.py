"""A model that is no mixture, as its users would write one: a single rate of waiting times, with a Gamma posterior."""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import gammaln

import decbayes as db


@db.register
@dataclass(frozen=True)
class SingleRate(db.extending.Model):
    """How often something happens: waiting times of which only those above a delay are recorded."""

    delay: float = 0.0
    prior_shape: float = field(default=1.0, kw_only=True)

    command = "rate"

    def described(self):
        gamma = db.families.Gamma()
        prior = {"rate": gamma.natural(shape=[[self.prior_shape]], rate=[[1.0]])}
        return db.extending.Structure({"rate": gamma}, prior, model={"name": "SingleRate"})

    def fit(self, data, *, rng=None, prior=None, start=None, progress=None):
        times = np.ravel(data) - self.delay
        before = prior or db.Posterior.of_prior(self.structure)
        natural = before.natural["rate"] + np.array([[len(times), -times.sum()]])
        posterior = db.Posterior.from_natural(self.structure, {"rate": natural})
        (shape, rate), (first, earlier) = (np.ravel(self._gamma(each)) for each in (posterior, before))
        evidence = first * np.log(earlier) - gammaln(first) + gammaln(shape) - shape * np.log(rate)
        return db.extending.Fit(posterior, (float(evidence),), True)

    def log_predictive(self, posterior, data, held=None):
        shape, rate = np.ravel(self._gamma(posterior))
        return np.log(shape / rate) - (shape + 1) * np.log1p((np.ravel(data) - self.delay) / rate)

    def assign(self, posterior, data):
        return np.ones((len(np.ravel(data)), 1))

    def _gamma(self, posterior):
        return list(posterior.parameters("rate").values())
