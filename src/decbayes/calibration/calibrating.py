"""Intervals that hold the truth as often as they say."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from decbayes.arguments import check_kind, check_whole
from decbayes.calibrated import Calibration
from decbayes.calibration.linear_response import deviations
from decbayes.calibration.resampling import bootstrapped
from decbayes.calibration.sites import Information, informations, one_more_pass, total
from decbayes.errors import NotCalibrated
from decbayes.models.model import Method, Model
from decbayes.posterior import Posterior
from decbayes.streaming.refinement import shift

# Deviations that one more pass over the data may move a posterior by: further, and intervals lie in the wrong place.
SETTLED = 0.1


def calibrate(
    model: Model,
    shards: Iterable[Any],
    merged: Posterior,
    *,
    method: Method | None = None,
    replicas: int = 15,
    seed: int = 0,
) -> Posterior:
    """The same posterior with intervals that hold the truth about as often as they say.

    By "linear response" each site looks once more at its own data, and says how its contribution depends on the merged
    posterior: a small matrix, whose sum over sites is all that is needed (`Information`, `calibrated`). By "bootstrap"
    all sites refit together, so many `replicas` with every observation counted at random, from a `seed` that they agree
    on. The default is what the model is calibrated by: a bootstrap for topics, linear response for others.

    Refine before. The intervals are those around the posterior as it is, and `uncertainty` says if one more pass over
    the data would still move it.
    """
    data = tuple(shards)
    check_kind(Posterior, posterior=merged)
    check_whole(2, replicas=replicas)
    check_whole(0, seed=seed)
    if (method or model.calibrated_by) == "bootstrap":
        deviations = bootstrapped(model, data, merged, replicas=replicas, seed=seed)
        found = replace(
            merged, calibration=Calibration(f"bootstrap, {replicas} replicas, {told(len(data))}", deviations)
        )
    elif method in (None, "linear response"):
        found = calibrated(merged, informations(model, data, merged))
    else:
        raise ValueError(f"method is 'linear response' or 'bootstrap', not {method!r}.")
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
