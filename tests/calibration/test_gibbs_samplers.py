"""The benchmark's Gibbs samplers leave the prior as it is when data are drawn anew after each sweep (Geweke's test)."""

import sys
from pathlib import Path

import numpy as np
import pytest

import decbayes as db

# Last, because a library has the name of one of the benchmarks.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from _gibbs import Features, Mixture, Topics

MIXTURE = {"prior_mean": 0.5, "weight_prior": 1.5}
SAMPLERS = {
    "known": lambda: Mixture(db.GaussianMixture(2, 1, variance=0.5, prior_variance=1.0, **MIXTURE), 3),
    "diagonal": lambda: Mixture(
        db.GaussianMixture(2, 2, covariance="diagonal", prior_degrees=8.0, prior_strength=2.0, **MIXTURE), 3
    ),
    "full": lambda: Mixture(
        db.GaussianMixture(2, 2, covariance="full", prior_degrees=8.0, prior_strength=2.0, **MIXTURE), 3
    ),
    "features": lambda: Features(db.LatentFeatures(2, 2, variance=0.5, inclusion_prior=(2.0, 1.0)), 3),
    "topics": lambda: Topics(db.LatentDirichletAllocation(2, ("a", "b", "c"), 0.7, 0.8), 3, 4),
}


def moments(sampler, state):
    values = np.concatenate([np.ravel(value) for value in sampler.value(state).values()])
    # Squares of what is far out say little; bounded functions of it say as much as is needed.
    return np.concatenate([np.tanh(values), np.tanh(values) ** 2])


@pytest.mark.parametrize("name", sorted(SAMPLERS))
def test_drawing_data_and_sweeping_in_turn_leaves_the_prior_as_it_is(name, rng):
    sampler, sweeps = SAMPLERS[name](), 900
    independent = np.array([moments(sampler, sampler.first(rng)) for _ in range(sweeps)])
    state, chain = sampler.allocate(sampler.first(rng), rng), []
    for _ in range(sweeps):
        state = sampler.sweep(state, sampler.data(state, rng), rng)
        chain.append(moments(sampler, state))
    blocks = np.array(chain).reshape(30, -1, len(chain[0])).mean(axis=1)
    error = np.sqrt(blocks.var(axis=0, ddof=1) / 30 + independent.var(axis=0) / sweeps)
    # Up to a dozen differences, each with a t distribution of 29 degrees of freedom: one in 10,000 is beyond 4.5.
    assert (np.abs(blocks.mean(axis=0) - independent.mean(axis=0)) < 4.5 * error).all()
