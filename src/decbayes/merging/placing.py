"""Posteriors with given slots: those of a round, and late ones that are put into the slots of a merge."""

from collections.abc import Iterable

import numpy as np

from decbayes.merging.aligning import align, solver_for
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.base.coupled import as_sequence, coupled_problem
from decbayes.merging.base.lineage import as_components, distances
from decbayes.merging.base.products import AssignedSums, SiteSlots, product
from decbayes.merging.grouping.grouping import Grouping
from decbayes.posterior import Posterior
from decbayes.structure import identity, inverse

OF_ROUND = "Posteriors of round"
"""The start of the reason for the slots of a round."""


def as_labelled(posteriors: Iterable[Posterior]) -> Alignment:
    """The alignment of posteriors that are already in common slots: each component keeps its number."""
    given = as_sequence(posteriors)
    order, _ = canonical_order(given, strictly=True)
    structure = given[0].structure
    stay = {coupled: identity(structure.components(coupled)) for coupled in structure.symmetry}
    objective = (product(given).log_partition(),)
    return Alignment((stay,) * len(given), objective, given, tuple(order), structure, decided="rounds")


def placed(posterior: Posterior, merged: Posterior) -> Posterior:
    """A posterior with its components in the slots of a merge that does not include it."""
    structure = merged.structure
    if not structure.symmetry:
        return posterior
    sums = AssignedSums(structure)
    sums.add(posterior, slots_in(posterior, merged))
    return Posterior(structure, sums.contributions())


def slots_in(posterior: Posterior, merged: Posterior) -> SiteSlots:
    """The nearest slot of each component; where a slot takes one component per site, the best assignment."""
    structure = merged.structure
    coupled = structure.symmetry[0]
    if structure.resizable and isinstance(solver_for(coupled_problem((merged,), coupled, structure)), Grouping):
        apart = distances(as_components(merged), as_components(posterior))
        return {coupled: np.asarray(apart.argmin(axis=0), dtype=np.intp)}
    both = align([merged, posterior], components="largest")
    return {name: inverse(both.assignments[0][name])[slots] for name, slots in both.assignments[1].items()}
