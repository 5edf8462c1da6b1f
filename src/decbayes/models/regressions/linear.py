"""Linear regression with unknown noise: conjugate, so a merge of sites is the posterior of all their rows."""

from dataclasses import dataclass
from math import log, pi
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.special import gammaln, stdtrit

from decbayes.base.arguments import Above, check_positive
from decbayes.columns import Column, Gaussian
from decbayes.families import Array, GaussianGamma
from decbayes.models.core.information import Tally
from decbayes.models.core.points import check_rounding, check_structure
from decbayes.models.regressions.formulas.design import Design
from decbayes.models.regressions.outcome import Outcome
from decbayes.models.regressions.private.bounded_scores import RealScores
from decbayes.models.regressions.regression import Regression
from decbayes.models.regressions.varying.climb import FACTOR, Climb, Natural, Place, Problem
from decbayes.models.regressions.varying.site_effects import SiteEffects
from decbayes.posterior import Posterior

# The least share of the noise that a fit of hardly more rows than coefficients is taken to leave.
LEAST_NOISE = 0.05


class Linear(Outcome):
    """y ~ N(f, 1/τ) with τ ~ Gamma and β | τ ~ N(0, prior_variance / τ)."""

    holds: ClassVar[type[Column]] = Gaussian
    family: ClassVar[GaussianGamma] = GaussianGamma()
    mean_is: ClassVar[str] = "the expected value"
    new: ClassVar[str] = "value"

    def units(self, column: Column) -> tuple[float, float]:
        zero, size = column.zero_and_unit
        return size, zero

    def prior(self, side: int, settings: Any) -> Array:
        shape = 0.5 * float(settings.prior_degrees)
        weight, rate = np.eye(side) / float(settings.prior_variance), shape * float(settings.prior_noise)
        return self.family.natural(mean=np.zeros((1, side)), scaled_precision=weight, shape=shape, rate=rate)

    def settings(self, prior: Array) -> dict[str, float]:
        usual = self.family.parameters(prior)
        shape = float(usual["shape"][0])
        variance = 1.0 / float(usual["scaled_precision"][0, 0, 0])
        noise = float(usual["rate"][0]) / shape
        return {"prior_variance": variance, "prior_noise": noise, "prior_degrees": 2.0 * shape}

    def moments(self, natural: Array) -> tuple[Array, Array]:
        (mean,), (weight,), _, _ = self.family.columns(natural)
        return mean, np.asarray(np.linalg.inv(weight))

    def noise(self, natural: Array) -> float:
        _, _, (shape,), (rate,) = self.family.columns(natural)
        return float(rate / shape)

    def fitted_noise(self, rows: float, coefficients: int) -> float:
        return max(1.0 - coefficients / rows, LEAST_NOISE)

    def reach(self, natural: Array, level: float) -> float:
        _, _, (shape,), _ = self.family.columns(natural)
        return float(stdtrit(2.0 * shape, 0.5 + 0.5 * level))

    def deviation(self, natural: Array, scale: Array) -> Array:
        _, _, (shape,), _ = self.family.columns(natural)
        return scale * (np.sqrt(shape / (shape - 1.0)) if shape > 1.0 else np.inf)

    def scores(self, column: Column) -> RealScores:
        return RealScores()

    def climb(self, problem: Problem) -> "ConjugateClimb":
        return ConjugateClimb(self, problem)

    def slopes(self, natural: Array, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        weights = np.full(len(targets), 1.0 / self.noise(natural))
        return (targets - mean) * weights, weights

    def log_given(self, targets: Array, linear: Array, noise: float) -> Array:
        return np.asarray(-0.5 * ((targets - linear) / noise) ** 2 - log(noise) - 0.5 * log(2 * pi))

    def log_density(self, natural: Array, mean: Array, variance: Array, targets: Array) -> Array:
        _, _, shape, rate = self.family.columns(natural)
        return log_student(targets, mean, student_scale(shape, rate, variance), 2.0 * shape)

    def predicted(self, natural: Array, mean: Array, variance: Array, level: float) -> dict[str, Array]:
        """The interval is that of a new value, noise included."""
        _, _, shape, rate = self.family.columns(natural)
        reach = self.reach(natural, level) * student_scale(shape, rate, variance)
        return {"mean": mean, "low": mean - reach, "high": mean + reach}

    def drawn(self, parameters: Any) -> tuple[Array, float]:
        return np.asarray(parameters.mean[0]), float(1.0 / np.sqrt(parameters.precision[0]))

    def draw(self, linear: Array, noise: float, rng: np.random.Generator) -> Array:
        return np.asarray(linear + rng.standard_normal(len(linear)) * noise)

    def tally(self, contribution: Array, design: Design, varies: bool) -> Tally:
        count, ones = 2.0 * contribution[:, 0], design.ones(contribution)
        # Variation between sites absorbs a part of the precision.
        same = {"intercept": ones[:1] - count} if design.intercept and not varies else {}
        return Tally(count, count, same, within={FACTOR: ones[None, :]})

    def largest_contribution(self, design: Array, value: float, target: float) -> Array:
        squares = 0.5 * np.outer(design, design).ravel()
        return np.concatenate([[0.5, 0.5 * target**2], design * target, squares])[None, :]


class ConjugateClimb(Climb):
    """Given Λ, the posterior of coefficients and noise is exact; if something varies, passes find Λ."""

    def __init__(self, outcome: Linear, problem: Problem) -> None:
        self.outcome, self.problem, self.variation = outcome, problem, problem.variation
        self.before, self.exact = problem.before, not problem.variation.there
        targets, weights = problem.targets - problem.offset, problem.weights
        self.count, self.square = float(weights.sum()), float((weights * targets) @ targets)
        self.shift, self.precision = problem.rows.sums(weights * targets, weights)

    def begin(self, start: Natural | None) -> Place:
        known = self.before if start is None else start
        return self.place({grouping.factor: known[grouping.factor] for grouping in self.variation.groupings})

    def place(self, between: Natural) -> Place:
        """The coefficients given the precisions between sites, and the bound of both."""
        effects, family, problem = self.effects(between), self.outcome.family, self.problem
        after = self.before[FACTOR] + self.contribution(effects)
        check_rounding(0.0 if family.contains(after) else np.inf)
        gained = family.log_partition(after) - family.log_partition(self.before[FACTOR])
        bound = gained - self.count * (0.5 * log(2 * pi) + log(problem.unit))
        if self.variation.there:
            counts = len(problem.groups.sites), len(problem.groups.parents)
            bound += 0.5 * effects.log_spread()
            for grouping, count in zip(self.variation.groupings, counts, strict=False):
                bound += 0.5 * count * grouping.log_determinant(between)
                bound -= grouping.family.kl(between[grouping.factor], self.before[grouping.factor])
        return Place({FACTOR: after, **between}, float(bound))

    def step(self, reached: Place) -> tuple[Place, float]:
        place = self.place(self.updated_variation(reached.natural))
        return place, place.bound

    def updated_variation(self, natural: Natural) -> dict[str, Array]:
        """The precisions between sites, given the coefficients."""
        squares = self.effects(natural).squares(self.outcome.expected(natural, self.problem.side))
        return self.variation.updated(self.before, squares)

    def effects(self, natural: Natural) -> SiteEffects:
        return self.problem.effects(self.shift, self.precision, natural)

    def contribution(self, effects: SiteEffects) -> Array:
        """(1, d): (½N, −½yᵀy, Xᵀy, −½XᵀX) of the rows, minus what integrating out site deviations loses."""
        shift, precision, square = effects.hidden()
        first = np.array([0.5 * self.count, -0.5 * self.square + square])
        last = self.shift.sum(axis=0) - shift, -0.5 * (self.precision.sum(axis=0) - precision).ravel()
        return np.concatenate([first, *last])[None, :]

    def marginal(self, effects: SiteEffects) -> tuple[Array, float]:
        return self.contribution(effects), 0.0

    def contributed(self, natural: Natural) -> dict[str, Array]:
        return self.begin(natural).natural | (self.updated_variation(natural) if self.variation.there else {})


@dataclass(frozen=True, kw_only=True)
class LinearRegression(Regression):
    """How a real column depends on others, with noise of unknown size: the merge of sites is the posterior of all rows.

        y ~ N(xβ, 1/τ),   τ ~ Gamma,   β | τ ~ N(0, prior_variance / τ)

    `from_frame` takes a formula and infers the columns. `target`, `columns`, `terms` and `intercept` say the same one
    by one; see `decbayes.columns` for what columns hold. `varying` are terms, or "intercept", that vary between sites;
    `by` is the column that names sites, if rows are from several.

    A coefficient's prior variance is `prior_variance` times that of the noise. The noise variance has the prior mean
    `prior_noise`, in squared units of the target, with the weight of `prior_degrees` observations. The prior variance
    between sites is `prior_between`, in variances of the noise, with the weight of `between_degrees` sites.

    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(50, 10, 200)
    >>> patients = {"age": age, "pressure": 80 + 0.8 * age + rng.normal(0, 5, 200)}
    >>> model = db.LinearRegression.from_frame(patients, "pressure ~ age")
    >>> rows = model.points(patients)
    >>> merged = db.merge([model.fit(rows[:100]).posterior, model.fit(rows[100:]).posterior])
    >>> [f"{row['term']}: {row['low']:.2f} to {row['high']:.2f}" for row in model.coefficients(merged)][1:]
    ['age: 0.70 to 0.83']
    >>> model.predict(merged, {"age": [60.0]})["mean"].round()
    array([127.])
    """

    prior_variance: Annotated[float, "Prior variance of coefficients, in variances of the noise.", Above(0)] = 100.0
    prior_noise: Annotated[float, "The prior noise variance, in the target's own squared units.", Above(0)] = 0.5
    prior_degrees: Annotated[float, "Weight of the prior noise, in observations.", Above(0)] = 1.0

    about: ClassVar[str] = "Predict a real column from other columns; merges are exact."
    command: ClassVar[str] = "linear-regression"
    example: ClassVar[str] = "patients.csv --formula 'pressure ~ age + sex'"
    outcome: ClassVar[Outcome] = Linear()

    def __post_init__(self) -> None:
        check_positive(prior_noise=self.prior_noise, prior_degrees=self.prior_degrees)
        super().__post_init__()

    def noise(self, posterior: Posterior) -> float:
        """The standard deviation of the noise, in the target's own unit, at its mean precision."""
        check_structure(posterior, self.structure, "posterior")
        return float(self.target_units[0] * self.outcome.noise(posterior.natural[FACTOR]) ** 0.5)


def student_scale(shape: Array, rate: Array, variance: Array) -> Array:
    """The scale of y if its mean has this variance, in units of a noise variance with Gamma precision."""
    return np.asarray(np.sqrt(rate / shape * (1.0 + variance)))


def log_student(y: Array, mean: Array, scale: Array, degrees: Array) -> Array:
    """The log density of Student's t."""
    constant = gammaln(0.5 * (degrees + 1)) - gammaln(0.5 * degrees) - 0.5 * np.log(degrees * pi)
    return np.asarray(constant - np.log(scale) - 0.5 * (degrees + 1) * np.log1p(((y - mean) / scale) ** 2 / degrees))
