"""Mixtures: every observation belongs to one of K components."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.models.mixtures._mean import GaussianMean as GaussianMean
    from decbayes.models.mixtures._sampling import gibbs as gibbs
    from decbayes.models.mixtures.gaussian_mixture import GaussianMixture as GaussianMixture
    from decbayes.models.mixtures.mixture import BernoulliMixture as BernoulliMixture
    from decbayes.models.mixtures.mixture import CategoricalMixture as CategoricalMixture
    from decbayes.models.mixtures.mixture import Mixture as Mixture
    from decbayes.models.mixtures.mixture import PoissonMixture as PoissonMixture
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            "._mean": "GaussianMean",
            "._sampling": "gibbs",
            ".gaussian_mixture": "GaussianMixture",
            ".mixture": "BernoulliMixture CategoricalMixture Mixture PoissonMixture",
        },
    )
