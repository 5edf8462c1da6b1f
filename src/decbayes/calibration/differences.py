"""Whether sites differ by more than chance: p-values from simulated sites that share the same values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from decbayes.base.arguments import check_kind, check_whole
from decbayes.calibration.worlds import QUICK, Setting, Worlds, in_common_terms, redivide, sharpened, worlds_of
from decbayes.contents import has_data
from decbayes.errors import NotCalibrated, StructureMismatch
from decbayes.families import Array, dense
from decbayes.merging import Alignment, Heterogeneity, reading
from decbayes.merging.base.components import Components
from decbayes.merging.base.problem import Solver
from decbayes.merging.base.recentring import recentred
from decbayes.merging.grouping.search import SlotSearch
from decbayes.merging.reading import RANK, Chance, Chances, Coefficients, Spread, ranks
from decbayes.models.core.registry import model_for
from decbayes.models.core.simulation import drawn_parameters
from decbayes.models.regressions.messages.redrawn import RowsLike
from decbayes.models.regressions.regression import Regression
from decbayes.posterior import Posterior
from decbayes.remarks import too_narrow
from decbayes.structure import CoupledSet, Structure

# Simulated worlds. If there are more sites than this, or more observations per site, only some are simulated: their
# spread relative to chance hardly depends on the number any more.
WORLDS, MOST_SITES, MOST_OBSERVATIONS = 8, 30, 1000.0
# If a p-value is between these, this many times as many worlds are simulated, provided that it takes seconds.
GREY, TIMES_MORE = (0.01, 0.2), 5
# A slot must have been compared in this share of the worlds.
LEAST_COMPARED = 0.5
# The variance of simulated spreads is shrunk towards that of a chi-square, as if this many more worlds had shown it. It
# is 0.5 times (yes/no outcomes) to 1.5 times (overlapping states) as large, so more would make p wrong.
PRIOR_WORLDS = 2.0
# Differences are not quantified if equal sites differ, on average over slots, this many times more than sites with
# separate components would: fits of components that overlap so much end in different places.
MOST_BY_CHANCE = 5.0
# Rows times coefficients of one world of a regression up to which many worlds take seconds.
QUICK_CELLS = 300_000


def heterogeneity(
    alignment: Alignment, *, solver: Solver | None = None, worlds: int | None = None
) -> Mapping[CoupledSet, Heterogeneity]:
    """Whether the sites' versions of each slot differ by more than chance, and by how much.

    Data are drawn from each site's fit and divided among the slots by one common posterior, so that overlapping
    components are divided alike everywhere. Sites of the same sizes are simulated from that posterior, fitted and
    compared in the same way; they differ by chance alone. Coefficients of regressions are compared as well: they have
    no labels, and their key is a coupled set of their own. Those of linear regressions are compared as if the noise
    were equally large at all sites, which need not be so.

    Where sites state how far random halves of their own rows are apart (`with_halves`), equal sites may be as far apart
    as that: then p-values also hold where the model does not.

    Posteriors of a round depend on each other. Coefficients are then compared by a score test; components have no
    p-values, because they differ less than those that sites fitted alone.

    Args:
        alignment: what `align` returns, or `Refinement.alignment` for posteriors of rounds.
        solver: the solver of the alignment, if it is not the default.
        worlds: the number of simulations. Default: 8, and 40 if a p-value is between 0.01 and 0.2, as long as that
            takes seconds. If 8 take longer, components get no p-values.

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
    alignment = alignment.at_equal_noise()
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
            known = known.without_shared(not_shared(alignment))
            compared[CoupledSet((name,))] = of_coefficients(alignment, name, known, worlds)
    return compared


def against_simulated(alignment: Alignment, solver: Solver | None, worlds: int | None) -> Heterogeneity:
    """The comparison of all sites with simulated ones that share the same values, slot by slot."""
    if alignment.refined:
        raise NotCalibrated(
            "posteriors of a round depend on each other and differ less. Compare those that sites fitted alone."
        )
    if why := too_narrow(alignment.posteriors):
        raise NotCalibrated(f"{why}, which makes sites seem to differ.")
    setting = small_enough(alignment, solver)
    if worlds is None and setting.work > QUICK:
        raise NotCalibrated(
            "Simulations of so much data take a while. In Python: `db.checking.heterogeneity(alignment, worlds=8)`."
        )
    common = in_common_terms(setting)
    compared = in_worlds(alignment, common, worlds or WORLDS)
    if worlds is None and in_doubt(compared) and TIMES_MORE * setting.work <= QUICK:
        return in_worlds(alignment, common, TIMES_MORE * WORLDS)
    return compared


def in_doubt(compared: Heterogeneity) -> bool:
    """Whether more simulations might change the verdict on a slot."""
    return bool(((compared.probability > GREY[0]) & (compared.probability < GREY[1])).any())


def in_worlds(alignment: Alignment, setting: Setting, worlds: int) -> Heterogeneity:
    """The comparison with a number of simulated worlds."""
    redivided, sent = simulated_spreads(worlds_of(setting), worlds)
    freedom = reading.spread_of_components(setting.redivided or alignment, setting.coupled).freedom
    chance, of_one = chance_of(redivided, freedom), freedom.sum() / (len(alignment.posteriors) - 1)
    wider = reading.widened(chance, alignment.posteriors, of_one)
    usual = usual_spread(sent) * wider.mean / chance.mean
    compared = reading.of_components(alignment, setting.coupled, wider, usual, setting.redivided)
    return replace(compared, halves=wider is not chance and all_state_halves(alignment))


def simulated_spreads(worlds: Worlds, count: int) -> tuple[Spread, Spread]:
    """(worlds, slots): the spreads of simulated sites, with data redivided among common slots, and as sent."""
    spreads = [simulated_spread(worlds, number) for number in range(count)]
    redivided, sent = (Spread(*map(np.array, zip(*part, strict=True))) for part in zip(*spreads, strict=True))
    return redivided, sent


@lru_cache(maxsize=128)
def simulated_spread(worlds: Worlds, number: int) -> tuple[Spread, Spread]:
    setting, sent = worlds.setting, worlds.first(number + 1)[number].alignment
    return in_slots_of(setting.truth, redivide(replace(setting, alignment=sent)), sent, setting.coupled)


def usual_spread(sent: Spread) -> Array:
    """Per slot, the mean spread of what equal sites send, per degree of freedom; NaN if components overlap too much."""
    known = sent.relative[np.isfinite(sent.relative)]
    if not len(known) or known.mean() > MOST_BY_CHANCE:
        return np.full(sent.freedom.shape[1], np.nan)
    return chance_of(sent, np.ones(sent.freedom.shape[1])).mean


def small_enough(alignment: Alignment, solver: Solver | None) -> Setting:
    """The setting to simulate; with very many sites or observations, some of them."""
    count = len(alignment.posteriors)
    if count < 2:
        raise NotCalibrated("One posterior alone differs from nothing.")
    check_comparable(alignment.structure)
    every = -(-count // MOST_SITES)
    some = alignment.order[::every] if every > 1 else ()
    whole = Setting(alignment, None, solver, sites=some)
    large = any(site.sum() > MOST_OBSERVATIONS for site in whole.evidence)
    return replace(whole, most=MOST_OBSERVATIONS) if large else whole


def check_comparable(structure: Structure) -> None:
    """Refuse models whose sites cannot be simulated."""
    if len(structure.symmetry) != 1 or not structure.resizable:
        raise NotCalibrated("Sites can be simulated only for one set of components with a common prior.")
    if any(structure.families[name].countable for name in structure.symmetry[0].factors):
        # p was below 0.05 for 16 % of the topics of equal sites, and for 33 % if documents mix more topics.
        raise NotCalibrated("There is no test for topics: how they mix in documents changes how far they differ.")


def in_slots_of(truth: Posterior, redivided: Alignment, sent: Alignment, coupled: CoupledSet) -> tuple[Spread, Spread]:
    """The spreads of a simulated world, in the slots of the posterior that it was simulated from."""
    factors, slots = redivided.problem(coupled).factors, truth.structure.components(coupled)
    both = [reading.rows_of(posterior, coupled) for posterior in (truth, redivided.merged())]
    components = Components.of(factors, both)
    search = SlotSearch(components, np.arange(2 * slots), components.bases(2 * slots), 2 * slots)
    losses = search.join_losses()[:slots, slots:]
    order = linear_sum_assignment(losses)[1]
    first, second = (reading.spread_of_components(alignment, coupled) for alignment in (redivided, sent))
    return Spread(*(part[order] for part in first)), Spread(*(part[order] for part in second))


def chance_of(simulated: Spread, freedom: Array) -> Chance:
    """The distribution of the spreads of simulated sites, (worlds, slots): a mean per slot, one relative variance.

    World w has f_w degrees of freedom and x_w = statistic / f_w; the mean is x̄ = Σ f_w x_w / Σ f_w. With P the prior
    worlds, the variance relative to a chi-square's is, summed over slots and their n worlds,

        v = (P + Σ ½ f_w (x_w / x̄ − 1)²) / (P + Σ (n − 1))
    """
    compared = (simulated.freedom > 0.0).sum(axis=0)
    known = (compared >= max(2.0, LEAST_COMPARED * len(simulated.freedom))) & (freedom > 0.0)
    total = np.where(known, simulated.freedom.sum(axis=0), np.nan)
    mean = np.where(simulated.freedom > 0.0, simulated.statistic, 0.0).sum(axis=0) / total
    squares = 0.5 * simulated.freedom * (simulated.relative / mean - 1.0) ** 2
    worlds = PRIOR_WORLDS + float((compared[known] - 1.0).sum())
    variance = (PRIOR_WORLDS + np.nansum(squares)) / worlds
    degrees = total / variance
    return Chance(mean, np.where(known, 0.5 * freedom / variance, np.nan), degrees, np.sqrt(2.0 / degrees), worlds)


def of_coefficients(alignment: Alignment, factor: str, known: Coefficients, worlds: int | None) -> Heterogeneity:
    """The comparison of coefficients: exact with Gaussian noise, a score test after rounds, else against simulated
    sites.
    """
    try:
        if alignment.refined:
            return by_scores(alignment, factor, known, worlds)
        if (exact := exact_chances(alignment, factor, known)) is not None:
            return compared_coefficients(alignment, factor, known, exact)
        return against_redrawn(alignment, factor, known, worlds)
    except (NotCalibrated, StructureMismatch) as error:
        unknown = Chances.unknown(known.shifts.shape[1])
        return reading.of_coefficients(alignment, factor, known, unknown, str(error))


def not_shared(alignment: Alignment) -> Sequence[int]:
    """Coefficients of categories that count as "other", which are not the same ones at all sites."""
    try:
        model = model_for(alignment.structure)
    except StructureMismatch:  # nobody registered the model
        return ()
    return model.table.places_of_other.tolist() if isinstance(model, Regression) else ()


def by_scores(alignment: Alignment, factor: str, known: Coefficients, worlds: int | None) -> Heterogeneity:
    """After rounds, when all sites have expanded their likelihoods at the same coefficients:

        Q = Σ_i g_iᵀ P_i⁻¹ g_i,  g_i = s_i − P_i m

    is then Rao's statistic for different coefficients at each site, g_i the score of its rows at the joint estimate m.
    It is a chi-square but for terms in 1 / rows: weights are those at an estimate, and with counts of unknown spread
    they depend on the outcomes. Sites that can be simulated show these terms.
    """
    model = model_for(alignment.structure)
    if not isinstance(model, Regression) or model.varying or model.weights:
        raise NotCalibrated("after rounds, only coefficients that do not vary, of rows without weights, are compared.")
    try:
        return against_redrawn(alignment, factor, known, worlds)
    except NotCalibrated:
        rows = known.shifts.shape[1]
        chi_squares = Chances.of_noise(known, np.ones(rows), np.full(rows, reading.KNOWN))
        return compared_coefficients(alignment, factor, known, chi_squares)


def compared_coefficients(alignment: Alignment, factor: str, known: Coefficients, chances: Chances) -> Heterogeneity:
    """The comparison with equal sites, which are as far apart as halves of the sites' own rows."""
    wider = reading.widened_each(chances, alignment.sent or alignment.posteriors)
    stated = wider is not chances and all_state_halves(alignment)
    return replace(reading.of_coefficients(alignment, factor, known, wider), halves=stated)


def all_state_halves(alignment: Alignment) -> bool:
    """Whether nobody's rows are only assumed to be like those of others."""
    return all(posterior.halves for posterior in alignment.sent or alignment.posteriors if has_data(posterior))


def against_redrawn(alignment: Alignment, factor: str, known: Coefficients, worlds: int | None) -> Heterogeneity:
    """The comparison with simulated sites of a regression, and with more where these may change the verdict."""
    redrawing = Redrawing(alignment, factor)
    compared = compared_coefficients(alignment, factor, known, redrawing.chances(known, worlds or WORLDS))
    if worlds is None and in_doubt(compared) and redrawing.cells <= QUICK_CELLS:
        chances = redrawing.chances(known, TIMES_MORE * WORLDS)
        return compared_coefficients(alignment, factor, known, chances)
    return compared


def exact_chances(alignment: Alignment, factor: str, known: Coefficients) -> Chances | None:
    """With Gaussian noise of unknown size: its variance within sites, in units of the merge's; an F test."""
    family, prior = alignment.structure.families[factor], alignment.structure.prior[factor]
    natural = alignment.merged().natural[factor]
    parts = [family.squares(dense(posterior.contribution[factor]), natural) for posterior in alignment.posteriors]
    before = family.squares(prior - family.apex(prior.shape[1]), natural)
    given = [part for part in (*parts, before) if part is not None]
    if not given:
        return None
    counts, squares = (np.sum(part, axis=0) for part in zip(*given, strict=True))
    inverses = np.linalg.pinv(known.precisions, rcond=RANK, hermitian=True)
    explained = np.einsum("nkd,nkde,nke->k", known.shifts, inverses, known.shifts)
    degrees = counts - ranks(known.precisions).sum(axis=0)
    if not (degrees > 0.0).all():
        raise NotCalibrated("Sites have no more rows than coefficients, so that the noise is not known.")
    return Chances.of_noise(known, (squares - explained) / degrees, degrees)


@dataclass(frozen=True)
class Redrawing:
    """Simulated sites of a regression with rows like the real ones, all with the same coefficients.

    Compared by contents.
    """

    alignment: Alignment
    factor: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Redrawing) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        digests = tuple(sorted(posterior.digest for posterior in self.alignment.posteriors))
        return self.factor, self.alignment.moved, self.alignment.refined, digests

    def rng(self, *number: int) -> np.random.Generator:
        """Random numbers that depend on the merge alone."""
        return np.random.default_rng([int(self.alignment.merged().digest[:16], 16), *number])

    @cached_property
    def rows(self) -> list[RowsLike]:
        """Rows like those of each site, or of some if there are very many sites."""
        posteriors, order = self.alignment.posteriors, self.alignment.order
        model, rng = model_for(self.alignment.structure), self.rng()
        if not isinstance(model, Regression):
            raise NotCalibrated("Sites of this model cannot be simulated.")
        chosen = [posteriors[site] for site in order[:: -(-len(order) // MOST_SITES)]]
        joint = self.alignment.merged() if self.alignment.refined else None
        return [RowsLike.behind(model, site, joint or site, MOST_OBSERVATIONS, rng) for site in chosen]

    @property
    def cells(self) -> int:
        return sum(site.count * site.rows.shape[1] for site in self.rows)

    def alone(self, data: Sequence[Array]) -> Sequence[Posterior]:
        """What simulated sites send that know nothing of each other."""
        sites = zip(self.rows, data, strict=True)
        return recentred([site.refitted(rows, first=self.alignment.moved) for site, rows in sites])

    def after_rounds(self, data: Sequence[Array]) -> Sequence[Posterior]:
        """What they contribute to one fit of all their rows, to which rounds converge."""
        site = self.rows[0]
        joint = site.refitted(np.concatenate(data))
        return [site.model.contributed(joint, rows) for rows in data]

    def chances(self, known: Coefficients, worlds: int) -> Chances:
        """How far such sites differ by chance if the merge is true."""
        spreads = zip(*(redrawn_spreads(self, world) for world in range(worlds)), strict=True)
        joint, each = (Spread(*map(np.array, zip(*part, strict=True))) for part in spreads)
        return Chances(chance_of(joint, known.compared(np.ones(1))[0].freedom), chance_of(each, known.each().freedom))


@lru_cache(maxsize=256)
def redrawn_spreads(redrawing: Redrawing, world: int) -> tuple[Spread, Spread]:
    """The spreads of the sites of one simulated world: of all coefficients together, and of each."""
    alignment, factor, rng = redrawing.alignment, redrawing.factor, redrawing.rng(world)
    merged, family = alignment.merged(), alignment.structure.families[factor]
    # Scores are those at the joint estimate: draws around it would spread weights twice.
    parameters = drawn_parameters(sharpened(merged) if alignment.refined else merged, rng)[factor]
    try:
        data = [site.redrawn(parameters, rng) for site in redrawing.rows]
        refits = redrawing.after_rounds(data) if alignment.refined else redrawing.alone(data)
    except (np.linalg.LinAlgError, ArithmeticError):
        raise NotCalibrated("Sites like these cannot be simulated: their numbers are out of proportion.") from None
    sent = [dense(refit.contribution[factor]) for refit in refits]
    parts = [part for part in (family.quadratic(contribution, merged.natural[factor]) for contribution in sent) if part]
    coefficients = Coefficients(*map(np.array, zip(*parts, strict=True))).without_shared(not_shared(alignment))
    return coefficients.compared(np.ones(1))[0], coefficients.each()
