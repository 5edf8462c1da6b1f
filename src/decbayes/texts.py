"""What topics need beside the model: how texts become words, priors of words, quality of topics."""

from decbayes.inputs.recipes import Recipe
from decbayes.models.topics import Quality, with_priors

__all__ = ["Quality", "Recipe", "with_priors"]
