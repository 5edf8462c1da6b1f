"""Each site's influence on a merge, and its disagreement with all others: reported only, nothing is excluded."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array, dense
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import group_evidence, groups_of, log_bayes_factors
from decbayes.posterior import Posterior

# In nats: log Bayes factors below this are hardly chance, even with many sites and slots.
DISAGREES = -10.0
# A site is flagged if this share of its evidence disagrees, and if that is this much more than usual among the sites.
MUCH, UNUSUAL = 0.1, 5.0
# Honest sites are seldom more than this many times larger than the median site.
LARGE = 5.0
# The number of sites needed to know what is usual.
FEW = 4


@dataclass(frozen=True)
class Influence:
    """Each site's influence on a merge, and how far it disagrees with all others.

    Slots are those of all coupled sets, one after another, then the rows of factors that belong to none.

    Attributes:
        evidence: sites × slots, the number of observations of each site.
        log_bayes_factor: sites × slots, the log Bayes factor for "this site's version and the others' are the same"; 0
            if one of them has no data.

    >>> found = db.merging.Influence(evidence=np.array([[90.0], [10.0]]), log_bayes_factor=np.array([[-40.0], [-40.0]]))
    >>> found.share
    array([0.9, 0.1])
    >>> found.flags(0)
    ('disagrees with the others in 100% of its evidence',)
    """

    evidence: Array
    log_bayes_factor: Array

    @cached_property
    def share(self) -> Array:
        """Each site's share of all evidence."""
        evidence = self.evidence.sum(axis=1)
        return per_observation(evidence, np.full(len(evidence), evidence.sum()))

    @cached_property
    def apart(self) -> Array:
        """The share of each site's evidence that contradicts the other sites."""
        evidence = self.evidence.sum(axis=1)
        against = np.where(self.log_bayes_factor < DISAGREES, self.evidence, 0.0).sum(axis=1)
        return per_observation(against, evidence)

    @cached_property
    def against(self) -> Array:
        """The strength of each site's contradiction to the other sites, in nats per observation."""
        evidence = self.evidence.sum(axis=1)
        nats = np.maximum(-self.log_bayes_factor, 0.0).sum(axis=1)
        return per_observation(nats, evidence)

    @cached_property
    def times_median(self) -> Array:
        """Each site's evidence in units of the median site's; sites without evidence are no part of the median."""
        evidence = self.evidence.sum(axis=1)
        filled = evidence[evidence > 0]
        return np.asarray(evidence / (np.median(filled) if len(filled) else 1.0))

    @cached_property
    def large(self) -> NDArray[np.bool_]:
        """Sites with several times the evidence of the median site."""
        enough = (self.times_median > 0).sum() >= FEW
        return np.asarray(self.times_median > (LARGE if enough else np.inf))

    @cached_property
    def disagreeing(self) -> NDArray[np.bool_]:
        """Sites that disagree with the others, and more so than usual among the sites.

        Such a site may be the one that is right, or one with different data.
        """
        much = self.apart > MUCH
        usual = self.against[self.evidence.sum(axis=1) > 0]
        if len(usual) < FEW:
            return much
        middle = np.median(usual)
        return np.asarray(much & (self.against > middle + UNUSUAL * np.median(np.abs(usual - middle))))

    def flags(self, site: int) -> tuple[str, ...]:
        """The flags of a site, in a few words."""
        texts = {
            f"has {self.share[site]:.0%} of all evidence": self.large[site],
            f"disagrees with the others in {self.apart[site]:.0%} of its evidence": self.disagreeing[site],
        }
        return tuple(text for text, holds in texts.items() if holds)


def per_observation(amounts: Array, observations: Array) -> Array:
    """Amounts per observation, 0 without observations."""
    return np.asarray(np.divide(amounts, observations, out=np.zeros(len(amounts)), where=observations > 0))


def influence(alignment: Alignment) -> Influence:
    """Each site's influence on a merge, and how far it disagrees with all others. Nothing is excluded.

    Args:
        alignment: what `align` returns.

    >>> model = db.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> sites = [model.fit(np.full((20, 1), mean)).posterior for mean in (0.0, 0.1, -0.1, 0.05, 6.0)]
    >>> db.merging.influence(db.align(sites)).disagreeing
    array([False, False, False, False,  True])
    """
    structure, total = alignment.structure, alignment.merged()
    evidence, factors = [], []
    for site in range(len(alignment.posteriors)):
        posterior = alignment.in_slots(site)
        evidence.append(np.concatenate([group_evidence(posterior, names) for names in groups_of(structure)]))
        factors.append(np.concatenate([group_factor(posterior, total, names) for names in groups_of(structure)]))
    return Influence(np.array(evidence), np.array(factors))


def group_factor(posterior: Posterior, total: Posterior, names: Sequence[str]) -> Array:
    """The log Bayes factor of each row; weights of components do not describe the components."""
    families, structure = posterior.structure.families, posterior.structure
    used = [name for name in names if not families[name].over_components] or [*names]
    contribution = {name: dense(posterior.contribution[name]) for name in used}
    rest = {name: dense(total.contribution[name]) - contribution[name] for name in used}
    factors = [
        log_bayes_factors(families[name], structure.prior[name], contribution[name], rest[name]) for name in used
    ]
    return np.asarray(np.sum(factors, axis=0))
