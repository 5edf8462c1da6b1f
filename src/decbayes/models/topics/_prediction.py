"""Predictions from a posterior of topics: topics of documents, and probabilities of their words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from decbayes.devices import device_for
from decbayes.errors import InvalidData
from decbayes.families import Array, Dirichlet
from decbayes.models.core.counts import Counts, as_counts, checked_matrix
from decbayes.models.core.model import Row
from decbayes.models.core.points import check_structure
from decbayes.models.core.transforms import Transform
from decbayes.models.topics._fitting import document_topics, predicted, topics_at
from decbayes.models.topics._passes import Inference, Steps, Topics
from decbayes.models.topics.document_prior import SHARES, LearnedPrior
from decbayes.models.topics.sources import OfTexts, tokens_of
from decbayes.posterior import Posterior

# Predictions are made once and from few documents, so they can afford converged document topics.
PREDICTION_TOLERANCE, PREDICTION_STEPS = 1e-4, 300


class Predicting(OfTexts):
    """A model of texts whose posterior has topics, and a prior of their shares in documents."""

    document_prior: Any

    def assign(self, posterior: Posterior, data: Any) -> Array:
        """(documents, topics): the expected share of each topic in each document, given the posterior's topics."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        counts = as_counts(self.opened(data), len(self.vocabulary))
        gamma, _ = self._predict(posterior, counts)
        return np.asarray(gamma / gamma.sum(axis=1, keepdims=True))

    def responsibilities(self, posterior: Posterior, data: Any) -> tuple[Array, Array]:
        """The probability of each topic for each distinct word of a document, and how often the word occurs there."""
        counts = as_counts(self.opened(data), len(self.vocabulary))
        shares = self.assign(posterior, counts)
        topics, part = topics_at(posterior, counts), counts.part(slice(0, len(counts)))
        joint = shares[part.rows()] * (topics.alpha / topics.totals)[part.columns]
        return joint / joint.sum(axis=1, keepdims=True), np.asarray(part.data, dtype=np.float64)

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """Σ_w n_w log Σ_k E[θ_dk] E[β_kw] per document, over the words of `held`; q(θ_d) is that of `data`.

        Without `held` it is the variational bound, a lower bound on the document's log-likelihood.
        """
        if held is None:
            check_structure(posterior, self.structure_for(posterior), "posterior")
            return self._predict(posterior, as_counts(self.opened(data), len(self.vocabulary)))[1]
        shares, counts = self.assign(posterior, data), as_counts(self.opened(held), len(self.vocabulary))
        if len(shares) != len(counts):
            raise InvalidData(f"{len(shares)} documents are observed, but words of {len(counts)} are held out.")
        if not counts.tokens:
            raise InvalidData("No words are held out, so there is nothing to predict.")
        return predicted(counts, shares, topics_at(posterior, counts))

    def taken(self, data: Any, rows: NDArray[np.intp]) -> Any:
        """Selected documents; dense ones become a sparse matrix, which marks them as counts."""
        return super().taken(data if issparse(data) else checked_matrix(self.opened(data), len(self.vocabulary)), rows)

    def document_prior_of(self, posterior: Posterior) -> Array:
        """(topics,): α of each topic in a document, as given or as the posterior has learned it."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        if SHARES in posterior.contribution:
            learned = LearnedPrior.of(posterior)
            return learned.alpha(learned.nothing)
        return np.array(np.broadcast_to(self.document_prior, posterior.structure.prior["topics"].shape[:1]))

    def units(self, data: Any, held: Any = None) -> Array:
        """The number of words, or of held-out words, in each document."""
        counts = as_counts(self.opened(data if held is None else held), len(self.vocabulary))
        return np.concatenate([np.zeros(0), *(counts.part(span).tokens() for span in counts.blocks())])

    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """The number of occurrences behind each topic, and its leading words in order; its name if given."""
        from decbayes.models.topics.quality import Quality  # a fit does not need it

        quality = Quality(posterior, top)
        rows = zip(posterior.names or [""] * len(quality.words), quality.learned, quality.words, strict=True)
        return [
            {
                "topic": k,
                **({"name": name} if posterior.names else {}),
                "occurrences": round(float(added)),
                "words": words if added else (),
            }
            for k, (name, added, words) in enumerate(rows)
        ]

    def transform(self, posterior: Posterior) -> Transform:
        """Computes the part that documents need from the topics only once."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        (alpha,) = Dirichlet().columns(posterior.natural["topics"])
        prior, words = self.document_prior_of(posterior), len(self.vocabulary)
        steps = Steps(prior, PREDICTION_TOLERANCE, PREDICTION_STEPS)
        infer = Inference(Topics(np.ascontiguousarray(alpha.T), alpha.sum(axis=1)), steps)
        names = tuple(f"topic_{k}" for k in range(len(alpha)))
        return Transform(names, lambda data: infer(checked_matrix(self.opened(data), words)), known=tokens_of)

    def _predict(self, posterior: Posterior, counts: Counts) -> tuple[Array, Array]:
        """γ of each document and its part of the bound, given the posterior's topics."""
        topics = topics_at(posterior, counts)
        steps = Steps(self.document_prior_of(posterior), PREDICTION_TOLERANCE, PREDICTION_STEPS)
        return document_topics(counts, topics, steps, device_for())
