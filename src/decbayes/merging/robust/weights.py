"""What each component counts for in its slot, beside all others there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array, dense
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.canonical import canonical_components
from decbayes.merging.base.components import group_evidence, log_bayes_factors
from decbayes.posterior import Posterior
from decbayes.structure import Structure

# Counts may differ by so many times the nats per count that are usual.
USUAL = 5.0
# What is left of evidence that is not to count for now.
LITTLE = 1e-6
# Of so many components of a slot it is asked whether they are the one that most agree with.
CANDIDATES = 32
# A site knows a component that holds so much of its evidence.
KNOWN = 0.05


@dataclass(frozen=True)
class Robust:
    """How much one site may move a merge: `db.merge(posteriors, robust=db.merging.Robust(patience=5.0))`.

    Attributes:
        cap: the most evidence that a site may have, in units of the median site's.
        patience: nats by which a site may disagree with the others before it counts for less.
        rounds: how often components are aligned again with those weights.

    >>> db.merging.Robust(cap=2.0)
    Robust(cap=2.0, patience=3.0, rounds=4)
    """

    cap: float = 1.5
    patience: float = 3.0
    rounds: int = 4

    def __post_init__(self) -> None:
        if not (self.cap >= 1.0 and self.patience > 0.0 and self.rounds >= 1):
            raise ValueError("A robust merge needs a cap of at least 1, patience above 0, and a round at least.")


@dataclass(frozen=True)
class Group:
    """A group of factors whose rows go together: sites × components, and the slot that each is in."""

    names: tuple[str, ...]
    structure: Structure
    order: NDArray[np.intp]
    """The components of each site in an order that does not depend on its labels; all that follows is in it."""
    slots: NDArray[np.intp]
    evidence: Array
    parts: Mapping[str, Array]
    """Sites × components × parameters of the factors that say what components are."""
    counted: bool
    """Whether it is about counts of words or the like, which differ by more than chance from site to site."""

    @classmethod
    def of(cls, alignment: Alignment, posteriors: Sequence[Posterior], names: tuple[str, ...]) -> "Group":
        structure = alignment.structure
        told = [name for name in names if not structure.families[name].over_components] or [*names]
        coupled = next((each for each in structure.symmetry if tuple(each.factors) == names), None)
        rows = np.arange(len(structure.prior[names[0]]))
        order = np.array([canonical_components(own, coupled) if coupled else rows for own in posteriors])
        slots = np.array([own[coupled] if coupled else rows for own in alignment.assignments])
        evidence = np.array([group_evidence(own, names) for own in posteriors])
        pairs = [*zip(posteriors, order, strict=True)]
        parts = {name: np.array([dense(own.contribution[name])[each] for own, each in pairs]) for name in told}
        slots, evidence = (np.take_along_axis(each, order, axis=1) for each in (slots, evidence))
        counted = all(structure.families[name].countable for name in told)
        return cls(names, structure, order, slots, evidence, parts, counted)

    @property
    def count(self) -> int:
        return len(self.structure.prior[self.names[0]])

    @cached_property
    def votes(self) -> Array:
        """1 for a component that its site knows well, less for one that hardly has evidence."""
        shares = self.evidence / np.maximum(self.evidence.sum(axis=1, keepdims=True), LITTLE)
        return np.asarray(np.minimum(shares / KNOWN, 1.0))

    def by_label(self, amounts: Array) -> Array:
        """Amounts in the order of each site's own labels."""
        labelled = np.empty_like(amounts)
        np.put_along_axis(labelled, self.order, amounts, axis=1)
        return labelled

    def in_slots(self, amounts: Array) -> Array:
        """Sums of what components have, slot by slot."""
        return np.asarray(np.bincount(self.slots.ravel(), amounts.ravel(), minlength=self.count), dtype=np.float64)

    def averaged(self, weights: Array) -> Array:
        """(sites, slots): the mean weight of each site's evidence there."""
        rows = np.arange(len(self.slots))[:, None] * self.count + self.slots
        size = self.count * len(self.slots)
        total, used = (
            np.bincount(rows.ravel(), each.ravel(), size) for each in (self.evidence, weights * self.evidence)
        )
        return np.divide(used, total, out=np.ones(size), where=total > 0).reshape(-1, self.count)

    def weights(self, rule: Robust) -> Array:
        """What each component counts for."""
        ends = [self._agreeing(start, rule) for start in (np.ones_like(self.votes), self._around_the_middle(rule))]
        first, second = (self.in_slots(self.votes * end) for end in ends)
        return np.where((second > first)[self.slots], ends[1], ends[0])

    def lenient(self, weights: Array, rule: Robust) -> Array:
        """The weight of a component, or of all that its site has in the slot if that is more."""
        return np.maximum(weights, np.take_along_axis(self._joined().weights(rule), self.slots, axis=1))

    def _joined(self) -> "Group":
        """The group in which all that a site has in a slot is one component."""
        sites = range(len(self.slots))
        parts = {name: np.array([self._sum(part, site) for site in sites]) for name, part in self.parts.items()}
        evidence = np.array([np.bincount(self.slots[site], self.evidence[site], self.count) for site in sites])
        return replace(self, slots=np.tile(np.arange(self.count), (len(sites), 1)), evidence=evidence, parts=parts)

    def _agreeing(self, weights: Array, rule: Robust) -> Array:
        """Weights that follow from how far each component disagrees with all others of its slot, weighted so."""
        for _ in range(rule.rounds):
            rest = {
                name: self._sums(part, weights)[self.slots] - weights[..., None] * part
                for name, part in self.parts.items()
            }
            weights = self._weight(self._disagreement(rest), rule)
        return weights

    def _around_the_middle(self, rule: Robust) -> Array:
        """What components would count for if, in each slot, that one were right with which most agree."""
        best, most = np.ones_like(self.votes), np.zeros(self.count)
        for chosen in self._candidates():
            rest = {name: part.reshape(-1, part.shape[-1])[chosen][self.slots] for name, part in self.parts.items()}
            weights = self._weight(self._disagreement(rest), rule)
            heard = self.in_slots(self.votes * weights) * (self.slots.ravel()[chosen] == np.arange(self.count))
            best, most = np.where((heard > most)[self.slots], weights, best), np.maximum(heard, most)
        return best

    def _weight(self, disagreement: Array, rule: Robust) -> Array:
        """min(1, patience / d); of counts, with patience for what is usual among all components."""
        patience, known = np.asarray(rule.patience), self.votes > 0
        if self.counted and known.any():
            usual = np.quantile((disagreement / np.maximum(self.evidence, LITTLE))[known], 0.25)
            patience = np.maximum(patience, USUAL * usual * self.evidence)
        return np.asarray(patience / np.maximum(disagreement, patience))

    def _candidates(self) -> Iterator[NDArray[np.intp]]:
        """For each slot one of its components, the best known first; another one where it has no more."""
        order = np.lexsort((-self.evidence.ravel(), -self.votes.ravel()))
        members = [order[self.slots.ravel()[order] == slot][:CANDIDATES] for slot in range(self.count)]
        for turn in range(max(map(len, members))):
            yield np.array([own[turn] if turn < len(own) else order[0] for own in members])

    def _sum(self, part: Array, site: int) -> Array:
        """What one site has in each slot."""
        total = np.zeros((self.count, part.shape[-1]))
        np.add.at(total, self.slots[site], part[site])
        return total

    def _sums(self, part: Array, weights: Array) -> Array:
        weighted = weights[..., None] * part
        return np.asarray(np.sum([self._sum(weighted, site) for site in range(len(part))], axis=0))

    def _disagreement(self, rest: Mapping[str, Array]) -> Array:
        """By how many nats each component disagrees with that, all factors together."""
        return np.asarray(-np.sum([self._log_bayes_factors(name, rest[name]) for name in self.parts], axis=0))

    def _log_bayes_factors(self, name: str, rest: Array) -> Array:
        family, prior = self.structure.families[name], self.structure.prior[name][self.slots]
        flat = (each.reshape(-1, each.shape[-1]) for each in (prior, self.parts[name], rest))
        return log_bayes_factors(family, *flat).reshape(self.slots.shape)
