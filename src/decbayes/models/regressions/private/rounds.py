"""Private releases of regressions: slopes and weights at an anchor, round by round, and Newton steps from these.

Each row adds its slope g·x and its weight w·xxᵀ at public coefficients. Rows are weighted by min(1, R/‖x‖)², R = √p,
which depends only on predictors. Each round gives an estimate of the coefficients; estimates are averaged by their
precision: by their noise, and by the distance of the anchor, since Newton steps from afar are less accurate.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.calibrated import Calibration
from decbayes.errors import NotPrivate
from decbayes.families import Array, GaussianGamma
from decbayes.models.regressions.private.bounded_scores import RealScores
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.posterior import Posterior
from decbayes.privacy.mechanism import Estimate, Mechanism, Total, growing, packed, raised, unpacked

if TYPE_CHECKING:
    from decbayes.models.regressions.regression import Regression

METHOD = "noise of private releases, delta method"
# Shares of a statistic's squared norm: number of rows, squares of slopes (real outcomes), weights; the rest is slopes.
COUNT, SQUARES, WEIGHTS = 0.01, 0.04, 0.1
# Longest step of a round before the last, with coefficients in agreed units.
LONGEST = 1.0
LARGEST_COEFFICIENT = 20.0
LEAST_DEVIATION, MOST_DEVIATION = 0.02, 2.0
# Numbers this many agreed units from the centre are far outside.
FAR = 5.0


class Round(NamedTuple):
    """One round's sums, in the units of coefficients: Σh², Σψ², slopes, weights; and their noise."""

    rows: float
    squares: float
    slope: Array
    weight: Array
    anchor: Array
    noise: float
    slope_noise: float
    weight_noise: float


class Combined(NamedTuple):
    """Coefficients from several rounds, the precision of rows and prior, and the covariance of the noise."""

    mean: Array
    precision: Array
    noise: Array
    misfit: float


class RegressionMechanism(Mechanism):
    """The rounds of one regression."""

    budget_parts = growing(5)

    def __init__(self, model: "Regression") -> None:
        check_private(model)
        self.model, self.scores = model, model.outcome.scores(model.columns[model.target])
        self.useless, self.loss = self.scores.useless, self.scores.loss  # type: ignore[misc]
        self.side = len(model.table.design.labels)
        self.radius = float(np.sqrt(self.side))
        squares = SQUARES if self.scores.estimates_noise else 0.0
        self.parts = np.sqrt([COUNT, squares, 1.0 - COUNT - squares - WEIGHTS, WEIGHTS])

    @property
    def parameters(self) -> int:
        return self.side

    def size(self, number: int) -> int:
        return 1 + int(self.scores.estimates_noise) + self.side + self.side * (self.side + 1) // 2

    def start(self) -> Array:
        """The prior mean; the intercept is that of a typical outcome if the prior mean is zero."""
        mean, _ = self.model.outcome.moments(self.model.structure.prior[FACTOR])
        first = mean.copy()
        if not mean.any():
            first[self.constant_places] = self.scores.start
        return np.append(first, 1.0) if self.scores.estimates_noise else first

    @property
    def constant_places(self) -> Any:
        """The positions of the intercept, or of the levels in its place."""
        if self.model.stack is not None:
            return self.model.table.design.places([self.model.stack.name])
        return slice(0, int(self.model.table.intercept))

    def record_statistics(self, anchor: Array, data: Any, number: int) -> Array:
        return shortened(self.unshortened(anchor, data))

    def outside(self, data: Any) -> NDArray[np.bool_]:
        points = self.model.points(data)
        far = np.zeros(len(points), dtype=np.bool_)
        for column, values in zip(self.model.columns.values(), points.T, strict=True):
            if column.factor == "real":
                zero, unit = column.zero_and_unit
                far |= np.abs(values - zero) > FAR * unit
        return far

    def unshortened(self, anchor: Array, data: Any) -> Array:
        """The statistics before `shortened`: longer than 1 by rounding at most."""
        points, (size, zero) = self.model.points(data), self.model.target_units
        self.model.outcome.check_targets(self.model.target, points[:, self.model.table.target_place])
        rows = self.model.table.rows(points)
        # Column by column, not as a matrix product: a row's number must not depend on the number of rows.
        linear = rows.offset / size
        for column, coefficient in zip(rows.matrix.T, anchor, strict=False):
            linear = linear + column * coefficient
        deviation = float(anchor[-1]) if self.scores.estimates_noise else 1.0
        slope, weight, squares = self.scores.slopes((rows.targets - zero) / size, linear, rows.observation, deviation)
        heft = (self.radius**2 / np.maximum((rows.matrix**2).sum(axis=1), self.radius**2))[:, None]
        unit = rows.matrix / self.radius
        parts = [
            heft / np.bincount(rows.observation)[rows.observation, None],
            *([] if squares is None else [heft * squares[:, None]]),
            heft * (slope / self.scores.steepest)[:, None] * unit,
            heft * (weight / self.scores.heaviest)[:, None] * packed(unit[:, :, None] * unit[:, None, :]),
        ]
        scales = self.parts[[True, squares is not None, True, True]]
        statistics = np.concatenate([scale * part for scale, part in zip(scales, parts, strict=True)], axis=1)
        return by_observation(statistics, rows.observation, len(points))

    def estimate(self, totals: Sequence[Total], rate: float) -> Estimate:
        rounds = [self.unscaled(total) for total in totals]
        last, done = rounds[-1], len(rounds) == self.rounds
        rows = max(float(np.average([one.rows for one in rounds], weights=[one.noise**-2 for one in rounds])), 1.0)
        variance, unsure = self.variance(rounds, rows)
        family = self.model.outcome.family
        before = self.prior_precision()
        combined = combine(rounds, *before, self.scores.bend)
        sampling = np.asarray(variance * np.linalg.inv(combined.precision), dtype=np.float64)
        posterior = self.posterior(family, combined, sampling, variance, rows)
        price = float(np.sqrt(np.trace(sampling + combined.noise) / np.trace(sampling)))
        ahead = combined.mean if done else nearby(combined.mean, last.anchor[: self.side])
        ahead = ahead.clip(-LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)
        anchor = np.append(ahead, np.sqrt(variance + unsure)) if self.scores.estimates_noise else ahead
        quality = rows / totals[-1].copies * rate / self.side
        return Estimate(posterior, np.sqrt(np.diag(combined.noise)), combined.misfit, price, anchor, quality)

    def unscaled(self, total: Total) -> Round:
        count, squares, *_ = total.values
        first = 1 + int(self.scores.estimates_noise)
        middle = first + self.side
        slope_unit = self.scores.steepest * self.radius / self.parts[2]
        if self.scores.estimates_noise:
            slope_unit *= RealScores.reach * float(total.anchor[-1])
        weight_unit = self.scores.heaviest * self.radius**2 / self.parts[3]
        return Round(
            count / self.parts[0],
            squares / self.parts[1] if self.scores.estimates_noise else 0.0,
            total.values[first:middle] * slope_unit,
            unpacked(total.values[middle:], self.side) * weight_unit,
            total.anchor,
            total.deviation,
            total.deviation * slope_unit,
            total.deviation * weight_unit,
        )

    def variance(self, rounds: Sequence[Round], rows: float) -> tuple[float, float]:
        """The variance of the outcome's noise, and its uncertainty; 1 and 0 if there is no noise.

        Every round estimates it. The agreed unit of the target is a guess that counts if these estimates are all noise.
        """
        if not isinstance(self.scores, RealScores):
            return 1.0, 0.0
        variances, precisions = [1.0], [1.0]
        for one in rounds:
            clip = (RealScores.reach * float(one.anchor[-1])) ** 2
            mean_square = float(np.clip(one.squares / rows, 1e-3, 0.9))
            variances.append(self.scores.variance(mean_square, float(one.anchor[-1])))
            precisions.append((rows * self.parts[1] / (clip * one.noise)) ** 2)
        mean = float(np.average(variances, weights=precisions))
        return float(np.clip(mean, LEAST_DEVIATION**2, MOST_DEVIATION**2)), float(1.0 / np.sqrt(np.sum(precisions)))

    def prior_precision(self) -> tuple[Array, Array]:
        """Mean and precision of the coefficients before data; the latter in units of the noise's precision."""
        mean, covariance = self.model.outcome.moments(self.model.structure.prior[FACTOR])
        return mean, np.asarray(np.linalg.inv(covariance), dtype=np.float64)

    def posterior(self, family: Any, combined: Combined, sampling: Array, variance: float, rows: float) -> Posterior:
        covariance, structure = sampling + combined.noise, self.model.structure
        if isinstance(family, GaussianGamma):
            usual = family.parameters(structure.prior[FACTOR])
            shape = usual["shape"][0] + 0.5 * rows
            rate = usual["rate"][0] + 0.5 * rows * variance
            weight = np.linalg.inv(covariance) * rate / shape
            natural = family.natural(
                mean=combined.mean[None], scaled_precision=weight[None], shape=shape[None], rate=rate[None]
            )
        else:
            natural = family.natural(mean=combined.mean[None], covariance=covariance[None])
        plain = Posterior.from_natural(structure, {FACTOR: natural})
        deviations = {FACTOR: {name: plain.deviation(FACTOR, name) for name in plain.quantities(FACTOR)}}
        return Posterior(structure, plain.contribution, calibration=Calibration(METHOD, deviations))


def check_private(model: "Regression") -> None:
    """Refuse models without bounds."""
    kind = type(model).__name__
    if model.varying:
        raise NotPrivate(f"{kind} with terms that vary from site to site has no private release. Leave out `varying`.")
    if model.weights:
        raise NotPrivate(f"A weighted row is not one person: {kind} with weights has no private release.")


def by_observation(statistics: Array, observation: Any, count: int) -> Array:
    """Sums over the rows of each observation."""
    if len(observation) == count:
        return statistics
    sums = np.zeros((count, statistics.shape[1]))
    np.add.at(sums, observation, statistics)
    return sums


def shortened(statistics: Array) -> Array:
    """Statistics of norm at most 1, whatever the rounding."""
    norms = np.sqrt((statistics**2).sum(axis=1))
    return np.asarray(statistics / np.maximum(norms, 1.0)[:, None])


def nearby(target: Array, start: Array) -> Array:
    """The next place, or one on the way if the step is long: it may be noise."""
    step = target - start
    return np.asarray(start + step * min(1.0, LONGEST / max(float(np.linalg.norm(step)), 1e-300)))


def combine(rounds: Sequence[Round], centre: Array, precision: Array, bend: float) -> Combined:
    """One estimate from all rounds. The newest alone determines the distances of anchors, then all count."""
    side = len(centre)
    newest = estimates(rounds[-1:], [1.0], centre, precision, bend)
    if len(rounds) == 1:
        return newest
    # The first round has the least budget, and the farthest anchor.
    used = rounds[1:]
    spread = np.trace(np.linalg.inv(newest.precision) @ np.linalg.inv(newest.precision)) / side
    shares = [
        1.0 / (one.slope_noise**2 * spread + (0.5 * bend * np.sum((newest.mean - one.anchor[:side]) ** 2)) ** 2)
        for one in used
    ]
    return estimates(used, shares, centre, precision, bend)


def estimates(
    rounds: Sequence[Round], shares: Sequence[float], centre: Array, precision: Array, bend: float
) -> Combined:
    """Newton's step of each round, with the weights of all, averaged by their variances."""
    side, part = len(centre), np.array(shares) / np.sum(shares)
    weight_noise = float(np.sqrt(np.sum([(q * one.weight_noise) ** 2 for q, one in zip(part, rounds, strict=True)])))
    weight = sum(q * one.weight for q, one in zip(part, rounds, strict=True))
    whole = precision + raised(np.asarray(weight), weight_noise * np.sqrt(side))
    inverse = np.linalg.inv(whole)
    means, noises, errors = [], [], []
    for one in rounds:
        anchor = one.anchor[:side]
        step = inverse @ (one.slope - precision @ (anchor - centre))
        around = step @ step * np.eye(side) + np.outer(step, step)
        means.append(anchor + step)
        noises.append(inverse @ (one.slope_noise**2 * np.eye(side) + 0.5 * weight_noise**2 * around) @ inverse)
        errors.append((0.5 * bend * float(step @ step)) ** 2)
    exact = 1.0 / np.array([np.trace(noise) / side + error for noise, error in zip(noises, errors, strict=True)])
    exact /= exact.sum()
    mean = np.asarray(exact @ np.array(means))
    noise = np.asarray(np.einsum("t,tij->ij", exact**2, np.array(noises)))
    return Combined(mean, whole, noise, misfit_of(means, noises, errors, mean))


def misfit_of(means: Sequence[Array], noises: Sequence[Array], errors: Sequence[float], mean: Array) -> float:
    """The mean squared distance of rounds from their average, relative to noise and curvature."""
    if len(means) == 1:
        return 1.0
    side = len(mean)
    far = [
        (estimate - mean) @ np.linalg.solve(noise + error * np.eye(side), estimate - mean)
        for estimate, noise, error in zip(means, noises, errors, strict=True)
    ]
    return float(np.sum(far) / (side * (len(means) - 1)))
