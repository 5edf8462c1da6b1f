"""Models: data → local posterior → prediction.

Most models are at the front door (`db.GaussianMixture`). This room adds `GaussianMean`, which has no components,
`ClassMembership`, a regression of latent classes, and `transform`, which applies a posterior to new data.
"""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.models.core import transform as transform
    from decbayes.models.mixtures import GaussianMean as GaussianMean
    from decbayes.models.regressions import ClassMembership as ClassMembership
else:
    __getattr__, __all__ = exported(
        __name__, {".core": "transform", ".mixtures": "GaussianMean", ".regressions": "ClassMembership"}
    )
