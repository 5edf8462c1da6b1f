"""The number of slots, chosen by all sites together: start with more than needed, then join those the data do not need.

Small sites find too few components alone, so they first fit their data again with many. If all sites use one merged
posterior q, the bound of all data is

    Σ_i L_i(q) − KL(q ‖ prior)

where L_i, the bound of site i's data given q, is one number that the site computes in one pass over its data. The order
of joins follows from q; each site computes L_i, and its share of the rest, for every number of slots.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lgamma
from typing import Any, Literal

import numpy as np

from decbayes.errors import StructureMismatch
from decbayes.merging import align, product
from decbayes.merging.base.compatibility import same_columns
from decbayes.merging.base.components import LEAST_EVIDENCE
from decbayes.merging.base.lineage import as_components
from decbayes.merging.base.products import AssignedSums
from decbayes.merging.grouping.search import SlotSearch
from decbayes.models.core.component_search import FIRST, ROWS_EACH
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.updates.rounds import Joins, Sent, joinable, slots_of

Target = int | Literal["auto"]


def wide_numbers(posteriors: Sequence[Posterior]) -> list[int]:
    """Numbers of components to start with, each twice the one before; none if sites have enough.

    They are at least twice the number of slots of a merge, with at least ten rows each. The number of topics is a
    budget and stays.
    """
    if not posteriors or not joinable(posteriors[0]):
        return []
    merged, largest = align(posteriors).merged(), max(map(slots_of, posteriors))
    most = round(float(as_components(merged).evidence.sum())) // ROWS_EACH
    return [number for number in doubled(max(FIRST, 2 * slots_of(merged)), most) if number > largest]


def wide_start(sent: Mapping[str, Sent]) -> int:
    """How many components this site, the first, should fit before the first round of `auto`; 0 if it need not.

    It need not if it already has, if rounds have started, or if sites have as many components as their rows allow.
    """
    this_site, *_ = sent.values()
    if this_site.auto or any(message.round for message in sent.values()):
        return 0
    known = [slots_of(message.posterior) for message in sent.values() if message.auto]
    if known:
        return known[0]
    numbers = wide_numbers(same_columns([message.posterior for message in sent.values()]))
    return numbers[0] if numbers else 0


def doubled(first: int, most: int) -> Iterator[int]:
    """A number, twice that number, and so on, up to a maximum."""
    while first < most:
        yield first
        first *= 2
    yield most


def narrowed(
    model: Model, shards: Sequence[Any], contributions: list[Posterior], target: Target, rng: np.random.Generator | None
) -> list[Posterior]:
    """The sites' contributions in fewer slots: a given number, or the one with the highest bound of all data."""
    merged = product(contributions)
    joins = cheapest_joins(merged)
    if target == "auto":
        count = best_number([site_heights(model, shard, merged, joins, len(shards), rng) for shard in shards])
    else:
        count = max(slots_of(merged) - target, 0)
    return [joined(posterior, joins[:count]) for posterior in contributions]


def in_fewer_slots(sent: Mapping[str, Sent], posteriors: tuple[Posterior, ...]) -> tuple[Posterior, ...]:
    """Posteriors with slots joined, if all sites of the latest round have sent their heights."""
    number = max(message.round for message in sent.values())
    latest = {name: message for name, message in sent.items() if message.round == number}
    name, first = next(iter(latest.items()))
    if not all(message.heights for message in latest.values()):
        return posteriors
    for other, message in latest.items():
        if message.joins != first.joins:
            raise StructureMismatch(
                f"{other} and {name} would join different slots: they did not make round {number} from the same "
                "files. All sites must use the same files of the previous round."
            )
    joins = first.joins[: best_number([message.heights for message in latest.values()])]
    pairs = zip(posteriors, sent.values(), strict=True)
    return tuple(joined(posterior, joins) if message.round == number else posterior for posterior, message in pairs)


def cheapest_joins(merged: Posterior) -> Joins:
    """The joins that lose least, one after another, down to a single slot."""
    components = as_components(merged)
    count = len(components)
    base = components.bases(count)
    search, joins = SlotSearch(components, np.arange(count), base, count), []
    while search.count > 1:
        kept, absorbed, _ = search.cheapest_join()
        search.join(kept, absorbed)
        joins.append((kept, absorbed))
    return tuple(joins)


def joined(posterior: Posterior, joins: Joins) -> Posterior:
    """A contribution after these joins of slots."""
    if not joins:
        return posterior
    (coupled,) = posterior.structure.symmetry
    count = slots_of(posterior)
    places = np.arange(count)
    for kept, absorbed in joins:
        count -= 1
        places[places == absorbed] = kept
        places[places == count] = absorbed
    sums = AssignedSums(posterior.structure.with_components(count))
    sums.add(posterior, {coupled: places})
    return Posterior(sums.structure, sums.contributions())


def site_heights(
    model: Model, shard: Any, merged: Posterior, joins: Joins, sites: int, rng: np.random.Generator | None
) -> tuple[float, ...]:
    """A site's part of the height before any join, after the first, after the first two, and so on."""
    after = (joined(merged, joins[:count]) for count in range(len(joins) + 1))
    return tuple(site_bound(model, shard, q, rng) + (log_orders(q) - learned(q)) / sites for q in after)


def best_number(heights: Sequence[Sequence[float]]) -> int:
    """The number of joins with the largest height, summed over sites."""
    return int(np.argmax(np.sum(heights, axis=0)))


def height_of(model: Model, shards: Sequence[Any], merged: Posterior, rng: np.random.Generator | None) -> float:
    """The bound of all sites' data, plus the log of the number of equivalent orders of the slots."""
    return bound(model, shards, merged, rng) + log_orders(merged)


def bound(model: Model, shards: Sequence[Any], merged: Posterior, rng: np.random.Generator | None) -> float:
    """The bound of all sites' data at this posterior, minus its divergence from the prior."""
    return sum(site_bound(model, shard, merged, rng) for shard in shards) - learned(merged)


def learned(merged: Posterior) -> float:
    """KL(q ‖ prior)."""
    families, prior = merged.structure.families, merged.structure.prior
    return sum(family.kl(merged.natural[name], prior[name]) for name, family in families.items())


def log_orders(merged: Posterior) -> float:
    """The bound counts one order of the slots. With E empty ones, which are alike, K slots have K! / E! orders."""
    evidence = as_components(merged).evidence
    empty = int((evidence < LEAST_EVIDENCE).sum())
    return lgamma(len(evidence) + 1) - lgamma(empty + 1)


def site_bound(model: Model, shard: Any, merged: Posterior, rng: np.random.Generator | None) -> float:
    """L_i: the bound of one site's data with the merged posterior as its prior, before any update."""
    once = replace(sized(model, merged), ascent=replace(model.ascent, passes=1, restarts=0, warm_up=0))
    return float(once.fit(shard, prior=merged, start=merged, rng=rng).bound[0])


def sized(model: Model, posterior: Posterior) -> Model:
    if model.structure == posterior.structure:
        return model
    return replace(model_for(posterior.structure), ascent=model.ascent)
