"""How many components there are: a search that makes a fit wider and narrower for as long as its bound rises.

Every component is divided in two (births), the fit climbs, then components are joined or deleted one at a time where
that raises the bound; what is left is kept if it is better than what was there before. bnpy's moves are the model.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import nlargest
from math import isqrt, lgamma
from typing import Generic, TypeVar

import numpy as np

from decbayes.base.arguments import check_kind, check_whole
from decbayes.families import Array
from decbayes.models.core.ascent import Ascent, Climb, OnPass, Pass, climb
from decbayes.models.core.model import Model
from decbayes.models.core.settings import number_of
from decbayes.posterior import Posterior

State = TypeVar("State")

# A search begins with so many components, or with one per so many points or documents if these are few.
FIRST, ROWS_EACH = 20, 10

# Joins and deletions that are tried before it is taken that none helps, and the passes after which one must have.
TRIES, TRIAL_PASSES = 4, 2


def check_number(*others: str, **settings: object) -> None:
    """Refuse what is neither a number of components nor "auto" nor one of the other words."""
    for name, value in settings.items():
        if not (isinstance(value, str) and value in ("auto", *others)):
            check_whole(1, **{name: value})


def known_number(model: Model, prior: Posterior | None, start: Posterior | None) -> int | None:
    """How many components a fit of any number is told to have: those of a start, or of a prior not the model's own."""
    posterior = start if start is not None else prior
    if not model.auto or posterior is None or posterior == Posterior.of_prior(model.structure):
        return None
    check_kind(Posterior, **{"prior" if start is None else "start": posterior})
    return number_of(posterior.structure)


class Moves(ABC, Generic[State]):
    """What a search needs of a model: a start and a pass of any number of components, and how to change that number.

    The ascent's tolerance counts per observation (of topics, per word); `rows` are the points or documents.
    """

    observations: int
    rows: int
    distinct: bool = True
    """Whether components differ, but for a few empty ones, however many there are."""

    @abstractmethod
    def begin(self, count: int) -> State:
        """A first state of so many components."""

    @abstractmethod
    def step(self, state: State) -> tuple[State, float]:
        """One pass: the next state, and a bound that holds for it."""

    @abstractmethod
    def evidence(self, state: State) -> Array:
        """(K,): how many observations each component accounts for."""

    @abstractmethod
    def gains(self, state: State) -> Iterable[tuple[float, int, int]]:
        """Pairs of components, and the most that the bound gains if these are joined and nothing else changes."""

    @abstractmethod
    def joined(self, state: State, first: int, second: int) -> State:
        """Two components as one, the others as they are."""

    @abstractmethod
    def without(self, state: State, component: int) -> State:
        """All components but one."""

    @abstractmethod
    def divided(self, state: State) -> State:
        """Each component as two, where it can be divided."""


@dataclass(frozen=True)
class Candidate(Generic[State]):
    """A state and its bound."""

    state: State
    bound: float
    converged: bool


class ComponentSearch(Generic[State]):
    """Rounds of births, joins and deletions; it ends when 1 + `restarts` of them in a row have found nothing better.

    All orders of K components say the same, and a variational bound counts one of them. So log K! is added to it, which
    holds for components that differ. Empty ones do not, and more than √rows of them would pay for themselves: beyond
    that nothing is added. Where a prior is so close to the data that equal components cost little, nothing is added.
    """

    def __init__(self, moves: Moves[State], ascent: Ascent, progress: OnPass | None) -> None:
        self._moves, self._ascent, self._progress = moves, ascent, progress
        self._best: Candidate[State] | None = None
        self._bounds: list[float] = []
        self._passes = 0

    def run(self) -> Climb[State]:
        """The best state found, and the best bound after each round."""
        try:
            for best in self._rounds():
                self._best = best
                self._bounds.append(best.bound)
        except KeyboardInterrupt:
            if self._best is None:
                raise
            return Climb(self._best.state, (*self._bounds, self._best.bound), converged=False, interrupted=True)
        return Climb(best.state, tuple(self._bounds), best.converged)

    def _rounds(self) -> Iterator[Candidate[State]]:
        """The best state after each round."""
        first = self._moves.begin(max(1, min(FIRST, self._moves.rows // ROWS_EACH)))
        best, failed = self._narrowed(self._climbed(first, self._ascent)), 0
        yield best
        again = replace(self._ascent, warm_up=0)
        while failed <= self._ascent.restarts:
            self._passes = 0
            latest = self._narrowed(self._climbed(self._moves.divided(best.state), again))
            better = latest.bound > best.bound + self._ascent.tolerance * self._moves.observations
            best, failed = (latest, 0) if better else (best, failed + 1)
            yield best

    def _climbed(self, state: State, ascent: Ascent) -> Candidate[State]:
        reached = climb(state, self._step, ascent, self._moves.observations, lambda number, bound: None)
        here = Candidate(reached.state, reached.height, reached.converged)
        if reached.interrupted:
            # Of a first climb something is better than nothing; later ones have a best state behind them.
            self._best = self._best or here
            raise KeyboardInterrupt
        return here

    def _narrowed(self, here: Candidate[State]) -> Candidate[State]:
        """Joins and deletions until none of those tried raises the bound, then a climb to the end."""
        while (higher := next(self._higher(here), None)) is not None:
            here = higher
        return self._climbed(here.state, replace(self._ascent, warm_up=0))

    def _higher(self, here: Candidate[State]) -> Iterator[Candidate[State]]:
        """States of one component less that are higher."""
        brief = Ascent(passes=TRIAL_PASSES, tolerance=0.0)
        return (trial for state in self._fewer(here.state) if (trial := self._climbed(state, brief)).bound > here.bound)

    def _fewer(self, state: State) -> Iterator[State]:
        """Most promising first."""
        evidence = self._moves.evidence(state)
        if len(evidence) > 1:
            least = self._orders(len(evidence)) - self._orders(len(evidence) - 1)
            for gain, first, second in nlargest(TRIES, self._moves.gains(state)):
                if gain > least:
                    yield self._moves.joined(state, first, second)
            for component in np.argsort(evidence, kind="stable")[:TRIES]:
                yield self._moves.without(state, int(component))

    def _orders(self, count: int) -> float:
        return lgamma(min(count, isqrt(self._moves.rows)) + 1) if self._moves.distinct else 0.0

    def _step(self, state: State) -> tuple[State, float]:
        following, bound = self._moves.step(state)
        bound += self._orders(len(self._moves.evidence(following)))
        self._passes += 1
        if self._progress is not None:
            self._progress(Pass(len(self._bounds), self._passes, bound))
        return following, bound
