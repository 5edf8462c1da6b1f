"""Coordinate ascent for latent features: what is known, what is inferred, and the bound between them."""

from dataclasses import dataclass
from functools import cached_property
from math import log, pi

import numpy as np
from scipy.special import betaln, digamma

from decbayes.families import Array
from decbayes.models.assignments import flip_pairs, row_bounds, sweep


@dataclass(frozen=True)
class Problem:
    """Observations and prior. `data` and `shift` may be given in fewer coordinates than `dimension`; see `rotated`."""

    data: Array  # (N, D) or (N, fewer)
    dimension: int
    variance: float
    shift: Array  # prior precision × prior mean of each feature, (K, D) or (K, fewer)
    precision: Array  # prior precision of each feature, (K,)
    alpha: Array  # prior of the inclusion probabilities, (K,)
    beta: Array

    @cached_property
    def likelihood_constant(self) -> float:
        size = len(self.data) * self.dimension
        return -0.5 * size * log(2 * pi * self.variance) - 0.5 * float(np.sum(self.data**2)) / self.variance


@dataclass(frozen=True)
class State:
    """q(z) as probabilities (K, N), q(μ) as means and variances, q(π) as Beta parameters."""

    assignments: Array
    means: Array
    variances: Array
    alpha: Array
    beta: Array


def rotated(problem: Problem) -> tuple[Problem, Array]:
    """The same problem in coordinates that span the data and the prior means, and the basis (fewer, D).

    Everything is isotropic, so a rotation changes nothing, and outside that span all means are zero. An agent with
    100 images of 1,024 pixels then works in 110 dimensions.
    """
    rows = np.concatenate([problem.data, problem.shift])
    if len(rows) >= problem.dimension:
        return problem, np.eye(problem.dimension)
    basis = np.linalg.qr(rows.T)[0].T
    inside = {"data": problem.data @ basis.T, "shift": problem.shift @ basis.T}
    return Problem(**{**problem.__dict__, **inside}), basis


def state_of(problem: Problem, assignments: Array) -> State:
    """The best features and inclusion probabilities given the assignments.

    The means of all features solve one linear system, which is where updating them in turn would end.
    """
    counts = assignments.sum(axis=1)
    together = assignments @ assignments.T
    np.fill_diagonal(together, counts)
    precision = together / problem.variance + np.diag(problem.precision)
    means = np.linalg.solve(precision, problem.shift + assignments @ problem.data / problem.variance)
    unused = len(problem.data) - counts
    return State(assignments, means, 1.0 / np.diag(precision), problem.alpha + counts, problem.beta + unused)


def evidence(problem: Problem, state: State) -> tuple[Array, Array]:
    """`alone` and `overlap` of the assignments' pairwise model, given q(μ) and q(π)."""
    gram = state.means @ state.means.T
    squares = np.diag(gram) + problem.dimension * state.variances
    prior_odds = digamma(state.alpha) - digamma(state.beta) - 0.5 * squares / problem.variance
    alone = prior_odds[:, None] + state.means @ problem.data.T / problem.variance
    np.fill_diagonal(gram, 0.0)
    return alone, gram[:, :, None] / problem.variance


def improve(problem: Problem, state: State) -> State:
    """One pass of coordinate ascent over z, μ and π; the bound never falls."""
    alone, overlap = evidence(problem, state)
    assignments = state.assignments.copy()
    flip_pairs(alone, overlap, assignments)
    sweep(alone, overlap, assignments)
    sweep(alone, overlap, assignments)
    return state_of(problem, assignments)


def bound(problem: Problem, state: State) -> float:
    """The variational lower bound of log p(data)."""
    explained = float(row_bounds(*evidence(problem, state), state.assignments).sum())
    absent = len(problem.data) * float((digamma(state.beta) - digamma(state.alpha + state.beta)).sum())
    return problem.likelihood_constant + explained + absent - divergence(problem, state)


def divergence(problem: Problem, state: State) -> float:
    """KL of q(μ) and q(π) from their priors."""
    ratio = state.variances * problem.precision
    distance = problem.precision * np.sum((state.means - problem.shift / problem.precision[:, None]) ** 2, axis=1)
    features = 0.5 * (problem.dimension * (ratio - 1.0 - np.log(ratio)) + distance)
    total = digamma(state.alpha + state.beta)
    inclusion = betaln(problem.alpha, problem.beta) - betaln(state.alpha, state.beta)
    inclusion += (state.alpha - problem.alpha) * (digamma(state.alpha) - total)
    inclusion += (state.beta - problem.beta) * (digamma(state.beta) - total)
    return float((features + inclusion).sum())
