"""Whether to trust a fit at all: the tail of importance ratios, and posterior predictive checks at the sites."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from decbayes.base.arguments import check_kind, check_whole
from decbayes.calibration.sites import check_units, units_in
from decbayes.calibration.tails import FAIR, LEAST_DRAWS, pareto_shape
from decbayes.calibration.validation import model_of
from decbayes.errors import InvalidData, NotCalibrated, StructureMismatch
from decbayes.families import Array, dense
from decbayes.models.core.model import Model
from decbayes.models.core.simulation import drawn_parameters
from decbayes.posterior import Posterior

# An approximation is close up to this shape, or if this share of draws counts effectively: a shape says how heavy a
# tail is, not how much is in it, and can be large even if ratios differ by only a few per cent.
CLOSE, NEARLY_ALL = 0.5, 0.95
TINY = 1e-300


@dataclass(frozen=True)
class Diagnosis:
    """The estimated shape k of the importance ratios' tail, the number of draws, and the share that counts effectively.

    The share is (Σ r)² / (S Σ r²) of the ratios r of S draws: 1 if all are equal.
    """

    shape: float
    draws: int
    counting: float = 0.0

    @property
    def close(self) -> bool:
        return self.shape <= CLOSE or self.counting >= NEARLY_ALL

    def __str__(self) -> str:
        if self.shape == -np.inf:
            return "The posterior is exact."
        text = f"k = {self.shape:.2f}"
        if self.close and self.shape > CLOSE:
            return f"{text}, but {self.counting:.0%} of the draws count: the approximation is close to the posterior."
        if self.close:
            return f"{text}: the approximation is close to the posterior."
        if self.shape <= FAIR:
            return f"{text}: the approximation will do; calibrate its intervals."
        return (
            f"{text}: the approximation misses part of the posterior. Calibrate its intervals, and do not rely on its "
            "tails or joint probabilities."
        )


def diagnose(
    model: Model, shards: Iterable[Any], posterior: Posterior, *, draws: int = 1000, seed: int = 0
) -> Diagnosis:
    """How close a posterior is to the exact one, given all data that it was fitted to.

    It covers all parameters together, with one labelling of the components. It works for regressions, mixtures and
    tables; other models have no formula for the likelihood given their parameters.

    Args:
        posterior: the posterior of all of them.
        draws: the number of weighted draws from the posterior.

    >>> model = db.GaussianMixture(1, 1, variance=1.0)
    >>> data = np.array([[1.0], [2.0]])
    >>> posterior = model.fit(data, rng=np.random.default_rng(0)).posterior
    >>> print(db.checking.diagnose(model, [data], posterior))
    The posterior is exact.
    """
    check_kind(Posterior, posterior=posterior)
    check_whole(LEAST_DRAWS, draws=draws)
    check_whole(0, seed=seed)
    known, values = model_of(model, posterior), posterior.sample(draws, np.random.default_rng(seed))
    ratios, units = -contribution_terms(posterior, values), {}
    for number, shard in enumerate(shards):
        units[f"shard {number}"] = units_in(known, shard)
        for some in known.log_likelihoods(values, shard):
            ratios = ratios + some.sum(axis=1)
    check_units(posterior, units)
    weights = np.exp(ratios - ratios.max()) if np.isfinite(ratios.max()) else np.zeros(draws)
    counting = float(weights.sum() ** 2 / (draws * max(weights @ weights, TINY)))
    return Diagnosis(pareto_shape(ratios), draws, counting)


def contribution_terms(posterior: Posterior, values: Any) -> Array:
    """(λ − λ0) · T(θ) for each draw."""
    families = posterior.structure.families
    parts = [
        (family.statistics(values[name]) * dense(posterior.contribution[name])).sum(axis=(-2, -1))
        for name, family in families.items()
    ]
    return np.asarray(np.sum(parts, axis=0))


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """Sums that add up across sites: log predictive density and units of the data and of each replica.

    `scores` and `units` are (1 + replicas,), the data first.
    """

    posterior: str
    scores: Array
    units: Array

    def __add__(self, other: "PredictiveCheck") -> "PredictiveCheck":
        if not isinstance(other, PredictiveCheck):
            return NotImplemented
        if (self.posterior, len(self.scores)) != (other.posterior, len(other.scores)):
            raise StructureMismatch("These checks belong to different posteriors or replicas: they do not add up.")
        return PredictiveCheck(self.posterior, self.scores + other.scores, self.units + other.units)

    def __radd__(self, other: Any) -> "PredictiveCheck":
        """`sum` starts from 0."""
        return self if other == 0 else NotImplemented

    @property
    def probability(self) -> float:
        """The share of replicas that are at least as unlikely under the posterior as the data.

        Misfit shows at both ends. Near 0, the data are less likely than data from the model, as with a few gross
        outliers. Near 1, they are more likely: the model is wider than the data, often because outliers have widened
        it, or these are the data that were fitted.
        """
        means = self.scores / np.maximum(self.units, 1e-300)
        return float((1 + np.count_nonzero(means[1:] <= means[0])) / len(means))


def predictive_check(
    model: Model, posterior: Posterior, data: Any, *, site: int = 0, replicas: int = 99, seed: int = 0, **options: Any
) -> PredictiveCheck:
    """Whether a site's data look like data from the model: their log predictive density against that of replicas.

    Checks of several sites add up. A `probability` near 0 speaks against the model, and so does one near 1. Training
    data fit better than new data, so hold some back (`hold_back`).

    Args:
        site: the site's number. Replica r has the same parameters at all sites, but different data.
        replicas: the number of simulated data sets of the same size.
        seed: the seed of parameters and replicas; the same at all sites.
        options: options for drawing data, such as the `length` of documents.

    >>> model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> posterior = model.fit(rng.normal(size=(200, 1))).posterior
    >>> shards = [3.0 * rng.normal(size=(20, 1)) for _ in range(2)]
    >>> check = sum(db.checking.predictive_check(model, posterior, shard, site=i) for i, shard in enumerate(shards))
    >>> check.probability
    0.01
    """
    check_whole(0, site=site, seed=seed)
    check_whole(1, replicas=replicas)
    known, count = model_of(model, posterior), model.count(data)
    if not count:
        raise InvalidData("There are no observations to check with.")
    sums = [summed(known, posterior, data)]
    for replica in range(replicas):
        parameters = drawn_parameters(posterior, np.random.default_rng([seed, replica]))
        try:
            drawn, _ = known.draw(parameters, count, np.random.default_rng([seed, replica, 1 + site]), **options)
        except (NotImplementedError, TypeError) as error:
            raise NotCalibrated(f"Replicas cannot be drawn: {error}") from None
        sums.append(summed(known, posterior, drawn))
    scores, units = np.transpose(sums)
    return PredictiveCheck(posterior.digest, scores, units)


def summed(model: Model, posterior: Posterior, data: Any) -> tuple[float, float]:
    return float(np.sum(model.log_predictive(posterior, data))), float(np.sum(model.units(data)))
