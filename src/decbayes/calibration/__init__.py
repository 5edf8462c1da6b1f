"""How far to believe a posterior: scores on data that sites held back, matches, intervals."""

from decbayes.calibration.calibrating import calibrate, calibrated
from decbayes.calibration.sites import Information

__all__ = ["Information", "calibrate", "calibrated"]
