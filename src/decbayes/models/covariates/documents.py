"""Documents given known topics: how likely their words are if each has a prior of its own, and how that bends.

    L(α) = max over γ of the bound of a document's log-likelihood, θ ~ Dirichlet(α), q(θ) = Dirichlet(γ)

    ∂L/∂α_k = ψ(Σα) − ψ(α_k) + ψ(γ_k) − ψ(Σγ)
    γ = α + Σ_w n_w φ_w,   so that   ∂γ/∂α = (I − S diag ψ′(γ))⁻¹,   S = diag(Σ_w n_w φ_w) − Σ_w n_w φ_w φ_wᵀ

The second line has the slopes of a Dirichlet-multinomial whose counts are the expected ones, Σ_w n_w φ_w. These respond
to the prior, which the third line takes into account: without it a document would seem to tell its topics exactly.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

from decbayes.families import Array
from decbayes.models.core.counts import checked_matrix

# γ is found up to this change per topic, within so many steps.
TOLERANCE, STEPS = 1e-6, 1000


class Bend(NamedTuple):
    """γ of each document, its bound, and the bound's slopes (N, K) and minus its curvature (N, K, K) in log α."""

    gamma: Array
    bound: Array
    slopes: Array
    weights: Array


@dataclass(frozen=True, eq=False)
class Documents:
    """Word counts of documents, and (words, topics) probabilities of words in topics, which are taken as known."""

    counts: Any
    topics: Array

    @cached_property
    def _matrix(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        matrix = checked_matrix(self.counts, len(self.topics))
        return matrix.data.astype(np.int32), matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64)

    @cached_property
    def words(self) -> Array:
        """How many known words each document has."""
        data, _, offsets = self._matrix
        return np.add.reduceat(np.append(data, 0), offsets[:-1]) * (np.diff(offsets) > 0.0)

    def __len__(self) -> int:
        return len(self._matrix[2]) - 1

    def at(self, alpha: Array, kept: NDArray[np.bool_] | None = None, before: Array | None = None) -> Bend:
        """The bound where document d has the prior Dirichlet(alpha[d]), beginning from γ `before`.

        With `kept` topics only: how the words in these are divided among them, whatever the words in all others are.
        """
        alpha = np.ascontiguousarray(alpha)  # which kernels are compiled for
        gamma, bound, spread = self._settled(alpha, np.empty((0, 0)) if before is None else before)
        chosen = np.arange(alpha.shape[1]) if kept is None else np.flatnonzero(kept)
        responses = np.linalg.inv(np.eye(alpha.shape[1]) - spread * trigamma(gamma)[:, None, :])
        near, reached = alpha[:, chosen], gamma[:, chosen]
        totals = near.sum(axis=1, keepdims=True), reached.sum(axis=1, keepdims=True)
        slope = digamma(totals[0]) - digamma(near) + digamma(reached) - digamma(totals[1])
        each = np.arange(len(chosen))
        outer = np.repeat(-trigamma(totals[1])[:, :, None], len(chosen), axis=1) + np.zeros((1, 1, len(chosen)))
        outer[:, each, each] += trigamma(reached)
        curve = outer @ responses[:, chosen[:, None], chosen] + trigamma(totals[0])[:, :, None]
        curve[:, each, each] -= trigamma(near)
        slopes, weights = np.zeros_like(alpha), np.zeros_like(responses)
        slopes[:, chosen] = near * slope
        curve = 0.5 * (curve + curve.transpose(0, 2, 1)) * near[:, :, None] * near[:, None, :]
        curve[:, each, each] += slopes[:, chosen]
        weights[:, chosen[:, None], chosen] = -curve
        return Bend(gamma, bound, slopes, weights)

    def _settled(self, alpha: Array, before: Array) -> tuple[Array, Array, Array]:
        """γ and the bound of each document, and its S; documents have different priors, so one is found at a time."""
        from decbayes.kernels.documents import update_documents

        data, words, offsets = self._matrix
        count, side = alpha.shape
        gamma, shares, spread = np.empty((count, side)), np.empty((1, side)), np.zeros((count, side, side))
        bound, scales = np.zeros(count), np.zeros(len(self.topics))
        ends, ratios = np.ones(1, dtype=np.int64), np.empty(int(np.diff(offsets).max(initial=0)))
        for d in range(count):
            some = slice(offsets[d], offsets[d + 1])
            size = offsets[d + 1] - offsets[d]
            begun = before[d : d + 1] if len(before) else np.empty((0, side))
            update_documents(
                data[some], words[some], np.array([0, size]), self.topics, scales, alpha[d], begun, gamma[d : d + 1],
                shares, ratios, bound[d : d + 1], TOLERANCE, STEPS, ends, np.zeros(1, dtype=np.int64),
            )  # fmt: skip
            expected = self.topics[words[some]] * shares * ratios[:size, None]
            spread[d] = np.diag(expected.sum(axis=0)) - (expected / data[some, None]).T @ expected
        return gamma, bound, spread


def trigamma(values: Array) -> Array:
    return np.asarray(polygamma(1, values))
