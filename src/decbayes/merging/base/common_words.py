"""Which sites count the same words, from words that are frequent: by disclosure rules, rare ones share their counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from decbayes.families import Array, Contribution
from decbayes.families.matrices import is_sparse
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet

# Words with fewer counts at a site may share them with others, so that they tell nothing. Where more than SEVERAL words
# have exactly the lowest count, words with less than this many TIMES as much may share theirs as well.
FREQUENT, SEVERAL, TIMES = 5.0, 2, 2.0
# Two sites are compared by words that one of them has and the other would have this often if its texts were the same.
EXPECTED = 20.0


@dataclass(frozen=True)
class CommonWords:
    """Counts of the words that are frequent at a site (sites, words), and the number of all its words."""

    counts: Array
    sizes: Array

    @classmethod
    def of(cls, posteriors: Sequence[Posterior], coupled: CoupledSet) -> "CommonWords":
        totals = word_counts(posteriors, coupled)
        lowest = totals.min(axis=1, keepdims=True)
        shared_out = (totals <= lowest).sum(axis=1, keepdims=True) > SEVERAL
        limit = np.where(shared_out, np.maximum(FREQUENT, TIMES * lowest), FREQUENT)
        return cls(np.where(totals >= limit, totals, 0.0), totals.sum(axis=1))

    @cached_property
    def known(self) -> list[int]:
        """The sites that have frequent words, largest first."""
        order = np.argsort(-self.sizes, kind="stable").tolist()
        return [site for site in order if self.counts[site].any()]

    def affinities(self, site: int) -> Array:
        """Σ √(p q) of a site's word frequencies and each other's, over words that tell; 1 if there are none."""
        if site not in self._compared:
            self._compared[site] = self._affinities(site)
        return self._compared[site]

    @cached_property
    def _compared(self) -> dict[int, Array]:
        return {}

    def _affinities(self, site: int) -> Array:
        ratio = np.divide(self.sizes, self.sizes[site], out=np.zeros(len(self.sizes)), where=self.sizes > 0.0)[:, None]
        telling = np.maximum(self.counts[site] * ratio, self.counts / np.maximum(ratio, 1e-9)) >= EXPECTED
        first, second = np.where(telling, self.counts[site], 0.0), np.where(telling, self.counts, 0.0)
        norms = np.sqrt(first.sum(axis=1) * second.sum(axis=1))
        common = np.sqrt(first * second).sum(axis=1)
        return np.where(telling.any(axis=1), common / np.maximum(norms, FREQUENT), 1.0)

    def joined(self, groups: Sequence[Sequence[int]], least: float) -> list[list[int]]:
        """Groups of sites, joined if two of their sites have an affinity of at least `least`."""
        left, joined = [list(group) for group in sorted(groups, key=len, reverse=True)], []
        while left:
            group, place = left.pop(0), 0
            while left and place < len(group):
                near = self.affinities(group[place]) >= least
                group += [site for other in left if near[other].any() for site in other]
                left = [other for other in left if not near[other].any()]
                place += 1
            joined.append(sorted(group))
        return joined

    def groups(self, least: float) -> list[list[int]]:
        """Groups of sites whose affinity is at least `least`, directly or by way of others."""
        return self.joined([[site] for site in self.known], least)


def topic_factor(posterior: Posterior, coupled: CoupledSet) -> str:
    families = posterior.structure.families
    return next(name for name in coupled.factors if not families[name].over_components)


def word_counts(posteriors: Sequence[Posterior], coupled: CoupledSet) -> Array:
    """(sites, words): how often each site counts each word."""
    name = topic_factor(posteriors[0], coupled)
    return np.maximum([column_sums(posterior.contribution[name]) for posterior in posteriors], 0.0)


def word_affinity(counts: Array) -> Array:
    """(sites, sites): Σ_w √(p_w q_w) of the sites' word frequencies."""
    roots = np.sqrt(counts / np.maximum(counts.sum(axis=1, keepdims=True), 0.5))
    return np.asarray(roots @ roots.T)


def column_sums(part: Contribution) -> Array:
    sums = np.bincount(part.indices, part.data, minlength=part.shape[1]) if is_sparse(part) else part.sum(axis=0)
    return np.asarray(sums)
