"""Further broadcasts: each agent refits its data with everybody else's evidence as its prior."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed

from decbayes.arguments import check_kind, check_whole
from decbayes.errors import StructureMismatch
from decbayes.merging.align import Alignment, align
from decbayes.merging.problem import Solver
from decbayes.merging.product import product
from decbayes.models.model import Model
from decbayes.posterior import Posterior
from decbayes.streaming.evidence import difference

Schedule = Literal["sequential", "parallel", "asynchronous"]


@dataclass(frozen=True)
class Refinement:
    """Each agent's newest contribution, in common labels, and the merged posterior before and after each round."""

    posteriors: tuple[Posterior, ...]
    rounds: tuple[Posterior, ...]

    @property
    def merged(self) -> Posterior:
        return self.rounds[-1]


def refine(
    model: Model,
    shards: Iterable[Any],
    posteriors: Iterable[Posterior],
    *,
    rounds: int,
    rng: np.random.Generator,
    schedule: Schedule = "sequential",
    solver: Solver | None = None,
) -> Refinement:
    """Refit every shard against the cavity of the merged posterior, as often as there are rounds.

        c_i ← fit(data_i, prior = λ0 + Σ_{j≠i} c_j, start = λ0 + Σ_j c_j) − prior

    Each new contribution replaces the agent's old one, so nothing is counted twice. The fixed points are those of batch
    variational Bayes. In "sequential" order each agent sees all earlier updates; in "parallel" all refit against the
    last round; in "asynchronous" each sees the others as they were up to one round ago. The model's own `ascent`
    says how many passes a refit may take; a few are enough, since the next round goes on from there.
    """
    check_kind(np.random.Generator, rng=rng)
    check_whole(0, rounds=rounds)
    data, fitted = tuple(shards), tuple(posteriors)
    if len(data) != len(fitted):
        raise StructureMismatch(f"There are {len(data)} shards and {len(fitted)} posteriors of them.")
    if schedule not in ROUNDS:
        raise ValueError(f"schedule is one of {', '.join(ROUNDS)}, not {schedule!r}.")
    own = aligned(align(fitted, solver=solver))
    history = [product(own)]
    for _ in range(rounds):
        own = ROUNDS[schedule](model, data, own, rng)
        history.append(product(own))
    return Refinement(tuple(own), tuple(history))


def aligned(alignment: Alignment) -> list[Posterior]:
    """Each posterior relabelled into the common slots."""
    structure = alignment.posteriors[0].structure
    relabelled = []
    for posterior, permutations in zip(alignment.posteriors, alignment.permutations, strict=True):
        rows = {name: permutation for coupled, permutation in permutations.items() for name in coupled.factors}
        parts = {name: c[rows[name]] if name in rows else c for name, c in posterior.contribution.items()}
        relabelled.append(Posterior(structure, parts))
    return relabelled


def refit(model: Model, shard: Any, own: Posterior, merged: Posterior, rng: np.random.Generator) -> Posterior:
    """An agent's new contribution, given what it and everybody else had contributed."""
    cavity = difference(merged, own)
    return difference(model.fit(shard, prior=cavity, start=merged, rng=rng).posterior, cavity)


def sequential_round(
    model: Model, shards: Sequence[Any], own: list[Posterior], rng: np.random.Generator
) -> list[Posterior]:
    current = list(own)
    for agent, shard in enumerate(shards):
        current[agent] = refit(model, shard, current[agent], product(current), rng)
    return current


def parallel_round(
    model: Model, shards: Sequence[Any], own: list[Posterior], rng: np.random.Generator
) -> list[Posterior]:
    merged = product(own)
    jobs = zip(shards, own, rng.spawn(len(own)), strict=True)
    return list(
        Parallel(n_jobs=-1, prefer="threads")(
            delayed(refit)(model, shard, posterior, merged, child) for shard, posterior, child in jobs
        )
    )


def asynchronous_round(
    model: Model, shards: Sequence[Any], own: list[Posterior], rng: np.random.Generator
) -> list[Posterior]:
    """Agents in random order, each with a view of the others that is up to one round old."""
    history = [list(own)]
    for agent in rng.permutation(len(own)):
        view = list(history[rng.integers(len(history))])
        current = list(history[-1])
        view[agent] = current[agent]
        current[agent] = refit(model, shards[agent], current[agent], product(view), rng)
        history.append(current)
    return history[-1]


ROUNDS = {"sequential": sequential_round, "parallel": parallel_round, "asynchronous": asynchronous_round}
