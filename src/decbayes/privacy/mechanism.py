"""What a model adds to be released privately: bounded statistics of single records, and a posterior from their sums.

A record's statistic depends on that record and on a public *anchor* alone: the start that the prior implies, or an
estimate from earlier private releases. So one person moves a sum by at most a bound, whatever all others are.
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
    """The sum over all sites of one round.

    Args:
        values: the noisy sum of all records' statistics.
        deviation: the standard deviation of the noise in each entry.
        anchor: where these statistics were taken.
        copies: how many sites' noise is in it, each the whole noise of one release.
    """

    values: Array
    deviation: float
    anchor: Array
    copies: int


@dataclass(frozen=True, eq=False)
class PrivateMerge:
    """What private releases of several rounds say together.

    Attributes:
        posterior: the posterior of all sites' rows; its intervals account for the noise, and `uncertainty` says so.
        noise: the standard deviation that noise adds to each parameter, in agreed units.
        misfit: how far rounds differ, relative to their noise; about 1 if all is well.
        price: how many times wider intervals are than without noise.
        anchor: where the next round is taken.
        round: the number of that round, from 0 on; equal to `rounds` when the budget is spent.
        rounds: how many rounds there are in all.
        privacy: the promise that all releases made.
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
    """What a mechanism makes of sums: the parts of a `PrivateMerge` that depend on the model.

    `quality` is Q = n μ² / p, with n the estimated number of rows per independent noise: what the price depends on.
    """

    posterior: Posterior
    noise: Array
    misfit: float
    price: float
    anchor: Array
    quality: float
    remarks: Sequence[Remark] = ()


class Mechanism(ABC):
    """How one model is released. Statistics of a record have norm at most 1, in every round.

    A law tests every mechanism: no record, however strange, has a larger statistic.
    """

    budget_parts: ClassVar[tuple[float, ...]]
    """The share of μ² that each round spends; they add up to 1."""

    useless: ClassVar[float] = 10.0
    """Plans with a smaller Q are refused."""

    doubtful: ClassVar[float] = 50.0
    """Plans with a smaller Q get a warning."""

    loss: ClassVar[float] = 20.0
    """The price is about √(1 + loss / Q)."""

    cost: ClassVar[str] = "Intervals account for the noise and are {price:.3g} times as wide as without it"
    """What a result says about its price."""

    any_number: ClassVar[bool] = False
    """Whether statistics are the same for any number of components, so that a merge may choose it."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """p: how many numbers are estimated."""

    @abstractmethod
    def start(self) -> Array:
        """The anchor of the first round, which no data have a part in."""

    @abstractmethod
    def record_statistics(self, anchor: Array, data: Any, number: int) -> Array:
        """(N, d): the statistic of each record at an anchor, in round `number`; of norm at most 1."""

    def outside(self, data: Any) -> NDArray[np.bool_]:
        """Which records lie far beyond what was agreed on, so that they count for little or nothing."""
        return np.zeros(0, dtype=np.bool_)

    def portions(self, data: Any) -> Iterable[Any]:
        """Data, in as many parts as memory asks for."""
        return [data]

    @abstractmethod
    def size(self, number: int) -> int:
        """d: how many numbers a record's statistic has in round `number`."""

    @abstractmethod
    def estimate(self, totals: Sequence[Total], rate: float) -> Estimate:
        """The posterior of the rounds so far; `rate` is μ² of all rounds together."""

    def best_number(self, totals: Sequence[Total]) -> int:
        """The number of components that sums say, where they are the same for any."""
        raise NotPrivate("Releases of this model depend on the number of components: merge them with the agreed one.")

    @property
    def rounds(self) -> int:
        return len(self.budget_parts)

    def price_at(self, quality: float) -> float:
        """How many times wider intervals are than without noise."""
        return float(np.sqrt(1.0 + self.loss / quality))


def growing(rounds: int) -> tuple[float, ...]:
    """Shares that double from round to round: early ones find where to look, the last ones measure."""
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
    """The matrix with eigenvalues of at least this: noise may have made some negative."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)
