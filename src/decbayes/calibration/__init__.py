"""How far to believe a posterior: scores on data that sites held back, matches, intervals."""

from decbayes.calibration.calibrating import calibrate, calibrated
from decbayes.calibration.jackknife import jackknifed
from decbayes.calibration.sites import Information
from decbayes.calibration.topic_shares import TopicShares, topic_shares

__all__ = ["Information", "TopicShares", "calibrate", "calibrated", "jackknifed", "topic_shares"]
