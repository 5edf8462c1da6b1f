"""One more epoch: new data on top of the earlier posterior or, with forgetting, of the part that is kept.

The part to keep is learned in two steps. The evidence of the new data determines how much each component keeps
(`updates.forgetting`). But that considers only data assigned to a component, and overconfident inference assigns data
that already fit. So predictions then cap the shares: half of each site's new data is fitted on top of what each cap
keeps, and predicts the other half.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Days:
    """Epochs of one model: how sites fit new data, and how these fits are aligned."""

    model: Model
    rng: np.random.Generator | None
    solver: Solver | None

    def after(self, current: Posterior, shards: Sequence[Any], forgetting: Forgetting) -> Posterior:
        """The posterior after one more epoch's data."""
        if forgetting is None:
            return self.whole(current, shards)
        if forgetting == "learn":
            return followed(current, self.learned(current, shards))
        return followed(current, self.whole(forget(current, forgetting), shards))

    def whole(self, before: Posterior, shards: Sequence[Any]) -> Posterior:
        """The posterior of the new data on top of an earlier one."""
        return Epoch(before).whole(self.added(before, shards))

    def added(self, before: Posterior, shards: Sequence[Any], start: Posterior | None = None) -> Posterior:
        """What the sites' new data add to an earlier posterior."""
        update = Update(self.model, Epoch(before))
        fits = [update.learn(shard, update.nothing, rng=self.rng, start=start) for shard in shards]
        return aligned(fits, "largest", self.solver)[0].merged()

    def learned(self, current: Posterior, shards: Sequence[Any]) -> Posterior:
        """The new data on top of as much of the earlier data as they support."""
        added = self.added(current, shards)
        if current == Posterior.of_prior(self.model.structure):
            return Epoch(current).whole(added)
        for _ in range(LEARNING_ROUNDS):
            kept = learned_shares(current, added)
            added = self._again(weighted(current, kept), added, shards)
        left = weighted(current, self.capped(current, kept, shards))
        return Epoch(left).whole(self._again(left, added, shards))

    def _again(self, left: Posterior, added: Posterior, shards: Sequence[Any]) -> Posterior:
        # Start from the previous fit: two components that have both changed are nearly the same after forgetting.
        return self.added(left, shards, start=Epoch(left).whole(added))

    def capped(self, current: Posterior, kept: Kept, shards: Sequence[Any]) -> Kept:
        """The mean of the capped shares, each cap weighted by its predictive probability.

        Without data to predict, shares are unchanged.
        """
        halves = in_halves(self.model, shards)
        if not halves:
            return kept
        candidates = [{name: np.minimum(shares, cap) for name, shares in kept.items()} for cap in CAPS]
        log_weights = KEEP * CAPS
        for fitted, predicted in (zip(*halves, strict=True), zip(*(pair[::-1] for pair in halves), strict=True)):
            posteriors = [self.whole(weighted(current, candidate), fitted) for candidate in candidates]
            log_weights = log_weights + predictions(self.model, posteriors, predicted)
        weights = softmax(log_weights)
        return {name: weights @ np.array([candidate[name] for candidate in candidates]) for name in kept}


def predictions(model: Model, posteriors: Sequence[Posterior], shards: Sequence[Any]) -> Array:
    """The log predictive density of the data under each posterior."""
    parts = [to_predict(model, shard) for shard in shards]
    return np.array([sum(model.log_predictive(posterior, *part).sum() for part in parts) for posterior in posteriors])
