"""Regressions whose posterior is taken as Gaussian: one engine for yes/no and for counts.

    c(q) = (Xᵀ(g + w ∘ Xm), −½ Xᵀ diag(w) X),   g = E[∂ log p(y|f) / ∂f],   w = −E[∂² log p(y|f) / ∂f²]

With f = xβ under q = N(m, Σ) the bound is highest where λ = λ0 + c(q). A pass goes there, or part of the way if the
bound would fall. Contributions of rows add up, and so do those of sites: refinement ends where one fit of all rows
would. Where coefficients differ from site to site (`site_effects.py`), β and all sites' own parts are one Gaussian.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.special import ndtri

from decbayes.arguments import Seed
from decbayes.families import Array, FullGaussian, Gamma, dense
from decbayes.models.core.ascent import Ascent, Fit, OnPass, fit_best
from decbayes.models.core.information import Tally
from decbayes.models.core.points import check_fit, check_structure
from decbayes.models.regressions._site_effects import Rows, SiteEffects, between_contribution, numbered, rows_by
from decbayes.models.regressions._varying import BETWEEN
from decbayes.models.regressions.regression import Regression
from decbayes.models.regressions.table import FACTOR
from decbayes.posterior import Posterior

Approximation = Literal["variational", "laplace"]

# Halving a step so often leaves nothing of it.
HALVINGS = 30
# Passes over a site's own part alone.
SETTLING = 100


@dataclass(frozen=True)
class Data:
    """Rows by their sites, the targets, and the numbers of the sites."""

    rows: Rows
    targets: Array
    sites: Array


@dataclass(frozen=True)
class Place:
    """Where a climb stands: natural parameters, what sites' own parts are given β, the bound, and what rows say there.

    A whole step leads to where β and the sites' own parts are what rows say.
    """

    natural: dict[str, Array]
    effects: SiteEffects
    bound: float
    told: tuple[Array, Array]


@dataclass(frozen=True)
class GaussianRegression(Regression):
    """β ~ N(0, prior_variance · I), with a Gaussian posterior: the nearest by "variational" Bayes, or that of
    "laplace", around the most probable coefficients, which is faster and less exact.
    """

    approximation: Annotated[Approximation, "How the posterior is made Gaussian."] = field(
        default="variational", kw_only=True
    )

    heaviest: ClassVar[float | None] = None
    """The largest w of a row, whatever its target; None if there is none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.approximation not in ("variational", "laplace"):
            raise ValueError(f"approximation is 'variational' or 'laplace', not {self.approximation!r}.")
        if self.varying and self.approximation == "laplace":
            raise ValueError("What varies from site to site needs approximation='variational'.")

    @property
    def family(self) -> FullGaussian:
        return FullGaussian()

    def coefficient_prior(self) -> Array:
        side = len(self.design.labels)
        return self.family.natural(mean=np.zeros((1, side)), covariance=float(self.prior_variance) * np.eye(side))

    @classmethod
    def prior_settings(cls, prior: Array) -> dict[str, float]:
        return {"prior_variance": float(FullGaussian().parameters(prior)["covariance"][0, 0, 0])}

    @abstractmethod
    def expectations(self, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """E[log p(y|f)], g and w of each row, where f ~ N(mean, variance)."""

    @abstractmethod
    def most_of_one(self, value: float) -> tuple[float, float]:
        """How large |g + w E[f]| and w of a row can be, if its target is within ±`value`."""

    @abstractmethod
    def beginning(self, targets: Array) -> Array:
        """A value of f for each row that its target suggests."""

    def fit(
        self,
        data: Any,
        *,
        rng: Seed | None = None,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
    ) -> Fit:
        """The posterior of the data, on top of `prior` if given, climbing from `start` if given."""
        check_fit(self.structure, rng, prior, start)
        before, held = dict((prior or Posterior.of_prior(self.structure)).natural), self._held(data)
        if not len(held.targets):
            return Fit(Posterior.from_natural(self.structure, before), (0.0,), True)
        return fit_best(
            lambda: self._first(before, held) if start is None else self._settled(before, held, start),
            lambda here: self._pass(before, held, here),
            lambda reached: Posterior.from_natural(self.structure, reached.natural),
            ascent=Ascent(self.ascent.passes, self.ascent.tolerance),
            observations=len(held.targets),
            progress=progress,
        )

    def tally(self, posterior: Posterior) -> Tally:
        """Rows weigh less than one each, and how much less depends on the posterior: only too much can be seen."""
        ones = self.design.ones(dense(posterior.contribution[FACTOR]))
        within = {} if self.heaviest is None else {FACTOR: ones[None, :] / self.heaviest}
        return Tally((), np.empty(0), within={**within, **self.sites_told(posterior)})

    def largest_contribution(self, value: float) -> Mapping[str, Array]:
        design, (shift, weight) = self.design.largest(value), self.most_of_one(value)
        return {FACTOR: np.concatenate([shift * design, 0.5 * weight * np.outer(design, design).ravel()])[None, :]}

    def contributed(self, posterior: Posterior, data: Any) -> Posterior:
        check_structure(posterior, self.structure, "posterior")
        held, before = self._held(data), dict(Posterior.of_prior(self.structure).natural)
        here = self._settled(before, held, posterior)
        effects = self._effects(*here.told, posterior.natural)
        natural = {FACTOR: before[FACTOR] + said(*here.told) - said_of(effects), **self._varied(before, here)}
        return Posterior.from_natural(self.structure, natural)

    def site_effects(self, posterior: Posterior, data: Any) -> tuple[SiteEffects, Array]:
        held = self._held(data)
        return self._settled(dict(posterior.natural), held, posterior).effects, held.sites

    def moments(self, natural: Array) -> tuple[Array, Array]:
        (mean,), (covariance,) = self.family.columns(natural)
        return mean, covariance

    def reach(self, posterior: Posterior, level: float) -> float:
        return float(ndtri(0.5 + 0.5 * level))

    def log_likelihoods(self, parameters: Mapping[str, Any], data: Any) -> Array:
        if self.varying:
            return super().log_likelihoods(parameters, data)
        design, targets = self.parts(data)
        exactly = np.zeros(len(targets))
        lines = parameters[FACTOR][:, 0] @ design.T
        return np.array([self.expectations(targets, line, exactly)[0].sum() for line in lines])

    def interval(self, posterior: Posterior, level: float) -> tuple[Array, Array, Array, Array]:
        mean, covariance = self.moments(posterior.natural[FACTOR])
        deviation = np.sqrt(np.diag(covariance))
        reach = self.reach(posterior, level) * deviation
        return mean, deviation, mean - reach, mean + reach

    def _held(self, data: Any) -> Data:
        points = self.points(data)
        groups, sites = numbered(self._sites(points))
        return Data(rows_by(self._matrix(points), groups, len(sites)), self._targets(points), sites)

    def _effects(self, shift: Array, precision: Array, natural: Mapping[str, Array]) -> SiteEffects:
        return SiteEffects(shift, precision, self.places, self.precisions(natural))

    def _first(self, before: dict[str, Array], held: Data) -> Place:
        f = self.beginning(held.targets)
        _, slope, weight = self.expectations(held.targets, f, np.zeros(len(f)))
        told = held.rows.told(slope + weight * f, weight)
        effects = self._effects(*told, before)
        return self._place(before, held, before | {FACTOR: before[FACTOR] + said(*told) - said_of(effects)}, effects)

    def _place(self, before: Mapping[str, Array], held: Data, natural: dict[str, Array], effects: SiteEffects) -> Place:
        moments = effects.coefficients(*self.moments(natural[FACTOR]))
        mean, variance = held.rows.linear(*moments)
        exact = self.approximation == "variational"
        value, slope, weight = self.expectations(held.targets, mean, variance if exact else np.zeros(len(mean)))
        told = held.rows.told(slope + weight * mean, weight)
        height = float(value.sum()) + self._log_prior(before[FACTOR], natural[FACTOR])
        return Place(natural, effects, height + self._between_bound(before, natural, effects), told)

    def _log_prior(self, before: Array, natural: Array) -> float:
        """What the bound owes to the prior of the coefficients; around the most probable ones, its logarithm there."""
        if self.approximation == "variational":
            return -self.family.kl(natural, before)
        coefficients = self.family.expected(natural)
        return float(np.sum(before * self.family.statistics(coefficients))) - self.family.log_partition(before)

    def _between_bound(self, before: Mapping[str, Array], natural: Mapping[str, Array], effects: SiteEffects) -> float:
        """What it owes to sites' own parts and to how far these differ."""
        if not self.varying:
            return 0.0
        logs, precisions = np.split(Gamma().mean(natural[BETWEEN])[0], 2)
        squares = effects.squares(self.expected(natural))
        expected = 0.5 * float(np.sum(logs - precisions * squares))
        return expected + effects.entropy() - Gamma().kl(natural[BETWEEN], before[BETWEEN])

    def _varied(self, before: Mapping[str, Array], here: Place) -> dict[str, Array]:
        """How far sites differ, given all the rest."""
        if not self.varying:
            return {}
        return {BETWEEN: before[BETWEEN] + between_contribution(here.effects.squares(self.expected(here.natural)))}

    def _pass(self, before: dict[str, Array], held: Data, here: Place) -> tuple[Place, float]:
        between = self._varied(before, here)
        ahead = self._effects(*here.told, between)
        begin, end = here.natural[FACTOR] + said_of(here.effects), before[FACTOR] + said(*here.told)

        def part_of_the_way(share: float, effects: SiteEffects) -> Place:
            whole = end if share == 1.0 else begin + share * (end - begin)
            return self._place(before, held, {FACTOR: whole - said_of(effects), **between}, effects)

        there = climbed(here, ahead, part_of_the_way)
        return there, there.bound

    def _settled(self, before: dict[str, Array], held: Data, posterior: Posterior) -> Place:
        """Where sites' own parts are what rows say of them, given the posterior of all the rest."""
        natural, side, count = dict(posterior.natural), len(self.design.labels), len(held.sites)
        nothing = self._effects(np.zeros((count, side)), np.zeros((count, side, side)), natural)
        here = self._place(before, held, natural, nothing)
        for _ in range(SETTLING if self.varying else 0):
            ahead, earlier = self._effects(*here.told, natural), here.bound
            here = climbed(here, ahead, lambda _, effects: self._place(before, held, natural, effects))
            if here.bound - earlier <= self.ascent.tolerance * len(held.targets):
                break
        return here


def climbed(here: Place, ahead: SiteEffects, part_of_the_way: Callable[[float, SiteEffects], Place]) -> Place:
    """The place ahead, or one on the way to it if the bound would fall."""
    slack, share = 1e-13 * abs(here.bound), 1.0
    for _ in range(HALVINGS):
        there = part_of_the_way(share, ahead)
        if there.bound >= here.bound - slack:
            return there
        ahead, share = here.effects.half_way(ahead), 0.5 * share
    return here


def said(shift: Array, precision: Array) -> Array:
    """(1, d): what rows of all sites add to the natural parameters."""
    return np.concatenate([shift.sum(axis=0), (-0.5 * precision.sum(axis=0)).ravel()])[None, :]


def said_of(effects: SiteEffects) -> Array:
    """(1, d): what of it sites' own parts account for."""
    shift, precision, _ = effects.hidden()
    return np.concatenate([shift, (-0.5 * precision).ravel()])[None, :]
