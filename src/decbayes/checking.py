"""How reliable a result is: held-out data, diagnoses, probabilities of matches, plans tried in advance."""

from decbayes.calibration import (
    Accuracy,
    Information,
    Plan,
    Scores,
    diagnose,
    heterogeneity,
    overlap,
    pool,
    predictive_check,
    reliability,
    try_plan,
    with_halves,
)
from decbayes.models.core.evaluation import adjusted_rand, hold_back, hold_out, relative_entropy
from decbayes.models.mixtures import gibbs
from decbayes.remarks import Remark

__all__ = [
    "Accuracy",
    "Information",
    "Plan",
    "Remark",
    "Scores",
    "adjusted_rand",
    "diagnose",
    "gibbs",
    "heterogeneity",
    "hold_back",
    "hold_out",
    "overlap",
    "pool",
    "predictive_check",
    "relative_entropy",
    "reliability",
    "try_plan",
    "with_halves",
]
