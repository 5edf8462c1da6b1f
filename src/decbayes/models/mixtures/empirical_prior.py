"""The search for a site's number of components, under an empirical prior of its discrete columns.

The agreed prior of a yes/no or categorical column does not know how common its values are. Every component has to learn
that, and a few hundred rows of a hundred columns then look like one component. So the search takes a prior whose means
are the frequencies in all rows. Its strength is large for columns that do not tell components apart. What a site sends
are still its statistics on top of the agreed prior.
"""

from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.special import gammaln

from decbayes.families import Array
from decbayes.models.core.ascent import Ascent, Climb, OnPass
from decbayes.models.core.component_search import ComponentSearch
from decbayes.models.likelihoods.columnwise import Columnwise
from decbayes.models.likelihoods.emissions import Emissions, Natural, Part
from decbayes.models.mixtures.moves import MixtureMoves, less, more

# Strengths to compare, in rows, and the centre and width of their log-normal density.
CENTRE, WIDTH = 10.0, 2.0
STRENGTHS: Array = np.logspace(0, 10, num=11, base=2.0)
# Strengths, for all columns, of the first searches; the one with the highest bound goes on.
FIRST = (3.0, 10.0)
# Nats per column by which several components must beat one: in noise, the best of all splits gains up to 0.26.
BY_CHANCE = 0.35
# With fewer rows per discrete column, several classes may look like one.
ROWS_PER_COLUMN = 20


def find_components(moves: MixtureMoves, ascent: Ascent, progress: OnPass | None) -> Climb[Natural]:
    """The best state of any number of components; with discrete columns, under the prior of first searches."""
    columns = discrete_columns(moves.blocks.emissions)
    if not columns:
        return ComponentSearch(moves, ascent, progress).run()
    whole, firsts = moves.whole(), []
    for strength in FIRST:
        trial, _ = under_empirical_prior(moves, whole, np.array([strength]))
        first = ComponentSearch(trial, replace(ascent, restarts=0), progress).run()
        firsts.append((first.height, trial.as_agreed(first.state)))
        if first.interrupted:
            return replace(first, state=firsts[-1][-1])
    best = max(firsts, key=itemgetter(0))[-1]
    several, density = under_empirical_prior(moves, less(best, moves.agreed_prior))
    reached = ComponentSearch(several, ascent, progress).run()
    single, density_of_single = under_empirical_prior(moves, whole)
    one = more(single.prior(1), whole)
    bound = single.step(one)[1]
    if reached.interrupted or reached.height + density - density_of_single > bound + BY_CHANCE * columns:
        return replace(reached, state=several.as_agreed(reached.state))
    return Climb(single.as_agreed(one), (bound,), True)


def are_rows_few(moves: MixtureMoves) -> bool:
    """Whether several components of discrete columns may look like one."""
    return moves.rows < ROWS_PER_COLUMN * discrete_columns(moves.blocks.emissions)


def under_empirical_prior(
    moves: MixtureMoves, statistics: Natural, strengths: Array = STRENGTHS
) -> tuple[MixtureMoves, float]:
    """The moves under the prior that fits the statistics of components, and the log density of its strengths."""
    prior, density = empirical_prior(moves.blocks.emissions, moves.agreed_prior, statistics, strengths)
    return moves.under(prior), density


def empirical_prior(
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
            pseudo, density = pseudo_counts(part.likelihood, agreed[part.name] - apex, counts, strengths)
            before[part.name], height = apex + pseudo, height + density
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
