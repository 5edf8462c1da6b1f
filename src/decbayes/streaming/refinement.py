"""Further broadcasts: each site refits its data with all other sites' contributions as its prior."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from decbayes.arguments import check_kind, check_whole, is_number
from decbayes.display import Displayed
from decbayes.errors import StructureMismatch
from decbayes.families import dense
from decbayes.merging import align, product
from decbayes.merging.problem import Solver
from decbayes.models.model import Model
from decbayes.posterior import Posterior
from decbayes.streaming.joining import Target, bound, narrowed, sized, slots_of
from decbayes.updates import Update

# Rounds after which restarts are compared.
TRIED = 3

Schedule = Literal["sequential", "parallel", "asynchronous"]


@dataclass(frozen=True)
class Refinement(Displayed):
    """Each site's newest contribution, in common slots, and the merged posterior before and after each round.

    `shifts[r]` is how far round r has moved the merged posterior: the root mean square shift of a parameter, in units
    of its own standard deviation. The refinement has `converged` if the last shift is within the tolerance.
    """

    posteriors: tuple[Posterior, ...]
    rounds: tuple[Posterior, ...]
    shifts: tuple[float, ...]
    converged: bool

    @property
    def merged(self) -> Posterior:
        return self.rounds[-1]

    def continued(self, later: "Refinement") -> "Refinement":
        """The whole of two refinements, of which the second went on where the first had stopped."""
        rounds, converged = self.rounds + later.rounds[1:], later.converged if later.shifts else self.converged
        return Refinement(later.posteriors, rounds, self.shifts + later.shifts, converged)

    def followed_by(self, later: "Refinement") -> "Refinement":
        """The whole of two refinements, the second with fewer slots."""
        return Refinement(later.posteriors, self.rounds + later.rounds, self.shifts + later.shifts, later.converged)


def refine(
    model: Model,
    shards: Iterable[Any],
    posteriors: Iterable[Posterior],
    *,
    rounds: int | None = None,
    tolerance: float = 0.01,
    most: int = 50,
    rng: np.random.Generator,
    schedule: Schedule = "sequential",
    solver: Solver | Sequence[Solver] | None = None,
    damping: float = 1.0,
    afresh: bool = False,
    components: Target | None = None,
    restarts: int = 0,
) -> Refinement:
    """Refit every shard against the cavity of the merged posterior, for so many rounds or until it has converged.

        c_i ← fit(data_i, prior = λ0 + Σ_{j≠i} c_j, start = λ0 + Σ_j c_j) − prior

    Each new contribution replaces the site's old one, so nothing is counted twice. The fixed points are those of batch
    variational Bayes. In "sequential" order each site sees all earlier updates; in "parallel" all refit against the
    last round, as many at a time as `joblib.parallel_config` says; in "asynchronous" each sees the others as they were
    up to one round ago. The model's own `ascent` says how many passes a refit may take; a few are enough, since the
    next round goes on from there. With `damping` below 1 a site goes only that part of the way to its new contribution:
    "parallel" rounds that swing to and fro then settle.

    Small sites may end in poor optima of their own, from which such rounds come away slowly or not at all. With
    `afresh` each site forgets in the first round what it had found, and fits its data alone, starting from the merged
    posterior.

    Without `rounds` it ends when a round moves the parameters by less than `tolerance` of their standard deviations
    (root mean square), or after the `most` rounds.

    With `components` slots are then joined, and what is left is refined again: down to so many, or ("auto") for as long
    as the bound of all data rises. Each site says for a few proposed pairs what a join would change, one number each.

    With `restarts` sites also begin so many times more from random starts of their own; several solvers give as many
    merges. Each merge is refined for a few rounds, and the one with the best bound of all data, one number per site,
    goes on: a way out of local optima.
    """
    check_kind(np.random.Generator, rng=rng)
    check_whole(0, most=most if rounds is None else rounds, restarts=restarts)
    if not is_number(tolerance) or not tolerance >= 0:
        raise ValueError(f"tolerance must be a number of standard deviations, at least 0; not {tolerance!r}.")
    data, fitted = tuple(shards), tuple(posteriors)
    if len(data) != len(fitted):
        raise StructureMismatch(f"There are {len(data)} shards and {len(fitted)} posteriors of them.")
    if schedule not in ROUNDS:
        raise ValueError(f"schedule is one of {', '.join(ROUNDS)}, not {schedule!r}.")
    check_target(components, fitted)
    ends = Ends(rounds, tolerance, most)
    run = partial(repeated, model, data, schedule=schedule, damping=damping, rng=rng)
    fits = [fitted, *([fit.posterior for fit in model.fit_many(data, rng=rng)] for _ in range(restarts))]
    solvers = solver if isinstance(solver, Sequence) else [solver]
    starts = [begun_at(each, one) for each in fits for one in solvers]
    if len(starts) > 1:
        trials = [run(own, ends=ends.at_most(TRIED), afresh=afresh) for own in starts]
        best = max(trials, key=lambda trial: bound(model, data, trial.merged, rng))
        found = best.continued(run(list(best.posteriors), ends=ends.after(TRIED)))
    else:
        found = run(starts[0], ends=ends, afresh=afresh)
    while components is not None:
        own = narrowed(model, data, list(found.posteriors), components, rng)
        if slots_of(own[0]) == slots_of(found.posteriors[0]):
            break
        found = found.followed_by(repeated(sized(model, own[0]), data, own, schedule, damping, ends, rng))
    return found


def begun_at(fitted: Sequence[Posterior], solver: Solver | None) -> list[Posterior]:
    """Sites' contributions in common slots."""
    return list(align(fitted, solver=solver).relabelled())


@dataclass(frozen=True)
class Ends:
    """When rounds end: after so many, or when they move little, or after the most."""

    rounds: int | None
    tolerance: float
    most: int

    def at_most(self, rounds: int) -> "Ends":
        """The first so many rounds."""
        return replace(self, rounds=min(rounds, self.most if self.rounds is None else self.rounds))

    def after(self, rounds: int) -> "Ends":
        """What is left after so many rounds."""
        if self.rounds is not None:
            return replace(self, rounds=max(0, self.rounds - rounds))
        return replace(self, most=max(0, self.most - rounds))

    def over(self, shifts: Sequence[float]) -> bool:
        done = len(shifts) - 1
        return done >= self.rounds if self.rounds is not None else done >= self.most or shifts[-1] <= self.tolerance


def repeated(
    model: Model,
    shards: Sequence[Any],
    own: list[Posterior],
    schedule: Schedule,
    damping: float,
    ends: Ends,
    rng: np.random.Generator,
    *,
    afresh: bool = False,
) -> Refinement:
    """Rounds until they end."""
    update = Update(model, damping=damping)
    history, shifts = [product(own)], [np.inf]
    while not ends.over(shifts):
        first = afresh and len(history) == 1
        own = (fresh_round if first else ROUNDS[schedule])(update, shards, own, rng)
        history.append(product(own))
        shifts.append(shift(*history[-2:]))
    return Refinement(tuple(own), tuple(history), tuple(shifts[1:]), shifts[-1] <= ends.tolerance)


def check_target(components: Any, posteriors: Sequence[Posterior]) -> None:
    if components is None:
        return
    if components != "auto":
        check_whole(1, components=components)
    structure = posteriors[0].structure if posteriors else None
    if structure is not None and (not structure.resizable or any(f.two_sided for f in structure.families.values())):
        raise StructureMismatch("Slots can be joined where components share a prior and are no states of a sequence.")


def shift(before: Posterior, after: Posterior) -> float:
    """The root mean square shift per parameter, in standard deviations: KL ≈ ½ Σ (shift / deviation)².

    Parameters to which nobody has contributed have not moved and do not count.
    """
    structure = before.structure
    nats, parameters = 0.0, 0
    for name, family in structure.families.items():
        nats += family.kl(after.natural[name], before.natural[name])
        parameters += int(np.count_nonzero(dense(after.contribution[name])))
    return float(np.sqrt(2.0 * max(nats, 0.0) / max(parameters, 1)))


def fresh_round(
    update: Update, shards: Sequence[Any], own: list[Posterior], rng: np.random.Generator
) -> list[Posterior]:
    """Each site on its own, from one start: labels are common, and what only it had found is forgotten."""
    fits = update.model.fit_many(shards, starts=[product(own)] * len(own), rng=rng)
    return [fit.posterior for fit in fits]


def sequential_round(
    update: Update, shards: Sequence[Any], own: list[Posterior], rng: np.random.Generator
) -> list[Posterior]:
    current = list(own)
    for site, shard in enumerate(shards):
        current[site] = update.relearn(shard, current[site], product(current), rng=rng)
    return current


def parallel_round(
    update: Update, shards: Sequence[Any], own: list[Posterior], rng: np.random.Generator
) -> list[Posterior]:
    return update.relearn_all(shards, own, product(own), rng=rng)


def asynchronous_round(
    update: Update, shards: Sequence[Any], own: list[Posterior], rng: np.random.Generator
) -> list[Posterior]:
    """Sites in random order, each with a view of the others that is up to one round old."""
    history = [list(own)]
    for site in rng.permutation(len(own)):
        view = list(history[rng.integers(len(history))])
        current = list(history[-1])
        view[site] = current[site]
        current[site] = update.relearn(shards[site], current[site], product(view), rng=rng)
        history.append(current)
    return history[-1]


ROUNDS = {"sequential": sequential_round, "parallel": parallel_round, "asynchronous": asynchronous_round}
