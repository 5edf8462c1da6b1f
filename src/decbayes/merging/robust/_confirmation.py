"""What the sites confirm of each other's components, and what a site has found alone."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decbayes.families import Array
from decbayes.merging.robust._disagreement import disagreeing
from decbayes.merging.robust._slots import UNLIKELY, SlotWeights
from decbayes.merging.robust.votes import Group

# A site that shares no more than this part of its evidence with others is a stranger.
SHARED = 0.5
# Others must confirm more than this part of a site's evidence for what it alone has found to count.
LEAST = 0.25

Sites = NDArray[np.bool_]
"""A mask of sites."""


def main_party(part: SlotWeights) -> Sites:
    """Sites that share most of their evidence with the party grown from the slot known to most sites."""
    known = part.votes > 0.5
    party, before = known[:, known.sum(axis=0).argmax()], -1
    while party.sum() > before:
        before = int(party.sum())
        others = known[party].sum(axis=0) - (known & party[:, None])
        shared = (others[part.group.site, part.labels] > 0) & (part.weights > 0.0)
        close = of_sites(part.group, shared, nothing=1.0) > SHARED
        party = party | close
    return np.asarray(close)


def lonely(part: SlotWeights) -> NDArray[np.bool_]:
    """Components that clearly disagree and that no other site has."""
    group, likeness = part.group, part.group.likeness
    others = group.site[:, None] != group.site[likeness.candidates]
    agreeing = np.where(others, likeness.weights, 0.0).max(axis=1, initial=0.0)
    return np.asarray(group.known & disagreeing(part) & (agreeing <= 0.5))


def mostly_confirmed(part: SlotWeights) -> Sites:
    """Sites that found no more components alone than others confirm; these are most of the rest, and enough of all.

    Sites must differ enough for one to find something alone.
    """
    alone, shared = lonely(part), confirmed(part) & (part.weights > 0.5) & part.group.known
    numbers = [np.bincount(part.group.site, found, part.group.sites) for found in (alone, shared)]
    enough = np.maximum(SHARED * (1.0 - of_sites(part.group, alone)), LEAST)
    most = (of_sites(part.group, shared) > enough) & (numbers[0] <= numbers[1])
    return np.asarray(most & (part.chance(1.0) > UNLIKELY))


def confirmed(part: SlotWeights) -> NDArray[np.bool_]:
    """Components in slots where another site counts, too."""
    known = part.votes > 0.5
    return np.asarray((known.sum(axis=0) - known)[part.group.site, part.labels] > 0)


def of_sites(group: Group, amounts: ArrayLike, nothing: float = 0.0) -> Array:
    """Each site's mean of the amounts, weighted by evidence."""
    total = np.bincount(group.site, group.evidence, group.sites)
    sums = np.bincount(group.site, group.evidence * np.asarray(amounts), group.sites)
    return np.asarray(np.divide(sums, total, out=np.full(group.sites, nothing), where=total > 0.0))
