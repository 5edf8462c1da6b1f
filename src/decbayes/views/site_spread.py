"""How far sites differ in one number, in terms of meta-analysis: I², τ² and the interval for another site."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt

import numpy as np
from scipy.special import ndtr

from decbayes.families import Array
from decbayes.views.values import Interval

FEWEST = 3  # sites needed for a prediction interval
# The prior median of τ in typical standard errors; with a smaller one, intervals contain too few further sites.
SCALE = 4.0
STEPS = 100  # values of τ to average over, and bisections for a quantile


@dataclass(frozen=True)
class Pooling:
    """Between-site spread by DerSimonian and Laird.

    Attributes:
        i_squared: the share of the variation between sites that is not chance, 0 to 1.
        tau_squared: the variance between sites.
        prediction: the interval for the value of another site; None with fewer than three sites.

    >>> from decbayes.views.site_spread import pool_sites
    >>> pool_sites([0.0, 0.1, 1.0], [0.1, 0.1, 0.1]).i_squared.__round__(2)
    0.98
    """

    i_squared: float
    tau_squared: float
    prediction: Interval | None = None


def pool_sites(means: Sequence[float], deviations: Sequence[float], level: float = 0.9) -> Pooling | None:
    """The spread of the sites' estimates; None if there are fewer than two.

        Q = Σ w (x − x̄)²,  w = 1 / s²,  I² = 1 − (k − 1) / Q,  τ² = (Q − (k − 1)) / (Σw − Σw² / Σw)

    The prediction interval averages over τ, which is uncertain if sites are few (see `further_site`).
    """
    values, weights = np.asarray(means, dtype=float), np.asarray(deviations, dtype=float) ** -2.0
    count = len(values)
    if count < 2:
        return None
    centre = float(weights @ values / weights.sum())
    excess = float(weights @ (values - centre) ** 2) - (count - 1)
    room = float(weights.sum() - (weights**2).sum() / weights.sum())
    tau_squared = max(excess, 0.0) / room if room > 0 else nan
    i_squared = max(excess, 0.0) / (excess + count - 1) if excess + count - 1 > 0 else 0.0
    prediction = further_site(values, weights, level) if count >= FEWEST else None
    return Pooling(i_squared, tau_squared, prediction)


def further_site(values: Array, weights: Array, level: float) -> Interval:
    """The interval for the value of another site, with τ ~ half-Cauchy and a flat prior on the mean.

    p(τ | x) ∝ p(τ) (Σ_i w_i)^−½ Π_i w_i^½ exp(−½ w_i (x_i − μ_τ)²)
        w_i = 1 / (s_i² + τ²),  μ_τ = Σ w_i x_i / Σ w_i
    """
    tau = SCALE / sqrt(weights.mean()) * np.tan((np.arange(STEPS) + 0.5) * np.pi / (2 * STEPS))
    at = 1.0 / (1.0 / weights[:, None] + tau**2)
    total = at.sum(axis=0)
    means = (at * values[:, None]).sum(axis=0) / total
    log_odds = 0.5 * (np.log(at).sum(axis=0) - np.log(total) - (at * (values[:, None] - means) ** 2).sum(axis=0))
    odds = np.exp(log_odds - log_odds.max())
    odds, spread = odds / odds.sum(), np.sqrt(1.0 / total + tau**2)

    def quantile(share: float) -> float:
        low, high = float((means - 40.0 * spread).min()), float((means + 40.0 * spread).max())
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            below = float(odds @ ndtr((middle - means) / spread)) < share
            low, high = (middle, high) if below else (low, middle)
        return middle

    return Interval(float(odds @ means), quantile(0.5 - level / 2), quantile(0.5 + level / 2))
