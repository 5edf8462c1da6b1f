"""tomotopy's `LDAModel` in."""

from typing import Any

import numpy as np

from decbayes.errors import NotConvertible
from decbayes.extras import require
from decbayes.interop.topics import on_vocabulary, topic_posterior
from decbayes.models.vocabulary import Vocabulary, words_in_order
from decbayes.posterior import Posterior

ROUNDING = 1e-4  # more than float32 and less than any weight


def from_tomotopy(
    model: Any, *, vocabulary: Vocabulary | None = None, document_prior: float | None = None
) -> Posterior:
    """The posterior over topics given the counts of a trained `LDAModel`.

    tomotopy samples an assignment of every token to a topic; given the assignment topics are Dirichlet with the counts
    on top of eta, and that is what is taken: one draw, not an average over many. tomotopy orders words by
    frequency, so pass the `vocabulary` that all sites share. It also tunes a document prior for each topic, unless
    optim_interval is 0. That counts as learned, unless one `document_prior` is given for the merged model.
    """
    check_trained(model)
    raw = np.array([model.get_topic_word_dist(topic, normalize=False) for topic in range(model.k)], dtype=np.float64)
    eta = float(model.eta)
    # tomotopy keeps α = η + count in float32; the counts themselves are whole numbers.
    counts = np.rint(raw - eta)
    if (np.abs(raw - eta - counts) > ROUNDING * raw).any():
        raise NotConvertible("The model weighs its words (tw), so it holds no counts. Train with TermWeight.ONE.")
    own = list(model.used_vocabs)
    shared = own if vocabulary is None else list(words_in_order(vocabulary))
    return topic_posterior(
        on_vocabulary(counts, own, shared),
        topic_prior=eta,
        document_prior=model.alpha if document_prior is None else document_prior,
        vocabulary=shared,
        lengths=np.array([len(document.words) for document in model.docs], dtype=np.float64),
    )


def check_trained(model: Any) -> None:
    # tomotopy's other models inherit from LDAModel, but their topics have other priors or are not exchangeable.
    if type(model) is not require("tomotopy", extra="tomotopy", task="A tomotopy model").LDAModel:
        raise NotConvertible(f"This is a {type(model).__name__}, not a tomotopy LDAModel.")
    if not len(model.used_vocabs):
        raise NotConvertible("This LDAModel has no words yet: add documents and train it first.")
