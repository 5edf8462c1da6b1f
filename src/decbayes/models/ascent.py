"""The one variational loop: coordinate ascent on the bound, restarts that keep the best, and nothing lost on Ctrl-C."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np

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


Progress = Callable[[Pass], None]


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
    """

    passes: int = 200
    tolerance: float = 1e-5
    restarts: int = 0
    warm_up: int = 0


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
    progress: Progress | None,
) -> Fit:
    """Climb from `restarts` + 1 starts and keep the best bound; on Ctrl-C raise `FitInterrupted` with it."""
    climbs: list[Climb[State]] = []
    for restart in range(ascent.restarts + 1):
        report = partial(announce, progress, restart)
        climbs.append(climb(start(), step, ascent, observations, report))
        best = max(climbs, key=lambda reached: reached.height)
        fit = Fit(finish(best.state), best.bound, best.converged)
        if climbs[-1].interrupted:
            raise FitInterrupted(fit)
        climbs = [best]
    return fit


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
    except KeyboardInterrupt:
        return Climb(state, tuple(bound), converged=False, interrupted=True)
    return Climb(state, tuple(bound), converged=False)


def announce(progress: Progress | None, restart: int, number: int, bound: float) -> None:
    if progress is not None:
        progress(Pass(restart, number, bound))
