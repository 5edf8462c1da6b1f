"""Intervals with the stated coverage, by linear response, bootstrap or jackknife."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np

from decbayes.base.arguments import check_kind, check_whole
from decbayes.base.workers import jobs
from decbayes.calibrated import Calibration
from decbayes.calibration.linear_response import LinearResponse
from decbayes.calibration.sites import (
    Information,
    check_all_once,
    check_clusters,
    check_units,
    informations,
    one_more_pass,
    total,
    units_in,
)
from decbayes.errors import NotCalibrated, warn
from decbayes.families import Array
from decbayes.merging import Alignment, reading
from decbayes.merging.grouping.shared import LEAST_PER_PARAMETER
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.registry import model_for
from decbayes.models.core.settings import Method
from decbayes.models.regressions.regression import Regression
from decbayes.posterior import Posterior
from decbayes.remarks import TOO_NARROW
from decbayes.updates.update import shift, without

# A replica has converged when a pass moves it by less than this many deviations, or after this many passes.
CONVERGED, MOST_PASSES = 0.02, 40


def bootstrapped(
    model: Model, shards: Sequence[Any], posterior: Posterior, *, replicas: int, seed: int
) -> dict[str, dict[str, Array]]:
    """The deviation of every entry over the replicas, but at least the family's own."""
    from joblib import Parallel, delayed

    tasks = (delayed(replica)(model, shards, posterior, seed, number) for number in range(replicas))
    refits = list(Parallel(n_jobs=jobs(), prefer="threads")(tasks))
    deviations: dict[str, dict[str, Array]] = {}
    for factor, family in posterior.structure.families.items():
        plain = family.quantities(family.deviation(posterior.natural[factor]))
        deviations[factor] = {
            name: np.maximum(deviation, np.std([refit.mean(factor, name) for refit in refits], axis=0, ddof=1))
            for name, deviation in plain.items()
        }
    return deviations


def replica(model: Model, shards: Sequence[Any], posterior: Posterior, seed: int, number: int) -> Posterior:
    """The posterior of randomly weighted data, starting from the posterior of the data."""
    drawn = [resampled(model, shard, seed, number, site) for site, shard in enumerate(shards)]
    replicated = posterior
    for _ in range(MOST_PASSES):
        before, replicated = replicated, one_more_pass(model, drawn, replicated)
        if shift(before, replicated) <= CONVERGED:
            break
    return replicated


def resampled(model: Model, shard: Any, seed: int, number: int, site: int) -> Any:
    """A site's data, each observation repeated a Poisson(1) number of times."""
    try:
        size = model.count(shard)
        times = np.random.default_rng([seed, number, site]).poisson(1.0, size=size)
        return model.taken(shard, np.repeat(np.arange(size), times))
    except (TypeError, IndexError, ValueError) as error:
        raise NotCalibrated(f"A bootstrap needs data in memory whose rows can be repeated ({error}).") from None


# Fewer sites do not show how much they differ.
LEAST_SITES = 5


def jackknifed(alignment: Alignment) -> Posterior:
    """The merge of an alignment with deviations from leaving out one site at a time.

        Var[θ] = (N − 1) / N · Σ_i (E[θ | all but i] − mean)²

    For posteriors that sites fitted alone, without further work at the sites. With many small sites it cannot work and
    is refused: refine first, then `calibrate`. Refined contributions depend on each other, so their spread is too
    small: use `calibrate` for them.
    """
    check_kind(Alignment, alignment=alignment)
    merged, sites = alignment.merged(), len(alignment.posteriors)
    check_sites(alignment)
    left_out = [without(merged, alignment.in_slots(site)) for site in range(sites)]
    deviations = {}
    for factor, family in merged.structure.families.items():
        plain = family.quantities(family.deviation(merged.natural[factor]))
        deviations[factor] = {
            name: np.maximum(deviation, jackknife_deviation(np.array([part.mean(factor, name) for part in left_out])))
            for name, deviation in plain.items()
        }
    return replace(merged, calibration=Calibration(f"jackknife over {sites} sites", deviations))


def jackknife_deviation(left_out: Array) -> Array:
    """The standard deviation of an estimate, from its values without each site in turn."""
    return np.asarray(np.sqrt(len(left_out) - 1) * left_out.std(axis=0))


def check_sites(alignment: Alignment) -> None:
    """Refuse too few sites, and sites too small to find the components by themselves."""
    if len(alignment.posteriors) < LEAST_SITES:
        raise NotCalibrated(f"A jackknife needs {LEAST_SITES} sites or more. `calibrate` needs one.")
    for coupled in alignment.structure.symmetry:
        # Leaving such a site out does not reveal that its fit is far from the fit of all data.
        if (few := reading.thin(alignment, coupled)) is not None:
            raise NotCalibrated(
                f"Sites have {few:.1f} observations per parameter of a component, fewer than the "
                f"{LEAST_PER_PARAMETER:g} that a jackknife needs. Refine first, then `calibrate`."
            )


Deviations = Mapping[str, Mapping[str, Array]]

# The allowed distance from convergence in deviations: beyond it, intervals are in the wrong place.
SETTLED = 0.25


def calibrate(
    model: Model,
    shards: Iterable[Any],
    merged: Posterior,
    *,
    method: Method | Literal["robust", "half-Cauchy"] | None = None,
    clusters: Sequence[Any] | None = None,
    replicas: int = 15,
    seed: int = 0,
) -> Posterior:
    """The same posterior with intervals that have about the stated coverage.

    Refine first. Intervals are centred on the given posterior, and `uncertainty` notes if more passes over the data
    would still move it.

    Args:
        merged: the posterior of all of them.
        method: "linear response": each site passes over its data once more and computes how its contribution depends on
            the merged posterior; only the sum of these small matrices is needed (`Information`). "bootstrap": all sites
            refit together with randomly weighted observations. "robust": the sandwich errors of a regression, which
            hold if its variances are wrong (overdispersion, weights) or rows of a cluster depend on each other.
            "half-Cauchy": linear response, and intervals of a regression's standard deviations between sites, and of
            correlations, by sums for many values of them, with half-Cauchy priors of scale 1 (in units of the linear
            predictor; of the noise, if there is some). Default: a bootstrap for topics, half-Cauchy for regressions
            whose terms vary, linear response for other models.
        clusters: for robust errors, per shard the cluster of each row; default: each row is one.
        replicas: the number of refits of a bootstrap.
        seed: the seed of the random counts; all sites must agree on it.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0, ascent=db.Ascent(500, 1e-12))
    >>> rng = np.random.default_rng(0)
    >>> shards = [rng.choice([-2.0, 2.0], size=(50, 1)) + rng.normal(size=(50, 1)) for _ in range(2)]
    >>> posterior = model.fit(np.concatenate(shards), rng=rng).posterior
    >>> calibrated = db.calibrate(model, shards, posterior)
    >>> bool((calibrated.deviation("components") > posterior.deviation("components")).all())
    True
    """
    data = tuple(shards)
    check_kind(Posterior, posterior=merged)
    merged.check_uncertainty("A calibration")
    check_whole(2, replicas=replicas)
    check_whole(0, seed=seed)
    model = model.for_posterior(merged).sized_for(merged)
    if (method or model.calibrated_by) == "bootstrap":
        check_units(merged, {name: units_in(model, shard) for name, shard in zip(shard_names(data), data, strict=True)})
        deviations = bootstrapped(model, data, merged, replicas=replicas, seed=seed)
        away = shift(merged, one_more_pass(model, data, merged))
        warn_if_unrefined(away)
        return with_deviations(merged, f"bootstrap, {replicas} replicas, {site_count(len(data))}", deviations, away)
    if method == "robust":
        persons = [EACH] * len(data) if clusters is None else [Persons.of(labels) for labels in clusters]
        pairs = zip(data, persons, strict=True)
        return calibrated(merged, [Information.robust(model, shard, merged, of) for shard, of in pairs])
    ways = {None: Information.usual, "linear response": Information.of, "half-Cauchy": Information.half_cauchy}
    if method not in ways:
        raise ValueError(f"method is 'linear response', 'robust', 'half-Cauchy' or 'bootstrap', not {method!r}.")
    return calibrated(merged, informations(model, data, merged, ways[method]))


def calibrated(posterior: Posterior, parts: Sequence[Information]) -> Posterior:
    """The posterior with deviations from the information of all sites."""
    check_kind(Posterior, posterior=posterior)
    check_all_once(posterior, parts, shard_names(parts))
    with_intervals, away = responded(posterior, parts)
    warn_if_unrefined(away)
    return with_intervals


def shard_names(shards: Sequence[Any]) -> list[str]:
    return [f"shard {number}" for number in range(len(shards))]


def by_response(posterior: Posterior, parts: Sequence[Information]) -> Posterior:
    """The same without a warning: threads share warning filters, and `uncertainty` notes it as well."""
    return responded(posterior, parts)[0]


def responded(posterior: Posterior, parts: Sequence[Information]) -> tuple[Posterior, float]:
    """The calibrated posterior, and its distance from convergence."""
    whole = total(parts)
    if whole.clusters:
        check_clusters(posterior, whole.clustered)
        errors, away = regression_for(posterior).robust_errors(posterior), unsettled(posterior, whole)
        deviations = errors.deviations(whole.matrix, whole.grid, whole.clusters)
        posterior = replace(
            posterior, remarks=[remark for remark in posterior.remarks if remark.kind not in TOO_NARROW]
        )
        return with_deviations(posterior, f"robust errors, {site_count(whole.sites)}", deviations, away), away
    response = LinearResponse(posterior, whole)
    text, away = f"linear response, {site_count(whole.sites)}", response.remaining()
    responsive = with_deviations(posterior, text, response.deviations(), away)
    return (with_half_cauchy(responsive, whole.grid) if whole.grid.size else responsive), away


def with_half_cauchy(responsive: Posterior, grid: Array) -> Posterior:
    """A calibrated regression, with quantiles of its standard deviations between sites by the sums of all sites."""
    known = cast(Calibration, responsive.calibration)
    quantiles = regression_for(responsive).half_cauchy(responsive).quantiles(grid)
    better = replace(known, method=f"{known.method}, half-Cauchy between sites", quantiles=quantiles)
    return replace(responsive, calibration=better)


def regression_for(posterior: Posterior) -> Regression:
    if isinstance(model := model_for(posterior.structure), Regression):
        return model
    raise NotCalibrated("This information is for the posterior of a regression.")


def unsettled(posterior: Posterior, whole: Information) -> float:
    """How far one more pass over all data would move a regression, in deviations."""
    structure, first, moved = posterior.structure, 0, {}
    for name, prior in structure.prior.items():
        moved[name] = prior + whole.contribution[first : first + prior.size].reshape(prior.shape)
        first += prior.size
    return shift(posterior, Posterior.from_natural(structure, moved))


def with_deviations(posterior: Posterior, method: str, deviations: Deviations, away: float) -> Posterior:
    """The posterior with these deviations, and a note if it has not converged."""
    remark = f"; {unrefined(away)}" if away > SETTLED else ""
    return replace(posterior, calibration=Calibration(method + remark, deviations))


def unrefined(away: float) -> str:
    return f"not refined, about {away:.1f} deviations from where it would converge"


def warn_if_unrefined(away: float) -> None:
    if away > SETTLED:
        warn(f"The merge is {unrefined(away)}. Refine it first (`refine`).", RuntimeWarning)


def site_count(sites: int) -> str:
    return f"{sites} site" if sites == 1 else f"{sites} sites"
