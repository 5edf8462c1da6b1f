"""How far sites differ in one number, in the terms of meta-analysis: I², τ² and the interval for a further site."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt

import numpy as np

from decbayes.views.values import Interval

FEWEST = 3  # sites for a prediction interval


@dataclass(frozen=True)
class Pooling:
    """Between-site spread by DerSimonian and Laird.

    Attributes:
        i_squared: the share of the variation between sites that is no chance, 0 to 1.
        tau_squared: the variance between sites.
        prediction: where the value of a further site is expected; None with fewer than three sites.

    >>> from decbayes.views.pooling import pooled
    >>> pooled([0.0, 0.1, 1.0], [0.1, 0.1, 0.1]).i_squared.__round__(2)
    0.98
    """

    i_squared: float
    tau_squared: float
    prediction: Interval | None = None


def pooled(means: Sequence[float], deviations: Sequence[float], level: float = 0.9) -> Pooling | None:
    """The spread of several sites' estimates; None if there are fewer than two.

        Q = Σ w (x − x̄)²,  w = 1 / s²,  I² = 1 − (k − 1) / Q,  τ² = (Q − (k − 1)) / (Σw − Σw² / Σw)

    The prediction interval has k − 2 degrees of freedom (Higgins, Thompson and Spiegelhalter, 2009).
    """
    from scipy.stats import t

    values, weights = np.asarray(means, dtype=float), np.asarray(deviations, dtype=float) ** -2.0
    count = len(values)
    if count < 2:
        return None
    centre = float(weights @ values / weights.sum())
    excess = float(weights @ (values - centre) ** 2) - (count - 1)
    room = float(weights.sum() - (weights**2).sum() / weights.sum())
    tau_squared = max(excess, 0.0) / room if room > 0 else nan
    i_squared = max(excess, 0.0) / (excess + count - 1) if excess + count - 1 > 0 else 0.0
    if count < FEWEST:
        return Pooling(i_squared, tau_squared)
    random = 1.0 / (1.0 / weights + tau_squared)
    middle = float(random @ values / random.sum())
    reach = float(t.ppf(0.5 + level / 2, count - 2)) * sqrt(tau_squared + 1.0 / float(random.sum()))
    return Pooling(i_squared, tau_squared, Interval(middle, middle - reach, middle + reach))
