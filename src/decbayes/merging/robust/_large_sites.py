"""How much the sites count that claim far more evidence than the others, or more precise coefficients."""

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.grouping.elsewhere import FOLDS, mixed_fit, some_of
from decbayes.merging.robust._likeness import LITTLE
from decbayes.merging.robust._slots import SlotWeights, tolerated_faults
from decbayes.merging.robust.votes import Group, gaussians

# Scales tried for a component of a site above the cap, and the squared deviations per parameter by which it may move
# the others: less than honest sites do on average.
SCALES, PER_PARAMETER = 12, 0.25
# The gain per observation that others must have of a large site's topics.
GAINED = 1e-3
# A site with a component that counts for less than this stays at the cap.
DOUBTED = 0.4
# Deviations by which sites that claim more about every coefficient may move the others; less if they claim too much, or
# if the others contradict them by more than CONTRADICTED deviations.
MOVED, MOVED_LESS, CONTRADICTED = 1.0, 0.6, 3.3


def uncapped(weighed: SlotWeights) -> Array:
    """Per component: the share of its evidence that counts.

    A component of a site above the cap that mostly agrees counts for as much as it can without moving the others by
    more than about a deviation; those that the site hardly knows count for as much as the least of them. Where slots
    hold vectors of coefficients, large sites are judged together. Topics differ by more than such deviations at all
    sites (see `vouched`).
    """
    group = weighed.group
    if group.coefficients is not None:
        together = np.min([bounded_together(weighed, slot) for slot in range(weighed.slots)], axis=0)
        return np.where(doubted(weighed), group.scale, together)[group.site]
    shares = group.scale[group.site]
    places = np.flatnonzero(group.known & ((group.scale < 1.0) & ~doubted(weighed))[group.site])
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


def doubted(weighed: SlotWeights) -> NDArray[np.bool_]:
    """Sites with a component that counts for little."""
    group = weighed.group
    return np.asarray(np.bincount(group.site, group.known & (weighed.weights < DOUBTED), group.sites) > 0)


def vouched(weighed: SlotWeights) -> NDArray[np.bool_]:
    """Sites above the cap whose topics alone describe the components of others better than those of the rest do."""
    large = (weighed.group.scale < 1.0) & ~doubted(weighed) & weighed.group.counted
    return np.array([one and gain_of_others(weighed, site) > GAINED for site, one in enumerate(large.tolist())])


def gain_of_others(weighed: SlotWeights, site: int) -> float:
    """Nats per observation by which a site's topics describe other sites better than the slots of the rest do.

    They are left out in turn. As many as may be faulty, those that gain most, do not count: sites with the same lie
    cannot vouch for each other.
    """
    group, others = weighed.group, weighed.group.site != site
    (rows,), (factor,) = group.rows, group.factors
    mine, gains = rows[~others] / group.scale[site], np.zeros(group.sites)
    fold = np.where(others, (group.site - (group.site > site)) % FOLDS, -1)
    in_slots = (np.arange(weighed.slots)[:, None] == weighed.labels) * weighed.weights
    together = in_slots[:, others] @ rows[others]
    for left_out in range(FOLDS):
        members = fold == left_out
        inside = some_of(np.flatnonzero(members))
        used = np.flatnonzero(rows[inside].any(axis=0))
        for sign, sums in ((1.0, mine), (-1.0, together - in_slots[:, members] @ rows[members])):
            profiles = sums + factor.prior[0].mean() + 1.0
            fit = mixed_fit(rows[inside][:, used], profiles[:, used] / profiles.sum(axis=1, keepdims=True))
            np.add.at(gains, group.site[inside], sign * fit)
    ranked = np.sort(gains[np.unique(group.site[others])])
    return float(ranked[: len(ranked) - tolerated_faults(group.sites)].sum() / max(rows[others].sum(), LITTLE))


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

    They are judged by the coefficients about which one of them claims more than others. If they lose more nats by
    sharing these with the others than chance explains, they claim too much and count for less, by the square as
    components do. If they claim more about every coefficient, they move the others by a deviation at most, and by less
    if they claim too much or if the others contradict them.
    """
    rows = weights[:, None] * group.rows[0][places]
    claims, total = rows[largest].cumsum(axis=0), rows.sum(axis=0, keepdims=True)
    means, covariances = gaussians(group.factors[0], np.concatenate([rows[largest], claims, total - claims]))
    louder = group.coefficient_scale[places[largest]] < 1.0
    parameters, shares = group.parameters[places[largest]], np.ones(len(largest))
    for last in range(len(largest)):
        together, others = len(largest) + last, 2 * len(largest) + last
        about = np.flatnonzero(louder[: last + 1].any(axis=0))
        if not len(about):
            continue
        compared = [*range(last + 1), others]
        lost = nats_apart(means[np.ix_(compared, about)], covariances[np.ix_(compared, about, about)])
        half = 0.5 * parameters[: last + 1].sum() * len(about) / louder.shape[1]
        counted = min(1.0, (half + np.sqrt(half)) / max(lost, LITTLE)) ** 2
        variance, other_variance = covariances[together][about, about], covariances[others][about, about]
        away = np.abs(means[together] - means[others])[about] / np.sqrt(other_variance)
        ratio = other_variance / variance
        contradicted = (away * np.sqrt(ratio / (1.0 + ratio))).max() > CONTRADICTED
        if contradicted or louder[: last + 1].all():
            limit = MOVED_LESS if contradicted or counted < 1.0 else MOVED
            # The share at which they move the others by the limit.
            bounded = np.divide(limit, ratio * (away - limit), out=np.ones_like(away), where=away > limit).min()
            counted = min(counted, bounded)
        shares[last] = counted
    return shares


def nats_apart(means: Array, covariances: Array) -> float:
    """Nats that Gaussian likelihoods lose by sharing one mean: ½ Σ (m_i − m)ᵀ P_i (m_i − m)."""
    precisions = np.linalg.inv(covariances)
    shared = np.linalg.solve(precisions.sum(axis=0), np.einsum("kij,kj->i", precisions, means))
    return float(0.5 * np.einsum("ki,kij,kj->", means - shared, precisions, means - shared))
