"""How far to trust a posterior: scores on held-back data, matches, intervals, plans."""

from decbayes.calibration.checks import Diagnosis, PredictiveCheck, diagnose, predictive_check
from decbayes.calibration.intervals import calibrate, calibrated, jackknifed
from decbayes.calibration.learning import reliability
from decbayes.calibration.linear_response import covariance
from decbayes.calibration.matches import overlap
from decbayes.calibration.plans import PlanReport, advice, try_plan
from decbayes.calibration.shares import TopicShares, topic_shares
from decbayes.calibration.sites import Information
from decbayes.calibration.trials import Plan
from decbayes.calibration.validation import Choice, Scores, validate

__all__ = [
    "Choice",
    "Diagnosis",
    "Information",
    "Plan",
    "PlanReport",
    "PredictiveCheck",
    "Scores",
    "TopicShares",
    "advice",
    "calibrate",
    "calibrated",
    "covariance",
    "diagnose",
    "jackknifed",
    "overlap",
    "predictive_check",
    "reliability",
    "topic_shares",
    "try_plan",
    "validate",
]
