"""How much evidence each site has put where, and whether that is enough."""

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import LEAST_EVIDENCE, Components, evidence_by_site
from decbayes.symmetry import CoupledSet

# Observations per parameter that a site should have in a component: with fewer, its own fit is not where the fit of all
# data would have been.
LEAST_PER_PARAMETER = 5.0


def observations(alignment: Alignment, coupled: CoupledSet) -> tuple[Array, ...]:
    """For each posterior, how many observations (or words) each component stands for."""
    return evidence_by_site(alignment.problem(coupled))


def seen(alignment: Alignment, coupled: CoupledSet) -> tuple[NDArray[np.bool_], ...]:
    """For each posterior, which components have seen data: they stand for half an observation or more.

    The others are padding, or what a fit did not need; it does not matter where they go.
    """
    return tuple(counts >= LEAST_EVIDENCE for counts in observations(alignment, coupled))


def support(alignment: Alignment, coupled: CoupledSet) -> Array:
    """Sites × slots: how many observations (or words) each posterior has put into each slot."""
    count = alignment.structure.components(coupled)
    pairs = zip(alignment.slots(coupled), observations(alignment, coupled), strict=True)
    return np.array([np.bincount(slots, counts, minlength=count) for slots, counts in pairs])


def alone(alignment: Alignment, coupled: CoupledSet) -> tuple[NDArray[np.bool_], ...]:
    """For each posterior, which components are in slots where no other posterior has put anything."""
    supported = support(alignment, coupled)
    others = supported.sum(axis=0) - supported
    return tuple(others[site, slots] < LEAST_EVIDENCE for site, slots in enumerate(alignment.slots(coupled)))


def fillings(alignment: Alignment, coupled: CoupledSet) -> list[list[tuple[int, ...]]]:
    """Sites × slots: the components that have put something there, by the labels they have at their site."""
    slots = range(alignment.structure.components(coupled))
    pairs = [*zip(seen(alignment, coupled), alignment.slots(coupled), strict=True)]
    return [[tuple(np.flatnonzero(filled & (taken == slot)).tolist()) for slot in slots] for filled, taken in pairs]


def thin(alignment: Alignment, coupled: CoupledSet) -> float | None:
    """Observations per parameter in the median, where these are too few for sites to find what all data would show.

    None where they are enough, or there is one site. Intervals of such a merge are too narrow, and lie in the wrong
    place, unless its posteriors were refined together.
    """
    problem = alignment.problem(coupled)
    components = Components.of(problem.factors, [*problem.contents])
    known = components.evidence >= LEAST_EVIDENCE
    ratios = components.evidence[known] / np.maximum(components.told()[known], 1.0)
    median = float(np.median(ratios)) if len(ratios) and len(alignment.posteriors) > 1 else np.inf
    return median if median < LEAST_PER_PARAMETER else None
