"""Topics of documents: latent Dirichlet allocation by batch variational Bayes."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.models.topics.finding import find as find
    from decbayes.models.topics.lda import LatentDirichletAllocation as LatentDirichletAllocation
    from decbayes.models.topics.quality import CoOccurrence as CoOccurrence
    from decbayes.models.topics.quality import Quality as Quality
    from decbayes.models.topics.shares_by_period import Prevalence as Prevalence
    from decbayes.models.topics.shares_by_period import prevalence as prevalence
    from decbayes.models.topics.word_prior import with_priors as with_priors
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            ".finding": "find",
            ".lda": "LatentDirichletAllocation",
            ".shares_by_period": "Prevalence prevalence",
            ".quality": "CoOccurrence Quality",
            ".word_prior": "with_priors",
        },
    )
