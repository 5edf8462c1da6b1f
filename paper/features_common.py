"""What both latent-feature experiments share: batch starts, agents and their merges, and how they are scored."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np

from decbayes.families import Array
from decbayes.merging import merge, product
from decbayes.models.core.ascent import Fit
from decbayes.models.features.latent_features import LatentFeatures
from decbayes.plot.style import AMPS, BATCH, NAIVE, SITES
from decbayes.posterior import Posterior
from paper.boxes import Series
from paper.experiment import Task
from paper.starts import BOUND, all_starts_seconds, best_starts
from paper.table import Measurement, Table
from paper.wider import WIDE_AMPS, merged_wider

LIKELIHOOD = "log-likelihood per held-out component"


@dataclass(frozen=True)
class Trial:
    """One trial's model and training data, and what is measured of a posterior."""

    model: LatentFeatures
    points: Array
    seeds: tuple[int, ...]
    measures: Callable[[Posterior], dict[str, float]]

    def timed_fit(self, points: Array, *purpose: int) -> tuple[Fit, float]:
        begun = perf_counter()
        fit = self.model.fit(points, rng=np.random.default_rng([*self.seeds, *purpose]))
        return fit, perf_counter() - begun


@dataclass(frozen=True)
class Result:
    """A posterior under the name of the method that made it, and the seconds it took."""

    method: str
    posterior: Posterior
    seconds: float
    member: int = 0


Extra = Callable[[Sequence[Result]], list[Measurement]]
Merge = Callable[[Sequence[Posterior]], Posterior]

MERGES: Mapping[str, Merge] = {"naive": product, "AMPS": merge}
WIDE_MERGES: Mapping[str, Merge] = {**MERGES, WIDE_AMPS: merged_wider}


def feature_tasks(
    trial: int, agents: int, prepare: Callable[[], Trial], extra: Extra, merges: Mapping[str, Merge] = MERGES
) -> Iterator[Task]:
    """The agents with their merges, and as many batch starts; `extra` adds to what is measured of each."""
    yield Task(f"trial {trial}: {agents} agents", trial, partial(decentralised, prepare, agents, extra, merges))
    for start in range(agents):
        yield Task(f"trial {trial}: batch start {start}", trial, partial(batch, prepare, start, extra))


def batch(prepare: Callable[[], Trial], start: int, extra: Extra) -> list[Measurement]:
    trial = prepare()
    fit, seconds = trial.timed_fit(trial.points, 0, start)
    learned = Result("batch", fit.posterior, seconds, start)
    return [*measured(trial, [learned], extra), Measurement("batch", BOUND, fit.bound[-1], seconds, member=start)]


def decentralised(
    prepare: Callable[[], Trial], agents: int, extra: Extra, merges: Mapping[str, Merge]
) -> list[Measurement]:
    """Agents work at the same time: a merge takes as long as the slowest of them, and the merging."""
    trial = prepare()
    fits = [trial.timed_fit(shard, 1, agent) for agent, shard in enumerate(np.array_split(trial.points, agents))]
    slowest = max(seconds for _, seconds in fits)
    learned = [Result("agent", fit.posterior, seconds, agent) for agent, (fit, seconds) in enumerate(fits)]
    for method, combine in merges.items():
        begun = perf_counter()
        merged = combine([fit.posterior for fit, _ in fits])
        learned.append(Result(method, merged, slowest + perf_counter() - begun))
    return measured(trial, learned, extra)


def measured(trial: Trial, learned: Sequence[Result], extra: Extra) -> list[Measurement]:
    found = [
        Measurement(each.method, measure, value, each.seconds, member=each.member)
        for each in learned
        for measure, value in trial.measures(each.posterior).items()
    ]
    return found + extra(learned)


def nothing_more(learned: Sequence[Result]) -> list[Measurement]:
    return []


def estimated_prior_variance(points: Array, features: int, variance: float) -> float:
    """The features' prior variance that explains the data's mean square, each feature being in half of the data.

    E[y²] = σ² + K/2 · σ0²                                                     (ν_k0 "estimated from the data")
    """
    return float(2 * (np.mean(points**2) - variance) / features)


def series(table: Table, measure: str, agents: int) -> list[Series]:
    """The figure's rows from top to bottom; batch is its first start, as each agent has one."""
    rows = table.where(measure=measure)
    best = best_starts(table, agents, measure)
    shown = [
        ("batch", rows.where(method="batch", member=0), BATCH),
        ("AMPS", rows.where(method="AMPS"), AMPS),
        (WIDE_AMPS, rows.where(method=WIDE_AMPS), AMPS),
        ("naive merge", rows.where(method="naive"), NAIVE),
        ("individual agents", rows.where(method="agent"), SITES),
    ]
    first, *others = [
        Series(label, found.values(), found.seconds(), colour) for label, found, colour in shown if found.rows
    ]
    return [first, Series("batch, best of N starts", best, all_starts_seconds(table, agents), BATCH), *others]


def medians(table: Table, measure: str) -> dict[str, float]:
    methods = ("AMPS", WIDE_AMPS, "naive", "agent")
    found = {method: table.median(method=method, measure=measure) for method in methods}
    return {**found, "batch": table.median(method="batch", measure=measure, member=0)}
