"""Decentralized Bayesian inference: fit where the data lives, broadcast once, merge anywhere."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from decbayes.calibration import Information as Information
    from decbayes.calibration import Plan as Plan
    from decbayes.calibration import Scores as Scores
    from decbayes.calibration import calibrate as calibrate
    from decbayes.calibration import diagnose as diagnose
    from decbayes.calibration import overlap as overlap
    from decbayes.calibration import predictive_check as predictive_check
    from decbayes.calibration import reliability as reliability
    from decbayes.calibration import try_plan as try_plan
    from decbayes.calibration import validate as validate
    from decbayes.devices import use_device as use_device
    from decbayes.errors import DecbayesError as DecbayesError
    from decbayes.files import Library as Library
    from decbayes.files import load as load
    from decbayes.files import save as save
    from decbayes.inputs.chunks import Chunks as Chunks
    from decbayes.inputs.recipes import Recipe as Recipe
    from decbayes.merging import Alignment as Alignment
    from decbayes.merging import Exhaustive as Exhaustive
    from decbayes.merging import Grouping as Grouping
    from decbayes.merging import Hierarchical as Hierarchical
    from decbayes.merging import Lineage as Lineage
    from decbayes.merging import Matching as Matching
    from decbayes.merging import Quadratic as Quadratic
    from decbayes.merging import Robust as Robust
    from decbayes.merging import Swaps as Swaps
    from decbayes.merging import Tree as Tree
    from decbayes.merging import align as align
    from decbayes.merging import follow as follow
    from decbayes.merging import merge as merge
    from decbayes.merging import objective as objective
    from decbayes.merging import pad as pad
    from decbayes.merging import product as product
    from decbayes.merging import robust_merge as robust_merge
    from decbayes.merging import symmetrize as symmetrize
    from decbayes.merging import tree as tree
    from decbayes.models.ascent import Ascent as Ascent
    from decbayes.models.ascent import Fit as Fit
    from decbayes.models.ascent import FitInterrupted as FitInterrupted
    from decbayes.models.comparison import adjusted_rand as adjusted_rand
    from decbayes.models.comparison import relative_entropy as relative_entropy
    from decbayes.models.features import LatentFeatures as LatentFeatures
    from decbayes.models.gaussian_mixture import GaussianMixture as GaussianMixture
    from decbayes.models.gibbs import gibbs as gibbs
    from decbayes.models.hidden_markov import HiddenMarkov as HiddenMarkov
    from decbayes.models.holdback import hold_back as hold_back
    from decbayes.models.holdout import hold_out as hold_out
    from decbayes.models.latent_classes import LatentClasses as LatentClasses
    from decbayes.models.lda import LatentDirichletAllocation as LatentDirichletAllocation
    from decbayes.models.linear_regression import LinearRegression as LinearRegression
    from decbayes.models.logistic_regression import LogisticRegression as LogisticRegression
    from decbayes.models.mean import GaussianMean as GaussianMean
    from decbayes.models.mixture import Mixture as Mixture
    from decbayes.models.model import Model as Model
    from decbayes.models.poisson_regression import PoissonRegression as PoissonRegression
    from decbayes.models.quality import Quality as Quality
    from decbayes.models.registry import model_for as model_for
    from decbayes.models.registry import register as register
    from decbayes.models.regression_mixture import RegressionMixture as RegressionMixture
    from decbayes.models.simple_mixtures import BernoulliMixture as BernoulliMixture
    from decbayes.models.simple_mixtures import CategoricalMixture as CategoricalMixture
    from decbayes.models.simple_mixtures import PoissonMixture as PoissonMixture
    from decbayes.models.simulation import simulate as simulate
    from decbayes.models.topic_prior import with_priors as with_priors
    from decbayes.models.transforms import transform as transform
    from decbayes.posterior import Posterior as Posterior
    from decbayes.reporting import report as report
    from decbayes.streaming import Refinement as Refinement
    from decbayes.streaming import epochs as epochs
    from decbayes.streaming import merge_batches as merge_batches
    from decbayes.streaming import refine as refine
    from decbayes.streaming import sda_bayes as sda_bayes
    from decbayes.streaming import sequential as sequential
    from decbayes.structure import Structure as Structure
    from decbayes.symmetry import CoupledSet as CoupledSet
    from decbayes.updates.forgetting import forget as forget

_HOME = {
    "Alignment": "merging",
    "Ascent": "models.ascent",
    "BernoulliMixture": "models.simple_mixtures",
    "CategoricalMixture": "models.simple_mixtures",
    "Chunks": "inputs.chunks",
    "CoupledSet": "symmetry",
    "DecbayesError": "errors",
    "Exhaustive": "merging",
    "Fit": "models.ascent",
    "FitInterrupted": "models.ascent",
    "GaussianMean": "models.mean",
    "GaussianMixture": "models.gaussian_mixture",
    "Grouping": "merging",
    "HiddenMarkov": "models.hidden_markov",
    "Hierarchical": "merging",
    "Information": "calibration",
    "LatentClasses": "models.latent_classes",
    "LatentDirichletAllocation": "models.lda",
    "LatentFeatures": "models.features",
    "Library": "files",
    "Lineage": "merging",
    "LinearRegression": "models.linear_regression",
    "LogisticRegression": "models.logistic_regression",
    "Matching": "merging",
    "Mixture": "models.mixture",
    "Model": "models.model",
    "Plan": "calibration",
    "PoissonMixture": "models.simple_mixtures",
    "PoissonRegression": "models.poisson_regression",
    "RegressionMixture": "models.regression_mixture",
    "Posterior": "posterior",
    "Quadratic": "merging",
    "Quality": "models.quality",
    "Recipe": "inputs.recipes",
    "Refinement": "streaming",
    "Robust": "merging",
    "Scores": "calibration",
    "Structure": "structure",
    "Swaps": "merging",
    "Tree": "merging",
    "adjusted_rand": "models.comparison",
    "align": "merging",
    "calibrate": "calibration",
    "columns": "",
    "diagnose": "calibration",
    "epochs": "streaming",
    "errors": "",
    "families": "",
    "follow": "merging",
    "forget": "updates.forgetting",
    "gibbs": "models.gibbs",
    "hold_back": "models.holdback",
    "hold_out": "models.holdout",
    "interop": "",
    "load": "files",
    "merge": "merging",
    "merge_batches": "streaming",
    "model_for": "models.registry",
    "objective": "merging",
    "overlap": "calibration",
    "pad": "merging",
    "plot": "",
    "predictive_check": "calibration",
    "product": "merging",
    "refine": "streaming",
    "register": "models.registry",
    "relative_entropy": "models.comparison",
    "report": "reporting",
    "reliability": "calibration",
    "robust_merge": "merging",
    "save": "files",
    "sda_bayes": "streaming",
    "sequential": "streaming",
    "simulate": "models.simulation",
    "sklearn": "",
    "symmetrize": "merging",
    "transform": "models.transforms",
    "tree": "merging",
    "try_plan": "calibration",
    "use_device": "devices",
    "validate": "calibration",
    "with_priors": "models.topic_prior",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that importing decbayes costs nothing that is not used."""
    if name not in _HOME:
        raise AttributeError(f"decbayes has no '{name}'; it has {', '.join(__all__)}.")
    if not _HOME[name]:
        return import_module(f"decbayes.{name}")
    value = getattr(import_module(f"decbayes.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
