"""What topics need beside the model: how texts become words, priors, quality; topics found and compared."""

from decbayes.inputs.recipes import Recipe
from decbayes.models.topics import Quality, find, with_priors
from decbayes.views.comparison import compare

__all__ = ["Quality", "Recipe", "compare", "find", "with_priors"]
