"""One simulated data set of a plan: drawn, fitted at sites, merged, and compared with the truth."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from decbayes.base.arguments import check_level, check_whole
from decbayes.calibration.intervals import by_response
from decbayes.calibration.matches import Matches, in_common, overlaps_of
from decbayes.calibration.sites import Information
from decbayes.errors import MergeWarning, NotCalibrated
from decbayes.families import Array, Family
from decbayes.families.matrices import Indices
from decbayes.merging import Alignment, align
from decbayes.models.core.evaluation import hold_out
from decbayes.models.core.model import Model
from decbayes.models.core.simulation import drawn_parameters
from decbayes.posterior import Posterior
from decbayes.streams import refine

# Draws among which the truth is ranked, and bars in the histogram of ranks.
DRAWS, BARS = 99, 20
# Probabilities smaller than this are not ranked: most words of a topic never occur.
LEAST_PROBABILITY = 0.005
# Observations for scores, and for a posterior that knows the true parameters.
TESTED, PILOT = 500, 20_000
# The logarithm of a probability that is zero by rounding.
IMPOSSIBLE = -700.0


@dataclass(frozen=True)
class Plan:
    """A study to be simulated before there are data.

    Attributes:
        model: the model, with its number of components.
        sites: the number of sites.
        observations: the number of observations per site.
        rounds: rounds of refinement after the merge.
        truth: a posterior to draw the true parameters from. Default: the model's prior.
        drawing: keyword arguments of the model's `draw`, such as the mean `length` of documents.
        level: the nominal probability of intervals.

    >>> plan = db.checking.Plan(db.models.GaussianMean(dimension=1), sites=3, observations=10)
    >>> plan.rounds, plan.level
    (0, 0.9)
    """

    model: Model
    sites: int
    observations: int
    rounds: int = 0
    truth: Posterior | None = None
    drawing: Mapping[str, Any] = field(default_factory=dict)
    level: float = 0.9

    def __post_init__(self) -> None:
        check_whole(1, sites=self.sites, observations=self.observations)
        check_whole(0, rounds=self.rounds)
        check_level(self.level)
        if self.model.auto:
            raise ValueError(f"A plan needs a fixed number of {self.model.number}, not 'auto'.")


@dataclass(frozen=True)
class Trial:
    """One simulated data set: ranks and coverage by quantity, coverage of one fit of all data, and the matches.

    `covered_calibrated` is the coverage of calibrated intervals; empty if they need refits, or are refused.
    """

    ranks: Mapping[str, list[int]]
    covered: Mapping[str, float]
    covered_at_once: Mapping[str, float]
    gap: float
    matches: Mapping[str, list[float]]
    covered_calibrated: Mapping[str, float] = field(default_factory=dict)


def check_plan(plan: Plan) -> None:
    """Refuse a plan that cannot be simulated, before the work starts."""
    source = plan.truth or Posterior.of_prior(plan.model.structure)
    parameters = drawn_parameters(source, np.random.default_rng(0))
    try:
        plan.model.draw(parameters, 1, np.random.default_rng(0), **plan.drawing)
    except (NotImplementedError, TypeError) as error:
        raise NotCalibrated(f"This plan cannot be simulated: {error}") from None


def trial(plan: Plan, rng: np.random.Generator) -> Trial:
    """One data set: drawn, fitted, merged, and compared with the truth."""
    model = plan.model
    source = plan.truth or Posterior.of_prior(model.structure)
    parameters = drawn_parameters(source, rng)
    shards = [model.draw(parameters, plan.observations, rng, **plan.drawing)[0] for _ in range(plan.sites)]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    alignment = align(posteriors, components="largest")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MergeWarning)  # nobody uses a trial's merge
        refined = refine(model, shards, posteriors, rounds=plan.rounds, rng=rng) if plan.rounds else None
    merged = refined.merged if refined else alignment.merged()
    batch = model.fit(model.joined(shards), rng=rng).posterior
    ranks, at_once = ranked(merged, parameters, rng), ranked(batch, parameters, rng)
    return Trial(
        {name: np.bincount(rank * BARS // (DRAWS + 1), minlength=BARS).tolist() for name, rank in ranks.items()},
        covered_by(ranks, plan.level),
        covered_by(at_once, plan.level),
        score_of(plan, parameters, batch, merged, rng),
        matches_of(plan, alignment, shards, parameters, rng),
        calibrated_coverage(plan, shards, merged, parameters),
    )


def calibrated_coverage(
    plan: Plan, shards: Sequence[Any], merged: Posterior, parameters: Mapping[str, Any]
) -> dict[str, float]:
    """The coverage of calibrated intervals, if these need only one more pass over each site's data."""
    if plan.model.calibrated_by != "linear response":
        return {}
    try:
        calibrated = by_response(merged, [Information.of(plan.model, shard, merged) for shard in shards])
    except NotCalibrated:
        return {}
    order, coverage = beside(calibrated, parameters), {}
    for name, family in calibrated.structure.families.items():
        for part, values in family.quantities(parameters[name]).items():
            lower, upper = (
                placed(calibrated, name, bound, order) for bound in calibrated.interval(name, plan.level, part)
            )
            inside = (lower <= values) & (values <= upper)
            if likely(family, values).any():
                coverage[label_of(name, part)] = float(np.mean(inside[likely(family, values)]))
    return coverage


def covered_by(ranks: Mapping[str, Indices], level: float) -> dict[str, float]:
    """The share of true values within the interval of this level, given their ranks."""
    low, high = (DRAWS + 1) * (1.0 - level) / 2.0, (DRAWS + 1) * (1.0 + level) / 2.0
    return {name: float(np.mean((rank >= low) & (rank < high))) for name, rank in ranks.items() if len(rank)}


def score_of(
    plan: Plan, parameters: dict[str, Any], batch: Posterior, merged: Posterior, rng: np.random.Generator
) -> float:
    """The lead of a fit of all data on new data."""
    data, held_out = plan.model.draw(parameters, TESTED, rng, **plan.drawing)[0], None
    if plan.model.in_parts:
        data, held_out = hold_out(data, share=0.5, rng=rng)
    return plan.model.score(batch, data, held_out) - plan.model.score(merged, data, held_out)


def ranked(posterior: Posterior, parameters: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Indices]:
    """Per quantity: the rank of each true value among draws of the posterior, with matched components."""
    order, ranks = beside(posterior, parameters), {}
    for name, family in posterior.structure.families.items():
        truth, drawn = (
            family.quantities(parameters[name]),
            family.quantities(family.sample(posterior.natural[name], DRAWS, rng)),
        )
        for part, values in truth.items():
            below = (np.stack([placed(posterior, name, draw, order) for draw in drawn[part]]) < values).sum(axis=0)
            ranks[label_of(name, part)] = np.ravel(below[likely(family, values)]).astype(np.intp)
    return ranks


def likely(family: Family, values: Array) -> NDArray[np.bool_]:
    """Which true values are compared with the posterior at all."""
    return values > LEAST_PROBABILITY if family.countable else np.ones(np.shape(values), dtype=np.bool_)


def label_of(factor: str, quantity: str) -> str:
    return factor if quantity == "value" else f"{factor}, {quantity}"


def placed(posterior: Posterior, factor: str, values: Array, order: Indices) -> Array:
    """One value per component, in the order of the true ones; for transitions also the next states."""
    structure = posterior.structure
    if not any(factor in coupled.factors for coupled in structure.symmetry):
        return values
    return values[np.ix_(order, order)] if structure.families[factor].two_sided else values[order]


def beside(posterior: Posterior, parameters: Mapping[str, Any]) -> Indices:
    """Per true component: the posterior's component whose data it explains best, each used once."""
    structure = posterior.structure
    if not structure.symmetry:
        return np.zeros(0, dtype=np.intp)
    (coupled,) = structure.symmetry
    families = {name: structure.families[name] for name in coupled.factors}
    names = [name for name, family in families.items() if not (family.over_components or family.two_sided)]
    scores = [likelihood(posterior, name, parameters[name]) for name in names]
    return np.asarray(linear_sum_assignment(np.sum(scores, axis=0), maximize=True)[1])


def likelihood(posterior: Posterior, name: str, value: Any) -> Array:
    """(true components, components): ⟨T(θ), contribution⟩, the likelihood of each component's data."""
    contribution: Any = posterior.contribution[name]
    # Finite even for a word that a topic never has: fits leave traces of all words in all topics.
    with np.errstate(divide="ignore"):
        statistics = np.nan_to_num(posterior.structure.families[name].statistics(value), neginf=IMPOSSIBLE)
    return np.asarray((contribution @ statistics.T).T)


def matches_of(
    plan: Plan, alignment: Alignment, shards: Sequence[Any], parameters: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, list[float]]:
    """The matches of the one-shot merge, with the truth about each; none if the truth is unknown."""
    truth = known_posterior(plan, parameters, rng)
    if truth is None or len(shards) < 2:
        return {name: [] for name in ("margins", "evidence", "losses", "overlaps", "right", "nowhere")}
    (coupled,) = alignment.structure.symmetry
    truths = [
        in_common(plan.model, posterior, truth, shard)
        for posterior, shard in zip(alignment.posteriors, shards, strict=True)
    ]
    matches = Matches.of(alignment, coupled, overlaps_of(plan.model, alignment, shards), truths)
    return {name: values.tolist() for name, values in asdict(matches).items()}


def known_posterior(plan: Plan, parameters: Mapping[str, Any], rng: np.random.Generator) -> Posterior | None:
    """A posterior that knows the parameters, from very many labelled observations; or None."""
    structure, model = plan.model.structure, plan.model
    if len(structure.symmetry) != 1:
        return None
    (coupled,) = structure.symmetry
    if [structure.families[name].countable for name in coupled.factors] == [True]:
        return Posterior(structure, {name: csr_array(PILOT * parameters[name]) for name in coupled.factors})
    learn = getattr(model, "from_assignments", None)
    return None if learn is None else learn(*model.draw(parameters, PILOT, rng, **plan.drawing))
