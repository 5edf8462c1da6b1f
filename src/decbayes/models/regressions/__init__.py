"""Regressions over tables: linear, logistic, counts, survival, with coefficients that may vary between sites."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.models.regressions.classes.membership import ClassMembership as ClassMembership
    from decbayes.models.regressions.linear import LinearRegression as LinearRegression
    from decbayes.models.regressions.logistic import LogisticRegression as LogisticRegression
    from decbayes.models.regressions.multinomial import MultinomialRegression as MultinomialRegression
    from decbayes.models.regressions.negative_binomial import NegativeBinomialRegression as NegativeBinomialRegression
    from decbayes.models.regressions.ordered import OrderedRegression as OrderedRegression
    from decbayes.models.regressions.poisson import PoissonRegression as PoissonRegression
    from decbayes.models.regressions.regression_mixture import RegressionMixture as RegressionMixture
    from decbayes.models.regressions.survival import SurvivalRegression as SurvivalRegression
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            ".regression_mixture": "RegressionMixture",
            ".classes.membership": "ClassMembership",
            ".linear": "LinearRegression",
            ".logistic": "LogisticRegression",
            ".multinomial": "MultinomialRegression",
            ".negative_binomial": "NegativeBinomialRegression",
            ".ordered": "OrderedRegression",
            ".poisson": "PoissonRegression",
            ".survival": "SurvivalRegression",
        },
    )
