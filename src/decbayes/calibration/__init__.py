"""How far to believe a posterior: scores on data that sites held back, matches, intervals."""

from decbayes.calibration.validation import Choice, Scores, validate

__all__ = ["Choice", "Scores", "validate"]
