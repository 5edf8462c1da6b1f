"""What topics need besides the model: words from texts, priors, quality, finding and comparing topics."""

from decbayes.inputs.recipes import Recipe
from decbayes.models.covariates import Effects, effects
from decbayes.models.topics import Prevalence, Quality, find, prevalence, with_priors
from decbayes.views.comparison import compare

__all__ = ["Effects", "Prevalence", "Quality", "Recipe", "compare", "effects", "find", "prevalence", "with_priors"]
