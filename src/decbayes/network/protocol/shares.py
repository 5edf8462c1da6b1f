"""How much of all evidence one member may count for."""

import numpy as np

from decbayes.families import Array


def within_share(units: Array, share: float) -> Array:
    """By how much each member's evidence is scaled down, so that none has more than its share of what then counts.

    That is min(1, C / e) with the largest C ≤ share · Σ_j min(e_j, C). Of fewer members than 1 / share no such C holds;
    then all count alike.
    """
    if share >= 1.0:
        return np.ones(len(units))
    rising = np.sort(units)
    # With the largest m members capped, C = share · (C m + what the others have).
    for capped in range(len(rising) + 1):
        others = rising[: len(rising) - capped].sum()
        if share * capped >= 1.0:
            break
        level = share * others / (1.0 - share * capped)
        if capped == len(rising) or rising[-capped - 1] <= level:
            return np.asarray(np.minimum(1.0, max(level, rising[0]) / np.maximum(units, 1.0)))
    return np.asarray(np.minimum(1.0, rising[0] / np.maximum(units, 1.0)))
