"""First broadcasts, moved to where all of them together are before they are added: `Model.recentred` knows how.

Every way to merge comes through here, so that all of them give the same posterior. Sums that nobody can take apart
(secure sums) are the exception.
"""

from collections.abc import Sequence
from importlib import import_module

import numpy as np

from decbayes.errors import StructureMismatch
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.base.coupled import as_sequence
from decbayes.posterior import Posterior


def recentred(posteriors: Sequence[Posterior]) -> Sequence[Posterior]:
    """The posteriors as they are to be added, the same bits whatever their order; most stay as they are.

    The model is asked by its name, when it has no components to align. Numbers with which it cannot compute stay as
    they are too: whether a sum of them is a posterior, and who is to blame if not, is for the merge to say.
    """
    given = as_sequence(posteriors)
    if len(given) < 2 or given[0].structure.symmetry:
        return given
    order, _ = canonical_order(given)
    try:
        model = import_module("decbayes.models.core.registry").model_for(given[0].structure)
        ordered = [given[site] for site in order]
        with np.errstate(all="ignore"):
            moved = model.recentred(ordered)
    except (StructureMismatch, np.linalg.LinAlgError, ArithmeticError):
        return given
    if all(now is before for now, before in zip(moved, ordered, strict=True)):
        return given
    by_site = dict(zip(order, moved, strict=True))
    return tuple(by_site[site] for site in range(len(given)))
