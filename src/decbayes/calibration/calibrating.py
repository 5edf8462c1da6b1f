"""Intervals that hold the truth as often as they say."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from decbayes.arguments import check_kind, check_whole
from decbayes.calibrated import Calibration
from decbayes.calibration.linear_response import LinearResponse
from decbayes.calibration.resampling import bootstrapped
from decbayes.calibration.sites import Information, informations, one_more_pass, total
from decbayes.families import Array
from decbayes.models.model import Method, Model
from decbayes.posterior import Posterior
from decbayes.streaming.course import shift

Deviations = Mapping[str, Mapping[str, Array]]

# Deviations that a posterior may be away from where it would converge: further, and intervals lie in the wrong place.
SETTLED = 0.25


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

    Refine before. The intervals are those around the posterior as it is, and `uncertainty` says if more passes over the
    data would still move it.
    """
    data = tuple(shards)
    check_kind(Posterior, posterior=merged)
    check_whole(2, replicas=replicas)
    check_whole(0, seed=seed)
    if (method or model.calibrated_by) == "bootstrap":
        deviations = bootstrapped(model, data, merged, replicas=replicas, seed=seed)
        away = shift(merged, one_more_pass(model, data, merged))
        warn_if_unrefined(away)
        return with_deviations(merged, f"bootstrap, {replicas} replicas, {told(len(data))}", deviations, away)
    if method not in (None, "linear response"):
        raise ValueError(f"method is 'linear response' or 'bootstrap', not {method!r}.")
    return calibrated(merged, informations(model, data, merged))


def calibrated(posterior: Posterior, parts: Sequence[Information]) -> Posterior:
    """The posterior with the deviations that follow from the information of all sites."""
    check_kind(Posterior, posterior=posterior)
    found, away = responded(posterior, parts)
    warn_if_unrefined(away)
    return found


def by_response(posterior: Posterior, parts: Sequence[Information]) -> Posterior:
    """The same without a warning: threads share the filters of warnings, and `uncertainty` says it as well."""
    return responded(posterior, parts)[0]


def responded(posterior: Posterior, parts: Sequence[Information]) -> tuple[Posterior, float]:
    """The calibrated posterior, and how far it is from where it would converge."""
    whole = total(parts)
    response = LinearResponse(posterior, whole)
    text, away = f"linear response, {told(whole.sites)}", response.remaining()
    return with_deviations(posterior, text, response.deviations(), away), away


def with_deviations(posterior: Posterior, method: str, deviations: Deviations, away: float) -> Posterior:
    """The posterior with these deviations; where it has not converged, that is said with them."""
    remark = f"; {unrefined(away)}" if away > SETTLED else ""
    return replace(posterior, calibration=Calibration(method + remark, deviations))


def unrefined(away: float) -> str:
    return f"not refined, about {away:.1f} deviations from where it would converge"


def warn_if_unrefined(away: float) -> None:
    if away > SETTLED:
        warnings.warn(f"The merge is {unrefined(away)}. Refine it first (`refine`).", RuntimeWarning, stacklevel=4)


def told(sites: int) -> str:
    return f"{sites} site" if sites == 1 else f"{sites} sites"
