"""Exponential families: λ, A(λ) and ∇A(λ), vectorised over components, and the operations that merges need.

To add a family, derive a class from `Family` and call `decbayes.families.register(MyFamily())`. It can then be merged,
saved and read like those here.
"""

from decbayes.families.dirichlets.beta import Beta
from decbayes.families.dirichlets.dirichlet import Dirichlet, Shares, Weights
from decbayes.families.dirichlets.transitions import Dirichlets, Transitions
from decbayes.families.family import Family
from decbayes.families.gamma import Gamma
from decbayes.families.gaussians.gaussian import DiagonalGaussian, FullGaussian, IsotropicGaussian
from decbayes.families.gaussians.gaussian_gamma import GaussianGamma
from decbayes.families.gaussians.isotropic_precision import IsotropicNormalGamma
from decbayes.families.gaussians.precision import MeanAndPrecision, NormalGamma, NormalWishart
from decbayes.families.log_odds import Bernoulli, Categorical
from decbayes.families.matrices import Array, Contribution, dense
from decbayes.families.registry import FAMILIES, register

register(Bernoulli())
register(Beta())
register(Categorical())
register(DiagonalGaussian())
register(Dirichlet())
register(Dirichlets())
register(FullGaussian())
register(Gamma())
register(GaussianGamma())
register(IsotropicGaussian())
register(IsotropicNormalGamma())
register(NormalGamma())
register(NormalWishart())
register(Shares())
register(Transitions())
register(Weights())

__all__ = [
    "FAMILIES",
    "Array",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Contribution",
    "DiagonalGaussian",
    "Dirichlet",
    "Dirichlets",
    "Family",
    "FullGaussian",
    "Gamma",
    "GaussianGamma",
    "IsotropicGaussian",
    "IsotropicNormalGamma",
    "MeanAndPrecision",
    "NormalGamma",
    "NormalWishart",
    "Shares",
    "Transitions",
    "Weights",
    "dense",
    "register",
]
