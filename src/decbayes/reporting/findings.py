"""What a report is about: an alignment and everything that is known of it, computed once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import StructureMismatch
from decbayes.families import Array, dense
from decbayes.merging import Alignment, Reliability, reading
from decbayes.merging.base.components import groups_of
from decbayes.merging.base.coupled import reordered
from decbayes.merging.grouping.shared import Shared
from decbayes.merging.reading import CLOSE, DOUBTFUL, Heterogeneity, Influence
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.models.features.latent_features import LatentFeatures
from decbayes.models.topics.quality import CoOccurrence, Quality
from decbayes.plot._alignment import least_sure
from decbayes.plot._network import by_number
from decbayes.posterior import Posterior
from decbayes.reporting.markup import captions
from decbayes.symmetry import CoupledSet

# What rests on fewer observations may describe single ones: statistical offices seldom publish such cells.
LEAST = 5.0


@dataclass(frozen=True)
class Sureness:
    """Sites × slots: how sure a match is, NaN where a site has put nothing, and whether it is a close call."""

    values: Array
    close: NDArray[np.bool_]
    words: str
    name: str = "margin"
    limit: str = f"under {CLOSE:g} nats"


def sureness(found: Alignment, coupled: CoupledSet, reliability: Reliability | None = None) -> Sureness:
    """How sure each match is: the only place that knows by which measure."""
    if reliability is not None:
        return probabilities(found, coupled, reliability)
    values = least_sure(found, coupled, reading.margins(found))
    words = f"what the objective loses in the next best slot, in nats; under {CLOSE:g} it is a close call"
    return Sureness(values, values < CLOSE, words)


def probabilities(found: Alignment, coupled: CoupledSet, reliability: Reliability) -> Sureness:
    values = least_sure(found, coupled, reading.confidence(found, reliability).probabilities)
    words = (
        "the probability that a component belongs where it is, as simulations of sites like these have taught; under "
        f"{DOUBTFUL:g} it is a close call"
    )
    return Sureness(values, values < DOUBTFUL, words, "probability", f"probability under {DOUBTFUL:g}")


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
    """An alignment, the names of its sites, and what follows from both. Sites are in the order of their names.

    What rests on fewer than `least` observations is not shown.
    """

    alignment: Alignment
    names: tuple[str, ...]
    least: float = LEAST
    reliability: Reliability | None = None
    counted: CoOccurrence | None = None

    @classmethod
    def of(
        cls,
        alignment: Alignment,
        names: Sequence[str],
        least: float = LEAST,
        reliability: Reliability | None = None,
        counted: CoOccurrence | None = None,
    ) -> "Findings":
        told = tuple(map(str, names))
        if len(told) != len(alignment.posteriors) or len(set(told)) != len(told):
            raise ValueError(f"names must be distinct, one for each of the {len(alignment.posteriors)} posteriors.")
        in_turn = tuple(told[site] for site in in_order(told))
        return cls(by_name(alignment, told), in_turn, least, reliability, counted)

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
        return {coupled: sureness(self.alignment, coupled, self.reliability) for coupled in self.sets}

    @cached_property
    def influence(self) -> Influence:
        return reading.influence(self.alignment)

    @cached_property
    def heterogeneity(self) -> dict[CoupledSet, Heterogeneity]:
        """By how much sites differ, in what chance would make of it."""
        return dict(reading.heterogeneity(self.alignment)) if len(self.sites) > 1 else {}

    @cached_property
    def inclusion(self) -> Array:
        """(sites, slots, 2): how many observations of each site have a feature, and how many have it not."""
        sites = [dense(self.alignment.in_slots(site).contribution["inclusion"]) for site in self.sites]
        return np.maximum(sites, 0.0)

    @cached_property
    def evidence(self) -> Array:
        """How many observations each site has brought, as its contribution tells."""
        if isinstance(self.model, LatentFeatures):
            return np.asarray(self.inclusion.sum(axis=2).max(axis=1))
        return np.asarray(self.slots(0)[0].sum(axis=1))

    def slots(self, group: int) -> tuple[Array, Array]:
        """Sites × slots of one coupled set, or of a factor that is in none: evidence and log Bayes factors."""
        sizes = [len(self.merged.structure.prior[names[0]]) for names in groups_of(self.merged.structure)]
        place = slice(sum(sizes[:group]), sum(sizes[: group + 1]))
        return self.influence.evidence[:, place], self.influence.log_bayes_factor[:, place]

    def hidden(self, coupled: CoupledSet) -> NDArray[np.bool_]:
        """Which slots rest on so few observations that they are counted and not shown."""
        evidence = self.shared[coupled].evidence.sum(axis=0)
        return np.asarray((evidence > 0) & (evidence < self.least))

    @cached_property
    def visible(self) -> list[int]:
        """The components that may be drawn: those of the first coupled set; none where there is no set."""
        return np.flatnonzero(~self.hidden(self.sets[0])).tolist() if self.sets else []

    @cached_property
    def quality(self) -> Quality | None:
        """How good topics are to read; nothing where there are none."""
        if self.model is None or self.model.view != "words":
            return None
        found = Quality(self.merged, len(self.counted.words[0])) if self.counted is not None else Quality(self.merged)
        if self.counted is not None and self.counted.words != found.words:
            raise StructureMismatch("The counts are of other words than the topics' top words: count for this merge.")
        return found

    @cached_property
    def coherence(self) -> Array | None:
        """Of each topic, where sites have counted."""
        return None if self.counted is None else self.counted.coherence()

    @cached_property
    def captions(self) -> list[str]:
        """A few words on each component."""
        return captions(self.merged, self.model)
