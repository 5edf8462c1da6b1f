"""Mixtures: every observation belongs to one of K components."""

from decbayes.models.mixtures._mean import GaussianMean
from decbayes.models.mixtures._sampling import gibbs
from decbayes.models.mixtures.gaussian_mixture import GaussianMixture
from decbayes.models.mixtures.mixture import BernoulliMixture, CategoricalMixture, Mixture, PoissonMixture

__all__ = [
    "BernoulliMixture",
    "CategoricalMixture",
    "GaussianMean",
    "GaussianMixture",
    "Mixture",
    "PoissonMixture",
    "gibbs",
]
