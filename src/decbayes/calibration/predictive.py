"""Posterior predictive checks at the sites: do data that a posterior would produce look like those that are there?"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from decbayes.arguments import check_whole
from decbayes.calibration.validation import model_of
from decbayes.errors import InvalidData, NotCalibrated, StructureMismatch
from decbayes.families import Array
from decbayes.models.model import Model
from decbayes.models.simulation import drawn_parameters
from decbayes.posterior import Posterior


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """Sums that add up across sites: log predictive density and units of the data, and of each replica of them.

    `scores` and `units` are (1 + replicas,), the data first.
    """

    posterior: str
    scores: Array
    units: Array

    def __add__(self, other: "PredictiveCheck") -> "PredictiveCheck":
        if not isinstance(other, PredictiveCheck):
            return NotImplemented
        if (self.posterior, len(self.scores)) != (other.posterior, len(other.scores)):
            raise StructureMismatch("These checks are of other posteriors or have other replicas: they do not add up.")
        return PredictiveCheck(self.posterior, self.scores + other.scores, self.units + other.units)

    def __radd__(self, other: Any) -> "PredictiveCheck":
        """`sum` begins with 0."""
        return self if other == 0 else NotImplemented

    @property
    def probability(self) -> float:
        """The share of replicas that the posterior finds as unlikely as the data, or more so.

        Near 0: the data are further from the model than it would produce. Near 1: they are closer to it than chance.
        """
        means = self.scores / np.maximum(self.units, 1e-300)
        return float((1 + np.count_nonzero(means[1:] <= means[0])) / len(means))


def predictive_check(
    model: Model, posterior: Posterior, data: Any, *, site: int = 0, replicas: int = 99, seed: int = 0, **options: Any
) -> PredictiveCheck:
    """Compare a site's data with as many that the posterior would produce, by their log predictive density.

        check = sum(db.predictive_check(model, merged, shard, site=i) for i, shard in enumerate(shards))
        print(check.probability)

    Replica r has the same parameters at all sites, drawn from the posterior by `seed`; its data are the `site`'s own.
    `options` are the model's, such as the `length` of documents. Data that the posterior was fitted to look better than
    new ones: hold some back (`hold_back`).
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
            made, _ = known.draw(parameters, count, np.random.default_rng([seed, replica, 1 + site]), **options)
        except (NotImplementedError, TypeError) as error:
            raise NotCalibrated(f"There is no way to draw replicas: {error}") from None
        sums.append(summed(known, posterior, made))
    scores, units = np.transpose(sums)
    return PredictiveCheck(posterior.digest, scores, units)


def summed(model: Model, posterior: Posterior, data: Any) -> tuple[float, float]:
    return float(np.sum(model.log_predictive(posterior, data))), float(np.sum(model.units(data)))
