"""Components that look different but contradict nobody: parts, joins and mixtures of others."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.robust._likeness import GONE, LITTLE, in_common, weights_of
from decbayes.merging.robust._slots import SlotWeights, tolerated_faults
from decbayes.merging.robust.votes import Sums, xlogx

# Tolerated multiple of the nats per observation by which parts of a component differ: the mean of χ² with one degree of
# freedom and 2.5 deviations.
VARIES = 1.0 + 2.5 * np.sqrt(2.0)
# EM steps that explain counts as a mixture of slots.
STEPS = 8
# A component may be a join of two of its nearest slots, in these proportions; its site may have other components only
# in a slot that makes up no more than SMALL_PART of it.
NEAREST, PROPORTIONS = 6, np.array([0.03, 0.07, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.93, 0.97])
SMALL_PART = 0.15
# Fewest parameters for that: with fewer, a component often lies between two slots by chance.
FEWEST_PARAMETERS = 4
# Pseudo-counts of a slot's profile, and the initial share of all other slots in a mixture.
FEW, ELSEWHERE = 0.01, 0.1


def allowing_parts(weighed: SlotWeights) -> SlotWeights:
    """Let several components of one site in a slot count if their sum agrees: they may be parts of one.

    So may components in slots that few others know, which are then compared with the nearest slot that more know.
    """
    for labels in (weighed.labels, in_sure_slots(weighed)):
        weighed = with_parts(weighed, labels)
    return weighed


def with_parts(weighed: SlotWeights, labels: Indices) -> SlotWeights:
    """Judge components together with the others of their site that have the same label."""
    group, slots, totals = weighed.group, weighed.slots, weighed.totals()
    key, size = group.site * slots + labels, group.sites * slots
    whole = group.sums(key, group.known.astype(np.float64), size)
    mine = group.sums(group.site * slots + weighed.labels, weighed.core, size)
    rest = [np.tile(total, (group.sites, 1)) - part for total, part in zip(totals[0], mine[0], strict=True)]
    left = np.tile(totals[1], group.sites) - mine[1]
    tolerance = group.tolerance(in_common(whole[1], left)[key]) + varying(weighed, key, whole)[key]
    lost = group.losses(whole, (rest, left))[key]
    together = weights_of(lost, tolerance), lost, tolerance
    several = group.known & (np.bincount(key, group.known) > 1)[key] & (left > LITTLE)[key]
    better = several & (together[0] > weighed.weights)
    verdict = [np.where(better, *pair) for pair in zip(together, weighed.verdict, strict=True)]
    return SlotWeights(group, slots, weighed.labels, *verdict)


def varying(weighed: SlotWeights, key: Indices, whole: Sums) -> Array:
    """Nats that sums of parts may lose because sites have the parts in other proportions.

    That varies by what the parts lose by sharing one parameter. Parts of one component differ less than all slots do.
    """
    group, (totals, evidence) = weighed.group, weighed.totals()
    parts = np.bincount(key, group.known * group.peak(group.rows, group.evidence), len(whole[1]))
    apart = (parts - group.peak(*whole)) / np.maximum(whole[1], 1.0)
    everything = group.peak([total.sum(axis=0, keepdims=True) for total in totals], evidence.sum(keepdims=True))
    between = (group.peak(totals, evidence).sum() - everything[0]) / max(evidence.sum(), 1.0)
    return np.asarray(VARIES * np.where((apart > 0.0) & (apart <= between), apart, 0.0))


def in_sure_slots(weighed: SlotWeights) -> Indices:
    """The slot of each component, or the nearest one that more other sites know than may be faulty."""
    group, known, labels = weighed.group, weighed.votes > 0.5, weighed.labels.copy()
    sure = (known.sum(axis=0) - known)[group.site] > tolerated_faults(group.sites)
    odd = np.flatnonzero(group.known & ~sure[np.arange(len(labels)), labels] & sure.any(axis=1))
    if len(odd):
        totals, evidence = weighed.totals()
        mine = [rows[odd] for rows in group.claims[0]], group.claims[1][odd]
        slots = [([total[[slot]] for total in totals], evidence[[slot]]) for slot in range(weighed.slots)]
        lost = np.transpose([group.losses(mine, slot) for slot in slots])
        labels[odd] = np.where(sure[odd], lost, np.inf).argmin(axis=1)
    return labels


def allowing_joins(weighed: SlotWeights) -> SlotWeights:
    """Let a component be a join of two slots, which a poor fit may find: it counts for less but contradicts nobody.

    Components that count for less are compared with pairs of nearby slots in several proportions. The site must have no
    other component in a slot that makes up more than a small part of the join. A component with few parameters often
    lies between two slots by chance: its site must know neither of them, and have spent a component on little data that
    nobody else knows, such as outliers.
    """
    group, (totals, evidence), known = weighed.group, weighed.totals(), weighed.votes > 0.5
    filled, lost = np.flatnonzero(evidence > LITTLE), weighed.lost.copy()
    few = group.parameters < FEWEST_PARAMETERS
    odd = group.known & (weighed.weights < 1.0) & (~few | spent_on_little(weighed)[group.site])
    for component in np.flatnonzero(odd) if len(filled) > 1 else ():
        mine = [rows[[component]] for rows in group.claims[0]], group.claims[1][[component]]
        apart = group.losses(repeated(mine, len(filled)), ([total[filled] for total in totals], evidence[filled]))
        first, second = np.triu_indices(min(NEAREST, len(filled)), 1)
        nearest = filled[np.argsort(apart, kind="stable")]
        share = np.tile(PROPORTIONS, len(first))
        parts = [
            (nearest[first].repeat(len(PROPORTIONS)), share),
            (nearest[second].repeat(len(PROPORTIONS)), 1 - share),
        ]
        has = known[group.site[component]]
        small = [part <= SMALL_PART for _, part in parts]
        clashes = [
            has[slots] | one if few[component] else has[slots] & ~one
            for (slots, _), one in zip(parts, small, strict=True)
        ]
        possible = ~np.any(clashes, axis=0)
        parts = [(slots[possible], part[possible]) for slots, part in parts]
        # The most evidence that both slots can supply in this proportion.
        size = np.min([evidence[slots] / part for slots, part in parts], axis=0)
        rows = [
            sum((size * part / evidence[slots])[:, None] * total[slots] for slots, part in parts) for total in totals
        ]
        lost[component] = group.losses(repeated(mine, len(size)), (rows, size)).min(initial=lost[component])
    return replace(weighed, lost=lost)


def spent_on_little(weighed: SlotWeights) -> NDArray[np.bool_]:
    """Sites with a component for little data that no other site has."""
    group = weighed.group
    little = (group.votes < 1.0) & (group.evidence > LITTLE) & (weighed.lost > GONE * weighed.tolerance)
    return np.asarray(np.bincount(group.site, little, group.sites) > 0)


def repeated(sums: Sums, times: int) -> Sums:
    return [np.repeat(rows, times, axis=0) for rows in sums[0]], np.repeat(sums[1], times)


def allowing_mixtures(weighed: SlotWeights) -> SlotWeights:
    """Let counts come from several slots, as the merge divides them: the component then agrees with all of these."""
    group = weighed.group
    (totals,), _ = weighed.totals()
    lost = np.concatenate([mixture_losses(weighed, totals, site) for site in range(group.sites)])
    return weighed.with_losses(lost, group.tolerance(group.claims[1]))


def mixture_losses(weighed: SlotWeights, totals: Array, site: int) -> Array:
    """D between each of a site's components and the best mixture of the other sites' slots."""
    group = weighed.group
    places = np.flatnonzero(group.site == site)
    counts, labels = group.claims[0][0][places], weighed.labels[places]
    rest = totals.copy()
    np.subtract.at(rest, labels, weighed.core[places, None] * group.rows[0][places])
    rest = np.maximum(rest, 0.0)
    size = rest.sum(axis=1)
    profiles = (rest + FEW) / (size + FEW * rest.shape[1])[:, None]
    shares = np.where(size > LITTLE, ELSEWHERE / weighed.slots + (1.0 - ELSEWHERE) * np.eye(weighed.slots)[labels], 0.0)
    shares = np.maximum(shares, 1e-9)
    for _ in range(STEPS):
        shares *= (counts / (shares @ profiles)) @ profiles.T
        shares = np.maximum(shares, 1e-9)
        shares /= shares.sum(axis=1, keepdims=True)
    lost = group.alone[places].copy()
    expected = np.zeros_like(counts)
    predicted = shares @ profiles
    received = np.empty_like(shares)
    # Counts added to a slot change its profile, which costs the counts already there.
    for slot in range(weighed.slots):
        part = counts * shares[:, slot, None] * profiles[slot] / predicted
        received[:, slot] = part.sum(axis=1)
        after = (rest[slot] + part) / np.maximum(size[slot] + received[:, slot, None], LITTLE)
        expected += received[:, slot, None] * after
        before = xlogx(rest[slot]).sum() - xlogx(size[slot])
        lost += before - (rest[slot] * np.log(np.maximum(after, 1e-300))).sum(axis=1)
    expected /= np.maximum(received.sum(axis=1, keepdims=True), LITTLE)
    return np.asarray(np.maximum(lost - (counts * np.log(np.maximum(expected, 1e-300))).sum(axis=1), 0.0))
