"""The paper's running example: a mixture of three Gaussians, 30 observations, ten agents with three each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decbayes.families import Array
from decbayes.merging import Symmetrized
from decbayes.models.mixtures._sampling import gibbs
from decbayes.models.mixtures.gaussian_mixture import GaussianMixture
from decbayes.posterior import Posterior
from paper.table import Measurement, Table

MEANS = np.array([1.0, -1.0, 3.0])
WEIGHTS = np.array([0.6, 0.3, 0.1])
VARIANCE = 0.09
AGENTS, OBSERVATIONS, HELD_OUT = 10, 30, 1000

# Chosen so that the first data set of seed 0, the one in the pictures, has the expected 18, 9 and 3 observations a
# component and its six regions lie apart; claims about scores are about all trials.
DATA = 19
COMPONENTS = ("1", "2", "3")

# Mean-field fits of three points have several optima; restarts by bound are cheap at this size.
MODEL = GaussianMixture(
    components=3, dimension=1, variance=VARIANCE, prior_mean=0.0, prior_variance=2.0, weight_prior=1.0
)


@dataclass(frozen=True)
class Example:
    """One trial's data: the same for every figure of the mixture example."""

    points: Array
    held_out: Array
    shards: tuple[Array, ...]


@dataclass(frozen=True)
class Draws:
    """Samples of π and μ from some posterior, one row per draw."""

    weights: Array
    means: Array

    @property
    def flat(self) -> Array:
        return np.hstack([self.weights, self.means])


def example(seed: int, trial: int) -> Example:
    rng = np.random.default_rng([seed, trial, DATA])
    points = observations(OBSERVATIONS, rng)
    return Example(points, observations(HELD_OUT, rng), tuple(np.split(points, AGENTS)))


def observations(count: int, rng: np.random.Generator) -> Array:
    component = rng.choice(len(MEANS), size=count, p=WEIGHTS)
    return rng.normal(MEANS[component], np.sqrt(VARIANCE))


def stream(seed: int, trial: int, *purpose: int) -> np.random.Generator:
    """Random numbers for one purpose of one trial, apart from those that made the data."""
    return np.random.default_rng([seed, trial, 1, *purpose])


def fit_agents(data: Example, seed: int, trial: int) -> list[Posterior]:
    """Every agent's own posterior; the same ones in every figure of the example."""
    return [MODEL.fit(shard, rng=stream(seed, trial, 0, i)).posterior for i, shard in enumerate(data.shards)]


def fit_batch(data: Example, seed: int, trial: int) -> Posterior:
    return MODEL.fit(data.points, rng=stream(seed, trial, 1)).posterior


def fit_restart(data: Example, seed: int, trial: int, restart: int) -> Posterior:
    """A batch fit from random responsibilities, which favour no ordering; k-means++ puts large components first."""
    return replace(MODEL, start_from="random").fit(data.points, rng=stream(seed, trial, 9, restart)).posterior


def true_posterior(data: Example, seed: int, trial: int, draws: int) -> Draws:
    """Samples of the true posterior, all six orderings included: a long Gibbs chain with relabelling moves."""
    return gibbs_draws(data, stream(seed, trial, 2), draws, relabel=True)


def gibbs_draws(data: Example, rng: np.random.Generator, draws: int, *, relabel: bool) -> Draws:
    return as_draws(gibbs(MODEL, data.points, rng=rng, draws=draws, burn_in=200, thinning=5, relabel=relabel))


def sample(posterior: Posterior | Symmetrized, draws: int, rng: np.random.Generator) -> Draws:
    return as_draws(posterior.sample(draws, rng))


def as_draws(values: Mapping[str, Any]) -> Draws:
    return Draws(values["weights"].reshape(-1, 3), values["components"].reshape(-1, 3))


def held_out_score(posterior: Posterior, data: Example) -> float:
    """Mean log predictive density of 1,000 fresh observations."""
    return float(MODEL.log_predictive(posterior, data.held_out).mean())


def recorded(method: str, draws: Draws, seconds: float = 0.0) -> list[Measurement]:
    """Draws as measurements, to be drawn again from the table."""
    columns = [(f"weight {k}", draws.weights[:, i]) for i, k in enumerate(COMPONENTS)]
    columns += [(f"mean {k}", draws.means[:, i]) for i, k in enumerate(COMPONENTS)]
    return [
        Measurement(method, measure, round(float(value), 5), seconds, member=member)
        for measure, values in columns
        for member, value in enumerate(values)
    ]


def recalled(table: Table, method: str) -> Draws:
    """The draws of the first trial, as `recorded` wrote them."""
    chosen = table.where(trial=0, method=method)
    return Draws(
        np.column_stack([chosen.values(measure=f"weight {k}") for k in COMPONENTS]),
        np.column_stack([chosen.values(measure=f"mean {k}") for k in COMPONENTS]),
    )


def ordering_shares(draws: Draws) -> Array:
    """The share of draws with each of the 6 orderings of the means, largest first."""
    orders = np.argsort(draws.means, axis=1)
    _, counts = np.unique(orders, axis=0, return_counts=True)
    shares = np.zeros(6)
    shares[: len(counts)] = np.sort(counts)[::-1] / len(orders)
    return shares


def energy_distance(first: Draws, second: Draws, unit: Draws) -> float:
    """2 E|X − Y| − E|X − X'| − E|Y − Y'| of samples of (π, μ), each coordinate in units of `unit`'s spread."""
    from scipy.spatial.distance import cdist, pdist

    scale = unit.flat.std(axis=0)
    x, y = first.flat / scale, second.flat / scale
    return float(2 * cdist(x, y).mean() - pdist(x).mean() - pdist(y).mean())
