"""Whether a file is about these data: sums that do not depend on the fit must be theirs."""

from typing import Any

import numpy as np

from decbayes.families import Array, Family, dense
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior

# Relative to the largest sum of a factor: what rounding may change, and what belongs to other data.
SAME, DIFFERENT = 1e-8, 1e-5


def holds_sums_of(model: Model, posterior: Posterior, data: Any) -> bool:
    """Whether all sums over records that do not depend on what the model believes are those of the data.

    Of components only totals are compared: who belongs to which is a matter of belief, and small ones were joined.
    Where features were left out of the file, totals say nothing.
    """
    if not model.joins:
        return True
    believed = model.contributed(posterior, data)
    unsure = model.contributed(Posterior.of_prior(posterior.structure), data)
    for name, family in posterior.structure.families.items():
        stated, now, then = (totals(model, family, each.contribution[name]) for each in (posterior, believed, unsure))
        size = max(float(np.abs(now).max(initial=0.0)), 1.0)
        known = np.abs(now - then) <= SAME * size
        if (np.abs(stated - now)[known] > DIFFERENT * size).any():
            return False
    return True


def totals(model: Model, family: Family, contribution: Any) -> Array:
    """Sums over components; over all words, too, since counts of rare words are shared out."""
    rows = contribution.sum(axis=0) if hasattr(contribution, "tocsr") else dense(contribution).sum(axis=0)
    flat = np.asarray(rows, dtype=np.float64).ravel()
    together = model.unit == "word" or family.follows or family.over_components
    return np.array([flat.sum()]) if together else flat
