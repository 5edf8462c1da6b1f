"""How much evidence each site has in each slot, and whether that is enough."""

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import check_kind
from decbayes.families import Array
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import LEAST_EVIDENCE, Components, evidence_by_site
from decbayes.merging.grouping.shared import LEAST_PER_PARAMETER, data_per_parameter
from decbayes.structure import CoupledSet


def observations(alignment: Alignment, coupled: CoupledSet) -> tuple[Array, ...]:
    """Per posterior: the number of observations (or words) in each component.

    Args:
        coupled: one of the coupled sets, `alignment.structure.symmetry`.

    >>> [np.sort(counts).round().tolist() for counts in db.merging.observations(alignment, coupled)]
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """
    check_kind(Alignment, alignment=alignment)
    return evidence_by_site(alignment.problem(coupled))


def seen(alignment: Alignment, coupled: CoupledSet) -> tuple[NDArray[np.bool_], ...]:
    """Per posterior: which components have data, half an observation or more.

    The others are padding or unused by a fit; their slot does not matter.
    """
    return tuple(counts >= LEAST_EVIDENCE for counts in observations(alignment, coupled))


def support(alignment: Alignment, coupled: CoupledSet) -> Array:
    """Sites × slots: the number of observations (or words) of each posterior in each slot.

    Args:
        coupled: one of the coupled sets, `alignment.structure.symmetry`.

    >>> np.sort(db.merging.support(alignment, coupled).sum(axis=0)).round()
    array([3., 6.])
    """
    check_kind(Alignment, alignment=alignment)
    count = alignment.structure.components(coupled)
    pairs = zip(alignment.slots(coupled), observations(alignment, coupled), strict=True)
    return np.array([np.bincount(slots, counts, minlength=count) for slots, counts in pairs])


def alone(alignment: Alignment, coupled: CoupledSet) -> tuple[NDArray[np.bool_], ...]:
    """Per posterior: which components are alone in their slots."""
    supported = support(alignment, coupled)
    others = supported.sum(axis=0) - supported
    return tuple(others[site, slots] < LEAST_EVIDENCE for site, slots in enumerate(alignment.slots(coupled)))


def fillings(alignment: Alignment, coupled: CoupledSet) -> list[list[tuple[int, ...]]]:
    """Sites × slots: the components with data in each slot, by their labels at the site.

    Args:
        coupled: one of the coupled sets, `alignment.structure.symmetry`.

    >>> structure = db.GaussianMixture(2, 1, variance=1.0).structure
    >>> parts = {"weights": np.array([[5.0], [5.0]]), "components": np.array([[-45.0, -2.5], [45.0, -2.5]])}
    >>> swapped = {name: part[::-1] for name, part in parts.items()}
    >>> alignment = db.align([db.Posterior(structure, parts), db.Posterior(structure, swapped)])
    >>> first, second = db.merging.fillings(alignment, structure.symmetry[0])
    >>> first == second[::-1]
    True
    """
    check_kind(Alignment, alignment=alignment)
    slots = range(alignment.structure.components(coupled))
    pairs = [*zip(seen(alignment, coupled), alignment.slots(coupled), strict=True)]
    return [
        [tuple(np.flatnonzero(filled & (slots_of_site == slot)).tolist()) for slot in slots]
        for filled, slots_of_site in pairs
    ]


def thin(alignment: Alignment, coupled: CoupledSet) -> float | None:
    """The median number of observations per parameter, if too few for sites to find the components alone.

    None if there are enough, or only one site. Intervals of such a merge are too narrow and in the wrong place, unless
    its posteriors were refined together.

    Args:
        coupled: one of the coupled sets, `alignment.structure.symmetry`.

    >>> db.merging.thin(alignment, *alignment.structure.symmetry)
    1.5
    """
    check_kind(Alignment, alignment=alignment)
    problem = alignment.problem(coupled)
    median = data_per_parameter(Components.in_problem(problem))
    return median if median < LEAST_PER_PARAMETER and len(alignment.posteriors) > 1 else None
