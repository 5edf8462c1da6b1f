"""Regressions over tables: linear, logistic, Poisson, with coefficients that may vary between sites."""

from typing import TYPE_CHECKING

from decbayes.lazily import exported

if TYPE_CHECKING:
    from decbayes.models.regressions._mixture import RegressionMixture as RegressionMixture
    from decbayes.models.regressions.linear import LinearRegression as LinearRegression
    from decbayes.models.regressions.logistic import LogisticRegression as LogisticRegression
    from decbayes.models.regressions.poisson import PoissonRegression as PoissonRegression

__getattr__, __all__ = exported(
    __name__,
    {
        "._mixture": "RegressionMixture",
        ".linear": "LinearRegression",
        ".logistic": "LogisticRegression",
        ".poisson": "PoissonRegression",
    },
)
