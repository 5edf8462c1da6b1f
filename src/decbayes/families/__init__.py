"""Exponential families: λ, A(λ) and ∇A(λ), vectorised over components, and the operations that merges need.

To add a family, derive a class from `Family` and call `decbayes.families.register(MyFamily())`. It can then be merged,
saved and read like those here.
"""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.families.dirichlets.beta import Beta as Beta
    from decbayes.families.dirichlets.dirichlet import Dirichlet as Dirichlet
    from decbayes.families.dirichlets.dirichlet import Shares as Shares
    from decbayes.families.dirichlets.dirichlet import Weights as Weights
    from decbayes.families.dirichlets.transitions import Dirichlets as Dirichlets
    from decbayes.families.dirichlets.transitions import Transitions as Transitions
    from decbayes.families.family import Family as Family
    from decbayes.families.gamma import Gamma as Gamma
    from decbayes.families.gaussians.gaussian import DiagonalGaussian as DiagonalGaussian
    from decbayes.families.gaussians.gaussian import FullGaussian as FullGaussian
    from decbayes.families.gaussians.gaussian import IsotropicGaussian as IsotropicGaussian
    from decbayes.families.gaussians.gaussian_gamma import GaussianGamma as GaussianGamma
    from decbayes.families.gaussians.isotropic_precision import IsotropicNormalGamma as IsotropicNormalGamma
    from decbayes.families.gaussians.precision import MeanAndPrecision as MeanAndPrecision
    from decbayes.families.gaussians.precision import NormalGamma as NormalGamma
    from decbayes.families.gaussians.precision import NormalWishart as NormalWishart
    from decbayes.families.gaussians.wishart import Wishart as Wishart
    from decbayes.families.log_odds import Bernoulli as Bernoulli
    from decbayes.families.log_odds import Categorical as Categorical
    from decbayes.families.matrices import Array as Array
    from decbayes.families.matrices import Contribution as Contribution
    from decbayes.families.matrices import dense as dense
    from decbayes.families.registry import FAMILIES as FAMILIES
    from decbayes.families.registry import register as register
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            ".dirichlets.beta": "Beta",
            ".dirichlets.dirichlet": "Dirichlet Shares Weights",
            ".dirichlets.transitions": "Dirichlets Transitions",
            ".family": "Family",
            ".gamma": "Gamma",
            ".gaussians.gaussian": "DiagonalGaussian FullGaussian IsotropicGaussian",
            ".gaussians.gaussian_gamma": "GaussianGamma",
            ".gaussians.isotropic_precision": "IsotropicNormalGamma",
            ".gaussians.precision": "MeanAndPrecision NormalGamma NormalWishart",
            ".gaussians.wishart": "Wishart",
            ".log_odds": "Bernoulli Categorical",
            ".matrices": "Array Contribution dense",
            ".registry": "FAMILIES register",
        },
    )
