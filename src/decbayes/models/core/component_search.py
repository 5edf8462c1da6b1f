"""Find the number of components: split, join and delete components for as long as the bound rises.

Every component is split in two and the fit climbs; then components are joined or deleted one at a time while that
raises the bound. The result is kept if it beats the previous state. The moves follow bnpy.
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

# Components at the start of a search; fewer if that leaves less than ROWS_EACH points or documents for each.
FIRST, ROWS_EACH = 20, 10

# Joins and deletions to try before giving up, and the passes within which one of them must raise the bound.
TRIES, TRIAL_PASSES = 4, 2


def check_number(*others: str, **settings: object) -> None:
    """Refuse values that are neither a number of components nor "auto" nor one of the `others`."""
    for name, value in settings.items():
        if not (isinstance(value, str) and value in ("auto", *others)):
            check_whole(1, **{name: value})


def known_number(model: Model, prior: Posterior | None, start: Posterior | None) -> int | None:
    """The number of components that a start, or a prior other than the model's own, imposes on an "auto" model."""
    posterior = start if start is not None else prior
    if not model.auto or posterior is None or posterior == Posterior.of_prior(model.structure):
        return None
    check_kind(Posterior, **{"prior" if start is None else "start": posterior})
    return number_of(posterior.structure)


class Moves(ABC, Generic[State]):
    """The model-specific parts of a search: a start, a pass, and changes of the number of components.

    `observations` scales the ascent's tolerance (for topics it counts words); `rows` counts points or documents.
    """

    observations: int
    rows: int
    distinct: bool = True
    """Whether components differ, apart from a few empty ones, however many there are."""

    @abstractmethod
    def begin(self, count: int) -> State:
        """A first state with `count` components."""

    @abstractmethod
    def step(self, state: State) -> tuple[State, float]:
        """One pass: the next state, and its bound."""

    @abstractmethod
    def evidence(self, state: State) -> Array:
        """(K,): the number of observations that each component accounts for."""

    @abstractmethod
    def gains(self, state: State) -> Iterable[tuple[float, int, int]]:
        """Pairs of components, with an upper bound on the gain from joining them while all else stays."""

    @abstractmethod
    def joined(self, state: State, first: int, second: int) -> State:
        """Join two components, keep the others."""

    @abstractmethod
    def without(self, state: State, component: int) -> State:
        """Delete one component."""

    @abstractmethod
    def divided(self, state: State) -> State:
        """Split each component in two, where possible."""


@dataclass(frozen=True)
class Candidate(Generic[State]):
    """A state and its bound."""

    state: State
    bound: float
    converged: bool


class ComponentSearch(Generic[State]):
    """Rounds of splits, joins and deletions, until 1 + `restarts` rounds in a row bring no improvement.

    All K! orders of K different components are equivalent, but a variational bound covers only one of them: so log K!
    is added to it. Empty components do not differ. More than √rows of them would pay for themselves, so the correction
    stops growing there. It is omitted where the prior is so close to the data that equal components cost little.
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
        candidate = Candidate(reached.state, reached.height, reached.converged)
        if reached.interrupted:
            # After a first climb something is better than nothing; later climbs have a best state to return to.
            self._best = self._best or candidate
            raise KeyboardInterrupt
        return candidate

    def _narrowed(self, candidate: Candidate[State]) -> Candidate[State]:
        """Join and delete until none of the tries raises the bound, then climb to convergence."""
        while (higher := next(self._higher(candidate), None)) is not None:
            candidate = higher
        return self._climbed(candidate.state, replace(self._ascent, warm_up=0))

    def _higher(self, candidate: Candidate[State]) -> Iterator[Candidate[State]]:
        """Better states with one component fewer."""
        brief = Ascent(passes=TRIAL_PASSES, tolerance=0.0)
        return (
            trial
            for state in self._fewer(candidate.state)
            if (trial := self._climbed(state, brief)).bound > candidate.bound
        )

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
