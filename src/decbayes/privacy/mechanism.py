"""What a model needs for private releases: bounded statistics of single records, and a posterior from their sums.

A record's statistic depends only on that record and on a public *anchor*: the start that the prior implies, or an
estimate from earlier private releases. So one person changes a sum by at most a bound, whatever the other records are.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import NotPrivate
from decbayes.families import Array
from decbayes.posterior import Posterior
from decbayes.privacy.accounting import Privacy
from decbayes.remarks import Remark


@dataclass(frozen=True)
class Total:
    """The sum over all sites in one round.

    Args:
        values: the noisy sum of all records' statistics.
        deviation: the standard deviation of the noise in each entry.
        anchor: the anchor of these statistics.
        copies: the number of independent noises in it, each that of one release.
    """

    values: Array
    deviation: float
    anchor: Array
    copies: int


@dataclass(frozen=True, eq=False)
class PrivateMerge:
    """The merge of private releases of several rounds.

    Attributes:
        posterior: the posterior of all sites' rows; its intervals account for the noise, as `uncertainty` states.
        noise: the standard deviation that noise adds to each parameter, in agreed units.
        misfit: how far rounds differ relative to their noise; about 1 if all is well.
        price: the width of intervals relative to those without noise.
        anchor: the anchor of the next round.
        round: the number of that round, from 0; equal to `rounds` when the budget is spent.
        rounds: the total number of rounds.
        privacy: the promise of all releases.
        releases: the ids of these releases.
    """

    posterior: Posterior
    noise: Array
    misfit: float
    price: float
    anchor: Array
    round: int
    rounds: int
    privacy: Privacy
    releases: frozenset[str]


@dataclass(frozen=True)
class Estimate:
    """The parts of a `PrivateMerge` that a mechanism estimates from sums.

    `quality` is Q = n μ² / p, with n the estimated rows per independent noise; the price depends on it.
    """

    posterior: Posterior
    noise: Array
    misfit: float
    price: float
    anchor: Array
    quality: float
    remarks: Sequence[Remark] = ()


class Mechanism(ABC):
    """How a model is released. Statistics of a record have norm at most 1 in every round.

    A test runs over all mechanisms: no record, however strange, has a larger statistic.
    """

    budget_parts: ClassVar[tuple[float, ...]]
    """The share of μ² that each round spends; the shares add up to 1."""

    useless: ClassVar[float] = 10.0
    """Plans with a smaller Q are refused."""

    doubtful: ClassVar[float] = 50.0
    """Plans with a smaller Q get a warning."""

    loss: ClassVar[float] = 20.0
    """The price is about √(1 + loss / Q)."""

    cost: ClassVar[str] = "Intervals account for the noise and are {price:.3g} times as wide as without it"
    """The sentence on the price in a result's remark."""

    any_number: ClassVar[bool] = False
    """Whether statistics are the same for any number of components, so that a merge may choose it."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """p: the number of estimated parameters."""

    @abstractmethod
    def start(self) -> Array:
        """The anchor of the first round, which depends on no data."""

    @abstractmethod
    def record_statistics(self, anchor: Array, data: Any, number: int) -> Array:
        """(N, d): the statistic of each record at an anchor in round `number`, of norm at most 1."""

    def outside(self, data: Any) -> NDArray[np.bool_]:
        """Which records lie so far beyond the agreed units that they count for little or nothing."""
        return np.zeros(0, dtype=np.bool_)

    def portions(self, data: Any) -> Iterable[Any]:
        """The data, in parts that fit into memory."""
        return [data]

    @abstractmethod
    def size(self, number: int) -> int:
        """d: the length of a record's statistic in round `number`."""

    @abstractmethod
    def estimate(self, totals: Sequence[Total], rate: float) -> Estimate:
        """The posterior of the rounds so far; `rate` is μ² of all rounds together."""

    def best_number(self, totals: Sequence[Total]) -> int:
        """The best number of components, if the sums are the same for any number."""
        raise NotPrivate("Releases of this model depend on the number of components: merge them with the agreed one.")

    @property
    def rounds(self) -> int:
        return len(self.budget_parts)

    def price_at(self, quality: float) -> float:
        """The expected width of intervals relative to those without noise."""
        return float(np.sqrt(1.0 + self.loss / quality))


def growing(rounds: int) -> tuple[float, ...]:
    """Shares that double from round to round: early rounds find a good anchor, late ones measure."""
    weights = 2.0 ** np.arange(rounds)
    return tuple(float(share) for share in weights / weights.sum())


def packed(matrices: Array) -> Array:
    """(…, d, d) symmetric matrices as (…, d(d+1)/2) numbers of the same norm."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    return np.asarray(matrices[..., rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0)))


def unpacked(numbers: Array, side: int) -> Array:
    """The symmetric matrix of `packed` numbers."""
    rows, columns = np.triu_indices(side)
    matrix = np.zeros((side, side))
    matrix[rows, columns] = matrix[columns, rows] = numbers / np.where(rows == columns, 1.0, np.sqrt(2.0))
    return matrix


def raised(matrix: Array, least: float) -> Array:
    """The matrix with eigenvalues raised to at least this, since noise may have made some negative."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)
