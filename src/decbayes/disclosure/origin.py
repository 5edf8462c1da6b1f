"""Whether a file was made from given data: sums that do not depend on the fit must agree."""

from typing import Any, Literal

import numpy as np

from decbayes.errors import InvalidPosterior
from decbayes.families import Array, Family, dense
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior

Made = Literal["fit", "round", "on top"]
"""How a file was made: by a fit of these data alone, in a later round, or on top of earlier data."""

# Relative to the largest sum of a factor: differences by rounding, differences that show other data, and how far from
# its fixed point a fit may have ended.
SAME, DIFFERENT, CONVERGED = 1e-8, 1e-5, 1e-3


def holds_sums_of(model: Model, posterior: Posterior, data: Any, made: Made = "fit") -> bool | None:
    """Whether the sums in a file that do not depend on the fit are those of the data; None if there are no such sums.

    With components only totals are compared, because assignments are uncertain and small components were joined.
    Without components all sums of a fit must agree at its posterior. Totals say nothing if features were left out.
    """
    if not model.joins or made == "on top":
        return None
    beliefs = (posterior, *model.site_beliefs(posterior)) if made == "fit" else (posterior,)
    answers = [holds_sums_at(model, posterior, belief, data, made) for belief in dict.fromkeys(beliefs)]
    return True if True in answers else answers[0]


def holds_sums_at(model: Model, posterior: Posterior, belief: Posterior, data: Any, made: Made) -> bool | None:
    """The same, for sums computed at this belief."""
    alone = made == "fit" and not posterior.structure.symmetry
    try:
        believed = model.contributed(belief, data)
        unsure = believed if alone else model.contributed(Posterior.of_prior(posterior.structure), data)
    except InvalidPosterior:
        return None  # a vague belief expects so many counts that rounding leaves nothing of the prior
    compared = 0
    for name, family in posterior.structure.families.items():
        stated, now, then = (totals(model, family, one.contribution[name]) for one in (posterior, believed, unsure))
        size = max(float(np.abs(now).max(initial=0.0)), 1.0)
        known = np.abs(now - then) <= SAME * size
        compared += int(known.sum())
        if (np.abs(stated - now)[known] > (CONVERGED if alone else DIFFERENT) * size).any():
            return False
    return True if compared else None


def totals(model: Model, family: Family, contribution: Any) -> Array:
    """Sums over components, and over words, because counts of rare words are shared out."""
    rows = contribution.sum(axis=0) if hasattr(contribution, "tocsr") else dense(contribution).sum(axis=0)
    flat = np.asarray(rows, dtype=np.float64).ravel()
    together = model.unit == "word" or family.follows or family.over_components
    return np.array([flat.sum()]) if together else flat
