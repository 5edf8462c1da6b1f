"""scikit-learn estimators for rows of several sites: each site is fitted on its own, and the posteriors are merged."""

from decbayes.base.extras import require

require("sklearn", extra="interop", task="Estimators")

from decbayes.sklearn._component_models import GaussianMixture, LatentClasses, LatentDirichletAllocation  # noqa: E402
from decbayes.sklearn._word_scores import WordScorer  # noqa: E402
from decbayes.sklearn.regressions import (  # noqa: E402
    LinearRegression,
    LogisticRegression,
    MultinomialRegression,
    PoissonRegression,
)

__all__ = [
    "GaussianMixture",
    "LatentClasses",
    "LatentDirichletAllocation",
    "LinearRegression",
    "LogisticRegression",
    "MultinomialRegression",
    "PoissonRegression",
    "WordScorer",
]
