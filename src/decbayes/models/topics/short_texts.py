"""Whether topics predict words better than plain word frequencies do: short texts say too little about topics."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from decbayes.families import Dirichlet
from decbayes.models.core.counts import Counts
from decbayes.models.core.evaluation import hold_out
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

LOOKED_AT = 300  # documents
HELD = 0.3  # of their words
TINY = 1e-12
ENOUGH = 50  # held-out words
SHORT = 30  # words per document on average: longer ones are not looked at


def short_texts(model: Any, posterior: Posterior, counts: Counts) -> tuple[Remark, ...]:
    """A remark if held-out words of the first documents are predicted worse than by frequencies alone.

    What a document has itself added to the topics, and to the frequencies, is taken out before its words are predicted.
    """
    if not len(counts) or counts.tokens > SHORT * len(counts):
        return ()
    part = counts.part(slice(0, min(LOOKED_AT, len(counts))))
    entries = (np.asarray(part.data, dtype=np.int64), (part.rows(), counts.words[part.columns]))
    documents = csr_array(entries, shape=(len(part), len(model.vocabulary)))
    documents.sort_indices()
    observed, held = hold_out(documents, share=HELD, rng=np.random.default_rng(0))
    if held.sum() < ENOUGH:
        return ()
    topics, plain = scores(model, posterior, documents, csr_array(observed), csr_array(held))
    if topics >= plain:
        return ()
    length = documents.sum() / max(documents.shape[0], 1)
    return (
        Remark(
            "short texts",
            "These topics predict words worse than plain word frequencies do.",
            "Fit fewer topics, or join short texts of one author or day into one document.",
            f"{topics:.2f} nats per word instead of {plain:.2f}; documents have {length:.0f} words on average.",
        ),
    )


def scores(
    model: Any, posterior: Posterior, documents: csr_array, observed: csr_array, held: csr_array
) -> tuple[float, float]:
    """Log-probability per held-out word by topics, and by frequencies."""
    (alpha,) = Dirichlet().columns(posterior.natural["topics"])
    shares, whole = model.assign(posterior, observed), model.assign(posterior, documents)
    frequency = alpha.sum(axis=0)
    by_topics = by_frequency = 0.0
    totals = alpha.sum(axis=1)
    for row in range(documents.shape[0]):
        span = slice(documents.indptr[row], documents.indptr[row + 1])
        words, count = documents.indices[span], documents.data[span].astype(float)
        joint = whole[row][:, None] * alpha[:, words] / totals[:, None]
        added = count * joint / joint.sum(axis=0)
        rest = np.maximum(alpha[:, words] - added, TINY) / (totals - added.sum(axis=1))[:, None]
        plain = np.maximum(frequency[words] - count, TINY) / (frequency.sum() - count.sum())
        target = slice(held.indptr[row], held.indptr[row + 1])
        places, times = np.searchsorted(words, held.indices[target]), held.data[target]
        by_topics += float(times @ np.log((shares[row] @ rest)[places]))
        by_frequency += float(times @ np.log(plain[places]))
    return by_topics / float(held.sum()), by_frequency / float(held.sum())
