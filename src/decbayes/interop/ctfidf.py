"""Topics that were found by clustering documents, as BERTopic does: counts of their words in, c-TF-IDF out."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from decbayes.families import Array, dense
from decbayes.interop.topics import topic_parameters, topic_posterior
from decbayes.models.counts import checked_matrix
from decbayes.models.vocabulary import Vocabulary
from decbayes.posterior import Posterior


def from_topic_counts(
    counts: Any, *, vocabulary: Vocabulary | None = None, document_prior: float = 0.1, topic_prior: float = 0.01
) -> Posterior:
    """The posterior of topics whose words are counted: (topics, words), all documents of a topic taken together.

    Of a fitted BERTopic model these are `model.vectorizer_model.transform(texts)` with one text per topic, all its
    documents, and the words `model.vectorizer_model.vocabulary_`. Leave its outliers, topic −1, out.
    """
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
    """
    topic_parameters(posterior)
    counts = dense(posterior.contribution["topics"])
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    frequency = counts.sum(axis=0)
    weights = np.log1p(np.divide(totals.mean(), frequency, out=np.zeros_like(frequency), where=frequency > 0))
    return np.asarray(shares * weights)
