"""Comparisons of sites where the model does not hold: as wide as random halves of the sites' own rows are apart.

Where tails are heavy, columns are correlated or rows depend on each other, random parts of one table are further apart
than the model expects, and p-values would be too small. Each site states how far random halves of its own rows are
apart (`Posterior.halves`). Differences between sites are not part of that. With w_s the values of all sites, relative
to what the model expects, m their mean and v their variance, equal sites are m times as far apart, at least once, which
is known as from 2 N m² / v degrees of freedom, and 1 + v / m² multiplies the variance of the statistic: sites that
vary more have more of it. A site counts for at most `MOST` times the median: a faulty one would hide differences.

    components      how far fits of halves are from that of all rows, and how far they are in rows drawn from that fit:
                    fits of few rows end in other places even if the model holds. m is the ratio of the means over
                    sites. A slot's statistic adds up S sites, and varies by v / m² / (S − 1) more
    coefficients    of all together, tr W / D with W = P⁻¹ Σ_n u_n u_nᵀ, where P is the information of the rows and u_n
                    their scores; D tr W² / (tr W)², which shows how unequal directions are; and, for each,
                    Σ_n u_nj² / P_jj, or 0 where it is not known
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from decbayes.families import Array
from decbayes.merging.reading._coefficients import KNOWN, Chances
from decbayes.merging.reading._heterogeneity import Chance
from decbayes.posterior import Posterior

# Halves of a site with components: as many as add up to ENOUGH degrees of freedom. With fewer, small differences are
# missed where the model holds.
FEWEST_HALVES, MOST_HALVES, ENOUGH = 3, 8, 150.0
# The largest value of a site, or of a half of its rows, that counts, relative to the median.
MOST = 4.0
TINY = 1e-100
# Values of a site with components: those of its rows, and those of rows drawn from its fit.
OF_FITS = 2


def number_of_halves(freedom: float) -> int:
    """How many halves of a site's rows are fitted, if it has so many degrees of freedom."""
    return int(np.clip(np.ceil(ENOUGH / max(freedom, 1.0)), FEWEST_HALVES, MOST_HALVES))


def capped(values: Array) -> Array:
    """Values that count: of each column, none of them far more than the median."""
    return np.asarray(np.minimum(values, MOST * np.nanmedian(values, axis=0)))


class Pooled(NamedTuple):
    """The mean of stated values; their variance relative to its square; and degrees of freedom."""

    mean: Array
    variance: Array
    degrees: Array

    @classmethod
    def of(cls, values: Array, least: float = 0.0) -> "Pooled":
        """Of each column; NaN is not known. `least` is the least relative variance that values have."""
        count = np.maximum(np.isfinite(values).sum(axis=0), 1)
        known = np.where(np.isfinite(values).any(axis=0), values, 1.0)
        counted = capped(known)
        mean = np.maximum(np.nanmean(counted, axis=0), TINY)
        variance = np.maximum(np.nanvar(counted, axis=0) * count / np.maximum(count - 1, 1) / mean**2, least)
        return cls(mean, variance, 2.0 * count / np.maximum(variance, 1.0 / KNOWN))

    @property
    def times(self) -> Array:
        return np.maximum(self.mean, 1.0)


def widened(chance: Chance, posteriors: Sequence[Posterior], freedom: float) -> Chance:
    """The spread of equal sites' components by chance; of one site it has this many degrees of freedom."""
    stated = np.array([one.halves for one in posteriors if len(one.halves) == OF_FITS and one.halves[1] > 0.0])
    if not len(stated) or not freedom > 0.0:
        return chance
    by_chance = 2.0 / (number_of_halves(freedom) * freedom)
    pooled = Pooled.of(stated, least=by_chance)
    (times, expected), unequal = pooled.mean, pooled.variance[0] - by_chance
    variance = 1.0 + unequal + unequal * chance.shape / max(len(posteriors) - 1, 1)
    return chance.widened(max(times / expected, 1.0), variance, 1.0 / (1.0 / pooled.degrees).sum())


def widened_each(chances: Chances, posteriors: Sequence[Posterior]) -> Chances:
    """The same for coefficients, all together and each by itself."""
    width = chances.each.shape.shape[1] + 2
    stated = [one.halves for one in posteriors if len(one.halves) == width]
    if not stated:
        return chances
    values = np.array(stated)
    pooled = Pooled.of(np.where(values > 0.0, values, np.nan))
    times, variance, degrees = (part[2:] for part in (pooled.times, pooled.variance, pooled.degrees))
    unequal = np.clip(np.median(values[:, 1]), 1.0, width - 2)
    joint = chances.joint.widened(pooled.times[0], unequal * (1.0 + pooled.variance[0]), pooled.degrees[0])
    return Chances(joint, chances.each.widened(times, 1.0 + variance, degrees), times / pooled.times[0])
