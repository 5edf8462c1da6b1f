"""Streams of data: SDA-Bayes, the AMPS way, and epochs whose merged posterior is the next prior."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from decbayes.arguments import check_kind
from decbayes.merging.align import merge
from decbayes.merging.problem import Solver
from decbayes.merging.product import product
from decbayes.models.model import Model
from decbayes.posterior import Posterior
from decbayes.streaming.evidence import difference


def sda_bayes(
    model: Model,
    shards: Iterable[Iterable[Any]],
    *,
    rng: np.random.Generator,
    schedule: Literal["synchronous", "asynchronous"] = "synchronous",
) -> Posterior:
    """One shared posterior that every sub-batch is added to and that is the prior of the next (Broderick et al. 2013).

    `shards[a][b]` is sub-batch b of agent a. In "synchronous" order the agents process one sub-batch each against the
    same shared posterior; in "asynchronous" order they finish in random order, each having started from the shared
    posterior as it was when it finished its previous sub-batch. Labels are never aligned.
    """
    check_kind(np.random.Generator, rng=rng)
    shared = Posterior.of_prior(model.structure)
    waiting = [list(batches) for batches in shards]
    if schedule == "synchronous":
        for turn in range(max(map(len, waiting), default=0)):
            batches = [batches[turn] for batches in waiting if turn < len(batches)]
            shared = product([shared, *(learned(model, batch, shared, rng) for batch in batches)])
        return shared
    if schedule != "asynchronous":
        raise ValueError(f"schedule is 'synchronous' or 'asynchronous', not {schedule!r}.")
    seen = [shared] * len(waiting)
    while any(waiting):
        agent = int(rng.choice([index for index, batches in enumerate(waiting) if batches]))
        shared = product([shared, learned(model, waiting[agent].pop(0), seen[agent], rng)])
        seen[agent] = shared
    return shared


def merge_batches(
    model: Model, shards: Iterable[Iterable[Any]], *, rng: np.random.Generator, solver: Solver | None = None
) -> Posterior:
    """The AMPS way: each agent merges the posteriors of its own sub-batches, then the agents' results are merged.

    An agent without a sub-batch says nothing.
    """
    fitted = [[model.fit(batch, rng=rng).posterior for batch in batches] for batches in shards]
    agents = [merge(own, solver=solver) for own in fitted if own]
    return merge(agents, solver=solver)


def epochs(
    model: Model, stream: Iterable[Sequence[Any]], *, rng: np.random.Generator, solver: Solver | None = None
) -> Iterator[Posterior]:
    """True streaming: in each epoch every agent fits its new data on top of the last epoch's merged posterior.

    `stream` yields one epoch at a time, a sequence with each agent's data; the merged posterior of all data so far is
    yielded after each. Within an epoch contributions are aligned to the prior and to each other. An epoch in which
    nobody had data changes nothing.
    """
    current = Posterior.of_prior(model.structure)
    for shards in stream:
        current = merge_on(current, [learned(model, shard, current, rng) for shard in shards], solver)
        yield current


def learned(model: Model, data: Any, prior: Posterior, rng: np.random.Generator) -> Posterior:
    """What data adds to a prior, as a contribution of its own."""
    # A prior that knows nothing yet has no labels to start from.
    start = None if prior == Posterior.of_prior(model.structure) else prior
    return difference(model.fit(data, prior=prior, start=start, rng=rng).posterior, prior)


def merge_on(prior: Posterior, contributions: Sequence[Posterior], solver: Solver | None) -> Posterior:
    """AMPS with an earlier posterior in the place of λ0."""
    if not contributions:
        return prior
    base = prior.structure
    structure = base.with_prior(prior.natural)
    merged = merge([Posterior(structure, dict(part.contribution)) for part in contributions], solver=solver)
    return product([prior, Posterior(base, dict(merged.contribution))])
