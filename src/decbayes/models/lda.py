"""Latent Dirichlet allocation by batch variational Bayes (section 3.2)."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from decbayes.arguments import check_positive, check_whole, spread
from decbayes.errors import InvalidData
from decbayes.families import Array, Dirichlet
from decbayes.models.ascent import Ascent, Fit, Progress, fit_best
from decbayes.models.counts import Counts, as_counts
from decbayes.models.points import check_fit, check_structure
from decbayes.models.vocabulary import words_in_order
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet

# Documents that one call of the kernel works through: between two calls Ctrl-C is heard.
BLOCK = 4096

# A start gives each topic the corpus's word frequencies and this share of one document's: enough to tell topics apart,
# too little to tie them to that document.
DISTINCTION = 0.1

# Expected counts below this are left out of the posterior: a millionth of a word changes no prediction.
NEGLIGIBLE = 1e-6

# Predictions are made once and from few documents, so they can afford converged document topics.
PREDICTION_TOLERANCE, PREDICTION_STEPS = 1e-4, 300


@dataclass(frozen=True)
class Evidence:
    """What the documents are taken to say: expected counts of each word in each topic, (words, topics)."""

    statistics: Array
    document_topics: Array
    passes: int = 0


@dataclass(frozen=True)
class Topics:
    """Dirichlet topics: α of the words at hand, (words, topics) as the kernels want it, and its sums over all words."""

    alpha: Array
    totals: Array

    def plus(self, statistics: Array) -> "Topics":
        return Topics(self.alpha + statistics, self.totals + statistics.sum(axis=0))


@dataclass(frozen=True)
class LatentDirichletAllocation:
    """Documents mix topics, θ_d ~ Dirichlet(document_prior); topics mix words, β_k ~ Dirichlet(topic_prior).

    `topic_prior` is a number, one number a word, or a topics × words matrix. Data are sparse (or dense) documents ×
    words counts; empty documents say nothing and are allowed. `vocabulary` is the words in the order of the columns, or
    a mapping between words and columns, as a `CountVectorizer` or a gensim `Dictionary` has it.

    A fit begins with `ascent.warm_up` passes that start every document's topics afresh, which finds better optima than
    carrying them over from pass to pass; the passes after that carry them over, so that the bound rises to a fixed
    point of batch variational Bayes. In each pass a document's topics take at most `document_steps` steps and stop once
    they change by less than `document_tolerance` words a topic.
    """

    topics: int
    vocabulary: tuple[str, ...]
    document_prior: float = 0.1
    topic_prior: Any = 0.01
    document_steps: int = 10
    document_tolerance: float = 1e-3
    ascent: Ascent = field(default=Ascent(passes=100, tolerance=1e-3, warm_up=10))

    def __post_init__(self) -> None:
        object.__setattr__(self, "vocabulary", words_in_order(self.vocabulary))
        check_whole(1, topics=self.topics, document_steps=self.document_steps)
        check_positive(document_prior=self.document_prior)
        if not self.vocabulary:
            raise ValueError("The vocabulary is empty; each column of the counts needs its word.")
        if len(set(self.vocabulary)) < len(self.vocabulary):
            raise ValueError("The vocabulary names some words twice; each column of the counts needs its own word.")

    @cached_property
    def structure(self) -> Structure:
        shape = (self.topics, len(self.vocabulary))
        return Structure(
            families={"topics": Dirichlet()},
            prior={"topics": Dirichlet().natural(alpha=spread("topic_prior", self.topic_prior, shape, above=0.0))},
            symmetry=(CoupledSet(("topics",)),),
            labels={"topics": self.vocabulary},
            sparse=frozenset({"topics"}),
            model={"name": "LatentDirichletAllocation", "document_prior": float(self.document_prior)},
        )

    def fit(
        self,
        data: Any,
        *,
        rng: np.random.Generator,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """The posterior of the documents, on top of `prior` if given, climbing from the topics of `start` if given."""
        check_fit(self.structure, rng, prior, start)
        counts = as_counts(data, len(self.vocabulary))
        prior = prior or Posterior.of_prior(self.structure)
        if not counts.tokens:
            return Fit(prior, (0.0,), True)
        before = topics_at(prior, counts)
        if start is None:
            begin, ascent = partial(self._begin, counts, rng), self.ascent
        else:
            begin, ascent = partial(self._resume, counts, before, start), replace(self.ascent, warm_up=0, restarts=0)
        return fit_best(
            begin,
            partial(self._pass, counts, before, ascent.warm_up),
            partial(self._posterior, counts, prior),
            ascent=ascent,
            observations=counts.tokens,
            progress=progress,
        )

    def transform(self, posterior: Posterior, data: Any) -> Array:
        """(documents, topics): the expected share of each topic in each document, given the posterior's topics."""
        check_structure(posterior, self.structure, "posterior")
        counts = as_counts(data, len(self.vocabulary))
        gamma = self._fresh(counts)
        self._update(counts, topics_at(posterior, counts), gamma, PREDICTION_TOLERANCE, PREDICTION_STEPS)
        return np.asarray(gamma / gamma.sum(axis=1, keepdims=True))

    def log_predictive(self, posterior: Posterior, observed: Any, held: Any) -> float:
        """The mean of log Σ_k E[θ_dk] E[β_kw] over the tokens of `held`, where q(θ_d) is that of `observed`."""
        shares, counts = self.transform(posterior, observed), as_counts(held, len(self.vocabulary))
        if len(shares) != len(counts):
            raise InvalidData(f"{len(shares)} documents are observed, but words of {len(counts)} are held out.")
        if not counts.tokens:
            raise InvalidData("No words are held out, so there is nothing to predict.")
        topics = topics_at(posterior, counts)
        means, rows = topics.alpha / topics.totals, np.repeat(np.arange(len(counts)), counts.lengths())
        total = 0.0
        for block in blocks(len(rows)):
            probability = np.sum(shares[rows[block]] * means[counts.columns[block]], axis=1)
            total += float(counts.data[block] @ np.log(probability))
        return total / counts.tokens

    def _begin(self, counts: Counts, rng: np.random.Generator) -> Evidence:
        """Smoothed statistics: each topic has the word frequencies of the corpus, and a little of one document."""
        shared = counts.frequencies()
        statistics = np.repeat((1 - DISTINCTION) * shared[:, None] / self.topics, self.topics, axis=1)
        candidates = np.flatnonzero(counts.lengths())
        chosen = rng.choice(candidates, self.topics, replace=len(candidates) < self.topics)
        for topic, number in enumerate(chosen):
            columns, data = counts.document(number)
            # Drawn around the document's frequencies: two topics that get the same document could not part otherwise.
            statistics[columns, topic] += DISTINCTION * counts.tokens / self.topics * rng.dirichlet(10.0 * data)
        return Evidence(statistics, self._fresh(counts))

    def _resume(self, counts: Counts, before: Topics, start: Posterior) -> Evidence:
        """The statistics that take the prior to the topics of `start`, as far as the words of the data go."""
        return Evidence(topics_at(start, counts).alpha - before.alpha, self._fresh(counts))

    def _fresh(self, counts: Counts) -> Array:
        return np.ones((len(counts), self.topics))

    def _pass(self, counts: Counts, before: Topics, warm_up: int, evidence: Evidence) -> tuple[Evidence, float]:
        """One pass over the documents; the bound is that of the topics given and the document topics found."""
        from decbayes.kernels.lda import topic_bound

        topics = before.plus(evidence.statistics)
        # Document topics carried over are updated in place: a pass that is interrupted loses them, never the topics.
        gamma = self._fresh(counts) if evidence.passes < warm_up else evidence.document_topics
        statistics, bound = self._update(counts, topics, gamma, self.document_tolerance, self.document_steps)
        bound += topic_bound(topics.alpha, topics.totals, before.alpha, before.totals)
        return Evidence(statistics, gamma, evidence.passes + 1), bound

    def _update(
        self, counts: Counts, topics: Topics, gamma: Array, tolerance: float, steps: int
    ) -> tuple[Array, float]:
        """Update document topics in place; returns the expected counts of each word in each topic, and the bound."""
        from decbayes.kernels.lda import expect_topics, update_documents

        weights, scales = np.empty_like(topics.alpha), np.empty(len(topics.alpha))
        expect_topics(topics.alpha, topics.totals, weights, scales)
        statistics, bound = np.zeros_like(weights), np.empty(len(counts))
        prior = np.full(self.topics, float(self.document_prior))
        for block in blocks(len(counts)):
            update_documents(
                counts.data,
                counts.columns,
                counts.offsets[block.start : block.stop + 1],
                weights,
                scales,
                prior,
                gamma[block],
                statistics,
                bound[block],
                tolerance,
                steps,
            )
        statistics *= weights
        return statistics, float(bound.sum())

    def _posterior(self, counts: Counts, prior: Posterior, evidence: Evidence) -> Posterior:
        kept = csr_array(np.where(np.abs(evidence.statistics) > NEGLIGIBLE, evidence.statistics, 0.0).T)
        shape = (self.topics, len(self.vocabulary))
        own = csr_array((kept.data, counts.words[kept.indices], kept.indptr), shape=shape)
        return Posterior(self.structure, {"topics": prior.contribution["topics"] + own})


def topics_at(posterior: Posterior, counts: Counts) -> Topics:
    """The posterior's topics, for the words at hand."""
    (alpha,) = Dirichlet().columns(posterior.natural["topics"])
    return Topics(np.ascontiguousarray(alpha[:, counts.words].T), alpha.sum(axis=1))


def blocks(size: int) -> Iterator[slice]:
    """Consecutive spans of BLOCK, the last one shorter."""
    return (slice(first, min(first + BLOCK, size)) for first in range(0, size, BLOCK))
