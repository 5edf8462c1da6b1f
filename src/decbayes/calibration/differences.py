"""Whether sites differ by more than chance, with p-values from simulated sites that are the same."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from decbayes.base.arguments import check_kind, check_whole
from decbayes.calibration.worlds import QUICK, Setting, Worlds, in_common_terms, redivide, worlds_of
from decbayes.errors import NotCalibrated, StructureMismatch
from decbayes.families import Array, dense
from decbayes.merging import Alignment, Heterogeneity, reading
from decbayes.merging.base.components import Components, bases
from decbayes.merging.base.problem import Solver
from decbayes.merging.base.recentring import recentred
from decbayes.merging.grouping.search import SlotSearch
from decbayes.merging.reading import RANK, Chance, Coefficients, ranks
from decbayes.models.core.registry import model_for
from decbayes.models.core.simulation import drawn_parameters
from decbayes.models.regressions.messages.redrawn import RowsLike
from decbayes.models.regressions.regression import Regression
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet

# Simulated worlds. Of more sites than this, and of sites with more observations, a part is simulated: how far sites
# differ by chance, relative to their uncertainty, then hardly changes any more.
WORLDS, MOST_SITES, MOST_OBSERVATIONS = 8, 30, 1000.0
# Where a p-value is between these, so many times more worlds are simulated if that takes seconds.
GREY, TIMES_MORE = (0.01, 0.2), 5
# A slot must have been compared in this share of the worlds.
LEAST_COMPARED = 0.5
# How far sites differ cannot be said where equal ones differ, on average over slots, this many times more than separate
# components would: fits of components that overlap so much end in different places.
MOST_BY_CHANCE = 5.0


def heterogeneity(
    alignment: Alignment,
    *,
    solver: Solver | None = None,
    worlds: int | None = None,
) -> Mapping[CoupledSet, Heterogeneity]:
    """Whether the sites' versions of each slot differ by more than chance, and by how much.

    Data are drawn from what each site has found, and divided among slots by what all sites say together: components
    that overlap are then divided alike everywhere. That is taken as the truth, too, and sites of the same sizes are
    simulated, fitted and compared in the same way. They differ by chance alone. Coefficients of regressions are
    compared as well. They have no labels, and their key is a coupled set of their own.

    For posteriors that sites fitted alone: refined ones depend on each other and differ less, and have no p-values.

    Args:
        alignment: what `align` returns.
        solver: the solver of the alignment, if it is not the default.
        worlds: the number of simulations. Default: 8 where that takes seconds, 40 where components have a p-value
            between 0.01 and 0.2 and that takes seconds, else none, and there are no p-values.

    >>> model = db.GaussianMixture(1, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> sites = [model.fit(rng.normal(mean, size=(50, 1)), rng=rng).posterior for mean in (0.0, 0.0, 3.0)]
    >>> (differences,) = db.checking.heterogeneity(db.align(sites, components=1)).values()
    >>> differences.differ(0)
    True
    """
    check_kind(Alignment, alignment=alignment)
    if worlds is not None:
        check_whole(2, worlds=worlds)
    structure, compared = alignment.structure, {}
    for coupled in structure.symmetry:
        try:
            compared[coupled] = against_simulated(alignment, solver, worlds)
        except NotCalibrated as error:
            unknown = Chance.unknown(structure.components(coupled))
            compared[coupled] = reading.of_components(alignment, coupled, unknown, reason=str(error))
    relabelled = {name for coupled in structure.symmetry for name in coupled.factors}
    for name in structure.families:
        if name not in relabelled and (known := Coefficients.of(alignment, name)) is not None:
            compared[CoupledSet((name,))] = of_coefficients(alignment, name, known, worlds or WORLDS)
    return compared


def check_fitted_alone(alignment: Alignment) -> None:
    if alignment.refined:
        raise NotCalibrated(
            "posteriors of a round depend on each other and differ less. Compare those that sites fitted alone."
        )


def against_simulated(alignment: Alignment, solver: Solver | None, worlds: int | None) -> Heterogeneity:
    """The comparison of all sites with simulated ones that are the same, slot by slot."""
    check_fitted_alone(alignment)
    setting = small_enough(alignment, solver)
    if worlds is None and setting.work > QUICK:
        raise NotCalibrated("Simulations of so much data take a while; `worlds=8` asks for them.")
    common = in_common_terms(setting)
    found = in_worlds(alignment, common, worlds or WORLDS)
    grey = (found.probability > GREY[0]) & (found.probability < GREY[1])
    if worlds is None and grey.any() and TIMES_MORE * setting.work <= QUICK:
        return in_worlds(alignment, common, TIMES_MORE * WORLDS)
    return found


def in_worlds(alignment: Alignment, setting: Setting, worlds: int) -> Heterogeneity:
    """The comparison with a number of simulated worlds."""
    relative, as_sent = simulated_spreads(worlds_of(setting), worlds)
    chance = chance_of(relative, reading.spread_of_components(setting.redivided or alignment, setting.coupled).freedom)
    return reading.of_components(alignment, setting.coupled, chance, usual_spread(as_sent), setting.redivided)


@lru_cache(maxsize=16)
def simulated_spreads(worlds: Worlds, count: int) -> tuple[Array, Array]:
    """(worlds, slots): the spreads of simulated sites per degree of freedom, redivided in common slots, and as they are
    sent."""
    setting = worlds.setting
    pairs = [(redivide(replace(setting, alignment=one.alignment)), one.alignment) for one in worlds.first(count)]
    found = [in_slots_of(setting.truth, redivided, sent, setting.coupled) for redivided, sent in pairs]
    relative, as_sent = zip(*found, strict=True)
    return np.array(relative), np.array(as_sent)


def usual_spread(as_sent: Array) -> Array:
    """For each slot, how far what equal sites send differs, on average; NaN if components overlap too much."""
    known = as_sent[np.isfinite(as_sent)]
    if not len(known) or known.mean() > MOST_BY_CHANCE:
        return np.full(as_sent.shape[1], np.nan)
    return chance_of(as_sent, np.ones(as_sent.shape[1])).mean


def small_enough(alignment: Alignment, solver: Solver | None) -> Setting:
    """The setting to simulate, with a part of the sites and of their observations where there are very many."""
    structure, count = alignment.structure, len(alignment.posteriors)
    if len(structure.symmetry) != 1 or not structure.resizable:
        raise NotCalibrated("Sites can be simulated only for one set of components with a common prior.")
    if count < 2:
        raise NotCalibrated("One posterior alone differs from nothing.")
    if any(structure.families[name].countable for name in structure.symmetry[0].factors):
        # Measured: "p < 0.05" was said of 16 % of the topics of like sites, of 33 % where documents mix more topics.
        raise NotCalibrated("There is no test for topics: how they mix in documents changes how far they differ.")
    every = -(-count // MOST_SITES)
    some = alignment.order[::every] if every > 1 else ()
    whole = Setting(alignment, None, solver, sites=some)
    large = any(site.sum() > MOST_OBSERVATIONS for site in whole.evidence)
    return replace(whole, most=MOST_OBSERVATIONS) if large else whole


def in_slots_of(truth: Posterior, redivided: Alignment, sent: Alignment, coupled: CoupledSet) -> tuple[Array, Array]:
    """The spreads of a simulated world, in the slots of the posterior that it was simulated from."""
    factors, slots = redivided.problem(coupled).factors, truth.structure.components(coupled)
    components = Components.of(factors, [reading.rows_of(each, coupled) for each in (truth, redivided.merged())])
    base = bases(components.factors, float(components.evidence.sum()), 2 * slots)
    losses = SlotSearch(components, np.arange(2 * slots), base, 2 * slots).join_losses()[:slots, slots:]
    order = linear_sum_assignment(losses)[1]
    first, second = (reading.spread_of_components(each, coupled).relative[order] for each in (redivided, sent))
    return first, second


def chance_of(relative: Array, freedom: Array) -> Chance:
    """The distribution of (worlds, slots) simulated spreads: a mean for each slot, one relative variance for all."""
    compared = np.isfinite(relative).sum(axis=0)
    known = (compared >= max(2.0, LEAST_COMPARED * len(relative))) & (freedom > 0.0)
    mean, shape = np.full(len(freedom), np.nan), np.full(len(freedom), np.nan)
    if known.any():
        mean[known] = np.nanmean(relative[:, known], axis=0)
        variance = float(np.mean(np.nanvar(relative[:, known] / mean[known], axis=0, ddof=1)))
        # The statistic of separate components has half its freedom as its shape.
        wider = max(1.0, variance * 0.5 * float(freedom[known].mean()))
        shape[known] = 0.5 * freedom[known] / wider
    error = np.where(known, 1.0 / np.sqrt(np.maximum(np.where(known, shape, 1.0) * compared, 1.0)), 0.0)
    return Chance(mean, shape, 2.0 * shape * compared, error)


def of_coefficients(alignment: Alignment, factor: str, known: Coefficients, worlds: int) -> Heterogeneity:
    """The comparison of coefficients: exact with Gaussian noise, else against simulated sites."""
    try:
        check_fitted_alone(alignment)
        chance = exact_chance(alignment, factor, known) or redrawn_chance(Redrawing(alignment, factor, worlds))
        return reading.of_coefficients(alignment, factor, known, chance)
    except (NotCalibrated, StructureMismatch) as error:
        unknown = Chance.unknown(known.shifts.shape[1])
        return reading.of_coefficients(alignment, factor, known, unknown, str(error))


def exact_chance(alignment: Alignment, factor: str, known: Coefficients) -> Chance | None:
    """With Gaussian noise of unknown size: its variance within sites, in units of the merge's; an F test."""
    family, prior = alignment.structure.families[factor], alignment.structure.prior[factor]
    natural = alignment.merged().natural[factor]
    parts = [family.squares(dense(posterior.contribution[factor]), natural) for posterior in alignment.posteriors]
    before = family.squares(prior - family.apex(prior.shape[1]), natural)
    given = [part for part in (*parts, before) if part is not None]
    if not given:
        return None
    counts, squares = (np.sum(part, axis=0) for part in zip(*given, strict=True))
    spread, _ = known.compared(np.ones(len(natural)))
    inverses = np.linalg.pinv(known.precisions, rcond=RANK, hermitian=True)
    explained = np.einsum("nkd,nkde,nke->k", known.shifts, inverses, known.shifts)
    degrees = counts - ranks(known.precisions).sum(axis=0)
    if not (degrees > 0.0).all():
        raise NotCalibrated("Sites have no more rows than coefficients, so that the noise is not known.")
    return Chance((squares - explained) / degrees, 0.5 * spread.freedom, degrees)


@dataclass(frozen=True)
class Redrawing:
    """Which sites are to be simulated how often; compared by their contents."""

    alignment: Alignment
    factor: str
    worlds: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Redrawing) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        digests = tuple(sorted(posterior.digest for posterior in self.alignment.posteriors))
        return self.factor, self.worlds, self.alignment.moved, digests


@lru_cache(maxsize=16)
def redrawn_chance(redrawing: Redrawing) -> Chance:
    """How far sites with rows like these differ by chance, where the merge is true."""
    alignment, factor = redrawing.alignment, redrawing.factor
    merged, family = alignment.merged(), alignment.structure.families[factor]
    model, every = model_for(alignment.structure), -(-len(alignment.posteriors) // MOST_SITES)
    if not isinstance(model, Regression):
        raise NotCalibrated("Sites of this model cannot be simulated.")
    rng = np.random.default_rng(int(merged.digest[:16], 16))
    chosen = [alignment.posteriors[site] for site in alignment.order[::every]]
    rows = [RowsLike.behind(model, posterior, MOST_OBSERVATIONS, rng) for posterior in chosen]
    relative = []
    for _ in range(redrawing.worlds):
        parameters = drawn_parameters(merged, rng)
        try:
            refits = recentred([site.refitted(parameters[factor], rng, first=alignment.moved) for site in rows])
        except (np.linalg.LinAlgError, ArithmeticError):
            raise NotCalibrated("Sites like these cannot be simulated: their numbers are out of proportion.") from None
        sent = [dense(refit.contribution[factor]) for refit in refits]
        parts = [part for part in (family.quadratic(each, merged.natural[factor]) for each in sent) if part]
        spread, _ = Coefficients(*map(np.array, zip(*parts, strict=True))).compared(np.ones(1))
        relative.append(spread.relative)
    known = Coefficients.of(alignment, factor)
    freedom = np.zeros(1) if known is None else known.compared(np.ones(1))[0].freedom
    return chance_of(np.array(relative), freedom)
