"""One more epoch: new data on top of what was known before them or, where the world changes, of what is left of that.

What is left is learned in two steps. The evidence of the new data says how much each component keeps
(`updates.forgetting`); but it asks only about the data that a component was given, and inference that is too sure of
itself gives it what it knows already. So it is then found by prediction whether any component should keep so much: one
half of each site's new data is fitted on top of what several caps leave, and predicts the other half.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from decbayes.families import Array
from decbayes.merging import merge
from decbayes.merging.base.problem import Solver
from decbayes.merging.base.products import weighted
from decbayes.models.core.evaluation import in_halves, to_predict
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior
from decbayes.updates import Epoch, Update
from decbayes.updates.forgetting import KEEP, Forgetting, Kept, followed, forget, learned_shares

# So often new data are fitted again with what is left of the earlier ones, where that is learned.
LEARNING_ROUNDS = 2

# The most that any component keeps: which of these predicts best?
CAPS = np.array([1.0, 0.85, 0.7, 0.5])


class Day:
    """What the sites' new data add to what was known before them."""

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
        self.added = merge(learned, solver=solver)

    def whole(self) -> Posterior:
        return self._update.whole(self.added)

    def again(self, left: Posterior) -> "Day":
        """The same data on top of what is left, from where they were."""
        model, shards, rng, solver = self._settings
        # What is left of two components that have both changed is alike: it does not tell them apart any more.
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
    """The new data on top of as much of the earlier ones as they bear out."""
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
    """The mean of what each cap leaves of the shares, each cap as probable as its predictions say.

    Where there is nothing to predict, the shares are as they are.
    """
    halves = in_halves(model, shards)
    if not halves:
        return kept
    candidates = [{name: np.minimum(shares, cap) for name, shares in kept.items()} for cap in CAPS]
    told = KEEP * CAPS
    for fitted, predicted in (zip(*halves, strict=True), zip(*(pair[::-1] for pair in halves), strict=True)):
        learned = [Day(model, weighted(current, each), fitted, rng, solver).whole() for each in candidates]
        told = told + predictions(model, learned, predicted)
    weights = softmax(told)
    return {name: weights @ np.array([each[name] for each in candidates]) for name in kept}


def predictions(model: Model, posteriors: Sequence[Posterior], shards: Sequence[Any]) -> Array:
    """The log predictive density of the data, by each posterior."""
    parts = [to_predict(model, shard) for shard in shards]
    return np.array([sum(model.log_predictive(each, *part).sum() for part in parts) for each in posteriors])
