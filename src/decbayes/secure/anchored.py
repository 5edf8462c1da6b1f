"""Contributions in the slots of an anchor, as numbers that can be added.

An *anchor* is a posterior that all members have and that depends on no secret: a fit of public data, a released file,
or the merge of an earlier round. Each site moves its components into the anchor's slots by itself, so that sums suffice
and nobody has to compare components of two sites.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from decbayes.base.arguments import check_kind
from decbayes.disclosure.guarding import distinguishing_factors, joining_gain
from decbayes.errors import StructureMismatch
from decbayes.families import Array, dense
from decbayes.families.matrices import Indices
from decbayes.merging.base.compatibility import alike, in_columns_of, why
from decbayes.merging.base.components import group_evidence
from decbayes.merging.base.problem import best_permutation
from decbayes.merging.base.products import AssignedSums, scaled
from decbayes.posterior import Posterior
from decbayes.privacy.grid import Integers, quantize
from decbayes.structure import CoupledSet, Structure


def in_slots(posterior: Posterior, anchor: Posterior) -> Posterior:
    """The posterior with its components in the anchor's slots, each where it is explained best.

        slot(k) = argmax_j A(λ_j + c_k) − A(λ_j),   λ_j: slot j of the anchor

    All slots get the mean evidence, so that their shape matters and not their amount of data. Several components may
    share a slot. A slot that is only the prior is a spare: components that no other slot explains better than the prior
    go there, the largest first.

    Args:
        posterior: a site's fit.
        anchor: the common anchor; `db.merging.pad` gives it spare slots.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> anchor = model.fit(np.array([[-9.0], [9.0]]), rng=0).posterior
    >>> site = model.fit(np.array([[9.5], [-8.0], [-8.5]]), rng=1).posterior
    >>> moved = db.secure.in_slots(site, anchor)
    >>> bool((np.sign(moved.mean("components")) == np.sign(anchor.mean("components"))).all())
    True
    """
    check_kind(Posterior, posterior=posterior, anchor=anchor)
    ordered = in_columns_of(anchor.structure, posterior)
    if ordered.structure != anchor.structure and not alike(ordered.structure, anchor.structure):
        reason = why(anchor.structure, ordered.structure, strictly=False)
        raise StructureMismatch(f"The posterior does not fit the anchor: {reason} Fit it with `--like` the anchor.")
    sums = AssignedSums(anchor.structure)
    sums.add(ordered, {coupled: slots_of(ordered, anchor, coupled) for coupled in anchor.structure.symmetry})
    return Posterior(anchor.structure, sums.contributions())


def slots_of(posterior: Posterior, anchor: Posterior, coupled: CoupledSet) -> Indices:
    families = anchor.structure.families
    exclusive = any(families[name].exclusive for name in coupled.factors)
    evidence = group_evidence(posterior, coupled.factors)
    slots = evened_slots(anchor, coupled)
    rows = {name: dense(posterior.contribution[name]) for name in slots}
    if not exclusive:
        gains = np.array([joining_gain(anchor.structure, slots, rows, k) for k in range(len(evidence))])
        if len(gains) > gains.shape[1]:
            raise StructureMismatch(
                f"The posterior has {len(gains)} features, the anchor {gains.shape[1]} slots: pad the anchor."
            )
        return matched(gains)
    spare, chosen = anchor.untouched(coupled), np.zeros(len(evidence), dtype=np.intp)
    for component in np.argsort(-evidence, kind="stable"):
        slot = int(joining_gain(anchor.structure, slots, rows, component).argmax())
        chosen[component] = slot
        if spare[slot]:
            for name, parts in rows.items():
                slots[name][slot] += parts[component]
    return chosen


def evened_slots(anchor: Posterior, coupled: CoupledSet) -> dict[str, Array]:
    """The slots' parameters in the factors that distinguish components, all with the same evidence."""
    evidence, structure = group_evidence(anchor, coupled.factors), anchor.structure
    filled, weights = evidence > 0.0, np.ones(len(evidence))
    if filled.any():
        weights[filled] = evidence[filled].mean() / evidence[filled]
    slots = {}
    for name in distinguishing_factors(structure, coupled.factors):
        even = structure.prior[name] + weights[:, None] * dense(anchor.contribution[name])
        proper = structure.families[name].contains_rows(even)
        slots[name] = np.where(proper[:, None], even, anchor.natural[name])
    return slots


def matched(gains: Array) -> Indices:
    """The best assignment of components to distinct slots."""
    components, slots = gains.shape
    square = np.zeros((slots, slots))
    square[:components] = gains
    return best_permutation(square)[:components]


STATISTICS = ("rows", "persons", "units", "held", "score", "alone", "squares")
"""Numbers added beside the contribution: amounts of data, and scores of held-back data."""


class HeldBack(NamedTuple):
    """How well the previous round's merge predicts held-back data.

    Attributes:
        units: the amount of held-back data, in the model's units.
        score: the log-likelihood per unit.
        gain: the advantage over the members' own fits.
        error: the standard error of the gain.
    """

    units: float
    score: float
    gain: float
    error: float


@dataclass(frozen=True)
class Share:
    """What one member adds, or the sum itself: a contribution in the anchor's slots, and the amount of data behind it.

    `units` are what the model counts: rows, words of documents, or steps of sequences. `held` are the held-back units,
    `score` their log-likelihood under the previous round's merge, `alone` that under the member's own part of it, and
    `squares` the sum of squared differences.

    >>> posterior = db.models.GaussianMean(variance=1.0).fit(np.full((50, 1), 2.0)).posterior
    >>> share = db.secure.Share(posterior, rows=50, persons=50, units=50)
    >>> share.bounded(10).posterior.contribution["mean"]
    array([[20., -5.]])
    """

    posterior: Posterior
    rows: float
    persons: float
    units: float
    held: float = 0.0
    score: float = 0.0
    alone: float = 0.0
    squares: float = 0.0

    @property
    def held_back(self) -> HeldBack | None:
        """How well held-back data are predicted; None if there are none."""
        if self.held <= 0.0:
            return None
        error = np.sqrt(max(self.squares, 0.0)) / self.held
        return HeldBack(self.held, self.score / self.held, (self.score - self.alone) / self.held, float(error))

    def bounded(self, most: float) -> "Share":
        """The share scaled down to `most` rows if it has more, which bounds the influence of a single member."""
        scale = most / max(self.rows, most)
        numbers = {name: scale * getattr(self, name) for name in STATISTICS}
        return Share(scaled(self.posterior, scale), **numbers)

    def steps(self, step: float) -> Integers:
        """The share in whole steps of the grid: all factors, then the statistics."""
        parts = [dense(part).ravel() for part in self.posterior.contribution.values()]
        numbers = np.concatenate([*parts, [getattr(self, name) for name in STATISTICS]])
        return quantize(numbers, step)

    @classmethod
    def of_steps(cls, structure: Structure, steps: Integers, step: float) -> "Share":
        """The share from its steps: the inverse of `steps`."""
        numbers = np.asarray(steps * step, dtype=np.float64)
        shapes = {name: prior.shape for name, prior in structure.prior.items()}
        ends = np.cumsum([0, *(rows * columns for rows, columns in shapes.values())])
        parts: dict[str, Array] = {
            name: numbers[first:last].reshape(shapes[name])
            for name, (first, last) in zip(shapes, pairwise(ends), strict=True)
        }
        return cls(Posterior(structure, parts), *map(float, numbers[ends[-1] :]))


def length_of(structure: Structure) -> int:
    """The number of numbers that a member adds."""
    return sum(prior.size for prior in structure.prior.values()) + len(STATISTICS)
