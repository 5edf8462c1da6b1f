"""Streams of data: SDA-Bayes, its counterpart with AMPS, and epochs whose merged posterior is the next prior."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from decbayes.base.arguments import Seed, generator, given_generator
from decbayes.merging import product
from decbayes.merging.aligning import aligned
from decbayes.merging.base.problem import Solver
from decbayes.models.core.model import Model
from decbayes.models.core.points import check_structure
from decbayes.posterior import Posterior
from decbayes.streams.days import Days
from decbayes.updates import Update, without
from decbayes.updates.forgetting import Forgetting, checked_forgetting


def sda_bayes(
    model: Model,
    shards: Iterable[Iterable[Any]],
    *,
    rng: Seed | None = None,
    schedule: Literal["synchronous", "asynchronous"] = "synchronous",
) -> Posterior:
    """Add every sub-batch to one shared posterior, which is the prior of the next (Broderick et al. 2013).

    Labels are never aligned; compare `merge_batches`.

    Args:
        model: the model, with its number of components.
        shards: `shards[i][b]` is sub-batch b of site i.
        rng: the generator or seed of fits and random orders.
        schedule: "synchronous": the sites process one sub-batch each against the same shared posterior; "asynchronous":
            they finish in random order, each having started from the shared posterior as it was when it finished its
            previous sub-batch.

    >>> model = db.models.GaussianMean(variance=1.0)
    >>> batches = [[np.zeros((5, 1)), np.ones((5, 1))], [np.ones((5, 1))]]
    >>> posterior = db.streams.sda_bayes(model, batches, rng=np.random.default_rng(0))
    >>> posterior == model.fit(np.concatenate([batch for site in batches for batch in site])).posterior
    True
    """
    random, waiting = given_generator(rng), [list(batches) for batches in shards]
    first = next((batch for batches in waiting for batch in batches), None)
    update = Update(numbered(model if first is None else model.for_data(first)))
    shared = update.nothing

    def added(batch: Any, earlier: Posterior) -> Posterior:
        return without(update.learn(batch, earlier, rng=random), earlier)

    if schedule == "synchronous":
        for turn in range(max(map(len, waiting), default=0)):
            batches = [batches[turn] for batches in waiting if turn < len(batches)]
            shared = product([shared, *(added(batch, shared) for batch in batches)])
        return shared
    if schedule != "asynchronous":
        raise ValueError(f"schedule is 'synchronous' or 'asynchronous', not {schedule!r}.")
    seen = [shared] * len(waiting)
    while any(waiting):
        site = int(generator(random).choice([index for index, batches in enumerate(waiting) if batches]))
        shared = product([shared, added(waiting[site].pop(0), seen[site])])
        seen[site] = shared
    return shared


def numbered(model: Model) -> Model:
    """The model; refused if its number of components or its prior is undecided."""
    if model.undecided and not model.auto:
        raise ValueError(
            f"Every step here adds to the same prior, so the model needs a fixed {model.undecided}. "
            "A first fit with 'learn' finds it; `model_for(posterior.structure)` has it."
        )
    if model.auto:
        raise ValueError(
            f"Every step here adds to the same components, so the model needs a fixed number of {model.number}. "
            "A first fit with 'auto' finds their number; `model_for(posterior.structure)` has it."
        )
    return model


def merge_batches(
    model: Model, shards: Iterable[Iterable[Any]], *, rng: Seed | None = None, solver: Solver | None = None
) -> Posterior:
    """Each site merges the posteriors of its own sub-batches, then the sites' results are merged.

    A site without a sub-batch is ignored.

    Args:
        shards: `shards[i][b]` is sub-batch b of site i.
        solver: how components are aligned, an object of `db.solvers` or its name.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> batches = [[np.array([[-9.0], [9.0]])] * 2, [np.array([[-8.0], [8.0]])]]
    >>> posterior = db.streams.merge_batches(model, batches, rng=np.random.default_rng(0))
    >>> np.sort(posterior.mean("components")[:, 0]).round()
    array([-9.,  9.])
    """
    random = given_generator(rng)
    fitted = [[model.fit(batch, rng=random).posterior for batch in batches] for batches in shards]
    sites = [aligned(posteriors, "largest", solver)[0].merged() for posteriors in fitted if posteriors]
    return aligned(sites, "largest", solver)[0].merged()


def epochs(
    model: Model,
    stream: Iterable[Sequence[Any]],
    *,
    rng: Seed | None = None,
    solver: Solver | None = None,
    forgetting: Forgetting = None,
    start: Posterior | None = None,
) -> Iterator[Posterior]:
    """In each epoch of a stream, every site fits its new data on top of the last epoch's merged posterior.

    The merged posterior of all data so far is yielded after each epoch. Within an epoch contributions are aligned to
    the prior and to each other. An epoch without data changes nothing.

    Args:
        model: the model, with its number of components.
        stream: one epoch at a time, a sequence with each site's data.
        solver: how components are aligned, an object of `db.solvers` or its name.
        forgetting: for data that change over time, the share of the earlier evidence to forget from one epoch to the
            next; "learn" forgets as much of each component as the new data contradict. Posteriors then have ids, which
            components keep as long as they stay the same.
        start: a posterior to continue from, such as yesterday's.

    >>> model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> days = [[np.zeros((5, 1)), np.zeros((5, 1))], [np.ones((10, 1)), np.ones((10, 1))]]
    >>> [posterior.mean("mean").item() for posterior in db.streams.epochs(model, days, rng=np.random.default_rng(0))]
    [0.0, 0.66...]
    """
    forgets, random, known = checked_forgetting(forgetting), given_generator(rng), numbered(model)
    current = start
    for shards in stream:
        if current is None:
            known = known.for_data(shards[0]) if len(shards) else known
            current = Posterior.of_prior(known.structure)
        known = known.for_posterior(current)
        check_structure(current, known.structure, "start")
        if len(shards):
            current = Days(known, random, solver).after(current, shards, forgets)
        yield current
