"""What a report is about: an alignment and everything that is known of it, computed once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.merging import Alignment
from decbayes.merging.influence import Influence, groups_of
from decbayes.merging.margins import CLOSE
from decbayes.merging.shared import Shared
from decbayes.merging.sources import reordered
from decbayes.models.model import Model
from decbayes.models.registry import model_for
from decbayes.plot._alignment import least_sure
from decbayes.plot._network import by_number
from decbayes.posterior import Posterior
from decbayes.reporting.words import captions
from decbayes.symmetry import CoupledSet


@dataclass(frozen=True)
class Sureness:
    """Sites × slots: how sure a match is, NaN where a site has put nothing, and whether it is a close call."""

    values: Array
    close: NDArray[np.bool_]
    words: str


def sureness(found: Alignment, coupled: CoupledSet) -> Sureness:
    """How sure each match is: the only place that knows by which measure."""
    values = least_sure(found, coupled, found.margins())
    words = f"what the objective loses in the next best slot, in nats; under {CLOSE:g} it is a close call"
    return Sureness(values, values < CLOSE, words)


def by_name(alignment: Alignment, names: Sequence[str]) -> Alignment:
    """The same alignment with its sites in the order of their names: what is computed from it is the same to the bit,
    in whatever order files were given."""
    sites = in_order(names)
    return replace(
        alignment,
        assignments=tuple(alignment.assignments[site] for site in sites),
        posteriors=reordered(alignment.posteriors, sites),
        order=tuple(sites.index(site) for site in alignment.order),
        divisions={each: part.of_sites(part.shares[s] for s in sites) for each, part in alignment.divisions.items()},
    )


def in_order(names: Sequence[str]) -> list[int]:
    return sorted(range(len(names)), key=lambda site: by_number(names[site]))


@dataclass(frozen=True)
class Findings:
    """An alignment, the names of its sites, and what follows from both. Sites are in the order of their names."""

    alignment: Alignment
    names: tuple[str, ...]

    @classmethod
    def of(cls, alignment: Alignment, names: Sequence[str]) -> "Findings":
        told = tuple(map(str, names))
        if len(told) != len(alignment.posteriors) or len(set(told)) != len(told):
            raise ValueError(f"names must be distinct, one for each of the {len(alignment.posteriors)} posteriors.")
        return cls(by_name(alignment, told), tuple(told[site] for site in in_order(told)))

    @property
    def sites(self) -> range:
        return range(len(self.names))

    @cached_property
    def merged(self) -> Posterior:
        return self.alignment.merged()

    @cached_property
    def model(self) -> Model | None:
        try:
            return model_for(self.merged.structure)
        except StructureMismatch:
            return None

    @property
    def unit(self) -> str:
        """What contributions count, in the plural."""
        return f"{self.model.unit if self.model is not None else 'observation'}s"

    @cached_property
    def sets(self) -> tuple[CoupledSet, ...]:
        return self.alignment.structure.symmetry

    @cached_property
    def shared(self) -> dict[CoupledSet, Shared]:
        return dict(self.alignment.shared())

    @cached_property
    def sureness(self) -> dict[CoupledSet, Sureness]:
        return {coupled: sureness(self.alignment, coupled) for coupled in self.sets}

    @cached_property
    def influence(self) -> Influence:
        return self.alignment.influence()

    @cached_property
    def evidence(self) -> Array:
        """How many observations each site has brought, as its contribution tells."""
        return np.asarray(self.slots(0)[0].sum(axis=1))

    def slots(self, group: int) -> tuple[Array, Array]:
        """Sites × slots of one coupled set, or of a factor that is in none: evidence and log Bayes factors."""
        sizes = [len(self.merged.structure.prior[names[0]]) for names in groups_of(self.merged.structure)]
        place = slice(sum(sizes[:group]), sum(sizes[: group + 1]))
        return self.influence.evidence[:, place], self.influence.log_bayes_factor[:, place]

    @cached_property
    def captions(self) -> list[str]:
        """A few words on each component."""
        return captions(self.merged, self.model)
