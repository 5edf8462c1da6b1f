"""Moves first broadcasts to their common centre before they are added; `Model.recentred` knows how. `Model.compared`
knows in what sites may differ before they are compared.

Every kind of merge calls this, so that all give the same posterior, except secure sums, whose terms nobody sees.
"""

from collections.abc import Sequence
from importlib import import_module

import numpy as np

from decbayes.errors import StructureMismatch
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.base.coupled import as_sequence
from decbayes.merging.base.equal_noise import at_equal_noise
from decbayes.merging.base.usual_spread import at_usual_spread
from decbayes.posterior import Posterior


def recentred(posteriors: Sequence[Posterior]) -> Sequence[Posterior]:
    """The posteriors as they are to be added, with the same bits in any order; most stay unchanged."""
    return by_model(posteriors, "recentred")


def compared(posteriors: Sequence[Posterior]) -> Sequence[Posterior]:
    """The posteriors as they are to be compared: regressions may let terms vary, linear ones have other noise, and some
    claim to know coefficients better than they do."""
    return at_usual_spread(at_equal_noise(by_model(posteriors, "compared")), posteriors)


def in_other_units(posteriors: Sequence[Posterior]) -> dict[int, str]:
    """A column of each site that seems to have one in another unit than the others."""
    try:
        model = import_module("decbayes.models.core.registry").model_for(posteriors[0].structure)
        with np.errstate(all="ignore"):
            return {site: column for site, column, _ in model.other_units(posteriors)}
    except (StructureMismatch, np.linalg.LinAlgError, ArithmeticError):
        return {}


def by_model(posteriors: Sequence[Posterior], method: str) -> Sequence[Posterior]:
    """What a method of the model makes of all posteriors, with the same bits in any order.

    Only models without components to align are asked, by name. Posteriors that the model cannot compute with stay
    unchanged: the merge then decides whether their sum is a posterior, and whom to blame if not.
    """
    given = as_sequence(posteriors)
    if len(given) < 2 or given[0].structure.symmetry:
        return given
    order, _ = canonical_order(given)
    try:
        model = import_module("decbayes.models.core.registry").model_for(given[0].structure)
        ordered = [given[site] for site in order]
        with np.errstate(all="ignore"):
            moved = getattr(model, method)(ordered)
    except (StructureMismatch, np.linalg.LinAlgError, ArithmeticError):
        return given
    if all(now is before for now, before in zip(moved, ordered, strict=True)):
        return given
    by_site = dict(zip(order, moved, strict=True))
    return tuple(by_site[site] for site in range(len(given)))
