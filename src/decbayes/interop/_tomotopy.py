"""tomotopy's `LDAModel` in, and merged topics out."""

from typing import Any

import numpy as np

from decbayes.base.extras import require
from decbayes.errors import NotConvertible
from decbayes.families import dense
from decbayes.interop._topics import on_vocabulary, topic_parameters, topic_posterior
from decbayes.models.core.counts import Vocabulary, words_in_order
from decbayes.posterior import Posterior

ROUNDING = 1e-4  # larger than rounding in float32, smaller than any weight


def from_tomotopy(
    model: Any, *, vocabulary: Vocabulary | None = None, document_prior: float | None = None
) -> Posterior:
    """The posterior over topics given the counts of a trained `LDAModel`, `model`.

    tomotopy samples an assignment of every token to a topic; given the assignment, topics are Dirichlet with the counts
    on top of eta. This uses one draw, not an average over many. tomotopy orders words by frequency, so pass the
    `vocabulary` that all sites share. It also tunes a document prior for each topic, unless optim_interval is 0. That
    counts as learned, unless one `document_prior` is given for the merged model.

    >>> import tomotopy
    >>> model = tomotopy.LDAModel(k=2, seed=0)
    >>> for text in (["sun", "sea"], ["sea", "sun"], ["tax", "law"], ["law", "tax"]):
    ...     _ = model.add_doc(text)
    >>> model.train(10, workers=1)
    >>> db.interop.from_tomotopy(model, vocabulary=["law", "sea", "sun", "tax"]).contribution["topics"].sum().item()
    8.0
    """
    check_trained(model)
    raw = np.array([model.get_topic_word_dist(topic, normalize=False) for topic in range(model.k)], dtype=np.float64)
    eta = float(model.eta)
    # tomotopy stores α = η + count in float32; the counts are integers.
    counts = np.rint(raw - eta)
    if (np.abs(raw - eta - counts) > ROUNDING * raw).any():
        raise NotConvertible("The model weights its words (tw), so it has no counts. Train with TermWeight.ONE.")
    words = list(model.used_vocabs)
    shared = words if vocabulary is None else list(words_in_order(vocabulary))
    return topic_posterior(
        on_vocabulary(counts, words, shared),
        topic_prior=eta,
        document_prior=model.alpha if document_prior is None else document_prior,
        vocabulary=shared,
        lengths=np.array([len(document.words) for document in model.docs], dtype=np.float64),
    )


def to_tomotopy(posterior: Posterior) -> Any:
    """A `PLDAModel` with the posterior's topics, for `infer`, `get_topic_words`, coherence and so on.

    tomotopy takes no counts from outside, only documents. But a labelled document has only the topics of its labels, so
    one document per topic, with each word as often as it was counted there, gives the same topics. Counts are rounded
    to integers, words without counts are unknown to the model, and topics without words are left out. The document
    prior is one number: the mean over the topics. Topics are called "topic 0" and so on (`topic_label_dict`);
    `make_doc` takes documents without labels. `posterior` is one of latent Dirichlet allocation.

    >>> import tomotopy
    >>> topics = db.interop.from_topic_counts([[9, 8, 0, 0], [0, 0, 7, 9]], vocabulary=["sun", "sea", "tax", "law"])
    >>> [word for word, _ in db.interop.to_tomotopy(topics).get_topic_words(0, top_n=2)]
    ['sun', 'sea']
    """
    tomotopy = require("tomotopy", extra="tomotopy", task="A tomotopy model")
    _, prior, document_prior = topic_parameters(posterior)
    if (prior != prior[0, 0]).any():
        raise NotConvertible("tomotopy's eta is one number; this posterior's topic prior has several.")
    words, counts = posterior.structure.labels["topics"], np.rint(dense(posterior.contribution["topics"])).astype(int)
    if not counts.any():
        raise NotConvertible("The posterior has no word counts, so there are no topics to convert.")
    model = tomotopy.PLDAModel(latent_topics=0, alpha=float(document_prior.mean()), eta=float(prior[0, 0]), seed=0)
    for topic in np.flatnonzero(counts.sum(axis=1)).tolist():
        model.add_doc(np.repeat(words, counts[topic]).tolist(), labels=[f"topic {topic}"])
    model.optim_interval = 0
    model.train(0, workers=1)
    return model


def check_trained(model: Any) -> None:
    # tomotopy's other models inherit from LDAModel, but their topics have other priors or are not exchangeable.
    if type(model) is not require("tomotopy", extra="tomotopy", task="A tomotopy model").LDAModel:
        raise NotConvertible(f"This is a {type(model).__name__}, not a tomotopy LDAModel.")
    if not len(model.used_vocabs):
        raise NotConvertible("This LDAModel has no words yet: add documents and train it first.")
