"""A site's updates; and epochs, in which the merged posterior of earlier data is the prior of new data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from decbayes.base.arguments import is_number
from decbayes.families import dense
from decbayes.merging import product
from decbayes.merging.base.compatibility import common_structure
from decbayes.models.core.ascent import OnPass
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior
from decbayes.remarks import after_refit
from decbayes.structure import Structure


@dataclass(frozen=True)
class Epoch:
    """A prior made of earlier contributions: which shards of each member it includes, and how many observations.

    >>> from decbayes.updates import Epoch
    >>> first = db.models.GaussianMean(dimension=1).fit(np.ones((4, 1))).posterior
    >>> epoch = Epoch(first, {"a": ("first shard",)})
    >>> epoch.whole(db.Posterior.of_prior(epoch.structure)) == first  # nothing observed since
    True
    """

    prior: Posterior
    counted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    observations: int = 0

    def __post_init__(self) -> None:
        counted = {name: tuple(sorted(set(shards))) for name, shards in sorted(self.counted.items())}
        object.__setattr__(self, "counted", MappingProxyType(counted))

    @cached_property
    def structure(self) -> Structure:
        """The model's structure with this prior; the epoch's contributions are relative to it."""
        return self.prior.structure.with_prior(self.prior.natural)

    def whole(self, posterior: Posterior) -> Posterior:
        """The posterior of the epoch's data and all earlier data, in the model's structure."""
        return product([self.prior, Posterior(self.prior.structure, dict(posterior.contribution))])

    def part(self, posterior: Posterior) -> Posterior:
        """The part of a whole posterior beyond the epoch's prior."""
        added = {name: c - self.prior.contribution[name] for name, c in posterior.contribution.items()}
        return Posterior(self.structure, added)


@dataclass(frozen=True)
class Update:
    """A site's updates: a model, and the epoch if earlier data are in the prior.

    With `damping` below 1 a site goes only that part of the way to its new contribution, which stabilises updates that
    would overshoot because all sites make them at once. In the `first` round after a merge, which blurs the sites'
    components, a model may trust others less (`Model.first_refit`) and go further than its refit says
    (`Model.overstepped`); in later rounds that would not converge.
    """

    model: Model
    epoch: Epoch | None = None
    damping: float = 1.0
    first: bool = False

    def __post_init__(self) -> None:
        if not is_number(self.damping) or not 0.0 < self.damping <= 1.0:
            raise ValueError(f"damping must be above 0 and at most 1, not {self.damping!r}.")

    @cached_property
    def nothing(self) -> Posterior:
        return Posterior.of_prior(self.model.structure if self.epoch is None else self.epoch.structure)

    def learn(
        self, data: Any, previous: Posterior, *, rng: np.random.Generator | None, start: Posterior | None = None
    ) -> Posterior:
        """Fit new data on top of the site's earlier contribution; returns the contribution of both.

        The fit starts from `start`, or else from the earlier posterior.
        """
        earlier = self.whole(previous)
        # A prior without data has no labels to start from.
        if start is None and earlier == Posterior.of_prior(self.model.structure):
            if self.epoch is None:
                return self.model.fit_site(data, rng=rng).posterior
        elif start is None:
            start = earlier
        return self.part(self.model.fit(data, prior=earlier, start=start, rng=rng).posterior)

    def relearn(
        self,
        data: Any,
        previous: Posterior,
        merged: Posterior,
        *,
        rng: np.random.Generator | None,
        progress: OnPass | None = None,
    ) -> Posterior:
        """Refit all of a site's data with all other sites' contributions as its prior; returns the new contribution.

            c_i ← fit(data_i, prior = λ0 + Σ_{j≠i} c_j, start = λ0 + Σ_j c_j) − prior

        `previous` is the site's contribution to `merged`, in the same slots.
        """
        model, cavity = self._refit(data, previous, merged)
        before, start = self.whole(cavity), self.whole(merged)
        fitted = model.fit(data, prior=before, start=start, rng=rng, progress=progress).posterior
        return self._part_of_the_way(previous, without(self.part(fitted), cavity))

    def relearn_all(
        self,
        shards: Sequence[Any],
        previous: Sequence[Posterior],
        merged: Posterior,
        *,
        rng: np.random.Generator | None,
    ) -> list[Posterior]:
        """`relearn` for all sites at the same time, each against the same merged posterior."""
        pairs = zip(shards, previous, strict=True)
        refits = [self._refit(data, posterior, merged) for data, posterior in pairs]
        (model, *_), cavities = zip(*refits, strict=True)
        priors, starts = [self.whole(cavity) for cavity in cavities], [self.whole(merged)] * len(cavities)
        fits = model.fit_many(shards, priors=priors, starts=starts, rng=rng)
        return [
            self._part_of_the_way(before, without(self.part(fit.posterior), cavity))
            for before, fit, cavity in zip(previous, fits, cavities, strict=True)
        ]

    def whole(self, posterior: Posterior) -> Posterior:
        """A posterior in the model's structure, with the contributions of earlier epochs."""
        return posterior if self.epoch is None else self.epoch.whole(posterior)

    def part(self, posterior: Posterior) -> Posterior:
        """The part of a posterior of the model beyond the epoch's prior."""
        return posterior if self.epoch is None else self.epoch.part(posterior)

    def _refit(self, data: Any, previous: Posterior, merged: Posterior) -> tuple[Model, Posterior]:
        """The model that refits a site's data, and the cavity it uses."""
        first, cavity = self.first and self.damping == 1.0, without(merged, previous)
        return self.model.first_refit(data, cavity, merged) if first else (self.model, cavity)

    def _part_of_the_way(self, previous: Posterior, learned: Posterior) -> Posterior:
        """The new contribution, with what the site's own fit said about its data: a refit depends on other sites."""
        stepped, remarks = self._stepped(previous, learned), after_refit(previous.remarks)
        return replace(stepped, remarks=remarks, halves=previous.halves)

    def _stepped(self, previous: Posterior, learned: Posterior) -> Posterior:
        if self.damping == 1.0:
            return self.model.overstepped(previous, learned) if self.first else learned
        # A mix of two contributions is a valid contribution; their difference need not be.
        before: Any = previous.contribution
        after: Any = learned.contribution
        kept = 1.0 - self.damping
        return Posterior(
            previous.structure, {name: kept * part + self.damping * after[name] for name, part in before.items()}
        )


def without(posterior: Posterior, other: Posterior) -> Posterior:
    """λ0 + (λ − λ_other): the part of one posterior's contribution that is not in the other.

    The *cavity* of a site is the merge without its contribution; after a refit, the site publishes the new posterior
    without that cavity.
    """
    structure = common_structure([posterior, other])
    return Posterior(
        structure, {name: posterior.contribution[name] - other.contribution[name] for name in structure.families}
    )


def shift(before: Posterior, after: Posterior) -> float:
    """The root mean square shift per parameter, in standard deviations: KL ≈ ½ Σ (shift / deviation)².

    Parameters without contributions do not move and do not count.
    """
    structure = before.structure
    nats, parameters = 0.0, 0
    for name, family in structure.families.items():
        nats += family.kl(after.natural[name], before.natural[name])
        parameters += int(np.count_nonzero(dense(after.contribution[name])))
    return float(np.sqrt(2.0 * max(nats, 0.0) / max(parameters, 1)))
