"""Poisson regression: how often something happens."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr, pdtr

from decbayes.columns import Column, Poisson
from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.models.regressions.messages import doubts
from decbayes.models.regressions.outcome import Approximation, Generalized, Outcome
from decbayes.models.regressions.private.bounded_scores import CountScores, Scores
from decbayes.models.regressions.regression import Regression
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

# Larger exponents overflow; nothing happens that often.
MOST = 300.0
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
STEPS = 100


class PoissonOutcome(Generalized):
    """A count is Poisson with the mean exp(f)."""

    holds: ClassVar[type[Column]] = Poisson
    mean_is: ClassVar[str] = "the mean count"
    new: ClassVar[str] = "count"
    ratio: ClassVar[str] = "rate ratio"
    common: ClassVar[tuple[float, ...]] = (0.0,)
    recentres: ClassVar[bool] = True
    proportional: ClassVar[bool] = True
    anchors: ClassVar[tuple[float, ...]] = ()

    def check_targets(self, name: str, targets: Array) -> None:
        if not ((targets >= 0) & (targets == np.rint(targets))).all():
            raise InvalidData(f"The target '{name}' must be a count (0, 1, 2, …) in every row.")

    def expectations(self, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        rate = np.exp(np.minimum(mean + 0.5 * variance, MOST))
        return targets * mean - rate - gammaln(targets + 1), targets - rate, rate

    def most_of_one(self, value: float) -> tuple[float, float]:
        # No row may weigh more than the largest count: w is the count that the posterior expects, and E[f] ≤ log w.
        return value * (2.0 + np.log1p(value)) + 1.0, value

    def remarks(self, targets: Array, mean: Array, weights: Array, side: int) -> Iterator[Remark]:
        return doubts.of_counts(targets, np.exp(np.minimum(mean, MOST)), weights, side)

    def broadcast_remarks(self, targets: Array, mean: Array, weights: Array, design: Array) -> Iterator[Remark]:
        return doubts.of_one_broadcast(float(weights @ targets), np.inf, design.shape[1], separated=False)

    def scores(self, column: Column) -> Scores:
        return CountScores(float(getattr(column, "mean", 1.0)))

    def beginning(self, targets: Array, offset: Array) -> Array:
        # Half an event more than observed per unit of exposure; without that, passes may diverge.
        return np.log(targets + 0.5 * np.exp(np.minimum(offset, MOST)))

    def log_density(self, natural: Array, mean: Array, variance: Array, targets: Array) -> Array:
        return log_poisson(targets, mean, np.maximum(variance, 1e-12))

    def predicted(self, natural: Array, mean: Array, variance: Array, level: float) -> dict[str, Array]:
        """The mean count; the interval is that of a new count."""
        low, high = (quantile(mean, variance, 0.5 + side * level) for side in (-0.5, 0.5))
        return {"mean": np.exp(np.minimum(mean + 0.5 * variance, MOST)), "low": low, "high": high}

    def draw(self, linear: Array, noise: float, rng: np.random.Generator) -> Array:
        # NumPy draws no counts beyond 1e18.
        rates = np.exp(np.minimum(linear, 40.0))
        return np.asarray(rng.poisson(rates), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class PoissonRegression(Regression):
    """How often something happens, from other columns: a count is Poisson with the mean exp(xβ).

    β ~ N(0, prior_variance · I). All else is as in `LogisticRegression`.

    >>> rng = np.random.default_rng(0)
    >>> ward = rng.choice(["bone", "heart"], 300)
    >>> patients = {"ward": ward, "visits": rng.poisson(np.where(ward == "heart", 6.0, 2.0))}
    >>> model = db.PoissonRegression.from_frame(patients, "visits ~ ward")
    >>> posterior = model.fit(patients).posterior
    >>> model.predict(posterior, {"ward": ["bone", "heart"]})["mean"].round()
    array([2., 6.])
    """

    approximation: Approximation = "variational"

    about: ClassVar[str] = "Predict a column of counts from other columns."
    command: ClassVar[str] = "poisson-regression"
    example: ClassVar[str] = "patients.csv --formula 'visits ~ age + sex'"
    outcome: ClassVar[Outcome] = PoissonOutcome()

    def dispersion_sums(self, posterior: Posterior, data: Any) -> tuple[float, float]:
        """Sums over rows, for the dispersion: the excess over Poisson variance, Σ [(y − μ)² n / (n − d) − μ], and Σ μ².

        >>> frame = {"visits": [0, 9, 0, 9, 1, 8], "ward": list("aabbab")}
        >>> model = db.PoissonRegression.from_frame(frame, "visits ~ ward")
        >>> extra, _ = model.dispersion_sums(model.fit(frame).posterior, frame)
        >>> extra > 0
        True
        """
        points = self.points(data)
        rows, (mean, variance) = self.table.rows(points), self.linear(posterior, points)
        expected = np.exp(np.minimum(mean + 0.5 * variance, MOST))
        count, side = float(rows.weights.sum()), rows.matrix.shape[1]
        squares = (rows.targets - expected) ** 2 * count / max(count - side, 1.0)
        return float(rows.weights @ (squares - expected)), float(rows.weights @ expected**2)


def log_poisson(counts: Array, mean: Array, variance: Array) -> Array:
    """log ∫ Poisson(y | exp f) N(f | mean, variance) df, with nodes around the peak of the integrand."""
    peak = integrand_peak(counts, mean, variance)
    wide = 1.0 / np.sqrt(np.exp(peak) + 1.0 / variance)
    f = peak[:, None] + wide[:, None] * NODES
    terms = counts[:, None] * f - np.exp(np.minimum(f, MOST)) - 0.5 * (f - mean[:, None]) ** 2 / variance[:, None]
    summed = logsumexp(terms + 0.5 * NODES**2 + np.log(WEIGHTS), axis=1)
    return np.asarray(summed + np.log(wide) - 0.5 * np.log(2 * np.pi * variance) - gammaln(counts + 1))


def integrand_peak(counts: Array, mean: Array, variance: Array) -> Array:
    """Where y f − exp(f) − (f − mean)² / 2 variance is highest; Newton's steps from the right never overshoot."""
    f = np.minimum(np.maximum(mean, np.log(counts + 1.0)), MOST)
    for _ in range(STEPS):
        rate = np.exp(f)
        step = (counts - rate - (f - mean) / variance) / (rate + 1.0 / variance)
        f = f + step
        if np.abs(step).max(initial=0.0) < 1e-10:
            break
    return np.asarray(f)


def quantile(mean: Array, variance: Array, share: float) -> Array:
    high = np.ceil(4.0 * np.exp(np.minimum(mean + 6.0 * np.sqrt(variance), MOST)) + 100.0)
    return smallest_count(lambda counts: at_most(counts, mean, variance), share, high)


def smallest_count(at_most: Callable[[Array], Array], share: float, high: Array) -> Array:
    """The smallest count y with P(Y ≤ y) ≥ share, by bisection below `high`."""
    low = np.full(len(high), -1.0)
    while (high - low > 1.0).any():
        middle = np.floor(0.5 * (low + high))
        enough = at_most(np.maximum(middle, 0.0)) >= share
        done = high - low <= 1.0
        low, high = np.where(enough | done, low, middle), np.where(enough & ~done, middle, high)
    return np.asarray(high)


def at_most(counts: Array, mean: Array, variance: Array) -> Array:
    """P(Y ≤ y) if the rate is exp(f), f ~ N(mean, variance).

    By quadrature over f or, if counts given f vary less than f does, over G in P(Y ≤ y | f) = P(G > exp f), G ~ Gamma(y
    + 1): nodes too far apart would turn it into steps. The cube root of G is nearly normal (Wilson and Hilferty).
    """
    deviation, weights = np.sqrt(np.maximum(variance, 1e-24)), WEIGHTS / WEIGHTS.sum()
    rates = np.exp(np.minimum(mean[:, None] + deviation[:, None] * NODES, MOST))
    shape = counts[:, None] + 1.0
    roots = np.maximum(1.0 - 1.0 / (9.0 * shape) + NODES / (3.0 * np.sqrt(shape)), 1e-9)
    over_gamma = ndtr((np.log(shape) + 3.0 * np.log(roots) - mean[:, None]) / deviation[:, None]) @ weights
    over_rates = pdtr(counts[:, None], rates) @ weights
    return np.asarray(np.where(variance * (counts + 1.0) > 4.0, over_gamma, over_rates))
