"""What the topic models of all libraries share: expected counts of words in topics on top of a symmetric prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from decbayes.arguments import check_kind
from decbayes.errors import NotConvertible
from decbayes.families import Array, Contribution
from decbayes.models.lda import LatentDirichletAllocation
from decbayes.models.vocabulary import Vocabulary, words_in_order
from decbayes.posterior import Posterior


def topic_posterior(
    contribution: Contribution, *, topic_prior: Any, document_prior: float, vocabulary: Vocabulary | None
) -> Posterior:
    """The posterior with these counts on top of the prior; words without names are numbered."""
    topics, words = contribution.shape
    names = tuple(map(str, range(words))) if vocabulary is None else words_in_order(vocabulary)
    if len(names) != words:
        raise NotConvertible(f"The model has {words:,} words, the vocabulary {len(names):,}.")
    model = LatentDirichletAllocation(topics, names, float(document_prior), topic_prior)
    return Posterior(model.structure, {"topics": contribution})


def on_vocabulary(contribution: Array, own: Sequence[str], shared: Sequence[str]) -> csr_array:
    """The same counts with their columns in the order of a shared vocabulary, which must hold all words that count."""
    places = {word: place for place, word in enumerate(shared)}
    entries = coo_array(contribution)
    missing = sorted({own[column] for column in entries.col} - places.keys())
    if missing:
        raise NotConvertible(
            f"{len(missing):,} words of the model are not in the vocabulary: {', '.join(missing[:5])}… "
            "Use a vocabulary that holds the words of all models."
        )
    columns = np.array([places[own[column]] for column in entries.col], dtype=np.int32)
    return csr_array((entries.data, (entries.row, columns)), shape=(contribution.shape[0], len(shared)))


def symmetric_prior(alpha: Any, given: float | None, remedy: str) -> float:
    """The one number that all topics share in a document's prior."""
    if given is not None:
        return float(given)
    values = np.ravel(np.asarray(alpha, dtype=np.float64))
    if (values != values[0]).any():
        raise NotConvertible(
            f"The document prior differs between topics (from {values.min():.3g} to {values.max():.3g}): relabelling "
            f"topics would change the model. {remedy}, or pass document_prior=… for the prior of the merged model."
        )
    return float(values[0])


def topic_parameters(posterior: Posterior) -> tuple[Array, Array, float]:
    """α of the topics, α of their prior, and the document prior, of a posterior of latent Dirichlet allocation."""
    check_kind(Posterior, posterior=posterior)
    model = posterior.structure.model
    if model.get("name") != "LatentDirichletAllocation":
        raise NotConvertible(f"A posterior of {model.get('name', 'an unnamed model')} is no topic model.")
    prior = concentration(posterior.structure.prior["topics"])
    return prior + posterior.contribution["topics"], prior, float(model["document_prior"])


def concentration(natural: Array) -> Array:
    """α from α − 1, with the digits that somebody wrote (0.1) rather than those that are left (0.09999999999999998)."""
    alpha = natural + 1.0
    written = np.round(alpha, 15)
    return np.where(written - 1.0 == natural, written, alpha)
