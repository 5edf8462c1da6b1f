"""Coordinate ascent for latent features: binary assignments that compete to explain an observation, and the bound."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log, pi

import numpy as np
from scipy.special import betaln, digamma

from decbayes.base.workers import split_among_threads
from decbayes.families import Array

CONVERGED = 1e-6
MAXIMAL_SWEEPS = 100
COOLING_SWEEPS = 20


def sweep(alone: Array, overlap: Array, z: Array) -> None:
    """Set each q(z_k) to its optimum given the others, one after another, in place."""
    from decbayes.kernels.assignments import sweep_tiles

    by_observations(lambda first, last: sweep_tiles(alone, overlap, z, first, last), z)


def flip_pairs(alone: Array, overlap: Array, z: Array, *, sweeps: int = 0) -> None:
    """Complement the two assignments of each observation that raise its bound most, then sweep; in place.

    Coordinate ascent cannot leave an assignment where feature i stands in for feature j, because either change alone
    lowers the bound. Complementing does not change the entropy, so the gain is exact:

        s_i g_i + s_j g_j − s_i s_j overlap_ij,    s = 1 − 2z,  g = the log-odds given the others.
    """
    from decbayes.kernels.assignments import flip_tiles, sweep_tiles

    def run(first: int, last: int) -> None:
        flip_tiles(alone, overlap, z, first, last, CONVERGED)
        for _ in range(sweeps):
            sweep_tiles(alone, overlap, z, first, last)

    by_observations(run, z)


def by_observations(work: Callable[[int, int], None], z: Array) -> None:
    """Run `work` on tiles of observations, in parallel; tiles do not depend on the number of threads."""
    from decbayes.kernels.assignments import WIDTH

    features, observations = z.shape
    tiles = -(-observations // WIDTH)
    split_among_threads(
        lambda part: work(WIDTH * part.start, min(WIDTH * part.stop, observations)),
        tiles,
        cost=observations * features**2,
    )


def row_bounds(alone: Array, overlap: Array, z: Array) -> Array:
    """The contribution of each observation's assignments to the bound, entropy included."""
    from decbayes.kernels.assignments import bound_tiles

    bounds = np.empty(z.shape[1])
    by_observations(lambda first, last: bound_tiles(alone, overlap, z, first, last, bounds), z)
    return bounds


def converge(alone: Array, overlap: Array, z: Array) -> None:
    """Sweep and flip until no assignment changes, in place."""
    for _ in range(MAXIMAL_SWEEPS):
        before = z.copy()
        flip_pairs(alone, overlap, z, sweeps=1)
        if np.abs(z - before).max(initial=0.0) < CONVERGED:
            return


def infer(alone: Array, overlap: Array) -> Array:
    """The best mean field of each observation from four starts: annealed, undecided, no feature, and all features.

    Of a thousand vectors with five features in ten dimensions, 10 end in a poor optimum if annealed, 26 if undecided at
    first, and 1 with all four.
    """
    fields = [annealed(alone, overlap), *(np.full(alone.shape, level) for level in (0.5, 0.0, 1.0))]
    for z in fields:
        converge(alone, overlap, z)
    best = np.argmax([row_bounds(alone, overlap, z) for z in fields], axis=0)
    return np.asarray(np.take_along_axis(np.stack(fields), best[None, None, :], axis=0)[0])


def annealed(alone: Array, overlap: Array) -> Array:
    """Sweeps at falling temperatures, from one at which no two features compete."""
    z = np.full(alone.shape, 0.5)
    for temperature in np.geomspace(np.abs(overlap).max(initial=1.0), 1.0, COOLING_SWEEPS):
        sweep(alone / temperature, overlap / temperature, z)
    return z


# Observations per matrix product of a thread. So few that BLAS uses no threads of its own up to some ten features: its
# last bits would depend on their number.
BLOCK = 512


@dataclass(frozen=True)
class FeatureData:
    """Observations and prior, in the coordinates of a `Span` that holds them all."""

    data: Array  # (N, R)
    dimension: int  # D ≥ R
    variance: float
    shift: Array  # prior precision × prior mean of each feature, (K, R)
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

    problem: FeatureData
    assignments: Array
    means: Array
    variances: Array
    alpha: Array
    beta: Array

    @cached_property
    def pairwise(self) -> tuple[Array, Array]:
        """`alone` and `overlap` of the assignments' pairwise model, given q(μ) and q(π)."""
        problem = self.problem
        gram = self.means @ self.means.T
        squares = np.diag(gram) + problem.dimension * self.variances
        odds = digamma(self.alpha) - digamma(self.beta) - 0.5 * squares / problem.variance
        scaled, alone = self.means / problem.variance, np.empty((len(gram), len(problem.data)))

        def run(number: int) -> None:
            span = block(number)
            np.matmul(scaled, problem.data[span].T, out=alone[:, span])
            alone[:, span] += odds[:, None]

        by_blocks(run, problem.data, len(gram))
        np.fill_diagonal(gram, 0.0)
        return alone, gram[:, :, None] / problem.variance

    @cached_property
    def bound(self) -> float:
        """The variational lower bound of log p(data)."""
        explained = float(row_bounds(*self.pairwise, self.assignments).sum())
        absent = len(self.problem.data) * float((digamma(self.beta) - digamma(self.alpha + self.beta)).sum())
        return self.problem.likelihood_constant + explained + absent - divergence(self)


def state_of(problem: FeatureData, assignments: Array) -> State:
    """The best features and inclusion probabilities given the assignments.

    The means of all features solve one linear system, the limit of updating them in turn.
    """
    counts, together, summed = sums(problem.data, assignments)
    np.fill_diagonal(together, counts)
    precision = together / problem.variance + np.diag(problem.precision)
    target = problem.shift + summed / problem.variance
    means = np.asarray(np.linalg.solve(precision, target), dtype=np.float64)
    unused = len(problem.data) - counts
    return State(problem, assignments, means, 1.0 / np.diag(precision), problem.alpha + counts, problem.beta + unused)


def sums(data: Array, assignments: Array) -> tuple[Array, Array, Array]:
    """Numbers of observations with each feature, (K,), and with two, (K, K), and the sum of those with it, (K, R).

    Sums of blocks are added in the order of the blocks.
    """
    features, blocks = len(assignments), block_count(data)
    counts = np.empty((blocks, features))
    together, summed = np.empty((blocks, features, features)), np.empty((blocks, features, data.shape[1]))

    def run(number: int) -> None:
        assigned, points = assignments[:, block(number)], data[block(number)]
        assigned.sum(axis=1, out=counts[number])
        np.matmul(assigned, assigned.T, out=together[number])
        np.matmul(assigned, points, out=summed[number])

    by_blocks(run, data, features)
    return counts.sum(axis=0), together.sum(axis=0), summed.sum(axis=0)


def improved(state: State) -> State:
    """One pass of coordinate ascent over z, μ and π; the bound never falls."""
    assignments = state.assignments.copy()
    # A second sweep is cheap compared with the features' update, and saves passes.
    flip_pairs(*state.pairwise, assignments, sweeps=2)
    return state_of(state.problem, assignments)


def state_given(problem: FeatureData, means: Array, variances: Array, alpha: Array, beta: Array) -> State:
    """The state whose assignments follow from given q(μ) and q(π)."""
    nothing = np.zeros((len(means), len(problem.data)))
    return state_of(problem, infer(*State(problem, nothing, means, variances, alpha, beta).pairwise))


def divergence(state: State) -> float:
    """KL of q(μ) and q(π) from their priors."""
    problem = state.problem
    ratio = state.variances * problem.precision
    distance = problem.precision * np.sum((state.means - problem.shift / problem.precision[:, None]) ** 2, axis=1)
    features = 0.5 * (problem.dimension * (ratio - 1.0 - np.log(ratio)) + distance)
    total = digamma(state.alpha + state.beta)
    inclusion = betaln(problem.alpha, problem.beta) - betaln(state.alpha, state.beta)
    inclusion += (state.alpha - problem.alpha) * (digamma(state.alpha) - total)
    inclusion += (state.beta - problem.beta) * (digamma(state.beta) - total)
    return float((features + inclusion).sum())


@dataclass(frozen=True)
class Span:
    """Coordinates in which some vectors of R^D lie, as an orthonormal basis (R, D).

    Everything in the model is isotropic, so rotations change nothing, and outside the span of data, prior and start all
    means are zero. An agent with 100 images of 1,024 pixels works in some 110 dimensions.
    """

    basis: Array

    @classmethod
    def of(cls, *vectors: Array) -> "Span":
        rows = np.concatenate(vectors)
        count, dimension = rows.shape
        return cls(np.eye(dimension) if count >= dimension else np.linalg.qr(rows.T)[0].T)

    def inside(self, vectors: Array) -> Array:
        return np.ascontiguousarray(vectors @ self.basis.T)

    def outside(self, coordinates: Array) -> Array:
        return np.asarray(coordinates @ self.basis)


def by_blocks(work: Callable[[int], None], data: Array, features: int) -> None:
    """Run `work` on blocks of observations, by their number, in parallel."""

    def run(numbers: slice) -> None:
        for number in range(numbers.start, numbers.stop):
            work(number)

    # A term of a product costs a tenth of the unit by which threads are weighed.
    split_among_threads(run, block_count(data), cost=data.size * features // 10)


def block_count(data: Array) -> int:
    return -(-len(data) // BLOCK)


def block(number: int) -> slice:
    return slice(number * BLOCK, (number + 1) * BLOCK)
