"""Intervals that hold the truth as often as they say."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from decbayes.arguments import check_kind
from decbayes.calibrated import Calibration
from decbayes.calibration.linear_response import deviations
from decbayes.calibration.sites import Information, informations, one_more_pass, total
from decbayes.errors import NotCalibrated
from decbayes.models.model import Model
from decbayes.posterior import Posterior
from decbayes.streaming.refinement import shift

# Deviations that one more pass over the data may move a posterior by: further, and intervals lie in the wrong place.
SETTLED = 0.1


def calibrate(model: Model, shards: Iterable[Any], merged: Posterior) -> Posterior:
    """The same posterior with intervals that hold the truth about as often as they say, by linear response.

    Each site looks once more at its own data, and says how its contribution depends on the merged posterior: a small
    matrix, whose sum over sites is all that is needed (`Information`, `calibrated`). Refine before: the intervals are
    those around the posterior as it is, and `uncertainty` says if another round would still move it.
    """
    data = tuple(shards)
    check_kind(Posterior, posterior=merged)
    found = calibrated(merged, informations(model, data, merged))
    moved = shift(merged, one_more_pass(model, data, merged))
    return found if moved <= SETTLED else unsettled(found, moved)


def calibrated(posterior: Posterior, parts: Sequence[Information]) -> Posterior:
    """The posterior with the deviations that follow from the information of all sites."""
    check_kind(Posterior, posterior=posterior)
    whole = total(parts)
    if whole.at != posterior.digest:
        raise NotCalibrated("The sites' information belongs to another posterior: each computes it at the merged one.")
    found = Calibration(f"linear response, {told(whole.sites)}", deviations(posterior, whole.matrix))
    return replace(posterior, calibration=found)


def unsettled(posterior: Posterior, moved: float) -> Posterior:
    """The same, saying that the posterior has not converged."""
    assert posterior.calibration is not None
    remark = f"not refined: one more pass over the data moves it by {moved:.1f} deviations"
    warnings.warn(f"The merge is {remark}. Refine it first (`refine`).", RuntimeWarning, stacklevel=3)
    noted = replace(posterior.calibration, method=f"{posterior.calibration.method}; {remark}")
    return replace(posterior, calibration=noted)


def told(sites: int) -> str:
    return f"{sites} site" if sites == 1 else f"{sites} sites"
