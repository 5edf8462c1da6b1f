"""Regressions over tables: linear, logistic, Poisson, with coefficients that may vary between sites."""

from decbayes.models.regressions._mixture import RegressionMixture
from decbayes.models.regressions.linear import LinearRegression
from decbayes.models.regressions.logistic import LogisticRegression
from decbayes.models.regressions.poisson import PoissonRegression

__all__ = [
    "LinearRegression",
    "LogisticRegression",
    "PoissonRegression",
    "RegressionMixture",
]
