"""What a regression predicts: how the target depends on the linear predictor f."""

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
from decbayes.models.regressions.messages.one_broadcast import Cloud, Quadratic, Reading, SiteRows
from decbayes.models.regressions.private.bounded_scores import Scores
from decbayes.models.regressions.varying.climb import FACTOR, Climb, GaussianClimb, Natural, Problem
from decbayes.models.regressions.varying.site_effects import Moments
from decbayes.remarks import Remark

Approximation = Annotated[Literal["variational", "laplace"], "How the posterior is made Gaussian."]


class Outcome(ABC):
    """A kind of target. All numbers are in agreed units; f ~ N(mean, variance) in each row.

    A target with a likelihood of its own is a subclass of `Generalized`, which needs six formulas, and a `Regression`
    that has it as its `outcome`.
    """

    holds: ClassVar[type[Column]]
    """What the target is taken as in data that nobody has agreed on."""

    family: ClassVar[Family]
    """The family of the coefficients."""

    def check_column(self, model: str, name: str, column: Column) -> None:
        if column.kind != self.holds.kind:
            raise InvalidStructure(f"The target of {model} is {self.holds.kind}; '{name}' is {column.kind}.")

    def check_targets(self, name: str, targets: Array) -> None:  # noqa: B027 nothing to refuse is right for many
        """Refuse values that the target cannot have; frames are checked by their columns."""

    def kind_in(self, frame: Any, name: str) -> str:
        """The kind of the target in a frame that nobody has agreed on."""
        return self.holds.kind

    ratio: ClassVar[str] = ""
    """What exp(β) is called, where it says how many times larger something is."""

    recentres: ClassVar[bool] = False
    """Whether log p(y|f) is y f + h(f) times what the rows count, so that messages tell how they bend."""

    proportional: ClassVar[bool] = False
    """Whether h(f + a) is h(f) times a factor, so that an offset does not matter to whoever reads a message."""

    def modelled(self, name: str, column: Column) -> str:
        """What depends on xβ, in words: which outcome, of which column."""
        return f"mean of {name}"

    @property
    def compared(self) -> tuple[str, ...]:
        """The levels of a target with coefficients for each but the first, which the others are compared with."""
        return ()

    def against(self, name: str, level: str) -> str:
        """What the coefficients of some levels are effects on, in words."""
        return f"odds of {name} = {level} against {self.compared[0]}"

    @property
    def assumed(self) -> str:
        """What else is assumed about the target, in words, where a setting decides it."""
        return ""

    def observed(self, targets: Array, of_rows: Array) -> Array:
        """The outcome of each observation, from its target or from the targets of its rows."""
        return targets

    def remarks(self, targets: Array, mean: Array, weights: Array, side: int) -> Iterator[Remark]:
        """What to know about a fit of these rows, with so many coefficients and E[f], before relying on it."""
        return iter(())

    def broadcast_remarks(self, targets: Array, mean: Array, weights: Array, design: Array) -> Iterator[Remark]:
        """What to know before a merge relies on it without further rounds."""
        return iter(())

    def units(self, column: Column) -> tuple[float, float]:
        """One unit of the linear predictor, and its zero, as the target has them."""
        return 1.0, 0.0

    @abstractmethod
    def prior(self, side: int, settings: Any) -> Array:
        """(1, d): the prior of so many coefficients, by a model's settings."""

    @abstractmethod
    def settings(self, prior: Array) -> dict[str, float]:
        """The settings that a prior implies: the way back."""

    @abstractmethod
    def moments(self, natural: Array) -> tuple[Array, Array]:
        """Mean (D,) and covariance (D, D) of the coefficients; the latter in variances of the noise if there is one."""

    def noise(self, natural: Array) -> float:
        """The unit of between-site variances: that of the noise, if there is one."""
        return 1.0

    @abstractmethod
    def reach(self, natural: Array, level: float) -> float:
        """Half the width of an interval, in scales of a coefficient."""

    def interval(
        self, natural: Array, level: float, change: Array | None = None, wider: Array | float = 1.0
    ) -> tuple[Array, Array, Array, Array]:
        """Mean, standard deviation, lower and upper end of each coefficient, or of each linear function of them.

        `change` has a row for each function; the deviation of each coefficient is `wider` times as large.
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
        """The moments of so many coefficients that sites' own parts depend on: the last statistics of the family."""
        weight, *rest = np.append(1.0, self.family.expected_statistics(natural[FACTOR])[0])[-1 - side - side * side :]
        return Moments(float(weight), np.array(rest[:side]), np.reshape(rest[side:], (side, side)))

    @abstractmethod
    def climb(self, problem: Problem) -> Climb: ...

    @abstractmethod
    def log_density(self, natural: Array, mean: Array, variance: Array, targets: Array) -> Array:
        """log p(y | x, posterior) per row."""

    @abstractmethod
    def log_given(self, targets: Array, linear: Array, noise: float) -> Array:
        """log p(y | f) per row, where f and the deviation of the noise are known, as they are drawn."""

    @abstractmethod
    def slopes(self, natural: Array, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        """E[∂ log p(y|f) / ∂f] and −E[∂² log p(y|f) / ∂f²] of each row."""

    @abstractmethod
    def predicted(self, natural: Array, mean: Array, variance: Array, level: float) -> dict[str, Array]:
        """The `mean` of the target per row, and an interval, `low` and `high`."""

    def drawn(self, parameters: Any) -> tuple[Array, float]:
        """Coefficients and the standard deviation of the noise, as the family draws them."""
        return np.asarray(parameters[0]), 1.0

    @abstractmethod
    def draw(self, linear: Array, noise: float, rng: np.random.Generator) -> Array:
        """One target per row, given the linear predictors."""

    @abstractmethod
    def tally(self, contribution: Array, design: Design, varies: bool) -> Tally:
        """How many rows a contribution holds, as its own numbers tell."""

    def scores(self, column: Column) -> Scores:
        """Slopes and weights of rows that no target makes large, for private releases."""
        raise NotPrivate(
            f"{type(self).__name__} outcomes have no private release: nobody has bounded what one row adds. Linear, "
            "logistic, Poisson, negative binomial and survival regressions have one."
        )

    @abstractmethod
    def largest_contribution(self, design: Array, value: float, target: float) -> Array:
        """(1, d): what a row adds at most, if its numbers are within ±`design` and its target within ±`value`, which
        is ±`target` in agreed units.
        """


class Generalized(Outcome):
    """A target whose coefficients have a Gaussian posterior: the nearest by "variational" Bayes, or that of "laplace".

        c(q) = (Xᵀ(g + w ∘ Xm), −½ Xᵀ diag(w) X),   g = E[∂ log p(y|f) / ∂f],   w = −E[∂² log p(y|f) / ∂f²]

    With f = xβ under q = N(m, Σ) the bound is highest where λ = λ0 + c(q). A pass goes there, or part of the way if
    the bound would fall. Contributions of rows add up, and so do those of sites: refinement ends where one fit of all
    rows would.
    """

    family: ClassVar[FullGaussian] = FullGaussian()

    narrow: ClassVar[float] = 0.3
    """The prior variance of a site's first fit if it has few of the outcomes, or if there are no others."""

    anchors: ClassVar[tuple[float, ...]] = (0.3, 1.0, 3.0, 10.0)
    """Other prior variances that sites' first fits may have; each takes the one under which its rows are most likely.

    `benchmarks/regression.py` shows what they do. Where merges recentre they hardly matter, and one is enough.
    """

    heaviest: ClassVar[float | None] = None
    """The largest w of a row, whatever its target; None if there is none."""

    @abstractmethod
    def expectations(self, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """E[log p(y|f)], g and w of each row."""

    @abstractmethod
    def most_of_one(self, value: float) -> tuple[float, float]:
        """How large |g + w E[f]| and w of a row can be, if its target is within ±`value`."""

    read_as: ClassVar[Mapping[float, Callable[[Array, Array], Cloud]]] = {0.0: Cloud.weighted}
    """The targets of rows that have nothing but h, and how a message tells where these are."""

    def reading(self, message: Quadratic, anchor: Quadratic, levels: Array, spread: float) -> SiteRows | None:
        """A first broadcast as rows, for `recentred`; None if it says too little of them."""
        return Reading.of(message, anchor, levels, self, spread)

    def bent(self, target: float, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """h, its slope and its weight in rows with this target."""
        return self.expectations(np.full(len(mean), target), mean, variance)

    @abstractmethod
    def beginning(self, targets: Array, offset: Array) -> Array:
        """A value of f, which contains the offset, for each row that its target suggests."""

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
        return GaussianClimb(self, problem)

    def tally(self, contribution: Array, design: Design, varies: bool) -> Tally:
        """Rows weigh less than one each, and how much less depends on the posterior: only too much can be seen."""
        ones = design.ones(contribution)
        within = {} if self.heaviest is None else {FACTOR: ones[None, :] / self.heaviest}
        return Tally((), np.empty(0), within=within)

    def largest_contribution(self, design: Array, value: float, target: float) -> Array:
        shift, weight = self.most_of_one(value)
        return np.concatenate([shift * design, 0.5 * weight * np.outer(design, design).ravel()])[None, :]
