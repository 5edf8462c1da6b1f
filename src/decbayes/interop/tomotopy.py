"""tomotopy's `LDAModel` in."""

from typing import Any

import numpy as np

from decbayes.interop.topics import symmetric_prior, topic_posterior
from decbayes.posterior import Posterior


def from_tomotopy(model: Any, *, document_prior: float | None = None) -> Posterior:
    """The posterior over topics given the counts of a trained `LDAModel`.

    tomotopy samples an assignment of every token to a topic; given the assignment topics are Dirichlet with the counts
    on top of eta, and that is what is taken. It is one draw, so it is more certain of itself than a variational
    posterior. tomotopy also tunes a document prior for each topic (unless optim_interval is 0); state one
    `document_prior` for the merged model then. Models merge if they have the same vocabulary, in the same order.
    """
    raw = np.array([model.get_topic_word_dist(topic, normalize=False) for topic in range(model.k)], dtype=np.float64)
    eta = float(model.eta)
    # tomotopy keeps α = η + count in float32; the counts themselves are whole numbers.
    return topic_posterior(
        np.maximum(np.rint(raw - eta), 0.0),
        topic_prior=eta,
        document_prior=symmetric_prior(model.alpha, document_prior, "Train with optim_interval=0"),
        vocabulary=model.used_vocabs,
    )
