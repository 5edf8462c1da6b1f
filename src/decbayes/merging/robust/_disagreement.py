"""By how much each site disagrees with the others, and which sites stand out.

Chance explains some disagreement. If the model describes the data badly (outliers, skewed columns, too few slots),
honest sites disagree by more than that, because each finds other components; so they do if components overlap or many
values are missing, because each divides its rows differently. Then only sites that disagree far more than is usual
among the others are in doubt.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.robust._allowances import allowing_joins, allowing_mixtures, allowing_parts
from decbayes.merging.robust._likeness import GONE, LITTLE, chance, in_common, weights_of
from decbayes.merging.robust._slots import SlotWeights, tolerated_faults, without_doubtful_slots
from decbayes.merging.robust.votes import Group

# A component clearly disagrees if its weight is below CLEARLY and its loss exceeds twice the tolerance by NATS. With
# one or two parameters, chance exceeds twice the tolerance now and then, mostly where clusters overlap.
CLEARLY, NATS = 0.25, 3.0
# With this many observations the limit doubles: losses vary more with few, mostly if variances are unknown. Components
# with fewer are not judged.
FEW = 5.0
# Probability that any honest component in a merge counts for less.
MISTAKEN = 0.05
# A site counts in full if less than this share of its evidence would not count, and nothing of it clearly disagrees.
HARDLY = 0.005
# If sites usually disagree by more than this part of the tolerance, the model does not fit. By chance it is 0.2 to 0.6.
MISFIT = 0.7
# Then a site stands out if it disagrees by this multiple of what is usual.
OUTSTANDING = 4.0
# More sites than may be faulty are set aside if there is a gap this large between them and the others.
GAP = 30.0


def with_allowances(part: SlotWeights) -> SlotWeights:
    if part.group.coupled is None:
        return allowing_chance(part)
    return explained(without_doubtful_slots(part))


def explained(part: SlotWeights) -> SlotWeights:
    """After allowing for mixtures or joins of slots, components in parts and chance.

    Small components just count, and so does everything of sites that hardly disagree.
    """
    if part.group.counted and len(part.group.rows) == 1:
        part = allowing_chance(allowing_parts(allowing_mixtures(part)))
    else:
        part = allowing_joins(allowing_chance(allowing_parts(part)))
    part = replace(part, weights=np.where(judged(part.group), part.weights, 1.0))
    return replace(part, weights=np.where(hardly_disagreeing(part)[part.group.site], 1.0, part.weights))


def hardly_disagreeing(part: SlotWeights) -> NDArray[np.bool_]:
    """Sites with next to nothing that would not count, and no component that clearly disagrees."""
    group = part.group
    amounts = (1.0 - part.weights) * group.evidence, group.evidence, disagreeing(part)
    lacking, total, clear = (np.bincount(group.site, amount, group.sites) for amount in amounts)
    return np.asarray((lacking < HARDLY * total) & (clear == 0.0))


def allowing_chance(part: SlotWeights) -> SlotWeights:
    """Let components just beyond the tolerance count, as chance puts some there; they still do not define slots."""
    group = part.group
    by_chance = gammainccinv(0.5 * group.parameters, MISTAKEN / max(int(group.known.sum()), 1))
    weights = weights_of(part.lost, np.maximum(by_chance / chance(group.parameters), 1.0) * part.tolerance)
    gone = (part.lost > GONE * part.tolerance) | disagreeing(part)
    return replace(part, weights=np.where(gone, part.weights, np.maximum(part.weights, weights)))


def judged(group: Group) -> NDArray[np.bool_]:
    """Components that their sites know well enough to be judged.

    Others, such as a few outliers, can be neither confirmed nor refuted, and move little.
    """
    return np.asarray((group.known & (group.evidence >= FEW)) | (group.coupled is None))


def disagreeing(part: SlotWeights) -> NDArray[np.bool_]:
    """Components that clearly disagree with the others in their slot."""
    clear = (2.0 * part.tolerance + NATS) * (1.0 + FEW / np.maximum(part.group.evidence, 1.0))
    return np.asarray(judged(part.group) & (part.weights < CLEARLY) & (part.lost > clear))


def disagreement(part: SlotWeights) -> Array:
    """Per site: the nats by which its components disagree with the others, in units of the tolerance."""
    group, rated = part.group, judged(part.group)
    lost = np.where(part.weights >= 1.0, np.minimum(part.lost, part.tolerance), part.lost)
    nats, tolerated = (
        np.bincount(group.site, np.where(rated, amount, 0.0), group.sites) for amount in (lost, part.tolerance)
    )
    return np.asarray(np.divide(nats, tolerated, out=np.zeros(group.sites), where=tolerated > 0.0))


def usual_among(disagreements: Array) -> float:
    """The largest disagreement once as many sites are set aside as may be faulty: fewer than a third, but at least one.

    Up to half of the sites are set aside if these disagree by far more than all others.
    """
    ranked, count = np.sort(disagreements)[::-1], len(disagreements)
    fewest, most = min(max(tolerated_faults(count), 1), count - 1), (count - 1) // 2
    for aside in range(fewest + 1, most + 1):
        if ranked[aside - 1] > GAP * max(ranked[aside], MISFIT):
            return float(ranked[aside])
    return float(ranked[fewest])


def beside(group: Group, rest: SlotWeights, sites: Indices) -> Array:
    """Per site: how much its components disagree with the nearest slots of some sites, whose slots are `rest`."""
    inside, everybody = np.isin(group.site, sites), np.arange(len(group.site))
    labels, core = np.zeros(len(everybody), dtype=np.intp), np.zeros(len(everybody))
    labels[inside], core[inside] = rest.labels, rest.core
    totals, evidence = group.sums(labels, core, rest.slots)
    lost, shared = np.full((rest.slots, len(everybody)), np.inf), np.zeros((rest.slots, len(everybody)))
    for slot in np.flatnonzero(evidence > LITTLE):
        lost[slot] = group.claim_losses(([total[[slot]] for total in totals], evidence[[slot]]))
        shared[slot] = in_common(group.claims[1], evidence[slot])
    labels = np.where(inside, labels, lost.argmin(axis=0))
    tolerance = group.tolerance(shared[labels, everybody])
    return disagreement(explained(SlotWeights(group, rest.slots, labels, core, lost[labels, everybody], tolerance)))
