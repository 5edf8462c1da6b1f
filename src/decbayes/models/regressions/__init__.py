"""Regressions over tables: linear, logistic, counts, survival, with coefficients that may vary between sites."""

from decbayes.models.regressions._mixture import RegressionMixture
from decbayes.models.regressions.linear import LinearRegression
from decbayes.models.regressions.logistic import LogisticRegression
from decbayes.models.regressions.negative_binomial import NegativeBinomialRegression
from decbayes.models.regressions.ordered import OrderedRegression
from decbayes.models.regressions.poisson import PoissonRegression
from decbayes.models.regressions.survival import SurvivalRegression

__all__ = [
    "LinearRegression",
    "LogisticRegression",
    "NegativeBinomialRegression",
    "OrderedRegression",
    "PoissonRegression",
    "RegressionMixture",
    "SurvivalRegression",
]
