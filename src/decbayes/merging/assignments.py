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
    counts = {coupled: structure.components(coupled) for coupled in structure.symmetry}
    for site, assignment in enumerate(assignments):
        if not isinstance(assignment, Mapping):
            raise StructureMismatch(f"Assignment {site} must map each coupled set to slots.")
    for coupled, count in counts.items():
        found = [assignment.get(coupled, ()) for assignment in assignments]
        if name_slots(found, count):
            continue
        site = next(site for site, slots in enumerate(found) if not name_slots([slots], count))
        raise StructureMismatch(
            f"Assignment {site} has {assignments[site].get(coupled)!r} for {coupled}: it names a slot for each "
            f"component, as integers from 0 to {count - 1}."
        )


def name_slots(found: Sequence[object], count: int) -> bool:
    """Whether all are arrays of integers below the count, none of them empty."""
    arrays = [np.asarray(slots) for slots in found]
    whole = all(slots.ndim == 1 and slots.size and slots.dtype.kind in "ui" for slots in arrays)
    if not whole or any(isinstance(slots, np.ma.MaskedArray) for slots in found):
        return False
    together = np.concatenate([np.zeros(0, dtype=np.intp), *arrays])
    return bool((together >= 0).all() and (together < count).all())
