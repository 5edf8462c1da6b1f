"""Which sites support each merged component, with how much evidence, and how far their versions differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.base.components import Components, bases
from decbayes.merging.base.problem import Problem
from decbayes.merging.grouping.number import crowding, measured_noise, sampling_noise
from decbayes.merging.grouping.search import SlotSearch

# Two slots are nearly the same if joining them loses less than this many nats per observation of the smaller one.
ALMOST = 0.05
# A slot holds different components if its best split gains this many times the gain of splitting noise.
UNLIKE = 10.0


@dataclass(frozen=True)
class Shared:
    """Which sites support each slot, and how far their versions differ: `alignment.shared()[coupled]`.

    Attributes:
        evidence: sites × slots, the number of observations of each site.
        apart: sites × slots, the loss of a site's version from the merge in nats per observation; NaN where it has
            none.
        duplicates: pairs of slots that are nearly the same.
        unlike: slots that hold components that differ.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> sites = [model.fit(0.01 * n + np.array([[-9.0], [-8.0], [9.0]]), rng=rng).posterior for n in range(3)]
    >>> (shared,) = db.align(sites).shared().values()
    >>> shared.evidence.sum(axis=1)
    array([3., 3., 3.])
    >>> shared.sites(0)
    [0, 1, 2]
    """

    evidence: Array
    apart: Array
    duplicates: tuple[tuple[int, int], ...]
    unlike: tuple[int, ...]

    def sites(self, slot: int) -> list[int]:
        """The sites that support a slot, most evidence first."""
        order = np.argsort(-self.evidence[:, slot], kind="stable")
        return [int(site) for site in order if self.evidence[site, slot] > 0.0]

    @property
    def private(self) -> list[tuple[int, int]]:
        """(slot, site) of each slot that only one of several sites supports."""
        supporters = self.evidence > 0.0
        alone = np.flatnonzero((supporters.sum(axis=0) == 1) & (len(supporters) > 1))
        return [(int(slot), int(supporters[:, slot].argmax())) for slot in alone]

    def remarks(self) -> tuple[str, ...]:
        """Warnings, each with a remedy."""
        remarks, count = [], self.evidence.shape[1]
        if self.duplicates:
            pairs = ", ".join(f"{first} and {second}" for first, second in self.duplicates)
            remarks.append(f"Nearly the same: slots {pairs}. Fewer components would merge them.")
        if self.unlike:
            slots = ", ".join(map(str, self.unlike))
            remarks.append(
                f"{len(self.unlike)} of {count} slots hold components that differ ({slots}). "
                f'More components than {count} would give them slots of their own; "auto" looks for how many.'
            )
        return tuple(remarks)


def shared_components(problem: Problem, slots: Sequence[Indices]) -> Shared:
    """Each site's version of each slot, and its loss from being merged with the others."""
    count, sites = problem.components, len(slots)
    components = Components.of(problem.factors, [*problem.contents])
    versions = components.joined(
        np.concatenate([site * count + labels for site, labels in enumerate(slots)]), sites * count
    )
    base = bases(components.factors, float(components.evidence.sum()), count)
    search = SlotSearch(versions, np.tile(np.arange(count), sites), base, count)
    lost = search.lost()
    evidence = versions.evidence.reshape(sites, count)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(evidence > 0.0, np.maximum(lost.reshape(sites, count), 0.0) / evidence, np.nan)
    duplicates = near_duplicates(search.join_losses(), evidence.sum(axis=0))
    unlike = unlike_slots(SlotSearch(components, np.concatenate(slots), base, count))
    return Shared(evidence, apart, duplicates, unlike)


def unlike_slots(search: SlotSearch) -> tuple[int, ...]:
    """Slots whose best split gains far more than a split of equally many noisy copies of one component.

    Noise is the loss of components from sharing a slot after all slots are split.
    """
    members = np.bincount(search.labels, minlength=search.count)
    divided, gains = 2 * search.labels, np.zeros(search.count)
    for slot in np.flatnonzero(members > 1):
        in_slot = np.flatnonzero(search.labels == slot)
        ((half, gain),) = search.halves([in_slot])
        divided[in_slot] += half
        gains[slot] = gain / crowding(len(in_slot), float(search.freedom(np.array([slot]))[0]))
    apart = SlotSearch(search.components, divided, search.bases, 2 * search.count)
    counts = np.bincount(divided, minlength=apart.count)
    noise, _ = measured_noise(apart, counts, sampling_noise(search.components))
    return tuple(np.flatnonzero(gains > UNLIKE * noise).tolist())


def near_duplicates(losses: Array, evidence: Array) -> tuple[tuple[int, int], ...]:
    """Pairs of filled slots that could be joined with little loss."""
    pairs: Sequence[tuple[int, int]] = [
        (first, second)
        for second in range(len(evidence))
        for first in range(second)
        if losses[first, second] < ALMOST * min(evidence[first], evidence[second]) and evidence[[first, second]].all()
    ]
    return tuple(pairs)
