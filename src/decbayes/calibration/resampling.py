"""A bootstrap over all sites at once: refit with every observation counted zero, one, two, … times at random.

Each site draws its own counts, from a seed that all agree on, and takes part in replica after replica as it does in
refinement: what is sent is contributions again. The spread of the refitted means is that of the posterior, whatever the
model assumes to be independent.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from decbayes.calibration.sites import one_more_pass
from decbayes.errors import NotCalibrated
from decbayes.families import Array
from decbayes.models.model import Model
from decbayes.posterior import Posterior
from decbayes.streaming.course import shift
from decbayes.workers import jobs

# A replica has settled when a pass moves it by less than this many deviations, or after so many passes.
SETTLED, MOST_PASSES = 0.02, 40


def bootstrapped(
    model: Model, shards: Sequence[Any], posterior: Posterior, *, replicas: int, seed: int
) -> dict[str, dict[str, Array]]:
    """The deviation of every entry over the replicas, and no less than the family's own."""
    from joblib import Parallel, delayed

    tasks = (delayed(replica)(model, shards, posterior, seed, number) for number in range(replicas))
    refits = list(Parallel(n_jobs=jobs(), prefer="threads")(tasks))
    found: dict[str, dict[str, Array]] = {}
    for factor, family in posterior.structure.families.items():
        drawn = [family.quantities(refit.mean(factor)) for refit in refits]
        plain = family.quantities(family.deviation(posterior.natural[factor]))
        found[factor] = {
            name: np.maximum(own, np.std([values[name] for values in drawn], axis=0, ddof=1))
            for name, own in plain.items()
        }
    return found


def replica(model: Model, shards: Sequence[Any], posterior: Posterior, seed: int, number: int) -> Posterior:
    """The posterior of data counted at random, reached from the posterior of the data as they are."""
    drawn = [resampled(model, shard, seed, number, site) for site, shard in enumerate(shards)]
    reached = posterior
    for _ in range(MOST_PASSES):
        before, reached = reached, one_more_pass(model, drawn, reached)
        if shift(before, reached) <= SETTLED:
            break
    return reached


def resampled(model: Model, shard: Any, seed: int, number: int, site: int) -> Any:
    """A site's data with each observation as often as a Poisson variable of mean 1 says."""
    try:
        size = model.count(shard)
        times = np.random.default_rng([seed, number, site]).poisson(1.0, size=size)
        return model.taken(shard, np.repeat(np.arange(size), times))
    except (TypeError, IndexError, ValueError) as error:
        raise NotCalibrated(f"A bootstrap needs data in memory whose rows can be repeated ({error}).") from None
