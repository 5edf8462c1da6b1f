"""Fits of topics: their starts, the device they run on, and the posterior of their statistics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.base.arguments import generator
from decbayes.families import Array, Dirichlet
from decbayes.families.matrices import stored
from decbayes.models.core.ascent import Ascent, Keep, Watch
from decbayes.models.core.counts import Counts
from decbayes.models.topics._cpu_climb import TopicSearch
from decbayes.models.topics._passes import Fresh, Statistics, Steps, Topics
from decbayes.models.topics.document_prior import SHARES, LearnedPrior, contributions
from decbayes.posterior import Posterior, unchecked

if TYPE_CHECKING:
    from decbayes.kernels.cuda.device import Device

# The share of one document's words in the start of a topic; the rest are the corpus's frequencies. Enough to tell
# topics apart, too little to tie them to that document.
DISTINCTION = 0.1

# Passes of a site's refit in the first round, and how much further the round goes.
SHARPENING, OVERSTEP = 4, 0.5
# Weight of all others in that refit, in multiples of the site's documents, and the documents per topic that this weight
# must reach at least, to tell topics apart.
OTHERS, ENOUGH = 0.5, 100
# How far the words of others are settled beforehand, per such multiple; and the counts that this takes, in mean counts
# of a word in a topic: rare words stay as they are.
SETTLING, FREQUENT = 0.125, 10.0

# Smaller expected counts are left out of the posterior: a millionth of a word changes no prediction.
NEGLIGIBLE = 1e-6


class TopicClimb(Protocol):
    """A climb from some statistics, pass by pass."""

    @property
    def keep(self) -> Keep[Any] | None: ...

    def begin(self, statistics: Array, tables: Array | None = None) -> Any: ...

    def step(self, reached: Any) -> tuple[Any, float]: ...

    def statistics(self, reached: Any) -> Array: ...

    def tables(self, reached: Any) -> Array | None: ...


@dataclass(frozen=True)
class Site:
    """The documents of one site, the evidence before them, and the topics to start from, if any."""

    counts: Counts
    prior: Posterior
    start: Posterior | None = None
    seeds: tuple[tuple[int, ...], ...] = ()
    """For each of the first topics, the columns of words to start from."""

    @cached_property
    def before(self) -> Topics:
        return topics_at(self.prior, self.counts)

    def first(self, rng: np.random.Generator | None) -> "First":
        """Statistics to start from: those that turn the prior into `start`, or random ones."""
        topics = len(self.prior.structure.prior["topics"])
        if self.start is not None:
            return First(topics, topics_at(self.start, self.counts).alpha - self.before.alpha)
        return random_first(self.counts, topics, generator(rng)).seeded(self.seeds, self.counts)

    @property
    def learned(self) -> LearnedPrior | None:
        """The prior of the documents' topics so far, if it is learned."""
        return LearnedPrior.of(self.prior) if SHARES in self.prior.contribution else None

    def first_tables(self) -> Array | None:
        """What `start` has learned about the documents' prior beyond the prior's own evidence."""
        if self.learned is None or self.start is None:
            return None if self.learned is None else self.learned.nothing
        of_start = LearnedPrior.of(self.start)
        return np.append(of_start.shares - self.learned.shares, of_start.rate - self.learned.rate)

    def posterior(self, statistics: Array, tables: Array | None = None) -> Posterior:
        return self.posterior_of(not_negligible(statistics), tables)

    def posterior_of(self, entries: "Entries", tables: Array | None = None) -> Posterior:
        """The prior plus statistics that are not negligible and tables of the documents' prior."""
        contribution, (data, rows, indptr) = self.prior.contribution["topics"], entries
        parted = data.copy(), self.counts.words[rows].astype(np.int32), indptr.astype(np.int32)
        counted = csr_array(parted, shape=contribution.shape)
        if tables is None and not len(stored(contribution)) and np.isfinite(data).all():
            # Positive counts in sorted order need no checks.
            for part in (counted.data, counted.indices, counted.indptr):
                part.flags.writeable = False
            return unchecked(self.prior.structure, {"topics": counted})
        parts = {"topics": contribution + counted if len(stored(contribution)) else counted}
        learned = {} if tables is None else contributions(tables)
        parts |= {name: self.prior.contribution[name] + part for name, part in learned.items()}
        return Posterior(self.prior.structure, parts)


@dataclass(frozen=True, eq=False)
class First:
    """Statistics to start from: an array (words, 1 or topics), plus counts of some words in single topics."""

    topics: int
    array: Array
    added: tuple[NDArray[np.intp], NDArray[np.intp], Array] | None = None
    """Words, topics and counts."""

    def written_out(self, xp: Any = np) -> Any:
        """(words, topics), as an array of NumPy or of a GPU."""
        statistics = xp.zeros((len(self.array), self.topics))
        statistics += xp.asarray(self.array)
        if self.added is not None:
            words, topics, numbers = map(xp.asarray, self.added)
            statistics[words, topics] += numbers
        return statistics

    def seeded(self, seeds: tuple[tuple[int, ...], ...], counts: Counts) -> "First":
        """Start the first topics from given words instead of documents."""
        if not seeds or self.added is None:
            return self
        words, topics, numbers = self.added
        at_hand = [np.flatnonzero(np.isin(counts.words, given)) for given in seeds]
        chosen = [topic for topic, places in enumerate(at_hand) if len(places)]
        rest = ~np.isin(topics, chosen)
        sizes = [len(at_hand[topic]) for topic in chosen]
        # As much as all else in the topic, so that no other topic starts from the same documents.
        share = counts.tokens / self.topics
        return replace(
            self,
            added=(
                np.concatenate([words[rest], *(at_hand[topic] for topic in chosen)]),
                np.concatenate([topics[rest], np.repeat(chosen, sizes)]).astype(np.intp),
                np.concatenate([numbers[rest], np.repeat([share / size for size in sizes], sizes)]),
            ),
        )


Entries = tuple[Array, NDArray[Any], NDArray[np.int64]]
"""The parts of a CSR matrix, topics × words at hand."""


def not_negligible(statistics: Array) -> Entries:
    """The entries of (words, topics) statistics that are not negligible."""
    from decbayes.kernels.document_updates import keep_entries

    indptr, nothing = np.empty(statistics.shape[1] + 1, dtype=np.int64), np.empty(0)
    keep_entries(statistics, NEGLIGIBLE, indptr, np.empty(0, dtype=np.int32), nothing)
    indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    if len(data):
        keep_entries(statistics, NEGLIGIBLE, indptr, indices, data)
    return data, indices, indptr


def extrapolated(before: Any, after: Any) -> csr_array:
    """(topics, words) after a step that is longer by OVERSTEP; each word keeps its total."""
    start, end = csr_array(before), csr_array(after)
    totals = end.sum(axis=0)
    # A word whose total differs from the last contribution is new or hidden there, and stays where it is.
    steps = np.where(np.isclose(start.sum(axis=0), totals, rtol=1e-4, atol=1e-2), OVERSTEP, 0.0)
    moved = csr_array(end * (1.0 + steps) - start * steps)
    moved.data = np.maximum(moved.data, 0.0)
    return scaled_to(moved, totals)


def sharpened(topics: csr_array, merged: Any, needed: float) -> csr_array:
    """(topics, words) with frequent words moved to the topics where they are most probable in the merge.

    Passes over documents do the same, with frequent words last: merged topics share these for longest. Each word keeps
    its total. `needed` is the weight of others needed to tell topics apart, in multiples of the site's documents.
    """
    known = csr_array(merged).toarray()
    known += FREQUENT * known.mean()
    probable = known / np.maximum(known.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    rows, moved = np.repeat(np.arange(topics.shape[0]), np.diff(topics.indptr)), topics.copy()
    moved.data = np.maximum(topics.data, 0.0)  # a difference may round below zero
    totals = moved.sum(axis=0)
    moved.data *= probable[rows, topics.indices] ** min(SETTLING * (1.0 + needed), 1.0)
    return scaled_to(moved, totals)


def scaled_to(topics: csr_array, totals: Array) -> csr_array:
    """Scale the counts of each word to this total, in place."""
    topics.data *= (totals / np.maximum(topics.sum(axis=0), np.finfo(float).tiny))[topics.indices]
    return topics


def topics_at(posterior: Posterior, counts: Counts) -> Topics:
    """The posterior's topics, for the words at hand."""
    (alpha,) = Dirichlet().columns(posterior.natural["topics"])
    return Topics(np.ascontiguousarray(alpha[:, counts.words].T), alpha.sum(axis=1))


def random_first(counts: Counts, topics: int, rng: np.random.Generator) -> First:
    """Give each topic the word frequencies of the corpus, and a little of one document."""
    even = (1 - DISTINCTION) * counts.frequencies[:, None] / topics
    candidates = np.flatnonzero(counts.lengths())
    if not len(candidates):
        return First(topics, even)
    chosen = rng.choice(candidates, topics, replace=len(candidates) < topics)
    spans = [slice(*counts.offsets[number : number + 2].tolist()) for number in chosen.tolist()]
    times, words = (np.concatenate([part[span] for span in spans]) for part in (counts.data, counts.columns))
    owners = np.repeat(np.arange(topics), [span.stop - span.start for span in spans])
    # Drawn around the document's frequencies: two topics that start from the same document could not separate
    # otherwise. One gamma draw per entry, normalised, is one Dirichlet per document.
    drawn = rng.standard_gamma(10.0 * times)
    drawn *= (1.0 / np.bincount(owners, drawn, minlength=topics))[owners]
    return First(topics, even, (words.astype(np.intp), owners, DISTINCTION * counts.tokens / topics * drawn))


def seed_groups(seeds: str) -> list[list[str]]:
    """The words of each topic: "nurse, ward; anchor, mast" is for two."""
    groups = [[word.strip() for word in group.split(",") if word.strip()] for group in seeds.split(";")]
    return [group for group in groups if group]


def check_seeds(seeds: Any, vocabulary: Sequence[str], topics: Any) -> None:
    """Refuse seeds for more topics than there are, and seeds without any known word."""
    if not isinstance(seeds, str):
        raise ValueError("seeds must be a string: words separated by commas, topics by semicolons.")
    groups, known = seed_groups(seeds), set(vocabulary)
    if isinstance(topics, int) and len(groups) > topics:
        raise ValueError(f"seeds are for {len(groups)} topics, and there are {topics}.")
    for group in groups:
        if not known.intersection(group):
            raise ValueError(f"None of the seeds {', '.join(group)} is a word of the vocabulary.")


def seeded_words(seeds: str, vocabulary: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The columns of the seeds of each of the first topics."""
    groups = seed_groups(seeds)
    wanted = {word for group in groups for word in group}
    places = {word: place for place, word in enumerate(vocabulary) if word in wanted} if wanted else {}
    return tuple(tuple(places[word] for word in group if word in places) for group in groups)


def search_of(site: Site, steps: Steps, ascent: Ascent, device: "Device | None", watch: Watch | None) -> TopicClimb:
    if device is None or site.learned is not None:
        return TopicSearch(site.counts, site.before, steps, ascent, watch, site.learned)
    from decbayes.models.topics.cuda.climb import GpuSearch, GpuTopicSearch

    return GpuTopicSearch(GpuSearch(device, [site.counts], [site.before], steps, ascent))


def document_topics(counts: Counts, topics: Topics, steps: Steps, device: "Device | None") -> tuple[Array, Array]:
    """γ of each document and its part of the bound, given the topics."""
    if device is None or not len(counts):
        gamma = np.empty((len(counts), len(steps.prior)))
        return gamma, Statistics(topics).add(counts, steps, Fresh(len(steps.prior)), gamma)
    from decbayes.models.topics.cuda.climb import GpuSearch

    return GpuSearch(device, [counts], [topics], steps, Ascent()).document_topics()


def predicted(counts: Counts, shares: Array, topics: Topics) -> Array:
    """Σ_w n_w log Σ_k θ_k E[β_kw] per document, for documents with these shares of topics."""
    means, total = topics.alpha / topics.totals, np.zeros(len(counts))
    for span in counts.blocks():
        part = counts.part(span)
        probability = np.einsum("ij,ij->i", shares[span][part.rows()], means[part.columns])
        total[span] = np.bincount(part.rows(), part.data * np.log(probability), minlength=len(part))
    return total
