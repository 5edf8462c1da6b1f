"""Topics of documents: latent Dirichlet allocation by batch variational Bayes."""

from decbayes.models.topics.lda import LatentDirichletAllocation
from decbayes.models.topics.quality import Quality
from decbayes.models.topics.word_prior import with_priors

__all__ = [
    "LatentDirichletAllocation",
    "Quality",
    "with_priors",
]
