"""Fits of coefficients: the inputs, and passes that raise the bound."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.families import Array
from decbayes.models.regressions.varying.site_effects import Groups, SiteEffects, SiteRows
from decbayes.models.regressions.varying.variation import Variation

if TYPE_CHECKING:
    from decbayes.models.regressions.outcome import Generalized

FACTOR = "coefficients"

Natural = Mapping[str, Array]

# Halvings after which nothing is left of a step.
HALVINGS = 30
# Most passes over site deviations alone.
SETTLING = 100


@dataclass(frozen=True)
class Place:
    """Where a climb stands: natural parameters, and the bound there."""

    natural: dict[str, Array]
    bound: float


@dataclass(frozen=True)
class Problem:
    """The inputs of a fit: rows by group; targets in agreed units of size `unit`, offsets in these units and weights of
    rows, a constant of the log-likelihood; the groups; natural parameters before the rows; what varies.
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
        """The number of coefficients."""
        return int(self.rows.design.shape[1])

    def effects(self, shift: Array, precision: Array, natural: Natural) -> SiteEffects:
        """The deviations of groups, given the sums of their rows and Λ."""
        precisions = self.variation.precisions(natural)
        return SiteEffects(shift, precision, self.variation.groupings, precisions, self.groups.parents)


class Climb(ABC):
    """Passes that raise the bound."""

    exact: bool = False
    """Whether the first place is the posterior."""

    @abstractmethod
    def begin(self, start: Natural | None) -> Any:
        """The first place, from the posterior `start` if given."""

    @abstractmethod
    def step(self, reached: Any) -> tuple[Any, float]:
        """The next place, and its bound."""

    @abstractmethod
    def effects(self, natural: Natural) -> SiteEffects:
        """The deviations of the sites in these rows, given the posterior."""

    @abstractmethod
    def marginal(self, effects: SiteEffects) -> tuple[Array, float]:
        """(1, d): what rows add to the coefficients once deviations are integrated out; and what these explain."""

    @abstractmethod
    def contributed(self, natural: Natural) -> dict[str, Array]:
        """The prior plus the contribution of the rows at that posterior."""


@dataclass(frozen=True)
class GaussianPlace(Place):
    """Also the deviations of sites given β, and the sums of rows there.

    A whole step leads to the β and the deviations that these sums imply.
    """

    effects: SiteEffects
    sums: tuple[Array, Array]


class GaussianClimb(Climb):
    """β and all site deviations have one joint Gaussian."""

    def __init__(self, outcome: "Generalized", problem: Problem) -> None:
        self.outcome, self.problem, self.variation = outcome, problem, problem.variation
        self.before, self.variational = problem.before, problem.approximation == "variational"

    def begin(self, start: Natural | None) -> GaussianPlace:
        if start is not None:
            return self.settle(start)
        f = self.outcome.beginning(self.problem.targets, self.problem.offset)
        _, sums = self.sums(f - self.problem.offset, np.zeros(len(f)))
        effects = self.problem.effects(*sums, self.before)
        first = self.before[FACTOR] + added(*sums) - hidden_by(effects)
        return self.place(self.before | {FACTOR: first}, effects)

    def sums(self, mean: Array, variance: Array) -> tuple[float, tuple[Array, Array]]:
        """Σ E[log p(y|f)] given the moments of xβ in each row, and the sums of rows of each site."""
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
        """The term of the bound from the prior of the coefficients; for Laplace, its logarithm at the mode."""
        family, before = self.outcome.family, self.before[FACTOR]
        if self.variational:
            return -family.kl(natural, before)
        coefficients = family.expected(natural)
        return float(np.sum(before * family.statistics(coefficients))) - family.log_partition(before)

    def between_bound(self, natural: Natural, effects: SiteEffects) -> float:
        """The terms of the bound from site deviations, and from their size."""
        if not self.variation.there:
            return 0.0
        squares = effects.squares(self.outcome.expected(natural, self.problem.side))
        return self.variation.bound(natural, self.before, squares) + effects.entropy()

    def updated_variation(self, reached: GaussianPlace) -> dict[str, Array]:
        """The size of site deviations, given all the rest."""
        if not self.variation.there:
            return {}
        moments = self.outcome.expected(reached.natural, self.problem.side)
        return self.variation.updated(self.before, reached.effects.squares(moments))

    def step(self, reached: GaussianPlace) -> tuple[GaussianPlace, float]:
        between = self.updated_variation(reached)
        ahead = self.problem.effects(*reached.sums, between)
        begin, end = reached.natural[FACTOR] + hidden_by(reached.effects), self.before[FACTOR] + added(*reached.sums)

        def part_of_the_way(share: float, effects: SiteEffects) -> GaussianPlace:
            whole = end if share == 1.0 else begin + share * (end - begin)
            return self.place({FACTOR: whole - hidden_by(effects), **between}, effects)

        trial = damped_step(reached, ahead, part_of_the_way)
        return trial, trial.bound

    def settle(self, start: Natural) -> GaussianPlace:
        """Where site deviations are what rows imply, given the posterior of all the rest."""
        natural, count, side = dict(start), len(self.problem.groups.parents), self.problem.side
        nothing = self.problem.effects(np.zeros((count, side)), np.zeros((count, side, side)), natural)
        reached = self.place(natural, nothing)
        for _ in range(SETTLING if self.variation.there else 0):
            ahead, earlier = self.problem.effects(*reached.sums, natural), reached.bound
            reached = damped_step(reached, ahead, lambda _, effects: self.place(natural, effects))
            if reached.bound - earlier <= self.problem.tolerance * len(self.problem.targets):
                break
        return reached

    def effects(self, natural: Natural) -> SiteEffects:
        return self.settle(natural).effects

    def marginal(self, effects: SiteEffects) -> tuple[Array, float]:
        return added(effects.shift, effects.precision) - hidden_by(effects), effects.hidden()[2]

    def contributed(self, natural: Natural) -> dict[str, Array]:
        reached = self.settle(natural)
        effects = self.problem.effects(*reached.sums, natural)
        coefficients = self.before[FACTOR] + added(*reached.sums) - hidden_by(effects)
        return {FACTOR: coefficients, **self.updated_variation(reached)}


def damped_step(
    reached: GaussianPlace, ahead: SiteEffects, part_of_the_way: Callable[[float, SiteEffects], GaussianPlace]
) -> GaussianPlace:
    """The place ahead, or one on the way if the bound would fall."""
    slack, share = 1e-13 * abs(reached.bound), 1.0
    for _ in range(HALVINGS):
        trial = part_of_the_way(share, ahead)
        if trial.bound >= reached.bound - slack:
            return trial
        ahead, share = reached.effects.half_way(ahead), 0.5 * share
    return reached


def added(shift: Array, precision: Array) -> Array:
    """(1, d): what rows of all sites add to the natural parameters."""
    return np.concatenate([shift.sum(axis=0), (-0.5 * precision.sum(axis=0)).ravel()])[None, :]


def hidden_by(effects: SiteEffects) -> Array:
    """(1, d): the part of it that site deviations account for."""
    shift, precision, _ = effects.hidden()
    return np.concatenate([shift, (-0.5 * precision).ravel()])[None, :]
