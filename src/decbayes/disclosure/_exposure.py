"""What a file reveals about single records, measured on the site's own data."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import Seed, generator
from decbayes.errors import DecbayesError
from decbayes.families import Array, dense
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.posterior import Posterior

Records = list[NDArray[np.intp]]
# The most persons for each measurement: precise enough, and done within seconds.
MOST_TESTED, MOST_LEFT_OUT = 2000, 200


@dataclass(frozen=True)
class Exposure:
    """How well members can be told from non-members, and which persons stand out.

    Args:
        membership: the probability that a likelihood-ratio test ranks a random member above a random non-member, for
            files of half the data: 0.5 is chance, 1.0 certainty. None if there are too few persons to measure it.
        rows: the first record of each person tried, in decreasing order of deviation.
        deviations: how far the posterior moves without that person, in posterior standard deviations.
    """

    membership: float | None
    rows: NDArray[np.intp]
    deviations: Array


def exposure(model: Model, posterior: Posterior, data: Any, *, rng: Seed, persons: Any = None) -> Exposure:
    """Measure what a posterior reveals about single persons in its data.

    Args:
        rng: a generator or a seed, to choose the persons to try.
        persons: a name or number per record, if persons may have several records.

    >>> points = np.append(np.random.default_rng(0).normal(size=60), 30.0)
    >>> model = db.models.GaussianMean(variance=1.0)
    >>> found = db.disclosure.exposure(model, model.fit(points[:, None]).posterior, points[:, None], rng=0)
    >>> int(found.rows[0])
    60
    """
    random = generator(rng)
    records = Persons.of(persons).checked(model.count(data)).rows(model.count(data))
    rows, deviations = np.empty(0, dtype=np.intp), np.empty(0)
    # A file that hides who has the outcome is no sum over persons.
    if not (hasattr(model, "hides_outcome") and model.hides_outcome(data)):
        rows, deviations = standing_out(model, posterior, data, records, random)
    return Exposure(membership(model, data, records, random), rows, deviations)


def membership(model: Model, data: Any, records: Records, rng: np.random.Generator) -> float | None:
    """The area under the ROC curve of log p(x | file of one half) − log p(x | file of the other half), by person."""
    chosen = rng.permutation(len(records))[:MOST_TESTED]
    if len(chosen) < 10:
        return None
    parts = [[records[person] for person in np.sort(half)] for half in np.array_split(chosen, 2)]
    halves = [model.taken(data, np.concatenate(part)) for part in parts]
    begin = [np.cumsum([0, *map(len, part[:-1])]) for part in parts]
    quick = replace(model, ascent=fewer_starts(model)) if hasattr(model, "ascent") else model
    try:
        fits = [quick.fit(half, rng=rng).posterior for half in halves]
        gains = [model.log_predictive(fits[0], half) - model.log_predictive(fits[1], half) for half in halves]
    except DecbayesError:
        return None
    return ranked_above(*(np.add.reduceat(gain, first) for gain, first in zip(gains, begin, strict=True)))


def fewer_starts(model: Any) -> Ascent:
    ascent: Ascent = model.ascent
    return replace(ascent, restarts=min(ascent.restarts, 1))


def ranked_above(members: Array, others: Array) -> float:
    """The share of pairs in which the member is ranked above the other; ties count half."""
    order = np.sort(others)
    below = np.searchsorted(order, members, side="left") + np.searchsorted(order, members, side="right")
    return float(below.mean() / (2 * len(order)))


def standing_out(
    model: Model, posterior: Posterior, data: Any, records: Records, rng: np.random.Generator
) -> tuple[NDArray[np.intp], Array]:
    """How far the posterior moves without each of the least likely and some random persons, in decreasing order."""
    unlikely = least_likely(model, posterior, data, records)[: MOST_LEFT_OUT // 2]
    at_random = rng.permutation(len(records))[: MOST_LEFT_OUT // 2]
    tried = np.unique(np.append(unlikely, at_random)).astype(np.intp)
    shifts = np.array([moves(model, posterior, model.taken(data, records[person])) for person in tried])
    order = np.argsort(-shifts, kind="stable")
    first = np.array([records[person][0] for person in tried], dtype=np.intp)
    return first[order], shifts[order]


def least_likely(model: Model, posterior: Posterior, data: Any, records: Records) -> NDArray[np.intp]:
    """Persons in increasing order of their records' probability; empty if the model has none per record."""
    try:
        log_densities = model.log_predictive(posterior, data)
    except DecbayesError:
        return np.empty(0, dtype=np.intp)
    if len(log_densities) != model.count(data):
        return np.empty(0, dtype=np.intp)
    return np.argsort([log_densities[rows].sum() for rows in records], kind="stable")


def moves(model: Model, posterior: Posterior, records: Any) -> float:
    """√(2 KL) between the posterior with and without one person's records, maximised over rows of all factors."""
    alone = model.contributed(posterior, records)
    largest = 0.0
    for name, family in posterior.structure.families.items():
        natural, part = posterior.natural[name], dense(alone.contribution[name])
        without = family.defined_terms(natural - part)
        with_it = family.defined_terms(natural)
        linear = (family.expected_statistics(natural) * part).sum(axis=1)
        divergence = np.nan_to_num(without - with_it + linear, nan=0.0, posinf=0.0, neginf=0.0)
        largest = max(largest, float(np.sqrt(2.0 * np.maximum(divergence, 0.0)).max(initial=0.0)))
    return largest
