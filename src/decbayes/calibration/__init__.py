"""How far to believe a posterior: scores on data that sites held back, matches, intervals, plans."""

from decbayes.calibration.calibrating import calibrate, calibrated
from decbayes.calibration.jackknife import jackknifed
from decbayes.calibration.linear_response import covariance
from decbayes.calibration.shares import TopicShares, topic_shares
from decbayes.calibration.sites import Information
from decbayes.calibration.validation import Choice, Scores, validate

__all__ = [
    "Choice",
    "Information",
    "Scores",
    "TopicShares",
    "calibrate",
    "calibrated",
    "covariance",
    "jackknifed",
    "topic_shares",
    "validate",
]
from decbayes.calibration.learning import reliability
from decbayes.calibration.matches import overlap
from decbayes.calibration.plans import PlanReport, advice, try_plan
from decbayes.calibration.trials import Plan
from decbayes.calibration.validation import Choice, Scores, validate

__all__ = ["Choice", "Plan", "PlanReport", "Scores", "advice", "overlap", "reliability", "try_plan", "validate"]
