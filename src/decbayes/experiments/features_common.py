"""What both latent-feature experiments share: batch, five agents, their merges, and how they are scored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from decbayes.experiments.boxes import Series
from decbayes.experiments.style import AGENTS, AMPS, BATCH, NAIVE
from decbayes.experiments.table import Measurement, Table
from decbayes.families import Array
from decbayes.merging import merge, product
from decbayes.models.features import LatentFeatures
from decbayes.posterior import Posterior

LIKELIHOOD = "log-likelihood per held-out component"
LABELS = {
    "batch": ("batch", BATCH),
    "batch, best of N starts": ("batch, best of N starts", BATCH),
    "AMPS": ("AMPS", AMPS),
    "naive": ("naive merge", NAIVE),
    "agent": ("individual agents", AGENTS),
}

Score = Callable[[Posterior], dict[str, float]]


@dataclass(frozen=True)
class Learned:
    """A posterior under the name of the method that made it, and the seconds it took."""

    method: str
    posterior: Posterior
    seconds: float
    member: int = 0


def learn(model: LatentFeatures, points: Array, agents: int, seeds: Sequence[int]) -> list[Learned]:
    """Batch once and as often as there are agents (best bound); the agents, and their merges.

    Agents work at the same time: a merge takes as long as the slowest of them, and the merging.
    """
    own = [timed(model, shard, [*seeds, 1, i]) for i, shard in enumerate(np.array_split(points, agents))]
    slowest = max(fit.seconds for fit in own)
    found = [*batch_fits(model, points, agents, seeds), *agents_of(own)]
    for method, combine in (("naive", product), ("AMPS", merge)):
        begun = perf_counter()
        merged = combine([fit.posterior for fit in own])
        found.append(Learned(method, merged, slowest + perf_counter() - begun))
    return found


@dataclass(frozen=True)
class Timed:
    posterior: Posterior
    bound: float
    seconds: float


def timed(model: LatentFeatures, points: Array, seeds: Sequence[int]) -> Timed:
    begun = perf_counter()
    fit = model.fit(points, rng=np.random.default_rng(seeds))
    return Timed(fit.posterior, fit.bound[-1], perf_counter() - begun)


def batch_fits(model: LatentFeatures, points: Array, starts: int, seeds: Sequence[int]) -> list[Learned]:
    fits = [timed(model, points, [*seeds, 0, start]) for start in range(starts)]
    best = max(fits, key=lambda fit: fit.bound)
    total = sum(fit.seconds for fit in fits)
    return [
        Learned("batch", fits[0].posterior, fits[0].seconds),
        Learned("batch, best of N starts", best.posterior, total),
    ]


def agents_of(own: Sequence[Timed]) -> list[Learned]:
    return [Learned("agent", fit.posterior, fit.seconds, member) for member, fit in enumerate(own)]


def measured(learned: Sequence[Learned], score: Score) -> list[Measurement]:
    return [
        Measurement(each.method, measure, value, each.seconds, member=each.member)
        for each in learned
        for measure, value in score(each.posterior).items()
    ]


def estimated_prior_variance(points: Array, features: int, variance: float) -> float:
    """The features' prior variance that explains the data's mean square, each feature being in half of the data.

    E[y²] = σ² + K/2 · σ0²                                                     (ν_k0 "estimated from the data")
    """
    return float(2 * (np.mean(points**2) - variance) / features)


def series(table: Table, measure: str) -> list[Series]:
    rows = {method: table.where(method=method, measure=measure) for method in LABELS}
    return [Series(*named(LABELS[method], found)) for method, found in rows.items()]


def named(label: tuple[str, str], rows: Table) -> tuple[str, Array, Array, str]:
    return label[0], rows.values(), rows.seconds(), label[1]
