"""Which components get a slot when there are too few for all that sites claim: those that most sites know."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import groups_of
from decbayes.merging.base.products import weighted_rows
from decbayes.merging.robust.weights import LITTLE, Group, Robust
from decbayes.posterior import Posterior

Mask = NDArray[np.bool_]
"""Sites × components."""


@dataclass(frozen=True)
class Settling:
    """Alignments in turn with the weights that follow from them."""

    posteriors: Sequence[Posterior]
    rule: Robust
    align: Callable[[Sequence[Posterior]], Alignment]

    def best(self) -> "Reached":
        """Slots are given up for as long as more components are heard without them.

        An invented component takes a slot that two true ones then have to share, and both are hardly heard there.
        Without it they are. What was in that slot goes elsewhere, and counts for little where it does not belong.
        """
        best = self.settled(self.posteriors, ())
        while (better := self._better(best)) is not None:
            best = better
        return best.lenient(self.rule)

    def settled(self, bent: Sequence[Posterior], silenced: Sequence[Mask]) -> "Reached":
        """What is reached from an alignment of posteriors some of whose components count for less."""
        reached = self._reached(bent)
        for _ in range(1, self.rule.rounds):
            # The weights follow from the alignment: if that is the same again, so is all that comes after it.
            before, reached = reached, self._reached(reached.bent)
            if reached.same_slots(before):
                break
        return replace(reached, silenced=tuple(silenced) or reached.silenced)

    def _reached(self, bent: Sequence[Posterior]) -> "Reached":
        return Reached.of(self.align(bent), self.posteriors, self.rule)

    def _better(self, best: "Reached") -> "Reached | None":
        """What is reached without one of the slots in which few are heard; None if no more are heard then."""
        heard = best.heard()
        for slot in np.argsort(heard, kind="stable"):
            if heard[slot] >= best.unheard:
                return None
            without = self.settled(*best.without(int(slot)))
            if without.unheard < best.unheard - LITTLE:
                return without
        return None


@dataclass(frozen=True)
class Reached:
    """Components in slots, and what each of them counts for there, group after group of factors."""

    alignment: Alignment
    posteriors: Sequence[Posterior]
    groups: "tuple[Group, ...]"
    weights: tuple[Array, ...]
    silenced: tuple[Mask, ...]
    """Which components were in slots that were given up."""

    @classmethod
    def of(cls, alignment: Alignment, posteriors: Sequence[Posterior], rule: Robust) -> "Reached":
        groups = tuple(Group.of(alignment, posteriors, names) for names in groups_of(alignment.structure))
        nobody = tuple(np.zeros(group.slots.shape, dtype=np.bool_) for group in groups)
        return cls(alignment, posteriors, groups, tuple(group.weights(rule) for group in groups), nobody)

    def same_slots(self, other: "Reached") -> bool:
        pairs = zip(self.groups, other.groups, strict=True)
        return all(np.array_equal(own.slots, theirs.slots) for own, theirs in pairs)

    def lenient(self, rule: Robust) -> "Reached":
        """The same, where components of a site that share a slot are heard if they agree with the others together.

        A site may have found one thing in two parts.
        """
        pairs = zip(self.groups, self.weights, strict=True)
        return replace(self, weights=tuple(group.lenient(weights, rule) for group, weights in pairs))

    @property
    def bent(self) -> list[Posterior]:
        """The posteriors, with each component counting for its weight."""
        return self._weighted(self.weights)

    def merged(self) -> Posterior:
        # What slots receive was summed of other posteriors.
        divisions = {each: replace(part, received=None) for each, part in self.alignment.divisions.items()}
        return replace(self.alignment, posteriors=self.bent, divisions=divisions).merged()

    @property
    def unheard(self) -> float:
        """How many components that their sites know are not counted."""
        return float(
            sum((group.votes * (1.0 - weights)).sum() for group, weights in zip(self.groups, self.weights, strict=True))
        )

    def heard(self) -> Array:
        """How many components that their sites know are counted in each slot."""
        return np.concatenate(
            [group.in_slots(group.votes * weights) for group, weights in zip(self.groups, self.weights, strict=True)]
        )

    def without(self, slot: int) -> tuple[list[Posterior], list[Mask]]:
        """The posteriors when what is in that slot, and what was given up before, hardly counts; and which that is."""
        silenced, begin = [], 0
        for group, before in zip(self.groups, self.silenced, strict=True):
            silenced.append(before | (group.slots == slot - begin))
            begin += group.count
        return self._weighted([np.where(each, LITTLE, 1.0) for each in silenced]), silenced

    def by_slot(self) -> Array:
        """(sites, slots): what counts of all that a site has put there; 1 where that is nothing."""
        return np.concatenate(
            [group.averaged(weights) for group, weights in zip(self.groups, self.weights, strict=True)], axis=1
        )

    def _weighted(self, weights: Sequence[Array]) -> list[Posterior]:
        parts = [dict(posterior.contribution) for posterior in self.posteriors]
        for group, all_weights in zip(self.groups, weights, strict=True):
            for part, own in zip(parts, group.by_label(all_weights), strict=True):
                part |= {name: weighted_rows(part[name], own) for name in group.names}
        return [Posterior(posterior.structure, part) for posterior, part in zip(self.posteriors, parts, strict=True)]
