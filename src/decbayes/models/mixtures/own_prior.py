"""The search for a site's number of components, under an empirical prior of its discrete columns.

The agreed prior of a yes/no or categorical column does not know how common its values are. Every component has to learn
that, and a few hundred rows of a hundred columns then look like one component. So the search takes a prior whose means
are the frequencies in all rows. Its strength is large for columns that do not tell components apart. What a site sends
are still its statistics on top of the agreed prior.
"""

from typing import Any

import numpy as np
from scipy.special import gammaln

from decbayes.families import Array
from decbayes.models.likelihoods.columnwise import Columnwise
from decbayes.models.likelihoods.emissions import Emissions, Natural, Part

# Strengths to compare, in rows, and the centre and width of their log-normal density.
CENTRE, WIDTH = 10.0, 2.0
STRENGTHS: Array = np.logspace(0, 10, num=11, base=2.0)
# Strengths, for all columns, of the first searches; the one with the highest bound goes on.
FIRST = (3.0, 10.0)
# Nats per column by which several components must beat one: in noise, the best of all splits gains up to 0.26.
BY_CHANCE = 0.35


def own_prior(
    emissions: Emissions, agreed: Natural, statistics: Natural, strengths: Array = STRENGTHS
) -> tuple[Natural, float]:
    """The agreed prior, (1, d) per factor, with discrete columns replaced, and the log density of their strengths.

    Each column gets the strength under which `statistics`, those of components, are most probable.
    """
    before, height = dict(agreed), 0.0
    for part in emissions.parts:
        if is_discrete(part):
            apex = part.likelihood.family.apex(part.prior.shape[1])
            counts = np.maximum(statistics[part.name], 0.0)
            own, density = pseudo_counts(part.likelihood, agreed[part.name] - apex, counts, strengths)
            before[part.name], height = apex + own, height + density
    return before, height


def is_discrete(part: Part) -> bool:
    return isinstance(part.likelihood, Columnwise) and not part.likelihood.numeric


def discrete_columns(emissions: Emissions) -> int:
    return sum(len(part.places) for part in emissions.parts if is_discrete(part))


def pseudo_counts(likelihood: Any, agreed: Array, counts: Array, strengths: Array) -> tuple[Array, float]:
    """(1, d): the overall frequencies of each column's values times the column's strength."""
    known = agreed + counts.sum(axis=0, keepdims=True)
    belongs = likelihood.counts(np.eye(known.shape[1]))
    frequencies = known / (likelihood.counts(known) @ belongs.T)
    heights = np.array([log_probabilities(likelihood, strength * frequencies, counts) for strength in strengths])
    densities = -0.5 * (np.log(strengths / CENTRE) / WIDTH) ** 2
    best = (heights + densities[:, None]).argmax(axis=0)
    return strengths[best] @ belongs.T * frequencies, float(densities[best].sum())


def log_probabilities(likelihood: Any, alpha: Array, counts: Array) -> Array:
    """(D,): the log probability of the components' counts in each column."""
    values = likelihood.counts(gammaln(alpha + counts) - gammaln(alpha))
    return np.asarray(
        (values + gammaln(likelihood.counts(alpha)) - gammaln(likelihood.counts(alpha + counts))).sum(axis=0)
    )
