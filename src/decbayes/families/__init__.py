"""Exponential families: λ, A(λ) and ∇A(λ), vectorised over components."""

from decbayes.families.dirichlet import Beta, Dirichlet, Weights
from decbayes.families.discrete import Bernoulli, Categorical
from decbayes.families.family import Array, Contribution, Family, dense
from decbayes.families.gaussian import DiagonalGaussian, FullGaussian, IsotropicGaussian
from decbayes.families.isotropic_precision import IsotropicNormalGamma
from decbayes.families.precision import Gamma, MeanAndPrecision, NormalGamma, NormalWishart

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Beta(),
        Bernoulli(),
        Categorical(),
        DiagonalGaussian(),
        Dirichlet(),
        FullGaussian(),
        Gamma(),
        IsotropicGaussian(),
        IsotropicNormalGamma(),
        NormalGamma(),
        NormalWishart(),
        Weights(),
    )
}

__all__ = [
    "FAMILIES",
    "Array",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Contribution",
    "DiagonalGaussian",
    "Dirichlet",
    "Family",
    "FullGaussian",
    "Gamma",
    "IsotropicGaussian",
    "IsotropicNormalGamma",
    "MeanAndPrecision",
    "NormalGamma",
    "NormalWishart",
    "Weights",
    "dense",
]
