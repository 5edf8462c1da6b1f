"""Fits of topics: where they start, on which device they climb, and what of it becomes the posterior."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.families import Array, Dirichlet
from decbayes.kernels.cuda.device import Device
from decbayes.models.ascent import Ascent, Climb, Fit, Keep, Watch
from decbayes.models.counts import Counts
from decbayes.models.document_prior import SHARES, LearnedPrior, contributions
from decbayes.models.topic_pass import Fresh, Statistics, Steps, Topics
from decbayes.models.topic_search import TopicSearch
from decbayes.posterior import Posterior
from decbayes.workers import gathered

# A start gives each topic the corpus's word frequencies and this share of one document's: enough to tell topics apart,
# too little to tie them to that document.
DISTINCTION = 0.1

# Expected counts below this are left out of the posterior: a millionth of a word changes no prediction.
NEGLIGIBLE = 1e-6


class Search(Protocol):
    """A climb from some statistics, pass by pass."""

    @property
    def keep(self) -> Keep[Any] | None: ...

    def begin(self, statistics: Array, tables: Array | None = None) -> Any: ...

    def step(self, reached: Any) -> tuple[Any, float]: ...

    def statistics(self, reached: Any) -> Array: ...

    def tables(self, reached: Any) -> Array | None: ...


@dataclass(frozen=True)
class Site:
    """The documents of one site, the evidence before them, and the topics to start from if there are any."""

    counts: Counts
    prior: Posterior
    start: Posterior | None = None
    before: Topics = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "before", topics_at(self.prior, self.counts))

    def first(self, rng: np.random.Generator) -> Array:
        """Statistics to start from: those that take the prior to `start`, or a random choice."""
        if self.start is not None:
            return topics_at(self.start, self.counts).alpha - self.before.alpha
        return random_statistics(self.counts, len(self.before.totals), rng)

    @property
    def learned(self) -> LearnedPrior | None:
        """What is known of the documents' prior, where it is learned."""
        return LearnedPrior.of(self.prior) if SHARES in self.prior.contribution else None

    def first_tables(self) -> Array | None:
        """What `start` has learned of the documents' prior beyond what is known of it."""
        if self.learned is None or self.start is None:
            return None if self.learned is None else self.learned.nothing
        begun = LearnedPrior.of(self.start)
        return np.append(begun.shares - self.learned.shares, begun.rate - self.learned.rate)

    def posterior(self, statistics: Array, tables: Array | None = None) -> Posterior:
        contribution, own = self.prior.contribution["topics"], kept(statistics, self.counts)
        parts = {"topics": contribution + csr_array(own, shape=contribution.shape)}
        said = {} if tables is None else contributions(tables)
        parts |= {name: self.prior.contribution[name] + part for name, part in said.items()}
        return Posterior(self.prior.structure, parts)


def kept(statistics: Array, counts: Counts) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
    """What is not negligible of (words, topics) statistics, as the parts of a CSR matrix, topics × vocabulary."""
    from decbayes.kernels.lda import keep_entries

    indptr, nothing = np.empty(statistics.shape[1] + 1, dtype=np.int64), np.empty(0)
    keep_entries(statistics, NEGLIGIBLE, indptr, np.empty(0, dtype=np.int32), nothing)
    indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    if len(data):
        keep_entries(statistics, NEGLIGIBLE, indptr, indices, data)
    return data, counts.words[indices], indptr


def topics_at(posterior: Posterior, counts: Counts) -> Topics:
    """The posterior's topics, for the words at hand."""
    (alpha,) = Dirichlet().columns(posterior.natural["topics"])
    return Topics(np.ascontiguousarray(alpha[:, counts.words].T), alpha.sum(axis=1))


def random_statistics(counts: Counts, topics: int, rng: np.random.Generator) -> Array:
    """Each topic has the word frequencies of the corpus, and a little of one document."""
    statistics = np.repeat((1 - DISTINCTION) * counts.frequencies[:, None] / topics, topics, axis=1)
    candidates = np.flatnonzero(counts.lengths())
    chosen = rng.choice(candidates, topics, replace=len(candidates) < topics) if len(candidates) else candidates
    for topic, number in enumerate(chosen.tolist()):
        document = counts.part(slice(number, number + 1))
        # Drawn around the document's frequencies: two topics that get the same document could not part otherwise.
        drawn = rng.dirichlet(10.0 * document.data)
        statistics[document.columns, topic] += DISTINCTION * counts.tokens / topics * drawn
    return statistics


def search_of(site: Site, steps: Steps, ascent: Ascent, device: Device | None, watch: Watch | None) -> Search:
    """The climb of one site on the device."""
    if device is None or site.learned is not None:
        return TopicSearch(site.counts, site.before, steps, ascent, watch, site.learned)
    from decbayes.models.topic_search_cuda import GpuSearch, GpuTopicSearch

    return GpuTopicSearch(GpuSearch(device, [site.counts], [site.before], steps, ascent))


def document_topics(counts: Counts, topics: Topics, steps: Steps, device: Device | None) -> tuple[Array, Array]:
    """γ of each document and its part of the bound, given the topics."""
    if device is None or not len(counts):
        gamma = np.empty((len(counts), len(steps.prior)))
        return gamma, Statistics(topics).add(counts, steps, Fresh(len(steps.prior)), gamma)
    from decbayes.models.topic_search_cuda import GpuSearch

    return GpuSearch(device, [counts], [topics], steps, Ascent()).document_topics()


def predicted(counts: Counts, shares: Array, topics: Topics) -> Array:
    """Per document Σ_w n_w log Σ_k θ_k E[β_kw], for documents with these shares of topics."""
    means, total = topics.alpha / topics.totals, np.zeros(len(counts))
    for span in counts.blocks():
        part = counts.part(span)
        probability = np.einsum("ij,ij->i", shares[span][part.rows()], means[part.columns])
        total[span] = np.bincount(part.rows(), part.data * np.log(probability), minlength=len(part))
    return total


def fit_sites(
    sites: Sequence[Site], steps: Steps, ascent: Ascent, device: Device, rngs: Sequence[np.random.Generator]
) -> list[Fit]:
    """Fits of several sites in the same launches; each ends when it has converged itself."""
    from decbayes.models.topic_search_cuda import GpuSearch

    search = GpuSearch(device, [site.counts for site in sites], [site.before for site in sites], steps, ascent)
    best: list[Climb[Array]] = []
    for _ in range(ascent.restarts + 1):
        firsts = gathered(partial(site.first, rng) for site, rng in zip(sites, rngs, strict=True))
        reached = climb_sites(search, firsts, ascent, [site.counts.tokens for site in sites])
        best = [max(pair, key=lambda climb: climb.height) for pair in zip(best or reached, reached, strict=True)]
    posteriors = gathered(partial(site.posterior, climb.state) for site, climb in zip(sites, best, strict=True))
    pairs = zip(posteriors, best, strict=True)
    return [Fit(posterior, climb.bound, climb.converged) for posterior, climb in pairs]


def climb_sites(search: Any, firsts: Sequence[Array], ascent: Ascent, tokens: Sequence[int]) -> list[Climb[Array]]:
    """Passes over all sites that have not converged yet."""
    active, reached = np.array([size > 0 for size in tokens]), search.begin(firsts)
    # Without words there is nothing to learn.
    climbs = [
        Climb(first, () if size else (0.0,), converged=not size) for first, size in zip(firsts, tokens, strict=True)
    ]
    for number in range(1, ascent.passes + 1):
        reached, bounds = search.step(reached, active)
        for site in np.flatnonzero(active).tolist():
            bound = (*climbs[site].bound, float(bounds[site]))
            ended = number > ascent.warm_up + 1 and abs(bound[-1] - bound[-2]) <= ascent.tolerance * tokens[site]
            climbs[site] = Climb(climbs[site].state, bound, converged=ended)
            if ended or number == ascent.passes:
                climbs[site] = replace(climbs[site], state=search.statistics(reached, site))
        active &= [not climb.converged for climb in climbs]
        if not active.any():
            break
    return climbs
