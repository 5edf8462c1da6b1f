"""Rounds of refinement: the order of refits, when to stop, and the changes in each round."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from decbayes.base.arguments import generator
from decbayes.merging import product
from decbayes.posterior import Posterior
from decbayes.streams.extrapolation import Extrapolation
from decbayes.updates import Update
from decbayes.updates.joining import bound
from decbayes.updates.update import shift

Schedule = Literal["sequential", "parallel", "asynchronous"]


@dataclass(frozen=True)
class Ends:
    """When rounds end: after a given number, once they move little, or after a maximum."""

    rounds: int | None
    tolerance: float
    most: int

    def at_most(self, rounds: int) -> "Ends":
        return replace(self, rounds=min(rounds, self.most if self.rounds is None else self.rounds))

    def over(self, shifts: Sequence[float]) -> bool:
        done = len(shifts)
        if self.rounds is not None:
            return done >= self.rounds
        return done >= self.most or (done > 0 and shifts[-1] <= self.tolerance)


@dataclass
class Course:
    """A refinement in progress: the sites' contributions in common slots, and the merge before and after each round."""

    update: Update
    shards: Sequence[Any]
    contributions: list[Posterior]
    schedule: Schedule
    rng: np.random.Generator | None
    afresh: bool = False
    extrapolation: Extrapolation | None = None
    history: list[Posterior] = field(default_factory=list)
    shifts: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history = [product(self.contributions)]

    def until(self, ends: Ends) -> "Course":
        while not ends.over(self.shifts):
            self.contributions = self._next()
            self.history.append(product(self.contributions))
            self.shifts.append(shift(*self.history[-2:]))
        return self

    def bound(self, merged: Posterior) -> float:
        """The bound of all data at a merged posterior: the sum over sites minus its divergence from the prior."""
        return bound(self.update.model, self.shards, merged, self.rng)

    def _next(self) -> list[Posterior]:
        if self.afresh and not self.shifts:
            return fresh_round(self)
        after = ROUNDS[self.schedule](self, replace(self.update, first=not self.shifts))
        if self.extrapolation is None:
            return after
        return self.extrapolation.followed(self.contributions, after, self.bound)


def fresh_round(course: Course) -> list[Posterior]:
    """Each site fits alone from one common start: labels agree, and each site's own optimum is dropped."""
    starts = [product(course.contributions)] * len(course.contributions)
    return [fit.posterior for fit in course.update.model.fit_many(course.shards, starts=starts, rng=course.rng)]


def sequential_round(course: Course, update: Update) -> list[Posterior]:
    current = list(course.contributions)
    for site, shard in enumerate(course.shards):
        current[site] = update.relearn(shard, current[site], product(current), rng=course.rng)
    return current


def parallel_round(course: Course, update: Update) -> list[Posterior]:
    return update.relearn_all(course.shards, course.contributions, product(course.contributions), rng=course.rng)


def asynchronous_round(course: Course, update: Update) -> list[Posterior]:
    """Sites in random order, each with a view of the others that is up to one round old."""
    random, history = generator(course.rng), [list(course.contributions)]
    for site in random.permutation(len(course.contributions)):
        view = list(history[random.integers(len(history))])
        current = list(history[-1])
        view[site] = current[site]
        current[site] = update.relearn(course.shards[site], current[site], product(view), rng=course.rng)
        history.append(current)
    return history[-1]


ROUNDS = {"sequential": sequential_round, "parallel": parallel_round, "asynchronous": asynchronous_round}
