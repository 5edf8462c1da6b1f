"""Observations that become several rows: time at risk in intervals, levels that are passed one after another.

Each row has a level of a column that is not in the data ("interval", "threshold"). It stands in formulas like any other
column, in place of the intercept; its products with other columns are effects that change with time or level. A row
may also be the difference of two levels. For unordered outcomes every term has a coefficient per level.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.columns import Categorical
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array


class Stacked(NamedTuple):
    """Each row's observation, level, target, offset, and constant of the log-likelihood.

    A row with a level in `minus` (NaN if none) is the difference of its level and that one.
    """

    observation: NDArray[np.intp]
    level: Array
    target: Array
    offset: Array
    constant: Array
    minus: Array | None = None


class Stack(ABC):
    name: ClassVar[str]
    """The column of levels."""
    remedy: ClassVar[str]
    """What to do if too few observations have a level."""
    crossed: ClassVar[bool] = False
    """Whether every term, the intercept included, has separate coefficients for each level."""

    @property
    def outcomes(self) -> int:
        """The number of outcomes that an observation may have."""
        return 2

    @property
    @abstractmethod
    def levels(self) -> tuple[str, ...]: ...

    @property
    def column(self) -> Categorical:
        return Categorical(*self.levels)

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns that hold the outcome, besides the target."""
        return ()

    @abstractmethod
    def constants(self) -> dict[str, Any]:
        """What sites must agree on."""

    @abstractmethod
    def rows(self, target: Array, values: Mapping[str, Array]) -> Stacked:
        """The rows of some observations, given their targets and the values of the columns it needs."""

    def stated(self, target: Array, values: Mapping[str, Array]) -> Array:
        """The outcome of each observation, as rules count it."""
        return target

    def singled_out(self, target: Array, values: Mapping[str, Array]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """The observations that sums over the rows of a level count, with the name of the level."""
        rows = self.rows(target, values)
        for level, name in enumerate(self.levels):
            for answer in (0.0, 1.0):
                which = (rows.level == level) & (rows.target == answer)
                yield name, np.bincount(rows.observation, weights=which, minlength=len(target)) > 0

    def every(self, count: int) -> Stacked:
        """A row per observation and level, for predictions."""
        observation = np.repeat(np.arange(count), len(self.levels))
        level = np.tile(np.arange(len(self.levels), dtype=np.float64), count)
        nothing = np.zeros(len(level))
        return Stacked(observation, level, np.full(len(level), np.nan), nothing, nothing)


@dataclass(frozen=True)
class Intervals(Stack):
    """Time at risk, cut at agreed times. A row is the time that one person spends in one interval.

    Within an interval the hazard is constant, so the number of events (0 or 1) has the likelihood of a Poisson count
    with the mean hazard × time. Hazards are multiples of the agreed `rate`.
    """

    name: ClassVar[str] = "interval"
    remedy: ClassVar[str] = "Agree on fewer cuts (--cuts)."
    time: str
    entry: str
    cuts: tuple[float, ...]
    rate: float

    def __post_init__(self) -> None:
        if not self.time:
            raise InvalidStructure("Name the column with the time of follow-up, as in Surv(time, event).")
        if not (np.diff([0.0, *self.cuts]) > 0).all() or not np.isfinite(self.cuts).all():
            raise InvalidStructure("Cuts are times above 0, in rising order.")
        if not (np.isfinite(self.rate) and self.rate > 0):
            raise InvalidStructure("The rate must be a positive number of events per unit of time.")

    @property
    def levels(self) -> tuple[str, ...]:
        ends = [f"{cut:g}" for cut in (0.0, *self.cuts)]
        return (*(f"{low} to {high}" for low, high in pairwise(ends)), f"from {ends[-1]}")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.time, *([self.entry] if self.entry else []))

    def constants(self) -> dict[str, Any]:
        entry = {"entry": self.entry} if self.entry else {}
        return {"time": self.time, **entry, "cuts": list(self.cuts), "rate": self.rate}

    @property
    def ends(self) -> tuple[Array, Array]:
        """Where each interval begins and ends."""
        return np.array([0.0, *self.cuts]), np.array([*self.cuts, np.inf])

    def exposure(self, start: Array, stop: Array) -> Array:
        """(N, intervals): the time that each person spends in each interval."""
        low, high = self.ends
        return np.asarray(np.maximum(np.minimum(stop[:, None], high) - np.maximum(start[:, None], low), 0.0))

    def rows(self, target: Array, values: Mapping[str, Array]) -> Stacked:
        stop = values[self.time]
        start = values[self.entry] if self.entry else np.zeros(len(stop))
        wrong = ~((start >= 0) & (stop > start) & np.isfinite(stop))
        if wrong.any():
            above = f"'{self.entry}', and that not negative" if self.entry else "0"
            raise InvalidData(
                f"{wrong.sum():,} of {len(stop):,} rows have no time at risk: '{self.time}' must be above {above}. "
                "Give events on the first day half a day, or leave these rows out."
            )
        low, high = self.ends
        exposure = self.exposure(start, stop)
        ended = (stop[:, None] > low) & (stop[:, None] <= high)
        observation, level = np.nonzero(exposure > 0)
        events = (target[:, None] * ended)[observation, level]
        spent = exposure[observation, level]
        # The density of an event time has the hazard; a Poisson count has hazard × time.
        return Stacked(
            observation, level.astype(np.float64), events, np.log(self.rate * spent), -events * np.log(spent)
        )


@dataclass(frozen=True)
class Thresholds(Stack):
    """Ordered levels as steps: a row asks whether an observation that reached a level went beyond it.

    `places` has the position of each code of the target in the order.
    """

    name: ClassVar[str] = "threshold"
    remedy: ClassVar[str] = "Join levels."
    ordered: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(f"beyond {level}" for level in self.ordered[:-1])

    @property
    def outcomes(self) -> int:
        return len(self.ordered)

    def constants(self) -> dict[str, Any]:
        return {"levels": list(self.ordered)}

    def rows(self, target: Array, values: Mapping[str, Array]) -> Stacked:
        reached = np.array(self.places)[target.astype(int)]
        observation, level = np.nonzero(np.arange(len(self.levels)) <= reached[:, None])
        beyond = (reached[observation] > level).astype(np.float64)
        nothing = np.zeros(len(level))
        return Stacked(observation, level.astype(np.float64), beyond, nothing, nothing)


# The target of a row that is a difference of two thresholds.
GAP = 2.0


@dataclass(frozen=True)
class Cumulated(Thresholds):
    """Ordered levels by the thresholds around them: an observation is beyond the one below and not beyond the next.

        σ(a) − σ(b) = σ(a) σ(−b) (1 − exp(b − a))

    So there is a yes row, a no row and, for levels with a threshold on both sides, a third one for the width of the
    level, the difference of the two.
    """

    def constants(self) -> dict[str, Any]:
        return {**super().constants(), "link": "cumulative"}

    def rows(self, target: Array, values: Mapping[str, Array]) -> Stacked:
        reached = np.array(self.places)[target.astype(int)]
        last = len(self.levels)
        above, below = np.flatnonzero(reached > 0), np.flatnonzero(reached < last)
        inside = np.flatnonzero((reached > 0) & (reached < last))
        observation = np.concatenate([above, below, inside])
        level = np.concatenate([reached[above] - 1, reached[below], reached[inside] - 1]).astype(np.float64)
        targets = np.repeat([1.0, 0.0, GAP], [len(above), len(below), len(inside)])
        minus = np.full(len(level), np.nan)
        minus[targets == GAP] = reached[inside]
        nothing = np.zeros(len(level))
        return Stacked(observation, level, targets, nothing, nothing, minus)


@dataclass(frozen=True)
class Pairs(Stack):
    """Unordered levels, compared in pairs: each observation has a row for every pair of levels.

    The target of a row is 1 or −1 if the observation has the first or the second level of the pair, else 0. The first
    of the `compared` levels is the reference, whose coefficients are zero; `places` has the position of each code of
    the target among them.
    """

    name: ClassVar[str] = "outcome level"
    remedy: ClassVar[str] = "Join levels."
    crossed: ClassVar[bool] = True
    compared: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def levels(self) -> tuple[str, ...]:
        return self.compared

    @property
    def outcomes(self) -> int:
        return len(self.compared)

    @property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The later and the earlier level of each pair; those with the reference come first."""
        earlier, later = np.array([*combinations(range(len(self.compared)), 2)], dtype=np.intp).T
        return later, earlier

    def constants(self) -> dict[str, Any]:
        return {"reference": self.compared[0]}

    def rows(self, target: Array, values: Mapping[str, Array]) -> Stacked:
        rows, (later, earlier) = self.every(len(target)), self.pairs
        level = np.array(self.places)[target.astype(int)][:, None]
        sign = (level == later).astype(np.float64) - (level == earlier)
        return rows._replace(target=sign.ravel())

    def singled_out(self, target: Array, values: Mapping[str, Array]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        level = np.array(self.places)[target.astype(int)]
        yield from ((name, level == place) for place, name in enumerate(self.compared))

    def every(self, count: int) -> Stacked:
        later, earlier = self.pairs
        observation = np.repeat(np.arange(count), len(later))
        nothing = np.zeros(len(observation))
        levels, minus = (np.tile(part.astype(np.float64), count) for part in (later, earlier))
        return Stacked(observation, levels, np.full(len(nothing), np.nan), nothing, nothing, minus)
