"""One more epoch: new data on top of the earlier posterior or, with forgetting, of the part that is kept.

The part to keep is learned in two steps. The evidence of the new data determines how much each component keeps
(`updates.forgetting`). But that considers only data assigned to a component, and overconfident inference assigns data
that already fit. So predictions then cap the shares: half of each site's new data is fitted on top of what each cap
keeps, and predicts the other half.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from decbayes.families import Array
from decbayes.merging.aligning import aligned
from decbayes.merging.base.problem import Solver
from decbayes.merging.base.products import weighted
from decbayes.models.core.evaluation import in_halves, to_predict
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior
from decbayes.updates import Epoch, Update
from decbayes.updates.forgetting import KEEP, Forgetting, Kept, followed, forget, learned_shares

# Refits of new data on top of the learned part of the earlier ones.
LEARNING_ROUNDS = 2

# Caps on the share that any component keeps, averaged by how well they predict.
CAPS = np.array([1.0, 0.85, 0.7, 0.5])


class Day:
    """What the sites' new data add to the earlier posterior."""

    def __init__(
        self,
        model: Model,
        before: Posterior,
        shards: Sequence[Any],
        rng: np.random.Generator | None,
        solver: Solver | None,
        start: Posterior | None = None,
    ) -> None:
        self._settings = (model, shards, rng, solver)
        self._update = Update(model, Epoch(before))
        learned = [self._update.learn(shard, self._update.nothing, rng=rng, start=start) for shard in shards]
        self.added = aligned(learned, "largest", solver)[0].merged()

    def whole(self) -> Posterior:
        return self._update.whole(self.added)

    def again(self, left: Posterior) -> "Day":
        """Refit the same data on top of what is left, starting from the previous fit."""
        model, shards, rng, solver = self._settings
        # After forgetting, two components that have both changed are nearly the same and cannot be told apart.
        return Day(model, left, shards, rng, solver, start=Epoch(left).whole(self.added))


def after_epoch(
    model: Model,
    current: Posterior,
    shards: Sequence[Any],
    rng: np.random.Generator | None,
    solver: Solver | None,
    forgetting: Forgetting,
) -> Posterior:
    """The posterior after one more epoch's data."""
    if forgetting is None:
        return Day(model, current, shards, rng, solver).whole()
    if forgetting == "learn":
        day = learned_day(model, current, shards, rng, solver)
    else:
        day = Day(model, forget(current, forgetting), shards, rng, solver)
    return followed(current, day.whole())


def learned_day(
    model: Model, current: Posterior, shards: Sequence[Any], rng: np.random.Generator | None, solver: Solver | None
) -> Day:
    """The new data on top of as much of the earlier data as they support."""
    day = Day(model, current, shards, rng, solver)
    if current == Posterior.of_prior(model.structure):
        return day
    for _ in range(LEARNING_ROUNDS):
        kept = learned_shares(current, day.added)
        day = day.again(weighted(current, kept))
    return day.again(weighted(current, capped(model, current, kept, shards, rng, solver)))


def capped(
    model: Model,
    current: Posterior,
    kept: Kept,
    shards: Sequence[Any],
    rng: np.random.Generator | None,
    solver: Solver | None,
) -> Kept:
    """The mean of the capped shares, each cap weighted by its predictive probability.

    Without data to predict, shares are unchanged.
    """
    halves = in_halves(model, shards)
    if not halves:
        return kept
    candidates = [{name: np.minimum(shares, cap) for name, shares in kept.items()} for cap in CAPS]
    log_weights = KEEP * CAPS
    for fitted, predicted in (zip(*halves, strict=True), zip(*(pair[::-1] for pair in halves), strict=True)):
        learned = [Day(model, weighted(current, candidate), fitted, rng, solver).whole() for candidate in candidates]
        log_weights = log_weights + predictions(model, learned, predicted)
    weights = softmax(log_weights)
    return {name: weights @ np.array([candidate[name] for candidate in candidates]) for name in kept}


def predictions(model: Model, posteriors: Sequence[Posterior], shards: Sequence[Any]) -> Array:
    """The log predictive density of the data under each posterior."""
    parts = [to_predict(model, shard) for shard in shards]
    return np.array([sum(model.log_predictive(posterior, *part).sum() for part in parts) for posterior in posteriors])
