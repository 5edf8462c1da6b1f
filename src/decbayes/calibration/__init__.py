"""How far to trust a posterior: scores on held-back data, matches, intervals, plans."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.calibration.accuracy import Accuracy as Accuracy
    from decbayes.calibration.checks import Diagnosis as Diagnosis
    from decbayes.calibration.checks import PredictiveCheck as PredictiveCheck
    from decbayes.calibration.checks import diagnose as diagnose
    from decbayes.calibration.checks import predictive_check as predictive_check
    from decbayes.calibration.differences import heterogeneity as heterogeneity
    from decbayes.calibration.halves import with_halves as with_halves
    from decbayes.calibration.intervals import calibrate as calibrate
    from decbayes.calibration.intervals import calibrated as calibrated
    from decbayes.calibration.intervals import jackknifed as jackknifed
    from decbayes.calibration.linear_response import covariance as covariance
    from decbayes.calibration.matches import overlap as overlap
    from decbayes.calibration.matches import reliability as reliability
    from decbayes.calibration.matches import why_unknown as why_unknown
    from decbayes.calibration.plans import PlanReport as PlanReport
    from decbayes.calibration.plans import advice as advice
    from decbayes.calibration.plans import try_plan as try_plan
    from decbayes.calibration.pooling import Pooled as Pooled
    from decbayes.calibration.pooling import pool as pool
    from decbayes.calibration.sites import Information as Information
    from decbayes.calibration.trials import Plan as Plan
    from decbayes.calibration.validation import Choice as Choice
    from decbayes.calibration.validation import Scores as Scores
    from decbayes.calibration.validation import validate as validate
    from decbayes.calibration.worlds import quick as quick
    from decbayes.models.topics.corpus_shares import TopicShares as TopicShares
    from decbayes.models.topics.corpus_shares import topic_shares as topic_shares
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            ".checks": "Diagnosis PredictiveCheck diagnose predictive_check",
            ".differences": "heterogeneity",
            ".halves": "with_halves",
            ".intervals": "calibrate calibrated jackknifed",
            ".linear_response": "covariance",
            ".matches": "overlap reliability why_unknown",
            ".plans": "PlanReport advice try_plan",
            ".pooling": "Pooled pool",
            "decbayes.models.topics.corpus_shares": "TopicShares topic_shares",
            ".accuracy": "Accuracy",
            ".sites": "Information",
            ".trials": "Plan",
            ".validation": "Choice Scores validate",
            ".worlds": "quick",
        },
    )
