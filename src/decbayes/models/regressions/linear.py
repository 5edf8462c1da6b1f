"""Linear regression with unknown noise: conjugate, so that a merge of sites is the posterior of all their rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, pi
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from decbayes.arguments import Seed, given_generator
from decbayes.families import Array, Gamma, MeanAndPrecision, dense
from decbayes.models.core.ascent import Ascent, Fit, OnPass, Pass, fit_best
from decbayes.models.core.information import Tally
from decbayes.models.core.points import check_evidence, check_rounding, check_structure
from decbayes.models.regressions._linear_likelihood import LinearTable, log_student, student_scale
from decbayes.models.regressions._site_effects import SiteEffects, between_contribution, numbered, rows_by
from decbayes.models.regressions._varying import BETWEEN
from decbayes.models.regressions.regression import Regression
from decbayes.models.regressions.table import FACTOR
from decbayes.posterior import Posterior


@dataclass(frozen=True)
class LinearRegression(LinearTable, Regression):
    """y ~ N(xβ, 1/τ) with τ ~ Gamma and β | τ ~ N(0, prior_variance / τ): exact, merged or not.

    A coefficient's prior variance is `prior_variance` times that of the noise. The noise's own variance has the prior
    mean `prior_noise`, in squared units of the target, with the weight of `prior_degrees` observations. Where something
    varies from site to site, `prior_between` is in variances of the noise, too.
    """

    about: ClassVar[str] = "A real column from others, where a merge is exact."
    command: ClassVar[str] = "linear-regression"
    example: ClassVar[str] = "patients.csv --formula 'pressure ~ age + sex'"

    def fit(
        self,
        data: Any,
        *,
        rng: Seed | None = None,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
    ) -> Fit:
        """The exact posterior, in one pass; `rng` and `start` are accepted, as every model does, and change nothing.

        Where something varies from site to site, passes find out how far, from `start` if given.
        """
        given_generator(rng)
        check_evidence(self.structure, prior, start)
        before, rows = dict((prior or Posterior.of_prior(self.structure)).natural), self._rows(data)
        begin = before if start is None else start.natural
        if not self.varying:
            here = self._place(before, rows, {})
            if progress is not None:
                progress(Pass(0, 1, here.bound))
            return Fit(Posterior.from_natural(self.structure, here.natural), (here.bound,), True)
        return fit_best(
            lambda: self._place(before, rows, {BETWEEN: begin[BETWEEN]}),
            lambda here: with_bound(self._place(before, rows, self._varied(before, rows, here))),
            lambda here: Posterior.from_natural(self.structure, here.natural),
            ascent=Ascent(self.ascent.passes, self.ascent.tolerance),
            observations=rows.count,
            progress=progress,
        )

    def contributed(self, posterior: Posterior, data: Any) -> Posterior:
        check_structure(posterior, self.structure, "posterior")
        prior, rows = dict(Posterior.of_prior(self.structure).natural), self._rows(data)
        natural = self._place(prior, rows, {BETWEEN: posterior.natural[BETWEEN]} if self.varying else {}).natural
        if self.varying:
            here = Place(dict(posterior.natural), 0.0)
            natural |= self._varied(prior, rows, here)
        return Posterior.from_natural(self.structure, natural)

    def site_effects(self, posterior: Posterior, data: Any) -> tuple[SiteEffects, Array]:
        rows = self._rows(data)
        return rows.effects(self.places, self.precisions(posterior.natural)), rows.sites

    def _rows(self, data: Any) -> "Statistics":
        points = self.points(data)
        groups, sites = numbered(self._sites(points))
        shift = self.in_units(self._targets(points))
        told = rows_by(self._matrix(points), groups, len(sites)).told(shift, np.ones(len(shift)))
        return Statistics(len(shift), float(shift @ shift), *told, sites)

    def _place(self, before: Mapping[str, Array], rows: "Statistics", between: Mapping[str, Array]) -> "Place":
        """The coefficients where the precisions between sites are these, and the bound that holds for both."""
        effects = rows.effects(self.places, self.precisions(between))
        after = before[FACTOR] + rows.contribution(effects)
        check_rounding(0.0 if self.family.contains(after) else np.inf)
        size, _ = self.target_units()
        gained = self.family.log_partition(after) - self.family.log_partition(before[FACTOR])
        bound = gained - rows.count * (0.5 * log(2 * pi) + log(size))
        if self.varying:
            now = between[BETWEEN]
            logs = np.split(Gamma().mean(now)[0], 2)[0].sum()
            bound += 0.5 * (len(rows.sites) * logs + np.linalg.slogdet(effects.spread)[1].sum())
            bound -= Gamma().kl(now, before[BETWEEN])
        return Place({FACTOR: after, **between}, float(bound))

    def _varied(self, before: Mapping[str, Array], rows: "Statistics", here: "Place") -> dict[str, Array]:
        """The precisions between sites, given the coefficients."""
        effects = rows.effects(self.places, self.precisions(here.natural))
        squares = effects.squares(self.expected(here.natural))
        return {BETWEEN: before[BETWEEN] + between_contribution(squares)}

    def tally(self, posterior: Posterior) -> Tally:
        told = dense(posterior.contribution[FACTOR])
        count, ones = 2.0 * told[:, 0], self.design.ones(told)
        # Where something varies from site to site, that takes a part of the precision.
        same = {"intercept": ones[:1] - count} if self.intercept and not self.varying else {}
        return Tally(count, count, same, within={FACTOR: ones[None, :], **self.sites_told(posterior)})

    def largest_contribution(self, value: float) -> Mapping[str, Array]:
        design, target = self.design.largest(value), self.columns[self.target].largest_contrast(value)
        squares = 0.5 * np.outer(design, design).ravel()
        return {FACTOR: np.concatenate([[0.5, 0.5 * target**2], design * target, squares])[None, :]}

    def in_units(self, targets: Array) -> Array:
        size, zero = self.target_units()
        return (targets - zero) / size

    def log_density(self, posterior: Posterior, mean: Array, variance: Array, targets: Array) -> Array:
        scale, degrees = self._student(posterior, variance)
        return log_student(self.in_units(targets), mean, scale, degrees) - log(self.target_units()[0])

    def predicted(self, posterior: Posterior, mean: Array, variance: Array, level: float) -> dict[str, Array]:
        """The interval is that of a new value, noise included."""
        scale, _ = self._student(posterior, variance)
        reach = self.reach(posterior, level) * scale
        size, zero = self.target_units()
        return {"mean": zero + size * mean, "low": zero + size * (mean - reach), "high": zero + size * (mean + reach)}

    def moments(self, natural: Array) -> tuple[Array, Array]:
        (mean,), (weight,), _, _ = self.family.columns(natural)
        return mean, np.asarray(np.linalg.inv(weight))

    def reach(self, posterior: Posterior, level: float) -> float:
        _, _, (shape,), _ = self.family.columns(posterior.natural[FACTOR])
        return float(stdtrit(2.0 * shape, 0.5 + 0.5 * level))

    def interval(self, posterior: Posterior, level: float) -> tuple[Array, Array, Array, Array]:
        mean, covariance = self.moments(posterior.natural[FACTOR])
        scale = np.sqrt(np.diag(covariance) * self.noise_variance(posterior))
        reach = self.reach(posterior, level) * scale
        return mean, self.family.deviation(posterior.natural[FACTOR]).mean[0], mean - reach, mean + reach

    def noise_variance(self, posterior: Posterior) -> float:
        _, _, (shape,), (rate,) = self.family.columns(posterior.natural[FACTOR])
        return float(rate / shape)

    def noise(self, posterior: Posterior) -> float:
        """The standard deviation of the noise, in the target's own unit, at its mean precision."""
        check_structure(posterior, self.structure, "posterior")
        return float(self.target_units()[0] * self.noise_variance(posterior) ** 0.5)

    def draw_outcomes(self, parameters: MeanAndPrecision, linear: Array, rng: np.random.Generator) -> Array:
        size, zero = self.target_units()
        noise = rng.standard_normal(len(linear)) * self.drawn_noise(parameters)
        return np.asarray(zero + size * (linear + noise))

    def drawn_coefficients(self, parameters: Any) -> Array:
        return np.asarray(parameters.mean[0])

    def drawn_noise(self, parameters: Any) -> float:
        return float(1.0 / np.sqrt(parameters.precision[0]))

    def _student(self, posterior: Posterior, variance: Array) -> tuple[Array, Array]:
        """The scale of each row's prediction, a Student-t, and its degrees of freedom; in units of the target."""
        _, _, shape, rate = self.family.columns(posterior.natural[FACTOR])
        return student_scale(shape, rate, variance), 2.0 * shape


@dataclass(frozen=True)
class Place:
    """Where passes stand, and the bound there."""

    natural: dict[str, Array]
    bound: float


def with_bound(place: Place) -> tuple[Place, float]:
    return place, place.bound


@dataclass(frozen=True)
class Statistics:
    """All that rows say: how many there are, yᵀy, and of each site Xᵀy and XᵀX."""

    count: int
    square: float
    shift: Array
    precision: Array
    sites: Array

    def effects(self, varying: NDArray[np.intp], precisions: Array) -> SiteEffects:
        return SiteEffects(self.shift, self.precision, varying, precisions)

    def contribution(self, effects: SiteEffects) -> Array:
        """(1, d): what rows add to the natural parameters, (½N, −½yᵀy, Xᵀy, −½XᵀX), less what sites' own parts hide."""
        shift, precision, square = effects.hidden()
        first = np.array([0.5 * self.count, -0.5 * self.square + square])
        told = self.shift.sum(axis=0) - shift, -0.5 * (self.precision.sum(axis=0) - precision).ravel()
        return np.concatenate([first, *told])[None, :]
