"""Rows like those behind a contribution, to simulate sites of a regression whose outcome is not Gaussian.

A contribution has P = Σ_n w_n x_n x_nᵀ: with an intercept, the number, the mean and the covariance of the rows x
weighted by w. A pool of rows with such moments is drawn. A simulated site takes rows of the pool with probabilities in
proportion to 1 / w, as many as give the total weight of the site:

    n = P_00 E_w[1 / w],    w = −E[∂² log p(y|f) / ∂f²] at the posterior where the site expanded its likelihood

They are then moved and stretched to the moments of the site again. Without this they would hold less information than
the site in its weakest directions, because a sample of a sample is narrower there, and differ too much.

With an offset, n is the total exposure, and nobody knows how many rows share it. For Poisson counts it does not matter:
rows with the same x are as good as one row with the sum of their exposures. So any number of rows is taken, each with
the same part of n.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from decbayes.columns import Gaussian
from decbayes.errors import NotCalibrated
from decbayes.families import Array, dense
from decbayes.models.regressions.outcome import Generalized
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.models.regressions.regression import Regression

# The size of the pool, and how many times more often than usual a row is taken at most.
POOL, MOST_TIMES = 2000, 20.0
# Rows that share the exposure of a site if there is an offset: enough for all shapes of a few columns.
SHARING = 200
# Targets drawn for each row of the pool: the weight of a count of unknown spread depends on it, and its mean is needed.
DRAWS = 20
# Tolerance of x² = x for a column of zeros and ones.
BINARY = 1e-6


@dataclass(frozen=True)
class RowsLike:
    """A pool of rows of a design like those of one site.

    Attributes:
        model: the regression on the columns of the design.
        rows: the pool.
        probabilities: how likely a simulated site takes each row.
        count: the number of rows that it takes.
        exposure: that of each row.
        precision: Σ w x xᵀ of the real site.
    """

    model: "Regression"
    rows: Array
    probabilities: Array
    count: int
    exposure: float
    precision: Array

    @classmethod
    def behind(
        cls, model: "Regression", posterior: Posterior, at: Posterior, most: float, rng: np.random.Generator
    ) -> "RowsLike":
        """Rows like those behind a posterior that was expanded `at` one, but no more than `most`."""
        outcome = model.outcome
        if model.stack is not None:
            raise NotCalibrated(
                "there is no such test for this kind of outcome yet. Compare the sites' estimates, or let terms "
                "differ between sites (--varying)."
            )
        if model.weights or (model.offset and not outcome.proportional):
            raise NotCalibrated("there is no such test for weights, nor for an offset unless counts are Poisson.")
        if not isinstance(outcome, Generalized) or not model.intercept or model.varying:
            raise NotCalibrated("the test needs an intercept, and no terms that vary.")
        side = len(model.table.design.labels)
        precision = -2.0 * dense(posterior.contribution[FACTOR])[0, side:].reshape(side, side)
        rows = drawn_rows(precision, rng)
        mean, covariance = outcome.moments(at.natural[FACTOR])
        linear, variance = rows @ mean, np.einsum("nd,de,ne->n", rows, covariance, rows)
        drawn = [outcome.expectations(outcome.draw(linear, 1.0, rng), linear, variance)[2] for _ in range(DRAWS)]
        times = 1.0 / np.maximum(np.mean(drawn, axis=0), 1e-9)
        times = np.minimum(times, MOST_TIMES * np.median(times))
        total = float(precision[0, 0] * times.mean())
        count = SHARING if model.offset else max(round(min(total, most)), 1)
        return cls(
            on_design(model), rows, times / times.sum(), count, total / count if model.offset else 1.0, precision
        )

    def redrawn(self, parameters: Any, rng: np.random.Generator) -> Array:
        """Rows of a simulated site with their targets, if these are the parameters."""
        places = rng.choice(len(self.rows), size=self.count, p=self.probabilities)
        taken = with_moments(self.rows[places], 1.0 / self.probabilities[places], self.precision)
        coefficients, noise = self.model.outcome.drawn(parameters)
        offset = np.full(self.count, np.log(self.exposure))
        targets = self.model.outcome.draw(taken @ coefficients + offset, noise, rng)
        return np.column_stack([taken[:, 1:], offset, targets])

    def refitted(self, data: Array, *, first: bool = False) -> Posterior:
        """What a site with these rows would send, in a first broadcast or as a fit."""
        fit = self.model.fit_site if first else self.model.fit
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # columns far from their agreed centre are those of the real site
            return fit(data).posterior


def drawn_rows(precision: Array, rng: np.random.Generator) -> Array:
    """Rows with the weighted mean and covariance of a site's rows, their first column the intercept."""
    mean, covariance = moments_of(precision)
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
        raise NotCalibrated("Rows like those of a site cannot be simulated: no rows have such sums.")
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.where(deviation > 0.0, deviation, 1.0)
    values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    normal = rng.standard_normal((POOL, len(mean))) * np.sqrt(np.maximum(values, 0.0)) @ axes.T
    binary = np.abs(np.diag(precision) - precision[0]) <= BINARY * precision[0, 0]
    ones = normal > ndtri(1.0 - np.clip(mean, 1e-12, 1.0 - 1e-12))
    rows = np.where(binary, ones, mean + deviation * normal)
    rows[:, 0] = 1.0
    return np.asarray(rows)


def moments_of(precision: Array, levels: Sequence[int] = (0,)) -> tuple[Array, Array]:
    """The mean and covariance of rows x by their weights, from Σ w x xᵀ; not finite if there are none.

    Each row has a one at one of the `levels`: the intercept, or those of a baseline.
    """
    sums = precision[list(levels)].sum(axis=0)
    with np.errstate(all="ignore"):
        total = sums[list(levels)].sum()
        mean = sums / total
        return mean, precision / total - np.outer(mean, mean)


def with_moments(rows: Array, weights: Array, precision: Array) -> Array:
    """The rows, moved and stretched so that their weighted mean and covariance are those of Σ w x xᵀ.

    Directions in which the rows do not vary stay constant.
    """
    (before, spread), (mean, covariance) = map(moments_of, ((weights[:, None] * rows).T @ rows, precision))
    stretch = np.linalg.pinv(square_root(spread), hermitian=True) @ square_root(covariance)
    return np.asarray(mean + (rows - before) @ stretch)


def square_root(covariance: Array) -> Array:
    values, axes = np.linalg.eigh(covariance)
    return np.asarray(axes * np.sqrt(np.maximum(values, 0.0)) @ axes.T)


def on_design(model: "Regression") -> "Regression":
    """The same regression; its data are the columns of the design, except the intercept, an offset and the target."""
    target = model.columns[model.target]
    names = [f"column {place}" for place in range(1, len(model.table.design.labels))]
    columns = {name: Gaussian(0.0, 1.0) for name in (*names, "offset")} | {"target": target}
    return replace(model, target="target", columns=columns, terms=tuple(names), offset="offset" if model.offset else "")
