"""Decentralized Bayesian inference: fit where the data lives, broadcast once, merge anywhere."""

from decbayes import errors as errors
from decbayes.base.lazily import exported

# `typing` would take longer to import than this whole file.
TYPE_CHECKING = False

__version__ = "0.1.0"

if TYPE_CHECKING:
    from decbayes import checking as checking
    from decbayes import columns as columns
    from decbayes import devices as devices
    from decbayes import disclosure as disclosure
    from decbayes import extending as extending
    from decbayes import families as families
    from decbayes import interop as interop
    from decbayes import merging as merging
    from decbayes import models as models
    from decbayes import plot as plot
    from decbayes import privacy as privacy
    from decbayes import secure as secure
    from decbayes import sklearn as sklearn
    from decbayes import solvers as solvers
    from decbayes import streams as streams
    from decbayes import study as study
    from decbayes import texts as texts
    from decbayes.calibration import calibrate as calibrate
    from decbayes.calibration import validate as validate
    from decbayes.disclosure import load as load
    from decbayes.disclosure import private_merge as private_merge
    from decbayes.disclosure import private_plan as private_plan
    from decbayes.disclosure import save as save
    from decbayes.merging import align as align
    from decbayes.merging import merge as merge
    from decbayes.models.core import Ascent as Ascent
    from decbayes.models.core import model_for as model_for
    from decbayes.models.core import register as register
    from decbayes.models.core import simulate as simulate
    from decbayes.models.features import LatentFeatures as LatentFeatures
    from decbayes.models.mixtures import BernoulliMixture as BernoulliMixture
    from decbayes.models.mixtures import CategoricalMixture as CategoricalMixture
    from decbayes.models.mixtures import GaussianMixture as GaussianMixture
    from decbayes.models.mixtures import PoissonMixture as PoissonMixture
    from decbayes.models.regressions import LinearRegression as LinearRegression
    from decbayes.models.regressions import LogisticRegression as LogisticRegression
    from decbayes.models.regressions import MultinomialRegression as MultinomialRegression
    from decbayes.models.regressions import NegativeBinomialRegression as NegativeBinomialRegression
    from decbayes.models.regressions import OrderedRegression as OrderedRegression
    from decbayes.models.regressions import PoissonRegression as PoissonRegression
    from decbayes.models.regressions import RegressionMixture as RegressionMixture
    from decbayes.models.regressions import SurvivalRegression as SurvivalRegression
    from decbayes.models.sequences import HiddenMarkov as HiddenMarkov
    from decbayes.models.tables import LatentClasses as LatentClasses
    from decbayes.models.topics import LatentDirichletAllocation as LatentDirichletAllocation
    from decbayes.posterior import Posterior as Posterior
    from decbayes.privacy import Privacy as Privacy
    from decbayes.reporting import report as report
    from decbayes.streams import refine as refine
else:
    # Each public name is loaded on first use, so importing decbayes costs only what is used.
    __getattr__, __all__ = exported(
        __name__,
        {
            ".calibration": "calibrate validate",
            ".disclosure": "load private_merge private_plan save",
            ".merging": "align merge",
            ".models.core": "Ascent model_for register simulate",
            ".models.features": "LatentFeatures",
            ".models.mixtures": "BernoulliMixture CategoricalMixture GaussianMixture PoissonMixture",
            ".models.regressions": "LinearRegression LogisticRegression MultinomialRegression "
            "NegativeBinomialRegression OrderedRegression PoissonRegression RegressionMixture SurvivalRegression",
            ".models.sequences": "HiddenMarkov",
            ".models.tables": "LatentClasses",
            ".models.topics": "LatentDirichletAllocation",
            ".posterior": "Posterior",
            ".privacy": "Privacy",
            ".reporting": "report",
            ".streams": "refine",
        },
        rooms="checking columns disclosure merging plot secure solvers streams",
        # For special purposes: found by name, not listed.
        further="devices extending families interop models privacy sklearn study texts",
    )

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]
