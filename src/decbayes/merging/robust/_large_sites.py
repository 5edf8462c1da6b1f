"""How much the sites count that claim far more evidence than the others, or more precise coefficients."""

import numpy as np

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.robust._likeness import LITTLE
from decbayes.merging.robust._slots import SlotWeights, tolerated_faults
from decbayes.merging.robust.votes import Group

# Scales tried for a component of a site above the cap, and the squared deviations per parameter by which it may move
# the others: less than honest sites do on average.
SCALES, PER_PARAMETER = 12, 0.25
# A site with a component that counts for less than this stays at the cap.
DOUBTED = 0.4
# Deviations by which sites that claim more about every coefficient may move the others; less if they claim too much, or
# if the others contradict them by more than CONTRADICTED deviations.
MOVED, MOVED_LESS, CONTRADICTED = 1.0, 0.6, 3.3


def uncapped(weighed: SlotWeights) -> Array:
    """Per component: the share of its evidence that counts.

    A component of a site above the cap that mostly agrees counts for as much as it can without moving the others by
    more than about a deviation; those that the site hardly knows count for as much as the least of them. Where slots
    hold vectors of coefficients, large sites are judged together.
    """
    group = weighed.group
    doubted = np.bincount(group.site, group.known & (weighed.weights < DOUBTED), group.sites) > 0
    if group.coefficients is not None:
        together = np.min([bounded_together(weighed, slot) for slot in range(weighed.slots)], axis=0)
        return np.where(doubted, group.scale, together)[group.site]
    shares = group.scale[group.site]
    places = np.flatnonzero(group.known & ((group.scale < 1.0) & ~doubted)[group.site])
    if not len(places):
        return shares
    totals, evidence = weighed.others()
    rest = [total[places] for total in totals], evidence[places]
    limit = np.where(rest[1] > LITTLE, 0.5 * np.maximum(1.0, PER_PARAMETER * group.parameters[places]), np.inf)
    steps, where = np.linspace(1.0, 0.0, SCALES)[:, None], group.site[places]
    larger = weighed.weights[places] * group.scale[where] ** (1.0 - steps) / group.voting[where]
    mine = [larger[..., None] * rows[places] for rows in group.rows], larger * group.evidence[places]
    too_much = (group.moved(mine, rest) > limit) & (steps > 0.0)
    found = group.scale[where] ** (1.0 - steps[too_much.argmin(axis=0), 0])
    least = np.ones(group.sites)
    np.minimum.at(least, where, found)
    shares = np.where(np.isin(group.site, where), least[group.site], shares)
    shares[places] = found
    return shares


def bounded_together(weighed: SlotWeights, slot: int) -> Array:
    """Per site: the share of its coefficients in a slot that counts; less than 1 only for large sites.

    The one, two, three, … sites with the largest claims, up to as many as may be faulty, are compared with all others.
    """
    group, places = weighed.group, np.flatnonzero(weighed.labels == slot)
    claims, weights = group.typical_scale[group.site[places]], weighed.weights[places]
    weights = np.where(claims < 1.0, weights * (weights >= DOUBTED), weights > 0.0)
    most = min(max(tolerated_faults(group.sites), 1), (int(np.count_nonzero(weights)) - 1) // 2)
    by_claim = np.argsort(claims, kind="stable")
    largest = by_claim[((claims < 1.0) & (weights > 0.0))[by_claim]][:most]
    shares = np.ones(group.sites)
    if len(largest):
        together = joint_shares(group, places, weights, largest)
        shares[group.site[places[largest]]] = np.minimum.accumulate(together[::-1])[::-1]
    return shares


def joint_shares(group: Group, places: Indices, weights: Array, largest: Indices) -> Array:
    """For the first site, the first two, … of the largest: the share of their coefficients that counts.

    If they lose more nats by sharing coefficients with the others than chance explains, they claim too much and count
    for less, by the square as components do. If they claim more than others about every coefficient, they move the
    others by a deviation at most, and by less if they claim too much or if the others contradict them.
    """
    rows, evidence = weights[:, None] * group.rows[0][places], weights * group.evidence[places]
    claims, claimed = rows[largest].cumsum(axis=0), evidence[largest].cumsum()
    total, all_evidence = rows.sum(axis=0, keepdims=True), evidence.sum(keepdims=True)
    compared = np.concatenate([rows[largest], total - claims, total])
    peaks = group.peak([compared], np.concatenate([evidence[largest], all_evidence - claimed, all_evidence]))
    alone, others, joint = np.split(peaks, [len(largest), 2 * len(largest)])
    half = 0.5 * group.parameters[places[largest]].cumsum()
    by_chance = half + np.sqrt(half)
    counted = np.minimum(1.0, by_chance / np.maximum(alone.cumsum() + others - joint, LITTLE)) ** 2
    vectors = group.coefficients_of([np.concatenate([claims, total - claims])])
    assert vectors is not None, "slots hold vectors"
    (mean, other_mean), (variance, other_variance) = (np.split(part, 2) for part in vectors)
    away, ratio = np.abs(mean - other_mean) / np.sqrt(other_variance), other_variance / variance
    contradicted = (away * np.sqrt(ratio / (1.0 + ratio))).max(axis=1) > CONTRADICTED
    throughout = np.logical_and.accumulate((group.coefficient_scale[places[largest]] < 1.0).all(axis=1))
    limit = np.where(contradicted | (counted < 1.0), MOVED_LESS, MOVED)[:, None]
    # The share at which they move the others by the limit.
    bounded = np.divide(limit, ratio * (away - limit), out=np.ones_like(away), where=away > limit).min(axis=1)
    return np.where(contradicted | throughout, np.minimum(counted, bounded), counted)
