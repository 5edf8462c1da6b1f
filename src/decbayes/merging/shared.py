"""Who has what: which sites support each merged component, with how much, and how far their versions of it differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from decbayes.families import Array
from decbayes.merging.components import Components, bases
from decbayes.merging.search import Search
from decbayes.symmetry import CoupledSet

if TYPE_CHECKING:
    from decbayes.merging.alignment import Alignment

# Two slots are nearly the same if joining them loses less than this per observation of the smaller one, in nats.
ALMOST = 0.05
# A slot forces unlike things together if a version of it loses more than this per observation.
FORCED = 1.0


@dataclass(frozen=True)
class Shared:
    """Sites × slots: `evidence` is how many observations each site has put there, `apart` how many nats per observation
    its version of the slot loses by being merged with the others' (NaN where it has none).

    `duplicates` are pairs of slots that are nearly the same.
    """

    evidence: Array
    apart: Array
    duplicates: tuple[tuple[int, int], ...]

    def sites(self, slot: int) -> list[int]:
        """The sites that support a slot, most evidence first."""
        order = np.argsort(-self.evidence[:, slot], kind="stable")
        return [int(site) for site in order if self.evidence[site, slot] > 0.0]

    @property
    def private(self) -> list[tuple[int, int]]:
        """(slot, site) of each slot that one site alone supports, though there are others."""
        supporters = self.evidence > 0.0
        alone = np.flatnonzero((supporters.sum(axis=0) == 1) & (len(supporters) > 1))
        return [(int(slot), int(supporters[:, slot].argmax())) for slot in alone]

    @property
    def forced(self) -> list[tuple[int, int]]:
        """(slot, site) where a site's version is too different from the others' to be the same thing."""
        sites, slots = np.nonzero(np.nan_to_num(self.apart) > FORCED)
        return [(int(slot), int(site)) for site, slot in zip(sites, slots, strict=True)]


def shared_components(alignment: "Alignment", coupled: CoupledSet) -> Shared:
    """Each site's version of each slot, and what it loses by being merged with the others'."""
    problem = alignment._problem(coupled)
    slots = [assignment[coupled] for assignment in alignment.assignments]
    count, sites = alignment.structure.components(coupled), len(slots)
    components = Components.of(problem.factors, [*problem.contents])
    versions = components.joined(np.concatenate([site * count + own for site, own in enumerate(slots)]), sites * count)
    base = bases(components.factors, float(components.evidence.sum()), count)
    search = Search(versions, np.tile(np.arange(count), sites), base, count)
    everyone = np.arange(len(versions))
    lost = search.alone() - search.gains(everyone)[everyone, search.labels]
    evidence = versions.evidence.reshape(sites, count)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(evidence > 0.0, np.maximum(lost.reshape(sites, count), 0.0) / evidence, np.nan)
    return Shared(evidence, apart, near_duplicates(search.join_losses(), evidence.sum(axis=0)))


def near_duplicates(losses: Array, evidence: Array) -> tuple[tuple[int, int], ...]:
    """Pairs of filled slots that joining would hardly hurt."""
    pairs: Sequence[tuple[int, int]] = [
        (first, second)
        for second in range(len(evidence))
        for first in range(second)
        if losses[first, second] < ALMOST * min(evidence[first], evidence[second])
    ]
    return tuple(pairs)
