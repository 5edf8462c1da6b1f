"""Documents given known topics: the likelihood of their words under document-specific priors, and its expansion.

    L(α) = log ∫ Dirichlet(θ; α) Π_w (Σ_k θ_k φ_kw)^n_w dθ

    ∂L/∂α_k = ψ(Σα) − ψ(α_k) + E log θ_k
    ∂²L/∂α_j∂α_k = ψ′(Σα) − δ_jk ψ′(α_k) + Cov(log θ_j, log θ_k)

E and Cov are those of a document's shares given its words. The variational posterior, Dirichlet(γ), has them in closed
form but is too narrow: effects would be a tenth too large. So draws from it are weighted by their likelihood, and the
change by the weights is added. It vanishes where topics share no words.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, logsumexp, polygamma, softmax

from decbayes.families import Array
from decbayes.models.core.counts import checked_matrix

# Change of γ per topic at which to stop, and the most steps.
TOLERANCE, STEPS = 1e-6, 1000
# Draws per document, with a fixed seed, or rounds would not converge. Half of them are from Dirichlet(γ), the others
# from wider distributions, up to the prior: this bounds the weights.
POINTS, SEED = 200, 0
DRAWN = (0.5, 0.25, 0.25)
# Documents to process at a time, to bound memory.
TOGETHER = 100


class Expansion(NamedTuple):
    """γ of each document, its log-likelihood and the variance of that, slopes (N, K), minus curvature (N, K, K).

    Slopes and curvature are with respect to log α.
    """

    gamma: Array
    height: Array
    noise: Array
    slopes: Array
    weights: Array


class Moments(NamedTuple):
    """Per document: its log-likelihood, the variance of that, and mean and covariance of log shares."""

    height: Array
    noise: Array
    mean: Array
    covariance: Array


@dataclass(frozen=True, eq=False)
class Documents:
    """Word counts of documents, and known probabilities of words in topics, (words, topics)."""

    counts: Any
    topics: Array

    @cached_property
    def _matrix(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        matrix = checked_matrix(self.counts, len(self.topics))
        return matrix.data.astype(np.int32), matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64)

    @cached_property
    def words(self) -> Array:
        """The number of known words in each document."""
        data, _, offsets = self._matrix
        return np.add.reduceat(np.append(data, 0), offsets[:-1]) * (np.diff(offsets) > 0.0)

    def at(self, alpha: Array, kept: NDArray[np.bool_] | None = None, before: Array | None = None) -> Expansion:
        """The log-likelihood if document d has the prior Dirichlet(alpha[d]), starting from γ `before`.

        With `kept` topics only: of how words of these topics are distributed among them, given all other words.
        """
        alpha = np.ascontiguousarray(alpha)  # as kernels need it
        gamma = self._gammas(alpha, np.empty((0, 0)) if before is None else before)
        chosen = np.arange(alpha.shape[1]) if kept is None else np.flatnonzero(kept)
        moments, near = self._moments(alpha, gamma, chosen), alpha[:, chosen]
        total, diagonal = near.sum(axis=1, keepdims=True), np.arange(len(chosen))
        curve = moments.covariance + trigamma(total)[:, :, None]
        curve[:, diagonal, diagonal] -= trigamma(near)
        slopes, weights = np.zeros_like(alpha), np.zeros((*alpha.shape, alpha.shape[1]))
        slopes[:, chosen] = near * (digamma(total) - digamma(near) + moments.mean)
        curve *= near[:, :, None] * near[:, None, :]
        curve[:, diagonal, diagonal] += slopes[:, chosen]
        weights[:, chosen[:, None], chosen] = -curve
        return Expansion(gamma, moments.height, moments.noise, slopes, weights)

    def _moments(self, alpha: Array, gamma: Array, chosen: NDArray[np.intp]) -> Moments:
        """Log shares among the chosen topics: moments of Dirichlet(γ), corrected by weighted draws."""
        rng, (data, words, offsets) = np.random.default_rng(SEED), self._matrix
        reached, diagonal = gamma[:, chosen], np.arange(len(chosen))
        total = reached.sum(axis=1, keepdims=True)
        mean, covariance = (
            digamma(reached) - digamma(total),
            np.tile(-trigamma(total)[:, :, None], (1, *[len(chosen)] * 2)),
        )
        covariance[:, diagonal, diagonal] += trigamma(reached)
        noise, height = np.zeros(len(alpha)), np.zeros(len(alpha))
        centres = np.stack([gamma, 0.5 * (alpha + gamma), alpha], axis=1)
        norms, centre_of_draw = (
            log_norm(centres),
            np.repeat(np.arange(len(DRAWN)), np.multiply(DRAWN, POINTS).astype(int)),
        )
        for batch in np.array_split(np.arange(len(alpha)), -(-len(alpha) // TOGETHER)):
            sizes = rng.standard_gamma(centres[batch][:, centre_of_draw]) + np.finfo(float).tiny
            shares = sizes / sizes.sum(axis=2, keepdims=True)
            logs = np.log(shares)
            densities = logs @ centres[batch].transpose(0, 2, 1) - norms[batch, None]
            drawn = logsumexp(densities, b=DRAWN, axis=2)
            likely = densities[:, :, 2] - drawn
            for place, d in enumerate(batch):
                span = slice(offsets[d], offsets[d + 1])
                likely[place] += np.log(shares[place] @ self.topics[words[span]].T) @ data[span]
            height[batch] = logsumexp(likely, axis=1) - np.log(POINTS)
            weights, unweighted = softmax(likely, axis=1), softmax(densities[:, :, 0] - drawn, axis=1)
            noise[batch] = np.maximum((weights**2).sum(axis=1) - 1.0 / POINTS, 0.0)
            among = logs[:, :, chosen] - np.log(shares[:, :, chosen].sum(axis=2, keepdims=True))
            weighted, plain = moments(among, weights), moments(among, unweighted)
            mean[batch] += weighted[0] - plain[0]
            covariance[batch] += weighted[1] - plain[1]
        return Moments(height, noise, mean, covariance)

    def _gammas(self, alpha: Array, before: Array) -> Array:
        """γ of each document, one at a time because documents have different priors."""
        from decbayes.kernels.document_updates import update_documents

        data, words, offsets = self._matrix
        count, side = alpha.shape
        gamma, shares = np.empty((count, side)), np.empty((1, side))
        bound, scales = np.zeros(1), np.zeros(len(self.topics))
        ends, ratios = np.ones(1, dtype=np.int64), np.empty(int(np.diff(offsets).max(initial=0)))
        for d in range(count):
            entries = slice(offsets[d], offsets[d + 1])
            span = np.array([0, offsets[d + 1] - offsets[d]])
            start = before[d : d + 1] if len(before) else np.empty((0, side))
            update_documents(
                data[entries], words[entries], span, self.topics, scales, alpha[d], start, gamma[d : d + 1],
                shares, ratios, bound, TOLERANCE, STEPS, ends, np.zeros(1, dtype=np.int64),
            )  # fmt: skip
        return gamma


def moments(values: Array, weights: Array) -> tuple[Array, Array]:
    """Mean and covariance of weighted points, for each document."""
    mean = weights[:, None, :] @ values
    around = values - mean
    return mean[:, 0], around.transpose(0, 2, 1) @ (weights[:, :, None] * around)


def log_norm(alpha: Array) -> Array:
    """log ∫ Π θ_k^(α_k − 1) dθ, row by row."""
    return np.asarray(gammaln(alpha).sum(axis=-1) - gammaln(alpha.sum(axis=-1)))


def trigamma(values: Array) -> Array:
    return np.asarray(polygamma(1, values))
