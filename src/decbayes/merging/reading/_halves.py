"""Comparisons of sites where the model does not hold: as wide as random halves of the sites' own rows are apart.

Where tails are heavy, columns are correlated or rows depend on each other, random parts of one table are further apart
than the model expects, and p-values would be too small. Each site states how far random halves of its own rows are
apart (`Posterior.halves`). Differences between sites are not part of that. With w_s the values of all sites, relative
to what the model expects, m their mean and v their variance, equal sites are m times as far apart, at least once, which
is known as from 2 N m² / v degrees of freedom, and 1 + v / m² multiplies the variance of the statistic: sites that
vary more have more of it. A site counts for at most `MOST` times the median: a faulty one would hide differences.

    components      one value per half: how far its fit is from that of all rows. They are computed from the same rows,
                    so w_s is their mean; of v / m², what exceeds its expectation by chance multiplies the variance
    coefficients    of all together, tr W / D with W = P⁻¹ Σ_n u_n u_nᵀ, where P is the information of the rows and u_n
                    their scores; D tr W² / (tr W)², which shows how unequal directions are; and, for each,
                    Σ_n u_nj² / P_jj, or 0 where it is not known
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from decbayes.families import Array
from decbayes.merging.reading._heterogeneity import KNOWN, Chance, Chances
from decbayes.posterior import Posterior

# Random halves of the rows whose fits are compared: further values of a site do not count.
HALVES = 3
# The largest value of a site that counts, relative to the median.
MOST = 4.0
TINY = 1e-100


class Pooled(NamedTuple):
    """The mean of stated values, at least 1; their variance relative to its square; and degrees of freedom."""

    times: Array
    variance: Array
    degrees: Array

    @classmethod
    def of(cls, values: Array, least: float = 0.0) -> "Pooled":
        """Of each column; NaN is not known. `least` is the least relative variance that values have."""
        count = np.maximum(np.isfinite(values).sum(axis=0), 1)
        known = np.where(np.isfinite(values).any(axis=0), values, 1.0)
        capped = np.minimum(known, MOST * np.nanmedian(known, axis=0))
        mean = np.maximum(np.nanmean(capped, axis=0), TINY)
        variance = np.maximum(np.nanvar(capped, axis=0) * count / np.maximum(count - 1, 1) / mean**2, least)
        return cls(np.maximum(mean, 1.0), variance, 2.0 * count / np.maximum(variance, 1.0 / KNOWN))


def widened(chance: Chance, posteriors: Sequence[Posterior], freedom: float) -> Chance:
    """The spread of equal sites' components by chance; of one site it has this many degrees of freedom."""
    stated = np.array([[np.mean(one.halves[:HALVES])] for one in posteriors if one.halves])
    known = chance.mean[np.isfinite(chance.mean)]
    if not len(stated) or not len(known) or not freedom > 0.0:
        return chance
    by_chance = 2.0 / (HALVES * freedom)
    pooled = Pooled.of(stated / known.mean(), least=by_chance)
    return chance.widened(pooled.times[0], 1.0 + pooled.variance[0] - by_chance, pooled.degrees[0])


def widened_each(chances: Chances, posteriors: Sequence[Posterior]) -> Chances:
    """The same for coefficients, all together and each by itself."""
    width = chances.each.shape.shape[1] + 2
    stated = [one.halves for one in posteriors if len(one.halves) == width]
    if not stated:
        return chances
    values = np.array(stated)
    pooled = Pooled.of(np.where(values > 0.0, values, np.nan))
    times, variance, degrees = (part[2:] for part in pooled)
    unequal = np.clip(np.median(values[:, 1]), 1.0, width - 2)
    joint = chances.joint.widened(pooled.times[0], unequal * (1.0 + pooled.variance[0]), pooled.degrees[0])
    return Chances(joint, chances.each.widened(times, 1.0 + variance, degrees), times / pooled.times[0])
