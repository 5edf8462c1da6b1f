"""What every model is made of: the protocol, settings, the registry, the one loop, data as it comes in."""

from decbayes.models.core.ascent import Ascent, Fit, FitInterrupted
from decbayes.models.core.model import Model
from decbayes.models.core.registry import MODELS, model_for, register
from decbayes.models.core.simulation import simulate
from decbayes.models.core.transforms import transform

__all__ = ["MODELS", "Ascent", "Fit", "FitInterrupted", "Model", "model_for", "register", "simulate", "transform"]
