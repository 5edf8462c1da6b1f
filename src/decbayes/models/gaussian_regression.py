"""Regressions whose posterior is taken as Gaussian: one engine for yes/no and for counts.

    c(q) = (Xᵀ(g + w ∘ Xm), −½ Xᵀ diag(w) X),   g = E[∂ log p(y|f) / ∂f],   w = −E[∂² log p(y|f) / ∂f²]

With f = xβ under q = N(m, Σ) the bound is highest where λ = λ0 + c(q). A pass goes there, or part of the way if the
bound would fall. Contributions of rows add up, and so do those of sites: refinement ends where one fit of all rows
would.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from scipy.special import ndtri

from decbayes.families import Array, FullGaussian
from decbayes.models.ascent import Ascent, Fit, OnPass, fit_best
from decbayes.models.points import check_fit, check_structure
from decbayes.models.regression import FACTOR, Regression
from decbayes.posterior import Posterior

Approximation = Literal["variational", "laplace"]

# Halving a step so often leaves nothing of it.
HALVINGS = 30


@dataclass(frozen=True)
class Place:
    """Where a climb stands: natural parameters, their bound, and where a whole step would lead."""

    natural: Array
    bound: float
    ahead: Array


@dataclass(frozen=True)
class GaussianRegression(Regression):
    """β ~ N(0, prior_variance · I), with a Gaussian posterior: the nearest by "variational" Bayes, or that of
    "laplace", around the most probable coefficients, which is faster and less exact.
    """

    approximation: Annotated[Approximation, "How the posterior is made Gaussian."] = field(
        default="variational", kw_only=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.approximation not in ("variational", "laplace"):
            raise ValueError(f"approximation is 'variational' or 'laplace', not {self.approximation!r}.")

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
    def beginning(self, targets: Array) -> Array:
        """A value of f for each row that its target suggests."""

    def fit(
        self,
        data: Any,
        *,
        rng: np.random.Generator,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
    ) -> Fit:
        """The posterior of the data, on top of `prior` if given, climbing from `start` if given."""
        check_fit(self.structure, rng, prior, start)
        before = (prior or Posterior.of_prior(self.structure)).natural[FACTOR]
        design, targets = self.parts(data)
        if not len(targets):
            return Fit(Posterior.from_natural(self.structure, {FACTOR: before}), (0.0,), True)
        begin = self._first(before, design, targets) if start is None else start.natural[FACTOR]
        place = partial(self._place, before, design, targets)
        return fit_best(
            lambda: place(begin),
            partial(self._pass, place),
            lambda reached: Posterior.from_natural(self.structure, {FACTOR: reached.natural}),
            ascent=Ascent(self.ascent.passes, self.ascent.tolerance),
            observations=len(targets),
            progress=progress,
        )

    def contributed(self, posterior: Posterior, data: Any) -> Posterior:
        check_structure(posterior, self.structure, "posterior")
        before = Posterior.of_prior(self.structure).natural[FACTOR]
        place = self._place(before, *self.parts(data), posterior.natural[FACTOR])
        return Posterior.from_natural(self.structure, {FACTOR: place.ahead})

    def interval(self, posterior: Posterior, level: float) -> tuple[Array, Array, Array, Array]:
        (mean,), (covariance,) = self.family.columns(posterior.natural[FACTOR])
        deviation = np.sqrt(np.diag(covariance))
        reach = ndtri(0.5 + 0.5 * level) * deviation
        return mean, deviation, mean - reach, mean + reach

    def linear(self, natural: Array, design: Array) -> tuple[Array, Array]:
        """Mean and variance of f in each row."""
        (mean,), (covariance,) = self.family.columns(natural)
        return design @ mean, np.einsum("nd,nd->n", design @ covariance, design)

    def _first(self, before: Array, design: Array, targets: Array) -> Array:
        f = self.beginning(targets)
        _, slope, weight = self.expectations(targets, f, np.zeros(len(f)))
        return before + contribution(design, f, slope, weight)

    def _place(self, before: Array, design: Array, targets: Array, natural: Array) -> Place:
        mean, variance = self.linear(natural, design)
        exact = self.approximation == "variational"
        value, slope, weight = self.expectations(targets, mean, variance if exact else np.zeros(len(mean)))
        ahead = before + contribution(design, mean, slope, weight)
        if exact:
            return Place(natural, float(value.sum()) - self.family.kl(natural, before), ahead)
        coefficients = self.family.expected(natural)
        height = float(np.sum(before * self.family.statistics(coefficients))) - self.family.log_partition(before)
        return Place(natural, float(value.sum()) + height, ahead)

    def _pass(self, place: Any, here: Place) -> tuple[Place, float]:
        there = place(here.ahead)
        slack = 1e-13 * abs(here.bound)
        for _ in range(HALVINGS):
            if there.bound >= here.bound - slack:
                return there, there.bound
            there = place(0.5 * (here.natural + there.natural))
        return here, here.bound


def contribution(design: Array, mean: Array, slope: Array, weight: Array) -> Array:
    """(1, d): what rows add to the natural parameters."""
    shift = design.T @ (slope + weight * mean)
    return np.concatenate([shift, (-0.5 * (design.T @ (weight[:, None] * design))).ravel()])[None, :]
