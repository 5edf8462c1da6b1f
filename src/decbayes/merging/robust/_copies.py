"""Sites that repeat other sites: they count once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from decbayes.families import Array
from decbayes.merging.base.copies import no_chance
from decbayes.merging.robust._likeness import LITTLE
from decbayes.merging.robust.votes import Group

# Two sites are copies if chance would make them this similar with probability below CHANCE, and a typical pair of sites
# is LESS_ALIKE times less similar.
CHANCE, LESS_ALIKE = 1e-6, 100.0
# Profiles whose relative difference is smaller than this are equal.
SAME = 1e-9


def first_of(copies: NDArray[np.bool_]) -> dict[int, int]:
    """The first site that each copy repeats."""
    firsts: dict[int, int] = {}
    for one, other in np.argwhere(copies).tolist():
        firsts.setdefault(one, firsts.get(other, other))
    return firsts


def exact_copies(groups: Sequence[Group]) -> NDArray[np.bool_]:
    """(sites, sites): which sites repeat an earlier one, not by chance, whatever their labels and evidence."""
    return not_by_chance(groups, earlier(groups) & np.all([same_profiles(group) for group in groups], axis=0))


def near_copies(groups: Sequence[Group]) -> NDArray[np.bool_]:
    """(sites, sites): which sites are far more similar to an earlier one than chance and usual differences explain."""
    lost = np.zeros((groups[0].sites,) * 2)
    for group in groups:
        # At the claimed evidence: sites scaled down to almost nothing would all look alike.
        lost += site_losses(group) / np.minimum(group.voting[:, None], group.voting)
    lost = np.minimum(lost, lost.T)
    pairs, parameters = earlier(groups), known_parameters(groups)
    usual = np.median(lost[pairs & np.isfinite(lost)]) if (pairs & np.isfinite(lost)).any() else 0.0
    unlikely = gammainc(0.5 * np.maximum(parameters, 1.0)[:, None], lost) < CHANCE
    return not_by_chance(groups, pairs & unlikely & (lost * LESS_ALIKE <= usual))


def not_by_chance(groups: Sequence[Group], alike: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The pairs whose data could not as well be equal by chance, as a few whole numbers can."""
    sums = np.concatenate([totals_of(group) / group.voting[:, None] for group in groups], axis=1)
    certain = [bool(alike[site].any()) and no_chance(sums[site]) for site in range(len(alike))]
    return np.asarray(alike & np.array(certain)[:, None])


def earlier(groups: Sequence[Group]) -> NDArray[np.bool_]:
    """(sites, sites): whether the second comes first, for sites with data; sites without come last."""
    return np.tril(np.broadcast_to(known_parameters(groups)[:, None] > 0.0, (groups[0].sites,) * 2), -1)


def known_parameters(groups: Sequence[Group]) -> Array:
    """Per site: the parameters of all components that it knows."""
    return np.asarray(sum(np.bincount(one.site, one.parameters * one.known, one.sites) for one in groups))


def site_losses(group: Group) -> Array:
    """(sites, sites): nats lost by the components of one site next to another's; infinite if not compared."""
    candidates = group.likeness.candidates
    distances = np.full((group.sites, group.sites), np.inf)
    for site in np.unique(group.site[candidates]).tolist():
        nearest = group.likeness.lost[:, group.site[candidates] == site].min(axis=1)
        distances[:, site] = np.bincount(group.site, np.where(group.known, nearest, 0.0), group.sites)
    return distances


def same_profiles(group: Group) -> Array:
    """(sites, sites): whether two sites have the same sum of components per observation."""
    evidence = np.maximum(np.bincount(group.site, group.evidence, group.sites), LITTLE)
    profiles = totals_of(group) / evidence[:, None]
    apart = np.array([np.abs(profiles - profile).max(axis=1) for profile in profiles])
    return np.asarray(apart <= SAME * np.abs(profiles).max(axis=1))


def totals_of(group: Group) -> Array:
    """(sites, columns): the sums of each site's components."""
    return np.concatenate(group.sums(group.site, np.ones(len(group.site)), group.sites)[0], axis=1)
