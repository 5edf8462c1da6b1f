"""Slots of components: whether they say what they should, and the same the other way round."""

from collections.abc import Mapping, Sequence

import numpy as np

from decbayes.errors import StructureMismatch
from decbayes.merging.sums import Assignment
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet, Permutation


def filled_by(slots: Assignment, count: int) -> Permutation:
    if not distinct(slots):
        raise StructureMismatch("Several components of one posterior share a slot; `assignments` says which.")
    filled = np.full(count, -1, dtype=np.intp)
    filled[slots] = np.arange(len(slots))
    return filled


def distinct(slots: Assignment) -> bool:
    return len(np.unique(slots)) == len(slots)


def check_assignments(assignments: Sequence[Mapping[CoupledSet, Assignment]], sites: int, structure: Structure) -> None:
    """Refuse assignments that are not one for each posterior, or name slots that do not exist."""
    if len(assignments) != sites:
        raise StructureMismatch(f"There are {sites} posteriors and {len(assignments)} assignments.")
    for site, assignment in enumerate(assignments):
        if not isinstance(assignment, Mapping):
            raise StructureMismatch(f"Assignment {site} must map each coupled set to slots.")
        for coupled in structure.symmetry:
            given = assignment.get(coupled, ())
            slots = np.asarray(given)
            whole = slots.ndim == 1 and slots.size and slots.dtype.kind in "ui" and not np.ma.is_masked(given)
            if not whole or slots.min() < 0 or slots.max() >= structure.components(coupled):
                raise StructureMismatch(
                    f"Assignment {site} has {assignment.get(coupled)!r} for {coupled}: it names a slot for each "
                    f"component, as integers from 0 to {structure.components(coupled) - 1}."
                )
