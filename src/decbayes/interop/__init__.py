"""Fitted models of other libraries in, merged posteriors back out. No library is imported before it is needed."""

from decbayes.interop.arviz import to_arviz
from decbayes.interop.draws import Projection, from_arviz, from_draws, from_moments
from decbayes.interop.gensim import from_gensim, to_gensim
from decbayes.interop.hmmlearn import from_hmmlearn, to_hmmlearn
from decbayes.interop.numpyro import from_numpyro
from decbayes.interop.sklearn import from_sklearn, merge_sklearn, to_sklearn
from decbayes.interop.stepmix import from_stepmix, stepmix_data
from decbayes.interop.tomotopy import from_tomotopy, to_tomotopy
from decbayes.interop.topics import from_topic_counts, to_ctfidf

__all__ = [
    "Projection",
    "from_arviz",
    "from_draws",
    "from_gensim",
    "from_hmmlearn",
    "from_moments",
    "from_numpyro",
    "from_sklearn",
    "from_stepmix",
    "from_tomotopy",
    "from_topic_counts",
    "merge_sklearn",
    "stepmix_data",
    "to_arviz",
    "to_ctfidf",
    "to_gensim",
    "to_hmmlearn",
    "to_sklearn",
    "to_tomotopy",
]
