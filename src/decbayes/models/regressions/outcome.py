"""What a regression predicts: how the target depends on the linear predictor f, and how coefficients are learned."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.special import ndtri

from decbayes.columns import Column
from decbayes.errors import InvalidStructure, NotPrivate
from decbayes.families import Array, Family, FullGaussian
from decbayes.models.core.information import Tally
from decbayes.models.regressions.formulas.design import Design
from decbayes.models.regressions.private.bounded_scores import Scores
from decbayes.models.regressions.varying.site_effects import Groups, Moments, SiteEffects, SiteRows
from decbayes.models.regressions.varying.variation import Variation
from decbayes.remarks import Remark

FACTOR = "coefficients"

Approximation = Annotated[Literal["variational", "laplace"], "How the posterior is made Gaussian."]

Natural = Mapping[str, Array]

# Halving a step so often leaves nothing of it.
HALVINGS = 30
# Passes over a site's own part alone.
SETTLING = 100


@dataclass(frozen=True)
class Place:
    """Where a climb stands: natural parameters, and the bound there."""

    natural: dict[str, Array]
    bound: float


@dataclass(frozen=True)
class Problem:
    """What one fit is about: rows by their groups; targets in agreed units of this size, what each row adds to xβ in
    these, how often it counts, what all add to the log-likelihood whatever β is; the groups; natural parameters before
    the rows are seen; what varies.
    """

    rows: SiteRows
    targets: Array
    offset: Array
    weights: Array
    constant: float
    unit: float
    groups: Groups
    before: dict[str, Array]
    variation: Variation
    approximation: str
    tolerance: float

    @property
    def side(self) -> int:
        """How many coefficients there are."""
        return int(self.rows.design.shape[1])

    def effects(self, shift: Array, precision: Array, natural: Natural) -> SiteEffects:
        """The groups' own parts, given the sums of their rows and Λ."""
        precisions = self.variation.precisions(natural)
        return SiteEffects(shift, precision, self.variation.groupings, precisions, self.groups.parents)


class Climb(ABC):
    """Passes that raise the bound."""

    exact: bool = False
    """Whether the first place is the posterior."""

    @abstractmethod
    def begin(self, start: Natural | None) -> Any:
        """The first place, from the posterior `start` if there is one."""

    @abstractmethod
    def step(self, here: Any) -> tuple[Any, float]:
        """The next place, and its bound."""

    @abstractmethod
    def effects(self, natural: Natural) -> SiteEffects:
        """What rows say of the sites that they are from, given the posterior."""

    @abstractmethod
    def left(self, effects: SiteEffects) -> tuple[Array, float]:
        """(1, d): what rows add to the coefficients once own parts are integrated out; and what these explain apart."""

    @abstractmethod
    def contributed(self, natural: Natural) -> dict[str, Array]:
        """The prior plus what rows contribute at that posterior."""


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
    """Whether the weight of a row is its expected count, so that messages tell how they bend."""

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

    def broadcast_remarks(self, targets: Array, mean: Array, weights: Array, side: int) -> Iterator[Remark]:
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

    def interval(self, natural: Array, level: float) -> tuple[Array, Array, Array, Array]:
        """Mean, standard deviation, lower and upper end of each coefficient."""
        mean, covariance = self.moments(natural)
        scale = np.sqrt(np.diag(covariance) * self.noise(natural))
        reach = self.reach(natural, level) * scale
        return mean, self.deviation(natural, scale), mean - reach, mean + reach

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
    """The prior variance of a site's first fit if it has few of the outcomes, or merges recentre."""

    anchors: ClassVar[tuple[float, ...]] = (0.3, 1.0, 3.0, 10.0)
    """Other prior variances that sites' first fits may have; each takes the one under which its rows are most likely.

    `benchmarks/regression.py` shows what they do. Where merges recentre there is one, which whoever merges must know.
    """

    heaviest: ClassVar[float | None] = None
    """The largest w of a row, whatever its target; None if there is none."""

    @abstractmethod
    def expectations(self, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """E[log p(y|f)], g and w of each row."""

    @abstractmethod
    def most_of_one(self, value: float) -> tuple[float, float]:
        """How large |g + w E[f]| and w of a row can be, if its target is within ±`value`."""

    def bend(self, f: float) -> float:
        """How fast a row's weight w grows with f, relative to itself."""
        return 0.0

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

    def climb(self, problem: Problem) -> "GaussianClimb":
        return GaussianClimb(self, problem)

    def tally(self, contribution: Array, design: Design, varies: bool) -> Tally:
        """Rows weigh less than one each, and how much less depends on the posterior: only too much can be seen."""
        ones = design.ones(contribution)
        within = {} if self.heaviest is None else {FACTOR: ones[None, :] / self.heaviest}
        return Tally((), np.empty(0), within=within)

    def largest_contribution(self, design: Array, value: float, target: float) -> Array:
        shift, weight = self.most_of_one(value)
        return np.concatenate([shift * design, 0.5 * weight * np.outer(design, design).ravel()])[None, :]


@dataclass(frozen=True)
class GaussianPlace(Place):
    """Also the sites' own parts given β, and the sums of rows there.

    A whole step leads to where β and the sites' own parts are what these sums imply.
    """

    effects: SiteEffects
    sums: tuple[Array, Array]


class GaussianClimb(Climb):
    """β and all sites' own parts are one Gaussian."""

    def __init__(self, outcome: Generalized, problem: Problem) -> None:
        self.outcome, self.problem, self.variation = outcome, problem, problem.variation
        self.before, self.variational = problem.before, problem.approximation == "variational"

    def begin(self, start: Natural | None) -> GaussianPlace:
        if start is not None:
            return self.settled(start)
        f = self.outcome.beginning(self.problem.targets, self.problem.offset)
        _, sums = self.sums(f - self.problem.offset, np.zeros(len(f)))
        effects = self.problem.effects(*sums, self.before)
        first = self.before[FACTOR] + added(*sums) - hidden_by(effects)
        return self.place(self.before | {FACTOR: first}, effects)

    def sums(self, mean: Array, variance: Array) -> tuple[float, tuple[Array, Array]]:
        """Σ E[log p(y|f)] where xβ has these moments in each row, and what rows of each site add up to."""
        problem = self.problem
        parts = self.outcome.expectations(problem.targets, mean + problem.offset, variance)
        value, slope, weight = (problem.weights * part for part in parts)
        return float(value.sum()) + problem.constant, problem.rows.sums(slope + weight * mean, weight)

    def place(self, natural: dict[str, Array], effects: SiteEffects) -> GaussianPlace:
        mean, variance = self.problem.rows.linear(*effects.coefficients(*self.outcome.moments(natural[FACTOR])))
        value, sums = self.sums(mean, variance if self.variational else np.zeros(len(mean)))
        height = value + self.log_prior(natural[FACTOR])
        return GaussianPlace(natural, height + self.between_bound(natural, effects), effects, sums)

    def log_prior(self, natural: Array) -> float:
        """What the prior of the coefficients adds to the bound; around the most probable ones, its logarithm there."""
        family, before = self.outcome.family, self.before[FACTOR]
        if self.variational:
            return -family.kl(natural, before)
        coefficients = family.expected(natural)
        return float(np.sum(before * family.statistics(coefficients))) - family.log_partition(before)

    def between_bound(self, natural: Natural, effects: SiteEffects) -> float:
        """What sites' own parts add to it, and how far these differ."""
        if not self.variation.there:
            return 0.0
        squares = effects.squares(self.outcome.expected(natural, self.problem.side))
        return self.variation.bound(natural, self.before, squares) + effects.entropy()

    def varied(self, here: GaussianPlace) -> dict[str, Array]:
        """How far sites differ, given all the rest."""
        if not self.variation.there:
            return {}
        moments = self.outcome.expected(here.natural, self.problem.side)
        return self.variation.updated(self.before, here.effects.squares(moments))

    def step(self, here: GaussianPlace) -> tuple[GaussianPlace, float]:
        between = self.varied(here)
        ahead = self.problem.effects(*here.sums, between)
        begin, end = here.natural[FACTOR] + hidden_by(here.effects), self.before[FACTOR] + added(*here.sums)

        def part_of_the_way(share: float, effects: SiteEffects) -> GaussianPlace:
            whole = end if share == 1.0 else begin + share * (end - begin)
            return self.place({FACTOR: whole - hidden_by(effects), **between}, effects)

        there = climbed(here, ahead, part_of_the_way)
        return there, there.bound

    def settled(self, start: Natural) -> GaussianPlace:
        """Where sites' own parts are what rows imply, given the posterior of all the rest."""
        natural, count, side = dict(start), len(self.problem.groups.parents), self.problem.side
        nothing = self.problem.effects(np.zeros((count, side)), np.zeros((count, side, side)), natural)
        here = self.place(natural, nothing)
        for _ in range(SETTLING if self.variation.there else 0):
            ahead, earlier = self.problem.effects(*here.sums, natural), here.bound
            here = climbed(here, ahead, lambda _, effects: self.place(natural, effects))
            if here.bound - earlier <= self.problem.tolerance * len(self.problem.targets):
                break
        return here

    def effects(self, natural: Natural) -> SiteEffects:
        return self.settled(natural).effects

    def left(self, effects: SiteEffects) -> tuple[Array, float]:
        return added(effects.shift, effects.precision) - hidden_by(effects), effects.hidden()[2]

    def contributed(self, natural: Natural) -> dict[str, Array]:
        here = self.settled(natural)
        effects = self.problem.effects(*here.sums, natural)
        return {FACTOR: self.before[FACTOR] + added(*here.sums) - hidden_by(effects), **self.varied(here)}


def climbed(
    here: GaussianPlace, ahead: SiteEffects, part_of_the_way: Callable[[float, SiteEffects], GaussianPlace]
) -> GaussianPlace:
    """The place ahead, or one on the way to it if the bound would fall."""
    slack, share = 1e-13 * abs(here.bound), 1.0
    for _ in range(HALVINGS):
        there = part_of_the_way(share, ahead)
        if there.bound >= here.bound - slack:
            return there
        ahead, share = here.effects.half_way(ahead), 0.5 * share
    return here


def added(shift: Array, precision: Array) -> Array:
    """(1, d): what rows of all sites add to the natural parameters."""
    return np.concatenate([shift.sum(axis=0), (-0.5 * precision.sum(axis=0)).ravel()])[None, :]


def hidden_by(effects: SiteEffects) -> Array:
    """(1, d): the part of it that sites' own parts account for."""
    shift, precision, _ = effects.hidden()
    return np.concatenate([shift, (-0.5 * precision).ravel()])[None, :]
