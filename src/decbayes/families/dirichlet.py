"""Distributions over probabilities: Dirichlet rows, the mixture weights, and Beta."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import betaln, digamma, gammaln, logsumexp

from decbayes.families.family import Array, Contribution, Family, dense


@dataclass(frozen=True)
class Dirichlet(Family):
    """One Dirichlet a row, over the columns. Columns: α − 1. T(θ) = log θ."""

    parameters = ("alpha",)

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        return (np.asarray(natural, dtype=np.float64) + 1.0,)

    def row_terms(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(gammaln(alpha).sum(axis=-1) - gammaln(alpha.sum(axis=-1)))

    def mean(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(digamma(alpha) - digamma(alpha.sum(axis=-1, keepdims=True)))

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        (alpha,) = self.columns(natural)
        return np.asarray((alpha > 0).all(axis=-1))

    def contains_sum(self, prior: ArrayLike, contribution: Contribution) -> NDArray[np.bool_]:
        if not issparse(contribution):
            return super().contains_sum(prior, contribution)
        rows = np.repeat(np.arange(contribution.shape[0]), np.diff(contribution.indptr))
        inside = np.asarray(prior)[rows, contribution.indices] + contribution.data > -1.0
        return np.asarray(np.bincount(rows[~inside], minlength=contribution.shape[0]) == 0)

    def natural(self, *, alpha: ArrayLike) -> Array:
        return np.atleast_2d(np.asarray(alpha, dtype=np.float64)) - 1.0

    def expected(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(alpha / alpha.sum(axis=-1, keepdims=True))

    def deviation(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return share_deviation(self.expected(natural), alpha.sum(axis=-1, keepdims=True))

    def statistics(self, value: ArrayLike) -> Array:
        return np.asarray(np.log(value))

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        (alpha,) = self.columns(natural)
        logs = log_gamma_variates(alpha, size, rng)
        return np.asarray(np.exp(logs - logsumexp(logs, axis=-1, keepdims=True)))

    def check_width(self, width: int) -> None:
        if width < 1:
            raise ValueError("Dirichlet rows need at least one column.")

    def information(self, prior: ArrayLike, contribution: Contribution) -> float:
        if not issparse(contribution):
            return super().information(prior, contribution)
        return self._sparse_information(np.asarray(prior, dtype=np.float64), contribution)

    def _sparse_information(self, prior: Array, contribution: csr_array) -> float:
        """KL(α ‖ α0) from the entries that differ: all others cancel but for the row sums."""
        rows = np.repeat(np.arange(contribution.shape[0]), np.diff(contribution.indptr))
        before = prior[rows, contribution.indices] + 1.0
        after = before + contribution.data
        entries = gammaln(before) - gammaln(after) + contribution.data * digamma(after)
        start = (prior + 1.0).sum(axis=1)
        added = np.asarray(contribution.sum(axis=1)).ravel()
        sums = gammaln(start + added) - gammaln(start) - added * digamma(start + added)
        return float(entries.sum() + sums.sum())

    def gain(self, rest: ArrayLike, own: Contribution) -> Array:
        from decbayes.kernels.gain import dirichlet_gain

        sparse = own if issparse(own) else csr_array(dense(own))
        return dirichlet_gain(np.ascontiguousarray(rest, dtype=np.float64), sparse)


@dataclass(frozen=True)
class Weights(Family):
    """One Dirichlet over the K components themselves. Column: α − 1 (one coordinate a row). T(θ) = log θ."""

    parameters = ("alpha",)

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        return (np.asarray(natural, dtype=np.float64)[..., 0] + 1.0,)

    def row_terms(self, natural: ArrayLike) -> Array:
        return np.asarray(gammaln(self.columns(natural)[0]))

    def shared_term(self, natural: ArrayLike) -> float:
        return -float(gammaln(self.columns(natural)[0].sum()))

    def mean(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(digamma(alpha) - digamma(alpha.sum()))[:, None]

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        return np.asarray(self.columns(natural)[0] > 0)

    def natural(self, *, alpha: ArrayLike) -> Array:
        return np.asarray(alpha, dtype=np.float64).reshape(-1, 1) - 1.0

    def expected(self, natural: ArrayLike) -> Array:
        (alpha,) = self.columns(natural)
        return np.asarray(alpha / alpha.sum())

    def deviation(self, natural: ArrayLike) -> Array:
        return share_deviation(self.expected(natural), self.columns(natural)[0].sum())

    def statistics(self, value: ArrayLike) -> Array:
        return np.asarray(np.log(value))[..., None]

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        logs = log_gamma_variates(self.columns(natural)[0], size, rng)
        return np.asarray(np.exp(logs - logsumexp(logs, axis=-1, keepdims=True)))

    def check_width(self, width: int) -> None:
        if width != 1:
            raise ValueError(f"Weights have one column, the coordinate of each component; here are {width}.")


@dataclass(frozen=True)
class Beta(Family):
    """One Beta a row. Columns: α − 1, β − 1. T(θ) = (log θ, log(1 − θ))."""

    parameters = ("alpha", "beta")

    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        matrix = np.asarray(natural, dtype=np.float64)
        return matrix[..., 0] + 1.0, matrix[..., 1] + 1.0

    def row_terms(self, natural: ArrayLike) -> Array:
        return np.asarray(betaln(*self.columns(natural)))

    def mean(self, natural: ArrayLike) -> Array:
        alpha, beta = self.columns(natural)
        return np.asarray(np.stack([digamma(alpha), digamma(beta)], axis=-1) - digamma(alpha + beta)[..., None])

    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        alpha, beta = self.columns(natural)
        return np.asarray((alpha > 0) & (beta > 0))

    def natural(self, *, alpha: ArrayLike, beta: ArrayLike) -> Array:
        pair = np.broadcast_arrays(np.atleast_1d(alpha), np.atleast_1d(beta))
        return np.stack(pair, axis=-1).astype(np.float64) - 1.0

    def expected(self, natural: ArrayLike) -> Array:
        alpha, beta = self.columns(natural)
        return np.asarray(alpha / (alpha + beta))

    def deviation(self, natural: ArrayLike) -> Array:
        alpha, beta = self.columns(natural)
        return share_deviation(self.expected(natural), alpha + beta)

    def statistics(self, value: ArrayLike) -> Array:
        share = np.asarray(value, dtype=np.float64)
        return np.stack([np.log(share), np.log1p(-share)], axis=-1)

    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Array:
        alpha, beta = self.columns(natural)
        logs = log_gamma_variates(np.stack([alpha, beta]), size, rng)
        return np.asarray(np.exp(logs[:, 0] - np.logaddexp(logs[:, 0], logs[:, 1])))

    def check_width(self, width: int) -> None:
        if width != 2:
            raise ValueError(f"Beta has two columns, α − 1 and β − 1; here are {width}.")


def share_deviation(share: Array, total: ArrayLike) -> Array:
    """The deviation of a Dirichlet's coordinate with that mean, where the α add up to `total`."""
    return np.sqrt(share * (1.0 - share) / (np.asarray(total) + 1.0))


def log_gamma_variates(shape: Array, size: int, rng: np.random.Generator) -> Array:
    """Logarithms of Gamma(shape, 1) draws; a shape far below 1 would underflow without the logarithm."""
    draws = (size, *np.shape(shape))
    boosted = rng.standard_gamma(np.asarray(shape) + 1.0, size=draws)
    return np.asarray(np.log(boosted) - rng.standard_exponential(size=draws) / shape)
