"""Ids of the sites' components: equal ids attract each other, and each slot inherits one."""

from collections.abc import Sequence

import numpy as np

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.base.problem import best_permutation

Ids = Sequence[Sequence[str]]
"""Per site: no ids at all, or one per component, empty if a component has none."""


def home_slots(ids: Ids, sizes: Sequence[int], evidence: Array, count: int) -> Indices | None:
    """Each component's slot according to its id, −1 for none; None if too few ids are shared.

    Slots go to the ids with the most evidence among those that several sites use. Before sites agree on ids there are
    few, and components are grouped as if they had none.
    """
    names = listed(ids, sizes)
    known, place = np.unique(names, return_inverse=True)
    uses = np.unique(np.column_stack([place, np.repeat(np.arange(len(sizes)), sizes)]), axis=0)
    common = (np.bincount(uses[:, 0], minlength=len(known)) > 1) & (known != "")
    evidence_of_id = np.where(common, np.bincount(place, evidence, minlength=len(known)), 0.0)
    if evidence_of_id.sum() < 0.5 * evidence.sum() or not common.any():
        return None
    most = np.argsort(-evidence_of_id, kind="stable")[: min(count, int(common.sum()))]
    slots = np.full(len(known), -1, dtype=np.intp)
    slots[most] = np.arange(len(most))
    return slots[place]


def inherited(ids: Ids, slots: Sequence[Indices], evidence: Array, count: int) -> tuple[str, ...]:
    """The id of each slot: the one with the most evidence there, each used once; empty if none is left."""
    names = listed(ids, [len(site_slots) for site_slots in slots])
    known, place = np.unique(names, return_inverse=True)
    votes = np.zeros((count, len(known)))
    np.add.at(votes, (np.concatenate(slots), place), np.where(names == "", 0.0, evidence))
    # Per slot, only as many ids as there are slots matter: the other slots can take all but one of them.
    likely = np.unique(np.argsort(-votes, axis=1, kind="stable")[:, :count])
    square = np.zeros((max(count, len(likely)),) * 2)
    square[:count, : len(likely)] = votes[:, likely]
    chosen = best_permutation(square)[:count]
    won = square[np.arange(count), chosen] > 0.0
    return tuple(str(known[likely[k]]) if real else "" for k, real in zip(chosen, won, strict=True))


def listed(ids: Ids, sizes: Sequence[int]) -> np.ndarray:
    """One id per component, site after site."""
    return np.array(
        [name for given, size in zip(ids, sizes, strict=True) for name in (given or [""] * size)], dtype=object
    )
