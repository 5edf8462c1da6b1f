"""What you need to write your own model, family or solver."""

from decbayes.base.arguments import Seed
from decbayes.merging.base.problem import Problem, Solution, Solver
from decbayes.models.core import Fit, FitInterrupted, Model
from decbayes.models.core.settings import LOCAL
from decbayes.models.likelihoods import Likelihood
from decbayes.models.mixtures import Mixture
from decbayes.structure import CoupledSet, Structure

__all__ = [
    "LOCAL",
    "CoupledSet",
    "Fit",
    "FitInterrupted",
    "Likelihood",
    "Mixture",
    "Model",
    "Problem",
    "Seed",
    "Solution",
    "Solver",
    "Structure",
]
