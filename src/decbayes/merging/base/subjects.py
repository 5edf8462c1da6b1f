"""Sites whose texts are on different subjects: which slots they really share, and whether these are too few."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.special import xlogy

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.base.common_words import CommonWords, topic_factor
from decbayes.merging.base.components import LEAST_EVIDENCE, group_evidence
from decbayes.posterior import Posterior
from decbayes.remarks import FUSED, Remark, listed
from decbayes.structure import CoupledSet

# Texts are on different subjects if the affinity of their frequent words is smaller; between random parts of one corpus
# it is seldom below 0.7.
SUBJECT = 0.5
# How much of the information of topics about words shows in new texts, and what each estimated frequency costs, in
# nats: they fit held-out scores of simulated sites and of four kinds of real texts.
SHOWN, COST = 0.5, 5.0
# Warn from this gain on, in nats per word.
CLEAR = 0.1


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
