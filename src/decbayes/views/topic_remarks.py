"""What to know about merged topics before relying on them: which to look at, and how to improve them.

`benchmarks/topic_quality.py` measures the gain from rounds and wide fits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from scipy.special import rel_entr

from decbayes.families import Array
from decbayes.merging import Alignment
from decbayes.merging.alignment import MOST_LOOKED_AT
from decbayes.merging.base.components import LEAST_EVIDENCE
from decbayes.merging.base.coupled import in_memory
from decbayes.merging.base.subjects import SUBJECT, CommonWords, shared_out, word_affinity, word_counts
from decbayes.merging.grouping.elsewhere import gain_elsewhere
from decbayes.merging.placing import OF_ROUND
from decbayes.models.topics.fit_remarks import EVEN_WORDS, FUNCTION_WORDS, LEAST, ONE_IN, topics_of_few
from decbayes.models.topics.quality import FACTOR, Quality
from decbayes.remarks import Remark, listed

TOP = 10
# In topics that mostly read badly, three ranks from 0 to 1 add up to more than this.
MIXED = 2.2
# A site that counts a word less often tells nothing about it.
LEAST_TIMES = 0.5
# The least gain from twice the slots to report, in nats per word.
WORTH_SAYING = 0.03
# Two sites' documents are alike if Σ √(p q) of their word frequencies is larger.
ALIKE = 0.85
# A round is advised, and a topic may be worth a look, from this mean KL divergence between sites' topics and merged
# ones, in nats per word.
BLURRED = 0.1
# From this share of a topic on, a site's remark about its own topic applies to the merged one.
MOSTLY = 0.5
# Fewest topics of a site, and of a merge, for these to be told apart; and the share of a site's words that is worth
# mentioning if it is shared out.
SEVERAL, HIDDEN = 4, 0.1
ITS_DOCUMENTS = "`decbayes prevalence` on their documents says which topics they have."
ONE_TO_ONE = " Compare with a merge with --solver matching, which keeps a site's topics apart."


@dataclass(frozen=True)
class MergedTopics:
    """The topics of a merge, and the sites' contributions to them."""

    alignment: Alignment
    names: Sequence[str]

    @cached_property
    def quality(self) -> Quality:
        return Quality(self.alignment.merged(), TOP)

    @cached_property
    def sources(self) -> list[csr_array]:
        """Counts of each site (topics, words), in the site's numbering of topics."""
        return [csr_array(posterior.contribution[FACTOR]) for posterior in self.alignment.posteriors]

    def remarks(self) -> Iterator[Remark]:
        """All remarks; none for many sites, because they would take longer than the merge."""
        quick = 1 < len(self.names) <= MOST_LOOKED_AT and in_memory(self.alignment.posteriors)
        if not quick or not self.alignment.structure.symmetry:
            return
        if not self.refined:
            yield from self.in_one_topic()
        yield from self.function_words()
        yield from self.to_look_at()
        yield from self.few_documents()
        if not self.refined:
            yield from self.more_slots()
            yield from self.further_gain()

    @property
    def refined(self) -> bool:
        """Whether these are posteriors of a round, which already share slots."""
        return self.alignment.reason.startswith(OF_ROUND)

    @property
    def narrow(self) -> bool:
        """Whether no site has more topics than there are slots."""
        sites = self.alignment.posteriors
        return bool(max(len(site.structure.prior[FACTOR]) for site in sites) <= len(self.quality.shares))

    def function_words(self) -> Iterator[Remark]:
        """What fits have said about their topics' first words, if enough of them have."""
        remarks = [remark for site in self.alignment.posteriors for remark in site.remarks]
        said = [remark for remark in remarks if remark.kind == FUNCTION_WORDS]
        if said and ONE_IN * len(said) >= len(self.names):
            what = f"At {len(said)} of {len(self.names)} sites, topics begin with {EVEN_WORDS}."
            yield replace(said[0], what=what)

    def in_one_topic(self) -> Iterator[Remark]:
        """Sites with several topics that are mostly in one slot: slots do not say which topics these sites have.

        Words that share their counts make all topics of a site alike, and small sites have many such words.
        """
        places, topics, hidden = list[int](), set[int](), list[float]()
        for place, (source, assignment) in enumerate(zip(self.sources, self.alignment.assignments, strict=True)):
            (slots,), counts = assignment.values(), np.ravel(source.maximum(0.0).sum(axis=1))
            topic = int(np.bincount(slots, counts).argmax())
            inside = (slots == topic) & (counts >= LEAST_EVIDENCE)
            if inside.sum() >= SEVERAL and counts[inside].sum() > MOSTLY * counts.sum():
                places.append(place)
                topics.add(topic)
                hidden.append(float(source[:, np.flatnonzero(shared_out(source))].sum() / counts.sum()))
        if places and len(self.quality.used) >= SEVERAL:
            named = listed([f"{topic} ({self.quality.names[topic]})" for topic in sorted(topics)])
            least, most = f"{min(hidden):.0%}", f"{max(hidden):.0%}"
            yield Remark(
                "topics not told apart",
                f"Most of what {listed([self.names[place] for place in places])} found is in topic"
                f"{'s' if len(topics) > 1 else ''} {named}: the merge cannot tell their topics apart. They may also "
                "have topics for which it names only other sites.",
                ITS_DOCUMENTS + (ONE_TO_ONE if self.narrow else ""),
                f"Words in few documents share their counts: {least if least == most else f'{least} to {most}'} of all "
                "words there."
                if max(hidden) >= HIDDEN
                else "",
                "note",
                (*places,),
            )

    def to_look_at(self) -> Iterator[Remark]:
        """Topics that differ from their sources, and whose leading words are in different topics at the sites."""
        used = self.quality.used
        if len(used) < 4:
            return
        worst = used[self.mixed(self.doubts())]
        if len(worst):
            named = "; ".join(f"{topic} ({self.quality.names[topic]})" for topic in worst.tolist())
            yield Remark(
                "mixed topics",
                f"Worth a look: topics {named}." if len(worst) > 1 else f"Worth a look: topic {named}.",
                "Read their words: `decbayes split` divides a topic, `decbayes drop` removes it, a round may help.",
                "The sites' topics merged there differ from the result, and sites have its leading words in different "
                "topics.",
                "note",
            )

    def few_documents(self) -> Iterator[Remark]:
        """Topics that come mostly from site topics with half of their words from a few documents."""
        of_few = np.zeros((len(self.names), len(self.quality.shares)))
        for place, (source, assignment) in enumerate(zip(self.sources, self.alignment.assignments, strict=True)):
            (slots,) = assignment.values()
            topics = topics_of_few(self.alignment.posteriors[place].remarks)
            for topic in (topic for topic in topics if topic < len(slots)):
                of_few[place, slots[topic]] += source[[topic]].sum()
        counts = of_few.sum(axis=0)
        few = np.flatnonzero((counts >= 1.0) & (counts > MOSTLY * self.quality.learned))
        if len(few):
            sites = [self.names[place] for place in np.flatnonzero(of_few[:, few].any(axis=1)).tolist()]
            named = "; ".join(f"{topic} ({self.quality.names[topic]})" for topic in few.tolist())
            yield Remark(
                "few documents",
                f"Topic{'s' if len(few) > 1 else ''} {named} come{'' if len(few) > 1 else 's'} mostly from topics with "
                f"half of their words from fewer than {LEAST} documents, at {listed(sorted(sites))}.",
                "Look at the longest documents there. If one is odd, such as a list, leave it out and fit again.",
                "Other documents may be about the same.",
                "note",
            )

    def doubts(self) -> Array:
        """For each used topic, the sum of three ranks: mixed sources, and leading words that are seldom together."""
        used = self.quality.used
        at_sites, overall = zip(*(self.together(topic) for topic in used.tolist()), strict=True)
        measured = self.apart[used], -np.array(at_sites), -np.array(overall)
        return np.asarray(sum(ranks(values) for values in measured) / max(len(used) - 1, 1))

    def mixed(self, doubts: Array) -> NDArray[np.bool_]:
        """Which of the used topics are doubted. Ranks order topics also where all are like their sources."""
        return np.asarray((doubts > MIXED) & (self.apart[self.quality.used] >= BLURRED))

    def together(self, topic: int) -> tuple[float, float]:
        """How far sites have the leading words of a topic in the same topics.

        The mean cosine of p(topic | word) over pairs of words, per site, weighted by occurrences; and the mean NPMI of
        pairs if the topics of all sites were documents.
        """
        places = np.searchsorted(self.leading[0], self.quality.columns[topic])
        parts = [block[:, places] for block in self.leading[1]]
        pairs, cosines, weights = np.triu_indices(len(places), 1), [], []
        for part in parts:
            known = part[:, part.sum(axis=0) >= LEAST_TIMES]
            if known.shape[1] > 1:
                unit = known / np.linalg.norm(known, axis=0)
                cosines.append((unit.T @ unit)[np.triu_indices(known.shape[1], 1)].mean())
                weights.append(known.sum())
        counts, evidence = np.vstack(parts), self.evidence
        joint = counts.T @ (counts / np.maximum(evidence, LEAST_EVIDENCE)[:, None]) / evidence.sum()
        single = counts.sum(axis=0) / evidence.sum()
        shared = np.maximum(joint[pairs], np.finfo(float).tiny)
        npmi = np.log(shared / np.outer(single, single)[pairs]) / -np.log(shared)
        return float(np.average(cosines, weights=weights)) if cosines else 0.0, float(npmi.mean())

    @cached_property
    def leading(self) -> tuple[NDArray[np.intp], list[Array]]:
        """The leading words of all topics, and how often they occur in each site's topics."""
        words = np.unique(self.quality.columns)
        return words, [np.maximum(source[:, words].toarray(), 0.0) for source in self.sources]

    @cached_property
    def evidence(self) -> Array:
        """The counts of all sites' topics, one site after another."""
        return np.concatenate([np.ravel(source.maximum(0.0).sum(axis=1)) for source in self.sources])

    @cached_property
    def apart(self) -> Array:
        """The mean KL divergence of the sites' topics in each slot from the merge, weighted by evidence."""
        shares = self.quality.shares
        total, weight = np.zeros(len(shares)), np.zeros(len(shares))
        for source, assignment in zip(self.sources, self.alignment.assignments, strict=True):
            evidence = np.asarray(source.sum(axis=1)).ravel()
            (slots,) = assignment.values()
            for topic in np.flatnonzero(evidence >= 1.0).tolist():
                row, slot = slice(*source.indptr[topic : topic + 2]), slots[topic]
                version = np.maximum(source.data[row], 0.0) / evidence[topic]
                total[slot] += evidence[topic] * rel_entr(version, shares[slot, source.indices[row]]).sum()
                weight[slot] += evidence[topic]
        return np.asarray(total / np.maximum(weight, LEAST_EVIDENCE))

    def more_slots(self) -> Iterator[Remark]:
        """The gain from twice the slots, each divided so that its components differ most, if sites are alike enough."""
        slots = len(self.quality.shares)
        ((coupled, shared),) = self.alignment.shared().items()
        labels = np.concatenate(self.alignment.slots(coupled))
        words = CommonWords.of(self.alignment.posteriors, coupled)
        # On different subjects sites gain far more than that (see `Subjects.fused`).
        if len(labels) < 2 * slots or not self.alignment.structure.resizable or len(words.groups(SUBJECT)) > 1:
            return
        # Sites are left out in turn in an order that does not depend on that of the files.
        rows, place = csr_array(vstack(self.sources)), np.argsort(self.alignment.order)
        site = np.repeat(place, shared.sizes)
        prior = self.alignment.structure.prior[FACTOR][0]
        gain = gain_elsewhere(rows, site, prior, (labels, slots), (2 * labels + shared.halves, 2 * slots))
        if gain >= WORTH_SAYING:
            yield Remark(
                "more slots",
                f"{2 * slots} slots instead of {slots} may predict better, by about {gain:.2f} nats per word, "
                "and by more if sites have different topics.",
                f"Merge with --components {2 * slots}; `decbayes validate --cuts` finds the number on held-back data.",
                "Estimated from how much better they describe the topics of sites that did not shape them.",
                "note",
            )

    def further_gain(self) -> Iterator[Remark]:
        """A round gains most if sites' topics differ from the merged ones; wide fits help if documents are alike."""
        evidence = self.quality.learned
        if float(self.apart @ evidence) < BLURRED * float(evidence.sum()):
            return
        (coupled,) = self.alignment.structure.symmetry
        pairs = word_affinity(word_counts(self.alignment.posteriors, coupled))[np.triu_indices(len(self.names), 1)]
        alike = bool(pairs.min() >= ALIKE)
        slots = len(self.quality.shares)
        into = "" if self.narrow else f" --components {slots}"
        alike_sites = f"The sites' documents are alike: before that, fit {2 * slots} topics at each site"
        wide = f" {alike_sites}, and give --components {slots} in the round." if alike and self.narrow else ""
        yield Remark(
            "one round",
            "One round of refinement usually makes merged topics more distinct and better at predicting.",
            f"`decbayes refine DATA --folder shared{into}`, once per site.{wide}",
            "The sites' topics differ from the merged ones.",
            "note",
        )


def ranks(values: Array) -> NDArray[np.intp]:
    """The rank of each value, 0 for the smallest."""
    return np.argsort(np.argsort(values, kind="stable"), kind="stable")
