"""The parts of every model: protocol, settings, registry, the one loop, checks of incoming data."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.models.core.ascent import Ascent as Ascent
    from decbayes.models.core.ascent import Fit as Fit
    from decbayes.models.core.ascent import FitInterrupted as FitInterrupted
    from decbayes.models.core.model import Model as Model
    from decbayes.models.core.registry import model_for as model_for
    from decbayes.models.core.registry import register as register
    from decbayes.models.core.simulation import simulate as simulate
    from decbayes.models.core.transforms import transform as transform
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            ".ascent": "Ascent Fit FitInterrupted",
            ".model": "Model",
            ".registry": "model_for register",
            ".simulation": "simulate",
            ".transforms": "transform",
        },
    )
