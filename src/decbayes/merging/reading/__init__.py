"""Functions of an alignment: margins, probabilities of matches, support, influence, heterogeneity."""

from decbayes.merging.reading._confidence import DOUBTFUL, Confidence, Curve, Reliability, confidence, features
from decbayes.merging.reading._heterogeneity import Heterogeneity, heterogeneity
from decbayes.merging.reading._influence import DISAGREES, Influence, influence
from decbayes.merging.reading._margins import CLOSE, losses, margins, upper_bound
from decbayes.merging.reading._support import (
    LEAST_PER_PARAMETER,
    alone,
    fillings,
    observations,
    seen,
    support,
    thin,
)

__all__ = [
    "CLOSE",
    "DISAGREES",
    "DOUBTFUL",
    "LEAST_PER_PARAMETER",
    "Confidence",
    "Curve",
    "Heterogeneity",
    "Influence",
    "Reliability",
    "alone",
    "confidence",
    "features",
    "fillings",
    "heterogeneity",
    "influence",
    "losses",
    "margins",
    "observations",
    "seen",
    "support",
    "thin",
    "upper_bound",
]
