"""What a file says about single records, measured on the site's own data."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.arguments import Seed, generator
from decbayes.errors import DecbayesError
from decbayes.families import Array, dense
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior

# Enough to tell, and over within seconds.
MOST_TESTED, MOST_LEFT_OUT = 2000, 200


@dataclass(frozen=True)
class Exposure:
    """How well members can be told from others, and which records stand out.

    Args:
        membership: the probability that a likelihood-ratio test ranks a random member above a random non-member, for
            files of half the data: 0.5 is chance, 1.0 certainty. None if there are too few records to measure it.
        rows: the records that were left out one at a time, those that stand out most first.
        deviations: how far the posterior moves without each of them, in posterior standard deviations.
    """

    membership: float | None
    rows: NDArray[np.intp]
    deviations: Array


def exposure(model: Model, posterior: Posterior, data: Any, *, rng: Seed) -> Exposure:
    """What the posterior says about single records of its data.

    Args:
        model: what was fitted.
        posterior: its posterior of the data.
        data: the data.
        rng: a generator or a seed, for the records to try.

    >>> points = np.append(np.random.default_rng(0).normal(size=60), 30.0)
    >>> model = db.GaussianMean(variance=1.0)
    >>> found = db.disclosure.exposure(model, model.fit(points[:, None]).posterior, points[:, None], rng=0)
    >>> int(found.rows[0])
    60
    """
    random = generator(rng)
    rows, deviations = standing_out(model, posterior, data, random)
    return Exposure(membership(model, data, random), rows, deviations)


def membership(model: Model, data: Any, rng: np.random.Generator) -> float | None:
    """The area under the ROC curve of log p(x | file of one half) − log p(x | file of the other half)."""
    count = model.count(data)
    chosen = rng.permutation(count)[:MOST_TESTED]
    if len(chosen) < 10:
        return None
    halves = [model.taken(data, np.sort(half)) for half in np.array_split(chosen, 2)]
    quick = replace(model, ascent=fewer_starts(model)) if hasattr(model, "ascent") else model
    try:
        fits = [quick.fit(half, rng=rng).posterior for half in halves]
        # For each half: what its own file says beyond the other one's.
        own, other = (model.log_predictive(fits[0], half) - model.log_predictive(fits[1], half) for half in halves)
    except DecbayesError:
        return None
    return ranked_above(own, other)


def fewer_starts(model: Any) -> Ascent:
    ascent: Ascent = model.ascent
    return replace(ascent, restarts=min(ascent.restarts, 1))


def ranked_above(members: Array, others: Array) -> float:
    """How often a member is ranked above another; half of the ties."""
    order = np.sort(others)
    below = np.searchsorted(order, members, side="left") + np.searchsorted(order, members, side="right")
    return float(below.mean() / (2 * len(order)))


def standing_out(
    model: Model, posterior: Posterior, data: Any, rng: np.random.Generator
) -> tuple[NDArray[np.intp], Array]:
    """The least likely records and some at random: how far the posterior moves without each, the farthest first."""
    count = model.count(data)
    try:
        surprise = np.argsort(model.log_predictive(posterior, data), kind="stable")
        likely = surprise[: MOST_LEFT_OUT // 2] if len(surprise) == count else np.empty(0, dtype=np.intp)
    except DecbayesError:
        likely = np.empty(0, dtype=np.intp)
    rows = np.unique(np.append(likely, rng.permutation(count)[: MOST_LEFT_OUT // 2])).astype(np.intp)
    moved = np.array([moves(model, posterior, model.taken(data, np.array([row]))) for row in rows])
    order = np.argsort(-moved, kind="stable")
    return rows[order], moved[order]


def moves(model: Model, posterior: Posterior, record: Any) -> float:
    """√(2 KL) between the posterior with and without one record, the largest over rows of a factor."""
    alone = model.contributed(posterior, record)
    largest = 0.0
    for name, family in posterior.structure.families.items():
        natural, part = posterior.natural[name], dense(alone.contribution[name])
        without = family.defined_terms(natural - part)
        with_it = family.defined_terms(natural)
        linear = (family.mean(natural) * part).sum(axis=1)
        divergence = np.nan_to_num(without - with_it + linear, nan=0.0, posinf=0.0, neginf=0.0)
        largest = max(largest, float(np.sqrt(2.0 * np.maximum(divergence, 0.0)).max(initial=0.0)))
    return largest
