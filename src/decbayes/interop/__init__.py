"""Fitted models of other libraries in, merged posteriors out. Libraries are imported on use."""

from decbayes.interop._arviz import to_arviz
from decbayes.interop._gensim import from_gensim, to_gensim
from decbayes.interop._hmmlearn import from_hmmlearn, to_hmmlearn
from decbayes.interop._numpyro import from_numpyro
from decbayes.interop._sklearn import from_sklearn, merge_sklearn, to_sklearn
from decbayes.interop._stepmix import from_stepmix, stepmix_data
from decbayes.interop._tomotopy import from_tomotopy, to_tomotopy
from decbayes.interop._topics import from_topic_counts, to_ctfidf
from decbayes.interop.draws import Projection, from_arviz, from_draws, from_moments

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
