"""Who has how much to do with a merge, and who disagrees with all others: nothing is decided here, people are told."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array, dense
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import group_evidence, groups_of, log_bayes_factors
from decbayes.posterior import Posterior

# In nats: less than this is hardly chance, though sites are many and slots more.
DISAGREES = -10.0
# A site stands out if so much of its evidence disagrees, and if that is so much more than is usual among the sites.
MUCH, UNUSUAL = 0.1, 5.0
# Honest sites are seldom so many times larger than the middle one.
LARGE = 5.0
# What is usual can be told from so many sites on.
FEW = 4


@dataclass(frozen=True)
class Influence:
    """Each site's influence on a merge, and how far it disagrees with all others.

    Slots are those of all coupled sets, one after another, then the rows of factors that belong to none.

    Attributes:
        evidence: sites × slots, how many observations each has put there.
        log_bayes_factor: sites × slots, the log Bayes factor for "this site's version and the others' are the same
            thing"; 0 where one of them says nothing.

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
        """The share of all evidence that is each site's."""
        own = self.evidence.sum(axis=1)
        return per_observation(own, np.full(len(own), own.sum()))

    @cached_property
    def apart(self) -> Array:
        """The share of each site's own evidence that speaks against everybody else's."""
        own = self.evidence.sum(axis=1)
        against = np.where(self.log_bayes_factor < DISAGREES, self.evidence, 0.0).sum(axis=1)
        return per_observation(against, own)

    @cached_property
    def against(self) -> Array:
        """Nats per observation that each site's evidence speaks against everybody else's."""
        own = self.evidence.sum(axis=1)
        nats = np.maximum(-self.log_bayes_factor, 0.0).sum(axis=1)
        return per_observation(nats, own)

    @cached_property
    def large(self) -> NDArray[np.bool_]:
        """Whose evidence is several times that of the middle site."""
        own = self.evidence.sum(axis=1)
        filled = own[own > 0]
        return np.asarray(own > (LARGE * np.median(filled) if len(filled) >= FEW else np.inf))

    @cached_property
    def disagreeing(self) -> NDArray[np.bool_]:
        """Who says something else than the others, and more so than is usual among the sites.

        It may be the one that is right, or one that has seen other things.
        """
        much = self.apart > MUCH
        told = self.against[self.evidence.sum(axis=1) > 0]
        if len(told) < FEW:
            return much
        middle = np.median(told)
        return np.asarray(much & (self.against > middle + UNUSUAL * np.median(np.abs(told - middle))))

    def flags(self, site: int) -> tuple[str, ...]:
        """What stands out about a site, in a few words."""
        texts = {
            f"has {self.share[site]:.0%} of all evidence": self.large[site],
            f"disagrees with the others in {self.apart[site]:.0%} of its evidence": self.disagreeing[site],
        }
        return tuple(text for text, holds in texts.items() if holds)


def per_observation(amounts: Array, observations: Array) -> Array:
    """Amounts by observations, 0 where there are none."""
    return np.asarray(np.divide(amounts, observations, out=np.zeros(len(amounts)), where=observations > 0))


def influence(alignment: Alignment) -> Influence:
    """Which sites have most to do with a merge, and which disagree with all others. Nothing is left out.

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
        own = alignment.in_slots(site)
        evidence.append(np.concatenate([group_evidence(own, names) for names in groups_of(structure)]))
        factors.append(np.concatenate([group_factor(own, total, names) for names in groups_of(structure)]))
    return Influence(np.array(evidence), np.array(factors))


def group_factor(own: Posterior, total: Posterior, names: Sequence[str]) -> Array:
    """The log Bayes factor of each row; weights of components say nothing about what the components are."""
    families, structure = own.structure.families, own.structure
    told = [name for name in names if not families[name].over_components] or [*names]
    mine = {name: dense(own.contribution[name]) for name in told}
    rest = {name: dense(total.contribution[name]) - mine[name] for name in told}
    factors = [log_bayes_factors(families[name], structure.prior[name], mine[name], rest[name]) for name in told]
    return np.asarray(np.sum(factors, axis=0))
