"""What the topic models of all libraries share: expected counts of words in topics on top of a prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from decbayes.arguments import check_kind
from decbayes.errors import NotConvertible
from decbayes.families import Array, Contribution
from decbayes.models.document_prior import contributions, sums_of
from decbayes.models.lda import LatentDirichletAllocation
from decbayes.models.topic_prior import concentration
from decbayes.models.vocabulary import Vocabulary, words_in_order
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

    A document prior that differs between topics is taken to be learned, from documents of these lengths.
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


def topic_parameters(posterior: Posterior) -> tuple[Array, Array, Array]:
    """α of the topics, α of their prior, and the document prior, of a posterior of latent Dirichlet allocation."""
    check_kind(Posterior, posterior=posterior)
    name = posterior.structure.model.get("name", "an unnamed model")
    if name != "LatentDirichletAllocation":
        raise NotConvertible(f"A posterior of {name} is no topic model.")
    model = LatentDirichletAllocation.from_structure(posterior.structure)
    prior = concentration(posterior.structure.prior["topics"])
    return prior + posterior.contribution["topics"], prior, model.document_prior_of(posterior)
