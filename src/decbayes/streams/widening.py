"""A start with more slots than there should be: sites fit their data again with many components, to be joined later.

Small sites find too few components by themselves, and slots can be joined, but not divided, with one number per site.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from decbayes.merging import align
from decbayes.models.core.component_search import FIRST, ROWS_EACH
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior
from decbayes.streams.joining import slot_count


def wide_numbers(model: Model, shards: Sequence[Any], posteriors: Sequence[Posterior]) -> list[int]:
    """Numbers of components to begin with, each twice the one before; none if sites have enough.

    There are at least twice as many as a merge has slots, if there are ten rows for each. The number of topics is a
    budget, and stays.
    """
    families = posteriors[0].structure.families.values() if posteriors else ()
    if not model.number or any(family.countable for family in families):
        return []
    known, largest = slot_count(align(posteriors).merged()), max(map(slot_count, posteriors))
    most = sum(model.count(shard) for shard in shards) // ROWS_EACH
    return [number for number in doubled(max(FIRST, 2 * known), most) if number > largest]


def doubled(first: int, most: int) -> Iterator[int]:
    """A number, twice as much, and so on; at most a given number."""
    while first < most:
        yield first
        first *= 2
    yield most
