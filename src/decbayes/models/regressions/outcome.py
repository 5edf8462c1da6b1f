"""Outcomes of regressions: how the target depends on the linear predictor f."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.special import ndtri

from decbayes.columns import Column
from decbayes.errors import InvalidStructure, NotPrivate
from decbayes.families import Array, Family, FullGaussian
from decbayes.models.core.information import Tally
from decbayes.models.regressions.formulas.design import Design
from decbayes.models.regressions.messages.few_events import FewEvents
from decbayes.models.regressions.messages.one_broadcast import Cloud, Quadratic, Reading, SiteRows
from decbayes.models.regressions.private.bounded_scores import Scores
from decbayes.models.regressions.varying.climb import FACTOR, Climb, GaussianClimb, Natural, Problem
from decbayes.models.regressions.varying.site_effects import Moments
from decbayes.remarks import Remark

Approximation = Annotated[Literal["variational", "laplace"], "How the posterior is made Gaussian."]


class Outcome(ABC):
    """A kind of target. All numbers are in agreed units; f ~ N(mean, variance) in each row.

    For your own likelihood, derive from `Generalized`, which needs six formulas, and from `Regression`, with it as the
    `outcome`.
    """

    holds: ClassVar[type[Column]]
    """The kind of the target in data without agreed columns."""

    family: ClassVar[Family]
    """The family of the coefficients."""

    def check_column(self, model: str, name: str, column: Column) -> None:
        if column.kind != self.holds.kind:
            raise InvalidStructure(f"The target of {model} is {self.holds.kind}; '{name}' is {column.kind}.")

    def check_targets(self, name: str, targets: Array) -> None:  # noqa: B027 nothing to refuse is right for many
        """Refuse values that the target cannot have; frames are checked by their columns."""

    def kind_in(self, frame: Any, name: str) -> str:
        """The kind of the target in a frame without agreed columns."""
        return self.holds.kind

    mean_is: ClassVar[str] = "the probability"
    """What the mean of a prediction is, in words."""

    new: ClassVar[str] = ""
    """What the interval of a prediction contains, if that is a new outcome and not the mean."""

    ratio: ClassVar[str] = ""
    """The name of exp(β), if it is a ratio."""

    common: ClassVar[tuple[float, ...]] = ()
    """The outcomes that all but a few rows may have: see `FewEvents`."""

    def are_few(self, targets: Array) -> bool:
        """Whether rules replaced the targets by one share for all rows, between 0 and 1."""
        return bool(self.common) and bool(len(targets) and 0.0 < targets.min() == targets.max() < 1.0)

    recentres: ClassVar[bool] = False
    """Whether log p(y|f) is y f + h(f) times the weight of the row, so that messages determine their curvature."""

    proportional: ClassVar[bool] = False
    """Whether h(f + a) is h(f) times a factor, so that readers of a message need not know offsets."""

    def modelled(self, name: str, column: Column) -> str:
        """What depends on xβ, in words: which outcome, of which column."""
        return f"mean of {name}"

    @property
    def compared(self) -> tuple[str, ...]:
        """The levels of a target that has coefficients for each but the first, the reference."""
        return ()

    def against(self, name: str, level: str) -> str:
        """What the coefficients of some levels are effects on, in words."""
        return f"odds of {name} = {level} against {self.compared[0]}"

    @property
    def assumed(self) -> str:
        """Further assumptions about the target that a setting decides, in words."""
        return ""

    def observed(self, targets: Array, of_rows: Array) -> Array:
        """The outcome of each observation, from its target or from the targets of its rows."""
        return targets

    def remarks(self, targets: Array, mean: Array, weights: Array, side: int) -> Iterator[Remark]:
        """What to know before relying on a fit of these rows, with `side` coefficients and these E[f]."""
        return iter(())

    def broadcast_remarks(self, targets: Array, mean: Array, weights: Array, design: Array) -> Iterator[Remark]:
        """What to know before relying on a merge without further rounds."""
        return iter(())

    def units(self, column: Column) -> tuple[float, float]:
        """The unit and the zero of the linear predictor, in terms of the target."""
        return 1.0, 0.0

    @abstractmethod
    def prior(self, side: int, settings: Any) -> Array:
        """(1, d): the prior of `side` coefficients, by a model's settings."""

    @abstractmethod
    def settings(self, prior: Array) -> dict[str, float]:
        """Recover the settings from a prior."""

    @abstractmethod
    def moments(self, natural: Array) -> tuple[Array, Array]:
        """Mean (D,) and covariance (D, D) of the coefficients; the latter in noise variances if there is noise."""

    def noise(self, natural: Array) -> float:
        """The unit of between-site variances: that of the noise, if there is one."""
        return 1.0

    def fitted_noise(self, rows: float, coefficients: int) -> float:
        """The noise of a fit relative to that of new rows."""
        return 1.0

    @abstractmethod
    def reach(self, natural: Array, level: float) -> float:
        """Half the width of an interval, in scales of a coefficient."""

    def interval(
        self, natural: Array, level: float, change: Array | None = None, wider: Array | float = 1.0
    ) -> tuple[Array, Array, Array, Array]:
        """Mean, standard deviation, lower and upper end of each coefficient, or of each linear function of them.

        `change` has a row for each function; the deviation of each coefficient is multiplied by `wider`.
        """
        mean, covariance = self.moments(natural)
        change = np.eye(len(mean)) if change is None else change
        spread = change * wider
        scale = np.sqrt(((spread @ covariance) * spread).sum(axis=1) * self.noise(natural))
        middle, reach = change @ mean, self.reach(natural, level) * scale
        return middle, self.deviation(natural, scale), middle - reach, middle + reach

    def deviation(self, natural: Array, scale: Array) -> Array:
        return scale

    def expected(self, natural: Natural, side: int) -> Moments:
        """The moments of the coefficients that site deviations depend on: the last statistics of the family."""
        weight, *rest = np.append(1.0, self.family.expected_statistics(natural[FACTOR])[0])[-1 - side - side * side :]
        return Moments(float(weight), np.array(rest[:side]), np.reshape(rest[side:], (side, side)))

    @abstractmethod
    def climb(self, problem: Problem) -> Climb: ...

    @abstractmethod
    def log_density(self, natural: Array, mean: Array, variance: Array, targets: Array) -> Array:
        """log p(y | x, posterior) per row."""

    @abstractmethod
    def log_given(self, targets: Array, linear: Array, noise: float) -> Array:
        """log p(y | f) per row, given draws of f and of the standard deviation of the noise."""

    @abstractmethod
    def slopes(self, natural: Array, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        """E[∂ log p(y|f) / ∂f] and −E[∂² log p(y|f) / ∂f²] of each row."""

    @abstractmethod
    def predicted(self, natural: Array, mean: Array, variance: Array, level: float) -> dict[str, Array]:
        """The `mean` of the target per row, and an interval from `low` to `high`."""

    def drawn(self, parameters: Any) -> tuple[Array, float]:
        """Coefficients and the standard deviation of the noise, as the family draws them."""
        return np.asarray(parameters[0]), 1.0

    @abstractmethod
    def draw(self, linear: Array, noise: float, rng: np.random.Generator) -> Array:
        """One target per row, given the linear predictors."""

    @abstractmethod
    def tally(self, contribution: Array, design: Design, varies: bool) -> Tally:
        """The number of rows in a contribution, by its own numbers."""

    def scores(self, column: Column) -> Scores:
        """Bounded slopes and weights of rows, for private releases."""
        raise NotPrivate(
            f"{type(self).__name__} outcomes have no private release: nobody has bounded what one row adds. Linear, "
            "logistic, Poisson, negative binomial and survival regressions have one."
        )

    @abstractmethod
    def largest_contribution(self, design: Array, value: float, target: float) -> Array:
        """(1, d): the most that a row adds, if its numbers are within ±`design` and its target within ±`value`, which
        is ±`target` in agreed units."""


class Generalized(Outcome):
    """A target whose coefficients have a Gaussian posterior, by "variational" Bayes or by "laplace".

        c(q) = (Xᵀ(g + w ∘ Xm), −½ Xᵀ diag(w) X),   g = E[∂ log p(y|f) / ∂f],   w = −E[∂² log p(y|f) / ∂f²]

    With f = xβ under q = N(m, Σ) the bound is highest where λ = λ0 + c(q). A pass goes there, or part of the way if
    the bound would fall. Contributions of rows and of sites add up: refinement converges to one fit of all rows.
    """

    family: ClassVar[FullGaussian] = FullGaussian()

    narrow: ClassVar[float] = 0.3
    """The prior variance of a site's first fit if it has few of the outcomes, or if `anchors` is empty."""

    anchors: ClassVar[tuple[float, ...]] = (0.3, 1.0, 3.0, 10.0)
    """Further prior variances of sites' first fits; each site uses the one with the highest likelihood of its rows.

    `benchmarks/regression.py` shows their effect. Where merges recentre they hardly matter, and one is enough.
    """

    heaviest: ClassVar[float | None] = None
    """The largest w of a row, whatever its target; None if there is none."""

    @abstractmethod
    def expectations(self, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """E[log p(y|f)], g and w of each row."""

    @abstractmethod
    def most_of_one(self, value: float) -> tuple[float, float]:
        """Upper bounds of |g + w E[f]| and w of a row, if its target is within ±`value`."""

    read_as: ClassVar[Mapping[float, Callable[[Array, Array], Cloud]]] = {0.0: Cloud.weighted}
    """The targets of rows with only h, and how a message shows where these rows are."""

    def reading(self, message: Quadratic, anchor: Quadratic, levels: Array, spread: float) -> SiteRows | None:
        """A first broadcast read as rows, for `recentred`; None if it says too little about them."""
        return Reading.of(message, anchor, levels, self, spread)

    def bent(self, target: float, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """h, its slope and its weight in rows with this target."""
        return self.expectations(np.full(len(mean), target), mean, variance)

    @abstractmethod
    def beginning(self, targets: Array, offset: Array) -> Array:
        """A value of f, offset included, that each row's target suggests."""

    def prior(self, side: int, settings: Any) -> Array:
        variance = float(settings.prior_variance) * np.eye(side)
        return self.family.natural(mean=np.zeros((1, side)), covariance=variance)

    def settings(self, prior: Array) -> dict[str, float]:
        return {"prior_variance": float(self.family.parameters(prior)["covariance"][0, 0, 0])}

    def moments(self, natural: Array) -> tuple[Array, Array]:
        (mean,), (covariance,) = self.family.columns(natural)
        return mean, covariance

    def reach(self, natural: Array, level: float) -> float:
        return float(ndtri(0.5 + 0.5 * level))

    def log_given(self, targets: Array, linear: Array, noise: float) -> Array:
        return self.expectations(targets, linear, np.zeros(len(linear)))[0]

    def slopes(self, natural: Array, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        return self.expectations(targets, mean, variance)[1:]

    def climb(self, problem: Problem) -> GaussianClimb:
        return (FewEvents if self.are_few(problem.targets) else GaussianClimb)(self, problem)

    def tally(self, contribution: Array, design: Design, varies: bool) -> Tally:
        """Rows weigh less than one each, depending on the posterior, so only too large weights can be detected."""
        ones = design.ones(contribution)
        within = {} if self.heaviest is None else {FACTOR: ones[None, :] / self.heaviest}
        return Tally((), np.empty(0), within=within)

    def largest_contribution(self, design: Array, value: float, target: float) -> Array:
        shift, weight = self.most_of_one(value)
        return np.concatenate([shift * design, 0.5 * weight * np.outer(design, design).ravel()])[None, :]
