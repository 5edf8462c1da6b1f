"""The common form of topic models of all libraries: expected word counts per topic on top of a prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, issparse

from decbayes.base.arguments import check_kind
from decbayes.columns.frames import by_name, is_frame, names_in
from decbayes.errors import NotConvertible
from decbayes.families import Array, Contribution, dense
from decbayes.models.core.counts import Vocabulary, checked_matrix, words_in_order
from decbayes.models.topics.document_prior import contributions, sums_of
from decbayes.models.topics.lda import LatentDirichletAllocation
from decbayes.models.topics.word_prior import concentration
from decbayes.posterior import Posterior


def topic_posterior(
    contribution: Contribution,
    *,
    topic_prior: Any,
    document_prior: Any,
    vocabulary: Vocabulary | None,
    lengths: Array | None = None,
) -> Posterior:
    """The posterior with these counts on top of the prior; words without names are numbered.

    A document prior that differs between topics counts as learned, from documents of these lengths.
    """
    topics, words = contribution.shape
    names = tuple(map(str, range(words))) if vocabulary is None else words_in_order(vocabulary)
    if len(names) != words:
        raise NotConvertible(f"The model has {words:,} words, the vocabulary {len(names):,}.")
    alpha = np.ravel(np.asarray(document_prior, dtype=np.float64))
    if (alpha == alpha[0]).all():
        model = LatentDirichletAllocation(topics, names, float(alpha[0]), topic_prior)
        return Posterior(model.structure, {"topics": contribution})
    learning = LatentDirichletAllocation(topics, names, "learn", topic_prior)
    learned = contributions(sums_of(alpha, np.zeros(0) if lengths is None else lengths))
    return Posterior(learning.structure, {"topics": contribution, **learned})


def on_vocabulary(contribution: Array, words: Sequence[str], shared: Sequence[str]) -> csr_array:
    """The counts with columns in the order of a shared vocabulary, which must contain all words that count."""
    places = {word: place for place, word in enumerate(shared)}
    entries = coo_array(contribution)
    missing = sorted({words[column] for column in entries.col} - places.keys())
    if missing:
        raise NotConvertible(
            f"{len(missing):,} words of the model are not in the vocabulary: {', '.join(missing[:5])}… "
            "Use a vocabulary with the words of all models."
        )
    columns = np.array([places[words[column]] for column in entries.col], dtype=np.int32)
    return csr_array((entries.data, (entries.row, columns)), shape=(contribution.shape[0], len(shared)))


def topic_parameters(posterior: Posterior) -> tuple[Array, Array, Array]:
    """α of the topics, α of their prior, and the document prior, of a posterior of latent Dirichlet allocation."""
    check_kind(Posterior, posterior=posterior)
    name = posterior.structure.model.get("name", "an unnamed model")
    if name != "LatentDirichletAllocation":
        raise NotConvertible(f"A posterior of {name} is not a topic model.")
    model = LatentDirichletAllocation.from_structure(posterior.structure)
    prior = concentration(posterior.structure.prior["topics"])
    return prior + posterior.contribution["topics"], prior, model.document_prior_of(posterior)


def from_topic_counts(
    counts: Any, *, vocabulary: Vocabulary | None = None, document_prior: float = 0.1, topic_prior: float = 0.01
) -> Posterior:
    """The posterior of topics from word counts, made by any library.

    `counts` are (topics, words), summed over all documents of a topic. `vocabulary` names the words, by default those
    of a frame; `document_prior` and `topic_prior` are those of the merged model.

    For a fitted BERTopic model these are `model.vectorizer_model.transform(texts)` with one text per topic, all its
    documents, and the words `model.vectorizer_model.vocabulary_`. Leave out its outliers, topic −1.

    >>> topics = db.interop.from_topic_counts([[9, 8, 0], [0, 1, 7]], vocabulary=["sun", "sea", "law"])
    >>> topics.mean("topics").round(2)
    array([[0.53, 0.47, 0.  ],
           [0.  , 0.13, 0.87]])
    """
    if is_frame(counts) and not issparse(counts):
        vocabulary = names_in(counts) if vocabulary is None else words_in_order(vocabulary)
        counts = by_name(counts, vocabulary)
    matrix = checked_matrix(counts, np.shape(counts)[-1])
    return topic_posterior(
        csr_array(matrix, dtype=np.float64),
        topic_prior=topic_prior,
        document_prior=document_prior,
        vocabulary=vocabulary,
    )


def to_ctfidf(posterior: Posterior) -> Array:
    """(topics, words): class-based TF-IDF of a posterior's topics, for everything in BERTopic that takes `c_tf_idf_`.

        tf_kw log(1 + A / f_w),    tf: shares of the words in a topic, f: counts in all topics, A: mean words per topic

    `posterior` is one of latent Dirichlet allocation, such as a merge.

    >>> topics = db.interop.from_topic_counts([[9, 8, 0], [0, 1, 7]], vocabulary=["sun", "sea", "law"])
    >>> db.interop.to_ctfidf(topics).round(2)
    array([[0.46, 0.41, 0.  ],
           [0.  , 0.11, 0.9 ]])
    """
    topic_parameters(posterior)
    counts = dense(posterior.contribution["topics"])
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    frequency = counts.sum(axis=0)
    weights = np.log1p(np.divide(totals.mean(), frequency, out=np.zeros_like(frequency), where=frequency > 0))
    return np.asarray(shares * weights)
