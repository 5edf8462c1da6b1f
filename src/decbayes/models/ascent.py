"""The one variational loop: coordinate ascent on the bound, restarts that keep the best, and nothing lost on Ctrl-C."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from decbayes.arguments import check_whole, given, is_number
from decbayes.posterior import Posterior

State = TypeVar("State")


@dataclass(frozen=True)
class Fit:
    """A local posterior, the variational bound after each pass, and whether it had stopped rising."""

    posterior: Posterior
    bound: tuple[float, ...]
    converged: bool


@dataclass(frozen=True)
class Pass:
    """Where a fit stands: reported after each pass over the data."""

    restart: int
    number: int
    bound: float


OnPass = Callable[[Pass], None]

Watch = Callable[[int], None]
"""Told how many observations a pass has worked through."""


def inside(progress: OnPass | None, total: int) -> Watch | None:
    """Whoever wants to know how far a pass is has a method `within(done, total)`."""
    within = getattr(progress, "within", None)
    return None if within is None else lambda done: within(done, total)


class PassInterrupted(KeyboardInterrupt):
    """Ctrl-C during a pass that had something to keep: its `state`."""

    def __init__(self, state: Any) -> None:
        super().__init__("The pass was interrupted; what it had reached is in the exception's `state`.")
        self.state = state


class FitInterrupted(KeyboardInterrupt):
    """Ctrl-C during a fit; `fit` is the best state reached so far."""

    def __init__(self, fit: Fit) -> None:
        super().__init__("The fit was interrupted; its best state so far is in the exception's `fit`.")
        self.fit = fit


@dataclass(frozen=True)
class Ascent:
    """How long to climb: until a pass gains less than `tolerance` nats an observation, at most `passes` times.

    With `restarts` the fit begins again from so many further random starts; the best bound wins. The first `warm_up`
    passes are a search in which the bound may fall; the climb, and the test of whether it has ended, begin after them.
    With `batch` the search of topics learns from so many documents at a time, which finds good topics in a few passes
    over many documents, or in one. They should come in random order.
    """

    passes: int = 200
    tolerance: float = 1e-5
    restarts: int = 0
    warm_up: int = 0
    batch: int | None = None

    def __post_init__(self) -> None:
        check_whole(0, passes=self.passes, restarts=self.restarts, warm_up=self.warm_up)
        check_whole(1, **given(batch=self.batch))
        if not is_number(self.tolerance) or not self.tolerance >= 0:
            raise ValueError(f"tolerance must be a number of nats, at least 0; not {self.tolerance!r}.")


@dataclass(frozen=True)
class Climb(Generic[State]):
    """The state a climb has reached, the bound of each pass, and how it ended."""

    state: State
    bound: tuple[float, ...]
    converged: bool
    interrupted: bool = False

    @property
    def height(self) -> float:
        return self.bound[-1] if self.bound else -np.inf


Step = Callable[[State], tuple[State, float]]
"""One pass: the next state, and a bound that holds for it."""


def fit_best(
    start: Callable[[], State],
    step: Step[State],
    finish: Callable[[State], Posterior],
    *,
    ascent: Ascent,
    observations: int,
    progress: OnPass | None,
) -> Fit:
    """Climb from `restarts` + 1 starts and keep the best bound; on Ctrl-C raise `FitInterrupted` with it."""
    return fit_of(best_climb(start, step, ascent=ascent, observations=observations, progress=progress), finish)


def fit_of(reached: Climb[State], finish: Callable[[State], Posterior]) -> Fit:
    """The fit that a climb has led to; an interrupted one is raised."""
    fit = Fit(finish(reached.state), reached.bound, reached.converged)
    if reached.interrupted:
        raise FitInterrupted(fit)
    return fit


def best_climb(
    start: Callable[[], State],
    step: Step[State],
    *,
    ascent: Ascent,
    observations: int,
    progress: OnPass | None,
) -> Climb[State]:
    """The climb with the best bound from `restarts` + 1 starts; marked interrupted if Ctrl-C ended the last one."""

    def attempt(restart: int) -> Climb[State]:
        return climb(start(), step, ascent, observations, partial(announce, progress, restart))

    best = attempt(0)
    for restart in range(1, ascent.restarts + 1):
        if best.interrupted:
            break
        try:
            latest = attempt(restart)
        except KeyboardInterrupt:
            # While the next start was being made: there is nothing of it to keep.
            return replace(best, interrupted=True)
        best = replace(max(best, latest, key=lambda reached: reached.height), interrupted=latest.interrupted)
    return best


def climb(
    state: State, step: Step[State], ascent: Ascent, observations: int, report: Callable[[int, float], None]
) -> Climb[State]:
    """Repeat the step until the bound stops rising."""
    bound: list[float] = []
    try:
        while len(bound) < ascent.passes:
            state, value = step(state)
            bound.append(value)
            report(len(bound), value)
            if len(bound) > ascent.warm_up + 1 and abs(value - bound[-2]) <= ascent.tolerance * max(observations, 1):
                return Climb(state, tuple(bound), converged=True)
    except KeyboardInterrupt as interruption:
        reached = getattr(interruption, "state", state)
        return Climb(reached, tuple(bound), converged=False, interrupted=True)
    return Climb(state, tuple(bound), converged=False)


def announce(progress: OnPass | None, restart: int, number: int, bound: float) -> None:
    if progress is not None:
        progress(Pass(restart, number, bound))
