"""The one variational loop: coordinate ascent on the bound, restarts that keep the best, and nothing lost on Ctrl-C."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np

from decbayes.base.arguments import check_whole, given, is_number
from decbayes.contents import held_in
from decbayes.posterior import Posterior

State = TypeVar("State")
Method = TypeVar("Method", bound=Callable[..., Any])

# Bounds that differ by less, relative to their size, may be equal: sums of many terms are rounded.
ROUNDING = 1e-9


@dataclass(frozen=True, repr=False)
class Fit:
    """A local posterior, the bound after each pass, and whether it has converged.

    Attributes:
        posterior: what was learned.
        bound: the variational bound after each pass.
        converged: False if the last pass still gained more than the ascent's tolerance.

    >>> fit = db.models.GaussianMean(variance=1.0, prior_variance=100.0).fit([2.0, 4.0])
    >>> fit
    Fit(converged after 1 pass, bound -5.53431)
    >>> fit.posterior.mean("mean").round(1)
    array([[3.]])
    """

    posterior: Posterior
    bound: tuple[float, ...]
    converged: bool

    def __repr__(self) -> str:
        ending = "converged" if self.converged else "not converged"
        passes = "1 pass" if len(self.bound) == 1 else f"{len(self.bound)} passes"
        height = f", bound {self.bound[-1]:.6g}" if self.bound else ""
        return f"Fit({ending} after {passes}{height})"


def on_top(fit: Method) -> Method:
    """Let the posteriors of a model's `fit` remember whose data they hold beside their own: those of the `prior`."""

    @wraps(fit)
    def fitted(*given: Any, prior: Posterior | None = None, **options: Any) -> Any:
        done = fit(*given, prior=prior, **options)
        before = () if prior is None else held_in(prior)
        if not before or done.posterior.merged_from == before:
            return done
        return replace(done, posterior=replace(done.posterior, merged_from=before))

    return cast(Method, fitted)


@dataclass(frozen=True)
class Pass:
    """The progress of a fit, reported after each pass over the data."""

    restart: int
    number: int
    bound: float


OnPass = Callable[[Pass], None]

Watch = Callable[[int], None]
"""Called with the number of observations that a pass has processed."""


def progress_within(progress: OnPass | None, total: int) -> Watch | None:
    """Progress within a pass, if `progress` has a method `within(done, total)`."""
    within = getattr(progress, "within", None)
    return None if within is None else lambda done: within(done, total)


class PassInterrupted(KeyboardInterrupt):
    """Ctrl-C during a pass that had something to keep: its `state`."""

    def __init__(self, state: Any) -> None:
        super().__init__("The pass was interrupted; what it had reached is in the exception's `state`.")
        self.state = state


@dataclass(frozen=True)
class Paused:
    """Where a fit was interrupted: the current start, the bounds and state of its complete passes, and the best so far.

    States are arrays by name. A `progress` with this as `left` resumes the fit there, with identical results.
    """

    restart: int
    bound: tuple[float, ...]
    state: Mapping[str, Any]
    converged: bool = False
    best: "Paused | None" = None


class FitInterrupted(KeyboardInterrupt):
    """Ctrl-C during a fit; `fit` is the best state so far, `paused` where to resume if the model supports it.

    >>> def impatient(at):
    ...     raise KeyboardInterrupt
    >>> try:
    ...     db.GaussianMixture(2, variance=1.0).fit([-9.0, -8.0, 8.0, 9.0], rng=0, progress=impatient)
    ... except db.extending.FitInterrupted as interruption:
    ...     interruption.fit.posterior.mean("weights").round(2)
    array([0.5, 0.5])
    """

    def __init__(self, fit: Fit, paused: Paused | None = None) -> None:
        super().__init__("The fit was interrupted; its best state so far is in the exception's `fit`.")
        self.fit, self.paused = fit, paused


@dataclass(frozen=True)
class Ascent:
    """How long to climb: until a pass gains less than `tolerance` nats per observation, for at most `passes` passes.

    `restarts` is the number of further random starts; the best bound wins. The first `warm_up` passes are a search
    during which the bound may fall; the test for convergence begins after them. With `batch`, topics learn from that
    many documents at a time, which finds good topics in few passes over many documents, or in one. Documents should be
    in random order.

    >>> quick = db.Ascent(passes=20, restarts=2)
    >>> db.GaussianMixture(2, variance=1.0, ascent=quick).fit([-9.0, -8.0, 8.0, 9.0], rng=0)
    Fit(converged after ... passes, bound -56.8422)
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
    """The state at the end of a climb, the bound after each pass, and how it ended."""

    state: State
    bound: tuple[float, ...]
    converged: bool
    interrupted: bool = False
    whole: State | None = None
    """The state after the last complete pass, if a pass was interrupted."""
    paused: Paused | None = None

    @property
    def height(self) -> float:
        return self.bound[-1] if self.bound else -np.inf

    def or_higher(self, later: "Climb[State]") -> "Climb[State]":
        """The higher of two climbs; this one if rounding alone may tell them apart.

        Two starts often reach the same optimum with other labels. Which of them wins must not depend on the processor.
        """
        rounding = ROUNDING * abs(self.height) if self.bound else 0.0
        return later if later.height > self.height + rounding else self


class Keep(NamedTuple, Generic[State]):
    """How to convert a state to arrays by name, and back."""

    pack: Callable[[State], Mapping[str, Any]]
    unpack: Callable[[Mapping[str, Any]], State]

    def paused(self, restart: int, reached: Climb[State], best: Climb[State] | None) -> Paused:
        state = reached.state if reached.whole is None else reached.whole
        before = None if best is None else self.paused(0, best, None)
        return Paused(restart, reached.bound, self.pack(state), reached.converged, before)

    def climb(self, left: Paused) -> Climb[State]:
        return Climb(self.unpack(left.state), left.bound, left.converged)


def as_arrays(state: Mapping[str, Any]) -> dict[str, Any]:
    """Load a state of arrays by name, some of which may be in files."""
    return {name: np.asarray(array) for name, array in state.items()}


Step = Callable[[State], tuple[State, float]]
"""One pass: the next state, and its bound."""


def fit_best(
    start: Callable[[], State],
    step: Step[State],
    finish: Callable[[State], Posterior],
    *,
    ascent: Ascent,
    observations: int,
    progress: OnPass | None,
    keep: Keep[State] | None = None,
) -> Fit:
    """Climb from `restarts` + 1 starts and keep the best bound; on Ctrl-C raise `FitInterrupted` with it."""
    reached = best_climb(start, step, ascent=ascent, observations=observations, progress=progress, keep=keep)
    return fit_of(reached, finish)


def fit_of(reached: Climb[State], finish: Callable[[State], Posterior]) -> Fit:
    """Turn a climb into a fit; raise an interrupted one."""
    fit = Fit(finish(reached.state), reached.bound, reached.converged)
    if reached.interrupted:
        raise FitInterrupted(fit, reached.paused)
    return fit


def best_climb(
    start: Callable[[], State],
    step: Step[State],
    *,
    ascent: Ascent,
    observations: int,
    progress: OnPass | None,
    keep: Keep[State] | None = None,
) -> Climb[State]:
    """The climb with the best bound from `restarts` + 1 starts; marked as interrupted if Ctrl-C ended the last one.

    With `keep` an interrupted climb can be resumed, through `progress`.
    """
    left: Paused | None = None if keep is None else getattr(progress, "left", None)
    best: Climb[State] | None = None
    paused: Paused | None = None
    for restart in range(ascent.restarts + 1):
        try:
            begin = Climb(start(), (), converged=False)
        except KeyboardInterrupt:
            if best is None:
                raise
            # Interrupted before the next start was ready: nothing of it to keep.
            return replace(best, interrupted=True, paused=paused)
        if left is not None and keep is not None and restart <= left.restart:
            if restart < left.restart:  # drawn only to advance the random numbers
                continue
            begin, best = keep.climb(left), None if left.best is None else keep.climb(left.best)
        latest = climb(begin.state, step, ascent, observations, partial(announce, progress, restart), begin.bound)
        paused = None if keep is None else keep.paused(restart, latest, best)
        best = latest if best is None else best.or_higher(latest)
        if latest.interrupted:
            return replace(best, interrupted=True, paused=paused)
    assert best is not None
    return best


def climb(
    state: State,
    step: Step[State],
    ascent: Ascent,
    observations: int,
    report: Callable[[int, float], None],
    bound: tuple[float, ...] = (),
) -> Climb[State]:
    """Repeat the step until the bound stops rising; `bound` are the bounds of earlier passes."""
    reached = state, bound
    try:
        while len(reached[1]) < ascent.passes and not settled(reached[1], ascent, observations):
            state, value = step(reached[0])
            reached = state, (*reached[1], value)  # in one assignment, because Ctrl-C may come anywhere
            report(len(reached[1]), value)
    except KeyboardInterrupt as interruption:
        state_reached = getattr(interruption, "state", reached[0])
        return Climb(state_reached, reached[1], converged=False, interrupted=True, whole=reached[0])
    return Climb(*reached, converged=settled(reached[1], ascent, observations))


def settled(bound: tuple[float, ...], ascent: Ascent, observations: int) -> bool:
    """Whether the last pass gained too little to go on."""
    climbed = len(bound) > ascent.warm_up + 1
    return climbed and abs(bound[-1] - bound[-2]) <= ascent.tolerance * max(observations, 1)


def announce(progress: OnPass | None, restart: int, number: int, bound: float) -> None:
    if progress is not None:
        progress(Pass(restart, number, bound))
