"""Whether a plan will work, found out before anybody fits anything: simulate it, many times, with the truth known.

Parameters are drawn from the prior (or from a posterior), each site gets data, fits and shares, and the merge is
compared with the truth: simulation-based calibration of the whole procedure, not of one fit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

from decbayes.arguments import check_whole
from decbayes.calibration.learning import curves_of
from decbayes.calibration.matches import Matches, in_common, overlaps_of
from decbayes.errors import NotCalibrated
from decbayes.families.matrices import Indices
from decbayes.merging import Alignment, align
from decbayes.models.holdout import hold_out
from decbayes.models.model import Model
from decbayes.models.simulation import first
from decbayes.posterior import Posterior
from decbayes.streaming import refine
from decbayes.workers import jobs

# Draws among which the truth has a rank, and bars of a histogram of ranks.
DRAWS, BARS = 99, 20
# Probabilities smaller than this are not ranked: most words of a topic never occur.
LEAST_PROBABILITY = 0.005
# Observations to score with, and to know the true parameters by.
TESTED, PILOT = 500, 20_000
# Where advice begins.
TOO_NARROW, TOO_WRONG, TOO_FAR, FEW = 0.1, 0.1, 0.05, 10.0


@dataclass(frozen=True)
class Plan:
    """What is to be tried: a model, so many sites with so many observations each, and further rounds if any.

    The truth is drawn from the model's prior, or from the posterior `truth`. `length` is that of documents, in words.
    """

    model: Model
    sites: int
    observations: int
    rounds: int = 0
    truth: Posterior | None = None
    length: float | None = None
    level: float = 0.9

    def __post_init__(self) -> None:
        check_whole(1, sites=self.sites, observations=self.observations)
        check_whole(0, rounds=self.rounds)
        if not 0.0 < self.level < 1.0:
            raise ValueError(
                f"level is how often intervals should hold the truth, between 0 and 1; not {self.level!r}."
            )
        if self.model.auto:
            raise ValueError(f"A plan says how many {self.model.number} there are; 'auto' does not.")

    @property
    def options(self) -> dict[str, float]:
        return {} if self.length is None else {"length": float(self.length)}


@dataclass(frozen=True)
class Trial:
    """One simulated data set: histograms of ranks and coverage by quantity, matches, and how far batch is ahead."""

    ranks: Mapping[str, list[int]]
    covered: Mapping[str, float]
    gap: float
    matches: Mapping[str, list[float]]


@dataclass(frozen=True)
class PlanReport:
    """What came of a plan, over all simulated data sets.

    `coverage[name]` is how often intervals of that level held the truth, and the standard error of that. `ranks[name]`
    counts where the truth lay among draws of the posterior, in bars of equal probability: level where the posterior can
    be believed, high at both ends where it is too narrow. `right` is the share of matches that were right, `gap` what a
    fit of all data in one place is ahead by, in nats per observation or word, each with its standard error.
    """

    trials: tuple[Trial, ...]
    level: float
    coverage: Mapping[str, tuple[float, float]] = field(init=False)
    ranks: Mapping[str, list[int]] = field(init=False)
    right: tuple[float, float] = field(init=False)
    gap: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        names = [*dict.fromkeys(name for trial in self.trials for name in trial.covered)]
        put(self, "coverage", {n: mean_and_error([t.covered[n] for t in self.trials if n in t.covered]) for n in names})
        sums = {n: np.sum([t.ranks[n] for t in self.trials if n in t.ranks], axis=0).tolist() for n in names}
        put(self, "ranks", sums)
        put(
            self,
            "right",
            mean_and_error([float(np.mean(t.matches["right"])) for t in self.trials if t.matches["right"]]),
        )
        put(self, "gap", mean_and_error([trial.gap for trial in self.trials]))

    def matches(self) -> Matches:
        """All simulated matches."""
        names = ("margins", "evidence", "losses", "overlaps", "right", "nowhere")
        return Matches(*(np.array([x for trial in self.trials for x in trial.matches[name]]) for name in names))

    def reliability(self, bars: int = 5) -> list[tuple[float, float, int]]:
        """For each range of the probability that matches were said to be right with: said, true, and how many."""
        found = self.matches()
        if len(found) < 2 * bars:
            return []
        said = curves_of(found, found.margins).probabilities(
            found.margins, found.evidence, found.losses, np.full(len(found), np.nan)
        )
        order = np.array_split(np.argsort(said, kind="stable"), bars)
        return [(float(said[part].mean()), float(found.right[part].mean()), len(part)) for part in order]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean over data sets and its standard error; what one data set tells has much in common."""
    if not values:
        return np.nan, np.nan
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.inf
    return float(np.mean(values)), error


def try_plan(
    plan: Plan,
    *,
    data_sets: int = 100,
    seed: int = 0,
    done: Sequence[Trial] = (),
    progress: Callable[[Trial], None] | None = None,
) -> PlanReport:
    """Simulate a plan so many times and say how good its posterior would be.

        report = db.try_plan(db.Plan(model, sites=10, observations=100))

    Data set number i depends on the seed and i alone: what is `done` is not done again. joblib shares out the rest;
    `progress` is told each that ends.
    """
    check_whole(1, data_sets=data_sets)
    check_plan(plan)
    numbers = range(len(done), data_sets)
    tasks = (delayed(trial)(plan, np.random.default_rng([seed, number])) for number in numbers)
    found = list(done[:data_sets])
    for each in Parallel(n_jobs=jobs(), prefer="threads", return_as="generator")(tasks):
        found.append(each)
        if progress is not None:
            progress(each)
    return PlanReport(tuple(found), plan.level)


def check_plan(plan: Plan) -> None:
    """Refuse what cannot be simulated, before the work is done."""
    source = plan.truth or Posterior.of_prior(plan.model.structure)
    parameters = {
        name: first(source, name, values) for name, values in source.sample(1, np.random.default_rng(0)).items()
    }
    try:
        plan.model.draw(parameters, 1, np.random.default_rng(0), **plan.options)
    except (NotImplementedError, TypeError) as error:
        raise NotCalibrated(f"There is no way to simulate this plan: {error}") from None


def trial(plan: Plan, rng: np.random.Generator) -> Trial:
    """One data set: drawn, fitted, merged, and compared with what it was drawn from."""
    model = plan.model
    source = plan.truth or Posterior.of_prior(model.structure)
    parameters = {name: first(source, name, values) for name, values in source.sample(1, rng).items()}
    shards = [model.draw(parameters, plan.observations, rng, **plan.options)[0] for _ in range(plan.sites)]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    found = align(posteriors)
    merged = (
        found.merged() if not plan.rounds else refine(model, shards, posteriors, rounds=plan.rounds, rng=rng).merged
    )
    batch = model.fit(model.joined(shards), rng=rng).posterior
    ranks = ranked(merged, parameters, rng)
    low, high = (DRAWS + 1) * (1.0 - plan.level) / 2.0, (DRAWS + 1) * (1.0 + plan.level) / 2.0
    return Trial(
        {name: np.bincount(own * BARS // (DRAWS + 1), minlength=BARS).tolist() for name, own in ranks.items()},
        {name: float(np.mean((own >= low) & (own < high))) for name, own in ranks.items()},
        score_of(plan, parameters, batch, merged, rng),
        matches_of(plan, found, shards, parameters, rng),
    )


def score_of(
    plan: Plan, parameters: dict[str, Any], batch: Posterior, merged: Posterior, rng: np.random.Generator
) -> float:
    """How far a fit of all data is ahead on new data."""
    data, held = plan.model.draw(parameters, TESTED, rng, **plan.options)[0], None
    if plan.model.in_parts:
        data, held = hold_out(data, share=0.5, rng=rng)
    return plan.model.score(batch, data, held) - plan.model.score(merged, data, held)


def ranked(posterior: Posterior, parameters: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Indices]:
    """For each quantity, the rank of each true value among draws of the posterior, components put side by side."""
    order, ranks = beside(posterior, parameters), {}
    for name, family in posterior.structure.families.items():
        truth, drawn = (
            family.quantities(parameters[name]),
            family.quantities(family.sample(posterior.natural[name], DRAWS, rng)),
        )
        relabelled = any(name in coupled.factors for coupled in posterior.structure.symmetry)
        for part, values in truth.items():
            draws = drawn[part][:, order] if relabelled else drawn[part]
            own = (draws < values).sum(axis=0)
            likely = values > LEAST_PROBABILITY if family.countable else np.ones(np.shape(values), dtype=np.bool_)
            ranks[name if part == "value" else f"{name}, {part}"] = np.ravel(own[likely]).astype(np.intp)
    return ranks


def beside(posterior: Posterior, parameters: Mapping[str, Any]) -> Indices:
    """For each true component the one of the posterior whose data it makes most likely, each taken once."""
    structure = posterior.structure
    if not structure.symmetry:
        return np.zeros(0, dtype=np.intp)
    (coupled,) = structure.symmetry
    contribution: Any = posterior.contribution
    told = [
        name
        for name in coupled.factors
        if not structure.families[name].over_components and not structure.families[name].two_sided
    ]
    scores = np.sum(
        [
            structure.families[name].statistics(parameters[name])
            @ np.asarray(csr_array(contribution[name]).T.todense())
            for name in told
        ],
        axis=0,
    )
    return np.asarray(linear_sum_assignment(scores, maximize=True)[1])


def matches_of(
    plan: Plan, found: Alignment, shards: Sequence[Any], parameters: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, list[float]]:
    """The matches of the one-shot merge, with the truth about each; none where the truth cannot be told."""
    truth = known_posterior(plan, parameters, rng)
    if truth is None or len(shards) < 2:
        return {name: [] for name in ("margins", "evidence", "losses", "overlaps", "right", "nowhere")}
    (coupled,) = found.structure.symmetry
    truths = [in_common(plan.model, own, truth, shard) for own, shard in zip(found.posteriors, shards, strict=True)]
    matches = Matches.of(found, coupled, overlaps_of(plan.model, found, shards), truths)
    return {name: values.tolist() for name, values in asdict(matches).items()}


def known_posterior(plan: Plan, parameters: Mapping[str, Any], rng: np.random.Generator) -> Posterior | None:
    """A posterior that knows the parameters, from very many observations whose components are known; or None."""
    structure, model = plan.model.structure, plan.model
    if len(structure.symmetry) != 1:
        return None
    (coupled,) = structure.symmetry
    if [structure.families[name].countable for name in coupled.factors] == [True]:
        return Posterior(structure, {name: csr_array(PILOT * parameters[name]) for name in coupled.factors})
    learn = getattr(model, "from_assignments", None)
    return None if learn is None else learn(*model.draw(parameters, PILOT, rng, **plan.options))


def advice(plan: Plan, report: PlanReport) -> str:
    """What to do, in a sentence or two."""
    where = f"{plan.sites} sites of {plan.observations} observations"
    lowest, (covered, error) = min(report.coverage.items(), key=lambda item: item[1][0])
    said = []
    if covered + 2 * error < plan.level - TOO_NARROW:
        remedy = (
            "refine (--rounds), or have fewer, larger sites"
            if not plan.rounds
            else "calibrate them (`decbayes.calibrate`)"
        )
        said.append(f"With {where} intervals of '{lowest}' are too narrow; {remedy}.")
    if report.right[0] < 1.0 - TOO_WRONG:
        said.append(
            f"{1.0 - report.right[0]:.0%} of matches are wrong: more data per site, or fewer components, would help."
        )
    if report.gap[0] - 2 * report.gap[1] > TOO_FAR:
        remedy = "refine (--rounds)" if not plan.rounds else "more rounds, or more data per site, would help"
        said.append(f"The merge predicts {report.gap[0]:.2f} nat worse than a fit of all data; {remedy}.")
    return (
        " ".join(said)
        or f"With {where} the merge is about as good as one fit of all data, and its intervals can be used."
    )
