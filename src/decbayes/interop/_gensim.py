"""gensim's `LdaModel` in and out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from decbayes.base.extras import require
from decbayes.errors import NotConvertible
from decbayes.families import Array, dense
from decbayes.interop._topics import on_vocabulary, topic_parameters, topic_posterior
from decbayes.models.core.counts import Vocabulary, words_in_order
from decbayes.posterior import Posterior


def from_gensim(
    model: Any,
    *,
    vocabulary: Vocabulary | None = None,
    document_prior: float | None = None,
    topic_prior: float | None = None,
) -> Posterior:
    """The posterior over topics in a fitted `LdaModel`: its sufficient statistics on top of its eta.

    `model` is that LdaModel.

    Columns follow the model's `id2word`, or `vocabulary` (words, or a `Dictionary`) if sites have different ones. With
    alpha="auto" or "asymmetric", topics have different document priors: these count as learned from the model's
    documents, all of the mean length, unless one `document_prior` is given for the merged model. With eta="auto" each
    model has its own word prior; give one `topic_prior` for all to merge them. gensim computes in float32 by default,
    so its priors are float32 numbers (1/20 becomes 0.0500000007…); models merge if theirs are equal.

    >>> from gensim.corpora import Dictionary
    >>> from gensim.models import LdaModel
    >>> texts = [["sun", "sea"], ["sea", "sun"], ["tax", "law"], ["law", "tax"]]
    >>> words = Dictionary(texts)
    >>> model = LdaModel([words.doc2bow(text) for text in texts], num_topics=2, id2word=words, random_state=0)
    >>> db.interop.from_gensim(model).mean("topics").shape
    (2, 4)
    """
    lda = require("gensim.models", extra="gensim", task="A gensim model").LdaModel
    if not isinstance(model, lda):
        raise NotConvertible(f"This is a {type(model).__name__}, not a gensim LdaModel.")
    prior = np.asarray(model.eta if topic_prior is None else topic_prior, dtype=np.float64)
    statistics = np.asarray(model.state.sstats, dtype=np.float64)
    words = [str(model.id2word[index]) for index in range(model.num_terms)]
    shared = words if vocabulary is None else list(words_in_order(vocabulary))
    documents = max(int(model.state.numdocs), 1)
    lengths = np.full(documents, statistics.sum() / documents)
    if shared != words:
        statistics = on_vocabulary(statistics, words, shared)
        prior = prior_on(prior, words, shared)
    return topic_posterior(
        statistics,
        topic_prior=prior,
        document_prior=model.alpha if document_prior is None else document_prior,
        vocabulary=shared,
        lengths=lengths,
    )


def prior_on(prior: Array, words: Sequence[str], shared: Sequence[str]) -> Array:
    """The prior of the shared words: one number, or those of the same words in another order."""
    if (prior == prior.flat[0]).all():
        return np.array(prior.flat[0])
    if prior.shape != (len(words),) or set(words) != set(shared):
        raise NotConvertible(
            "eta differs between words, so the model has no prior for unknown words; pass topic_prior=…"
        )
    eta = dict(zip(words, prior, strict=True))
    return np.array([eta[word] for word in shared])


def to_gensim(posterior: Posterior) -> Any:
    """An `LdaModel` (in float64) with this posterior, for `show_topics`, `get_document_topics` and so on.

    Its `id2word` is a `Dictionary`: `model.id2word.doc2bow(tokens)` counts a new document's words. `posterior` is one
    of latent Dirichlet allocation.

    >>> import gensim
    >>> topics = db.interop.from_topic_counts([[9, 8, 0, 0], [0, 0, 7, 9]], vocabulary=["sun", "sea", "tax", "law"])
    >>> [word for word, _ in db.interop.to_gensim(topics).show_topic(0, topn=2)]
    ['sun', 'sea']
    """
    models = require("gensim.models", extra="gensim", task="A gensim model")
    alpha, prior, document_prior = topic_parameters(posterior)
    words = posterior.structure.labels["topics"]
    model = models.LdaModel(
        id2word=dictionary(words),
        num_topics=len(alpha),
        alpha=document_prior,
        eta=prior if (prior != prior[0]).any() else np.array(prior[0]),
        dtype=np.float64,
        random_state=0,
    )
    model.state.sstats = dense(posterior.contribution["topics"]).copy()
    model.sync_state()
    return model


def dictionary(words: Sequence[str]) -> Any:
    """A gensim `Dictionary` with these words in this order."""
    result = require("gensim.corpora", extra="gensim", task="A gensim model").Dictionary()
    result.token2id = {word: column for column, word in enumerate(words)}
    return result
