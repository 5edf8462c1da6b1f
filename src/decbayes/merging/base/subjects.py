"""Sites on different subjects, by frequent words: which slots they really share, and whether these are too few.

By disclosure rules, rare words share their counts, so that these tell nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import xlogy

from decbayes.families import Array, Contribution
from decbayes.families.matrices import Indices, is_sparse
from decbayes.merging.base.components import LEAST_EVIDENCE, group_evidence
from decbayes.posterior import Posterior
from decbayes.remarks import FUSED, Remark, listed
from decbayes.structure import CoupledSet

# Words with fewer counts at a site may share them with others, so that they tell nothing.
FREQUENT = 5.0
# Two sites are compared by words that one of them has and the other would have this often if its texts were the same.
EXPECTED = 20.0
# Texts are on different subjects if the affinity of their frequent words is smaller; between random parts of one corpus
# it is seldom below 0.7.
SUBJECT = 0.5
# How much of the information of topics about words shows in new texts, and what each estimated frequency costs, in
# nats: they fit held-out scores of simulated sites and of four kinds of real texts.
SHOWN, COST = 0.5, 5.0
# Warn from this gain on, in nats per word.
CLEAR = 0.1


# A site hides nothing among fewer words than SEVERAL. Ratios that differ by less than EQUAL are equal.
SEVERAL, EQUAL = 3, 1e-9


@dataclass(frozen=True)
class CommonWords:
    """Counts of the words that are frequent at a site (sites, words), and the number of all its words."""

    counts: Array
    sizes: Array

    @classmethod
    def of(cls, posteriors: Sequence[Posterior], coupled: CoupledSet) -> "CommonWords":
        totals = word_counts(posteriors, coupled)
        name = topic_factor(posteriors[0], coupled)
        hidden = np.array([shared_out(csr_array(posterior.contribution[name])) for posterior in posteriors])
        return cls(np.where((totals >= FREQUENT) & ~hidden, totals, 0.0), totals.sum(axis=1))

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


@dataclass(frozen=True)
class Subjects:
    """The sites' topics, undivided, in this number of slots."""

    posteriors: Sequence[Posterior]
    slots: Sequence[Indices]
    count: int
    coupled: CoupledSet

    @cached_property
    def words(self) -> CommonWords:
        return CommonWords.of(self.posteriors, self.coupled)

    @cached_property
    def groups(self) -> list[list[int]]:
        """The sites on each subject; those without frequent words are in no group."""
        return self.words.groups(SUBJECT)

    @cached_property
    def in_slots(self) -> Array:
        """(sites, slots): evidence."""
        counts = (group_evidence(posterior, self.coupled.factors) for posterior in self.posteriors)
        return np.array([np.bincount(*pair, self.count) for pair in zip(self.slots, counts, strict=True)])

    @cached_property
    def evidence(self) -> Array:
        """(sites, kinds): evidence in slots. Slots of sites on different subjects are several kinds if these differ."""
        if len(self.groups) < 2:
            return self.in_slots
        kinds = [kind for slot in range(self.count) for kind in self._kinds(slot, self.in_slots[:, slot])]
        return np.stack(kinds, axis=1)

    def _kinds(self, slot: int, evidence: Array) -> Iterator[Array]:
        """The evidence in a slot, apart for sites whose versions of it have different words."""
        filled = np.flatnonzero(evidence >= LEAST_EVIDENCE)
        versions = [self._sums[site][[slot]].toarray()[0] for site in filled]
        for group in CommonWords(np.array(versions), evidence[filled]).groups(SUBJECT) if versions else ():
            yield np.where(np.isin(np.arange(len(evidence)), filled[group]), evidence, 0.0)

    @cached_property
    def _topics(self) -> list[csr_array]:
        """Per site, (topics, words): counts of words that are frequent there."""
        factor = topic_factor(self.posteriors[0], self.coupled)
        pairs = zip(self.posteriors, self.words.counts, strict=True)
        parts = (csr_array(posterior.contribution[factor]).multiply(counts > 0.0) for posterior, counts in pairs)
        return [csr_array(part.maximum(0.0)) for part in parts]

    @cached_property
    def _sums(self) -> list[csr_array]:
        """Per site, (slots, words): the sums of its topics in each slot."""
        pairs = zip(self.slots, self._topics, strict=True)
        return [indicator(labels, self.count) @ topics for labels, topics in pairs]

    def fused(self, names: Sequence[str]) -> Iterator[Remark]:
        """A warning if subjects need more slots together than there are, and sites would gain clearly from that."""
        if len(self.groups) < 2:
            return
        used = [(group_evidence(one, self.coupled.factors) >= LEAST_EVIDENCE).sum() for one in self.posteriors]
        needed = sum(max(used[site] for site in group) for group in self.groups)
        gains = np.array([gain_apart(*pair) for pair in zip(self._topics, self._sums, strict=True)])
        sites = np.flatnonzero(gains > CLEAR).tolist()
        fused = [names[site] for site in sites]
        if fused and needed > self.count:
            most = int(gains.argmax())
            yield Remark(
                FUSED,
                f"Sites are on {len(self.groups)} different subjects, and the topics of {listed(fused)} end in few "
                f"slots: {needed} slots instead of {self.count} would probably predict these texts clearly better.",
                f"Merge with --components {needed}, or merge each subject by itself.",
                f"Estimated gain at {names[most]}: {gains[most]:.1g} nats per word.",
                sites=(*sites,),
            )


def indicator(labels: Indices, count: int) -> csr_array:
    """(slots, components): 1 where a component is in a slot."""
    return csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(count, len(labels)))


def gain_apart(topics: csr_array, sums: csr_array) -> float:
    """How much better a site's topics predict its words than their sums in slots, in nats per word.

    Information about words in the data, less what comes from estimating more frequencies.
    """
    more = information(topics) - information(sums)
    estimated = float((topics.data / (topics.data + 1.0)).sum() - (sums.data / (sums.data + 1.0)).sum())
    return (SHOWN * more - COST * estimated) / max(float(topics.sum()), 1.0)


def information(counts: csr_array) -> float:
    """Σ counts · log frequency in their row."""
    totals = counts.sum(axis=1)
    return float(xlogy(counts.data, counts.data).sum() - xlogy(totals, totals).sum())


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


def shared_out(topics: csr_array) -> NDArray[np.bool_]:
    """The words that keep the same proportions to each other in all topics of a site, as only shared counts do.

    Each word's mean of arbitrary numbers of its topics depends on these proportions alone. One topic tells nothing.
    """
    counts = csr_array(topics).maximum(0.0)
    totals, used = counts.sum(axis=0), np.bincount(counts.indices[counts.data > 0.0], minlength=counts.shape[1])
    known = np.flatnonzero(used > 1)
    means = (np.sqrt(np.arange(1.0, counts.shape[0] + 1.0)) @ counts)[known] / totals[known]
    hidden = np.zeros(len(totals), dtype=np.bool_)
    rounded, sizes = np.unique(np.round(means / EQUAL), return_counts=True)
    if sizes.max(initial=0) >= SEVERAL:
        hidden[known] = np.abs(means / EQUAL - rounded[sizes.argmax()]) <= 1.0
    return hidden
