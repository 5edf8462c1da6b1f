"""Predict unseen components of a vector from the others, under a posterior over features."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import logsumexp

from decbayes.families import Array
from decbayes.models.features._state import infer

# Features to sum over exactly, the least certain ones of each observation: 2^10 combinations.
SUMMED = 10


@dataclass(frozen=True)
class FeaturePosterior:
    """q(μ) and q(π), and the noise variance."""

    means: Array  # (K, D)
    variances: Array  # (K,)
    alpha: Array
    beta: Array
    noise: float

    @property
    def inclusion(self) -> Array:
        return self.alpha / (self.alpha + self.beta)


def assignments_given(belief: FeaturePosterior, observed: Array) -> Array:
    """(N, K): q(z = 1), from the components that are not NaN."""
    seen = ~np.isnan(observed)
    values = np.where(seen, observed, 0.0)
    features = len(belief.means)
    products = np.einsum("id,jd->ijd", belief.means, belief.means).reshape(features**2, -1)
    overlap = (products @ seen.T).reshape(features, features, -1) / belief.noise
    squares = overlap[range(features), range(features)] + np.outer(belief.variances, seen.sum(axis=1)) / belief.noise
    odds = np.log(belief.inclusion) - np.log1p(-belief.inclusion)
    alone = odds[:, None] + belief.means @ values.T / belief.noise - 0.5 * squares
    overlap[range(features), range(features)] = 0.0
    return infer(alone, overlap).T


def held_log_densities(belief: FeaturePosterior, observed: Array, held_out: Array) -> Array:
    """Σ log p(held-out value | observed values of its vector), per vector."""
    rows = zip(assignments_given(belief, observed), observed, held_out, strict=True)
    return np.array([held_log_density(belief, *row) for row in rows])


def log_densities(belief: FeaturePosterior, observed: Array) -> Array:
    """log p(observed values), per vector."""
    rows = zip(assignments_given(belief, observed), observed, strict=True)
    return np.array([logsumexp(weighted_choices(belief, *row)[0]) for row in rows])


def held_log_density(belief: FeaturePosterior, assignment: Array, observed: Array, held_out: Array) -> float:
    """Σ_z p(z | observed) N(held; Σ_k z_k m_k, σ² + Σ_k z_k v_k), μ and π integrated out."""
    weight, mean, variance = weighted_choices(belief, assignment, observed)
    density = log_normal(held_out, mean, variance)[:, ~np.isnan(held_out)]
    return float(logsumexp((weight - logsumexp(weight))[:, None] + density, axis=0).sum())


def weighted_choices(belief: FeaturePosterior, assignment: Array, observed: Array) -> tuple[Array, Array, Array]:
    """All choices of the least certain features: log p(choice, observed), and mean and variance of each value.

    The other features keep their mean field, as a mean and a variance.
    """
    order = np.argsort(np.abs(assignment - 0.5), kind="stable")
    summed, rest = order[:SUMMED], order[SUMMED:]
    choices = np.array(list(product((0.0, 1.0), repeat=len(summed))))
    mean = assignment[rest] @ belief.means[rest] + choices @ belief.means[summed]
    doubt = (assignment * (1.0 - assignment))[rest] @ belief.means[rest] ** 2
    spread = belief.noise + assignment[rest] @ belief.variances[rest] + choices @ belief.variances[summed]
    variance = spread[:, None] + doubt
    chance = belief.inclusion[summed]
    weight = choices @ np.log(chance) + (1.0 - choices) @ np.log1p(-chance)
    return weight + np.nansum(log_normal(observed, mean, variance), axis=1), mean, variance


def log_normal(value: Array, mean: Array, variance: Array) -> Array:
    return np.asarray(-0.5 * (np.log(2 * np.pi * variance) + (value - mean) ** 2 / variance))
