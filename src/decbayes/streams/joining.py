"""Fewer slots after a refinement: duplicate slots are joined if that raises the sites' summed bound.

With all sites at one merged posterior q, the bound of all data is

    Σ_i L_i(q) − KL(q ‖ prior)

and L_i, the bound of site i's data given q, is one number that the site computes in one pass over its data.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import lgamma
from typing import Any, Literal

import numpy as np

from decbayes.families.matrices import Indices
from decbayes.merging import product
from decbayes.merging.base.components import LEAST_EVIDENCE, bases
from decbayes.merging.base.lineage import as_components
from decbayes.merging.base.products import AssignedSums
from decbayes.merging.grouping.search import SlotSearch
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior

# The number of joins, those with the smallest loss first, that are proposed to the sites at a time.
PROPOSED = 4

Target = int | Literal["auto"]


def narrowed(
    model: Model, shards: Sequence[Any], contributions: list[Posterior], target: Target, rng: np.random.Generator | None
) -> list[Posterior]:
    """The sites' contributions in fewer slots: a given number, or the one with the best summed bound."""
    known = height_of(model, shards, product(contributions), rng)
    while slot_count(contributions[0]) > (1 if target == "auto" else target):
        proposals = list(proposed(contributions))
        values = [height_of(model, shards, product(proposal), rng) for proposal in proposals]
        if target == "auto" and max(values) <= known:
            break
        best = int(np.argmax(values))
        contributions, known = proposals[best], values[best]
    return contributions


def height_of(model: Model, shards: Sequence[Any], merged: Posterior, rng: np.random.Generator | None) -> float:
    """The bound of all sites' data, plus the logarithm of the number of equivalent orders of the slots.

    A bound counts one of them. Empty slots are alike, so that K slots of which E are empty have K! / E! orders.
    """
    evidence = as_components(merged).evidence
    empty = int((evidence < LEAST_EVIDENCE).sum())
    return bound(model, shards, merged, rng) + lgamma(len(evidence) + 1) - lgamma(empty + 1)


def bound(model: Model, shards: Sequence[Any], merged: Posterior, rng: np.random.Generator | None) -> float:
    """The bound of all sites' data at this posterior, less its divergence from the prior."""
    families, prior = merged.structure.families, merged.structure.prior
    learned = sum(family.kl(merged.natural[name], prior[name]) for name, family in families.items())
    return sum(site_bound(model, shard, merged, rng) for shard in shards) - learned


def site_bound(model: Model, shard: Any, merged: Posterior, rng: np.random.Generator | None) -> float:
    """L_i: the bound of one site's data with the merged posterior as its prior, before any update."""
    once = replace(sized(model, merged), ascent=replace(model.ascent, passes=1, restarts=0, warm_up=0))
    return float(once.fit(shard, prior=merged, start=merged, rng=rng).bound[0])


def sized(model: Model, posterior: Posterior) -> Model:
    """The model with as many components as the posterior."""
    if model.structure == posterior.structure:
        return model
    return replace(model_for(posterior.structure), ascent=model.ascent)


def proposed(contributions: Sequence[Posterior]) -> Iterator[list[Posterior]]:
    """The contributions with two slots joined, for the pairs with the smallest loss."""
    components = as_components(product(contributions))
    count = len(components)
    base = bases(components.factors, float(components.evidence.sum()), count)
    losses = SlotSearch(components, np.arange(count), base, count).join_losses()
    first, second = np.triu_indices(count, 1)
    for pair in np.argsort(losses[first, second], kind="stable")[:PROPOSED]:
        yield [joined(posterior, int(first[pair]), int(second[pair])) for posterior in contributions]


def joined(posterior: Posterior, kept: int, absorbed: int) -> Posterior:
    """A contribution with one slot added to another."""
    (coupled,) = posterior.structure.symmetry
    slots: Indices = np.delete(np.arange(slot_count(posterior)), absorbed)
    places = np.searchsorted(slots, np.arange(slot_count(posterior)))
    places[absorbed] = np.searchsorted(slots, kept)
    sums = AssignedSums(posterior.structure.with_components(len(slots)))
    sums.add(posterior, {coupled: places})
    return Posterior(sums.structure, sums.contributions())


def slot_count(posterior: Posterior) -> int:
    return posterior.structure.components(posterior.structure.symmetry[0])
