"""Ordered outcomes: the odds of passing each level, once it is reached or unconditionally."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import expit, logit

from decbayes.base.arguments import check_level, names_of
from decbayes.columns import OTHER, Categorical, Column
from decbayes.columns.cells import number_of
from decbayes.columns.frames import known
from decbayes.errors import InvalidStructure, NotPrivate
from decbayes.families import Array
from decbayes.models.core.evaluation import Risks
from decbayes.models.core.information import Tally
from decbayes.models.core.model import split_names
from decbayes.models.core.points import check_structure
from decbayes.models.regressions.formulas.design import Design
from decbayes.models.regressions.logistic import Logistic
from decbayes.models.regressions.messages.one_broadcast import Cloud
from decbayes.models.regressions.outcome import Approximation, Outcome
from decbayes.models.regressions.private.bounded_scores import YesNoScores
from decbayes.models.regressions.regression import Regression
from decbayes.models.regressions.rows.stacking import GAP, Cumulated, Thresholds
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

# Gaps narrower than this have a parabola for a likelihood; and the smallest probability of a level.
NARROWEST, LEAST_PROBABLE = 1e-3, 1e-12


@dataclass(frozen=True)
class Step(Logistic):
    """Whether an observation that has reached one of the `ordered` levels goes beyond it."""

    ordered: tuple[str, ...] = ("", "", "")

    holds: ClassVar[type[Column]] = Categorical
    mean_is: ClassVar[str] = "the mean number of the level, the lowest being 0"
    new: ClassVar[str] = "level"
    common: ClassVar[tuple[float, ...]] = ()

    @property
    def heaviest(self) -> float:  # type: ignore[override]
        return 0.25 * (len(self.ordered) - 1)  # an observation has a row at each level but the last

    def check_column(self, model: str, name: str, column: Column) -> None:
        """Levels have been checked already."""

    def kind_in(self, frame: Any, name: str) -> str:
        return Categorical.kind

    def modelled(self, name: str, column: Column) -> str:
        return f"odds of going on to a higher level of {name} once a level is reached ({' < '.join(self.ordered)})"

    def scores(self, column: Column) -> YesNoScores:
        raise NotPrivate(
            "OrderedRegression has no private release: nobody has bounded what the levels of one person add together. "
            "Predict whether a level is passed, with LogisticRegression."
        )

    def check_targets(self, name: str, targets: Array) -> None:
        """Frames are checked by their column."""


@dataclass(frozen=True)
class Cumulative(Step):
    """The thresholds between which an observation lies; rows are yes, no, and the gap between two thresholds.

    The gap has log(1 − exp(−f)), whose expectation under a Gaussian is infinite: its second-order expansion around E[f]
    replaces it, continued by a parabola where f is hardly above zero or below.
    """

    heaviest: ClassVar[float | None] = None  # type: ignore[assignment]
    read_as: ClassVar[Mapping[float, Callable[[Array, Array], Cloud]]] = {0.0: Cloud.weighted, GAP: Cloud.between}

    def prior(self, side: int, settings: Any) -> Array:
        """Thresholds come first; a priori all levels are equally probable."""
        mean, beyond = np.zeros((1, side)), len(self.ordered) - 1 - np.arange(len(self.ordered) - 1)
        mean[0, : len(beyond)] = logit(beyond / len(self.ordered))
        return self.family.natural(mean=mean, covariance=float(settings.prior_variance) * np.eye(side))

    def modelled(self, name: str, column: Column) -> str:
        return f"odds of a higher level of {name} ({' < '.join(self.ordered)})"

    def expectations(self, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        gap = targets == GAP
        parts = np.empty((3, len(targets)))
        parts[:, ~gap] = super().expectations(targets[~gap], mean[~gap], variance[~gap])
        value, slope, weight, change = gap_derivatives(mean[gap])
        parts[:, gap] = value - 0.5 * variance[gap] * weight, slope + 0.5 * variance[gap] * change, weight
        value, slope, weight = parts
        return value, slope, weight

    def most_of_one(self, value: float) -> tuple[float, float]:
        # Of a gap: 2 / f, plus at most half of that from its variance, which its own weight bounds.
        return 2.0 + 3.0 / NARROWEST, 0.5 + NARROWEST**-2.0 * (1.0 + NARROWEST)

    def tally(self, contribution: Array, design: Design, varies: bool) -> Tally:
        """Gaps have no largest weight, but they cancel if all thresholds move together, and in terms that are the same
        at each of them: there an observation counts as two rows."""
        side = len(design.labels)
        precision = -2.0 * contribution[0, -(side**2) :].reshape(side, side)
        of_thresholds = np.array([f"{Thresholds.name}=" in label for label in design.labels])
        together = np.arange(side) < len(self.ordered) - 1
        weights = np.append(
            np.diag(precision)[design.flags & ~of_thresholds], precision[np.ix_(together, together)].sum()
        )
        return Tally((), np.empty(0), within={FACTOR: weights[None, :] / 0.5})

    def beginning(self, targets: Array, offset: Array) -> Array:
        return np.where(targets == GAP, 1.0, offset)

    def broadcast_remarks(self, targets: Array, mean: Array, weights: Array, design: Array) -> Iterator[Remark]:
        beyond_gaps = targets != GAP
        return super().broadcast_remarks(
            targets[beyond_gaps], mean[beyond_gaps], weights[beyond_gaps], design[beyond_gaps]
        )


def gap_derivatives(f: Array) -> tuple[Array, Array, Array, Array]:
    """h(f) = log(1 − exp(−f)), h′, −h″ and h‴; below the narrowest gap, those of the parabola that touches it there."""
    wide = np.maximum(f, NARROWEST)
    odds = 1.0 / np.expm1(wide)
    value, slope, weight = np.log(-np.expm1(-wide)), odds, odds * (1.0 + odds)
    below = f - wide
    change = np.where(below < 0.0, 0.0, weight * (1.0 + 2.0 * odds))
    return value + slope * below - 0.5 * weight * below**2, slope - weight * below, weight, change


LINKS: dict[str, tuple[type[Step], type[Thresholds]]] = {
    "continuation": (Step, Thresholds),
    "cumulative": (Cumulative, Cumulated),
}


@dataclass(frozen=True, kw_only=True)
class OrderedRegression(Regression):
    """How an ordered outcome (mild, moderate, severe) depends on other columns.

        P(beyond k | reached k) = 1 / (1 + exp(−xβ − a_k))      link="continuation"
        P(beyond k)             = 1 / (1 + exp(−xβ − a_k))      link="cumulative", proportional odds

    With continuation ratios each observation is a row of a logistic regression for every level that it has reached:
    exp(β) is the odds ratio of going further once a level is reached. With cumulative logits it is the odds ratio of
    being beyond a level, and does not change if neighbouring levels are joined. Both are the same at each level;
    "age:threshold" in a formula lets them differ. `levels` is the order, from the lowest. It may be left out if levels
    are numbers, or if the column itself has another order than the alphabet's, as ordered categories of pandas have.
    All else is as in `LogisticRegression`.

    >>> rng = np.random.default_rng(0)
    >>> dose = rng.normal(0, 1, 400)
    >>> beyond = rng.random((400, 2)) < 1 / (1 + np.exp(-dose))[:, None]
    >>> effect = np.array(["none", "some", "much"])[np.cumprod(beyond, axis=1).sum(axis=1)]
    >>> trial = {"dose": dose, "effect": effect}
    >>> model = db.OrderedRegression.from_frame(trial, "effect ~ dose", levels=["none", "some", "much"])
    >>> posterior = model.fit(trial).posterior
    >>> round(model.coefficients(posterior)[-1]["mean"])
    1
    >>> model.probabilities(posterior, {"dose": [-2.0, 2.0]}).round(1)
    array([[0.9, 0.1, 0. ],
           [0.1, 0.1, 0.8]])
    """

    approximation: Approximation = "variational"
    levels: Sequence[str] = ()
    link: Annotated[
        Literal["continuation", "cumulative"], "Odds of going beyond a level once it is reached, or of being beyond it."
    ] = "continuation"

    about: ClassVar[str] = "Predict an ordered column, such as mild, moderate, severe."
    agreed_settings: ClassVar[frozenset[str]] = frozenset({"levels"})
    command: ClassVar[str] = "ordered-regression"
    example: ClassVar[str] = "patients.csv --formula 'pain ~ age + sex' --levels none,mild,severe"
    outcome: ClassVar[Outcome] = Step()
    level: ClassVar[str] = Thresholds.name
    from_data: ClassVar[frozenset[str]] = Regression.from_data | {"levels"}

    @property
    def formula(self) -> str:
        """Thresholds are implied."""
        return super().formula.replace(f" 0 + {Thresholds.name} +", "").replace(f"0 + {Thresholds.name}", "1")

    @cached_property
    def stack(self) -> Thresholds:
        column = known(self.columns).get(self.target)
        entries = () if column is None else column.entries
        if len(entries) < 3:
            raise InvalidStructure(
                f"The target '{self.target}' must be a categorical column with three or more levels."
            )
        ordered = names_of(levels=self.levels or ()) or entries
        if sorted(ordered) != sorted(entries):
            raise InvalidStructure(
                f"The levels {', '.join(ordered)} are not those of '{self.target}'. `decbayes columns` lists them."
            )
        if self.link not in LINKS:
            raise InvalidStructure(f"link is {' or '.join(map(repr, LINKS))}, not {self.link!r}.")
        outcome, stack = LINKS[self.link]
        if self.levels or is_deliberate(entries):
            object.__setattr__(self, "levels", ordered)
        object.__setattr__(self, "outcome", outcome(ordered))
        return stack(ordered, tuple(ordered.index(entry) for entry in entries))

    def constants(self) -> dict[str, Any]:
        if not self.levels:
            alphabetical = ", ".join(self.columns[self.target].entries)
            raise InvalidStructure(
                f"State the order of the levels of '{self.target}', from the lowest: --levels A,B,C or `levels`. They "
                f"are in the order of the alphabet: {alphabetical}."
            )
        return super().constants()

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        formula: Annotated[str, "What to fit, as in 'pain ~ age + sex'; or name a --target."] = "",
        levels: Annotated[str, "The levels of the target from the lowest, separated by commas."] = "",
        varying: Annotated[str, "Terms that differ from site to site, or 'threshold', separated by commas."] = "",
        **options: Any,
    ) -> tuple[Self, Any]:
        """Give a --formula, or name the --target column; and give the order of its --levels."""
        options |= {"levels": tuple(split_names(levels))} if levels else {}
        return super().from_file(path, formula=formula, varying=varying, **options)

    def _order(self, points: Array) -> tuple[Array, Array, Array]:
        reached = np.array(self.stack.places)[self.table.targets(points).astype(int)].astype(np.float64)
        return -reached, np.ones(len(reached)), np.full(len(reached), -np.inf)

    def probabilities(self, posterior: Posterior, data: Any, *, known: Any = None) -> Array:
        """(N, levels): the probability of each level in each row of `data`.

        >>> columns = {"pain": db.columns.Categorical("no", "some", "much"), "age": "real"}
        >>> model = db.OrderedRegression("pain", columns=columns)
        >>> model.probabilities(db.Posterior.of_prior(model.structure), {"age": [0.0]})
        array([[0.5 , 0.25, 0.25]])
        """
        check_structure(posterior, self.structure, "posterior")
        points = self.table.points(data, target=False)
        return self._levels(posterior, points, known)

    def _levels(self, posterior: Posterior, points: Array, known: Any) -> Array:
        rows = self.table.rows(points, every=True)
        linear = self._deviations.linear(posterior, points, rows, known)
        natural = posterior.natural[FACTOR]
        beyond = np.exp(self.outcome.log_density(natural, *linear, np.ones(len(rows.targets))))
        return LEVELS[self.link](beyond.reshape(len(points), -1))

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None, *, known: Any = None) -> Array:
        if self.link == "continuation":
            return super().log_predictive(posterior, data, held, known=known)
        check_structure(posterior, self.structure, "posterior")
        points = self.points(data if held is None else self.table.with_targets(data, held))
        probable = self._levels(posterior, points, known)
        reached = np.array(self.stack.places)[self.table.targets(points).astype(int)]
        return np.asarray(np.log(probable[np.arange(len(points)), reached]))

    def risks(self, posterior: Posterior, data: Any) -> Risks:
        risks, points = super().risks(posterior, data), self.points(data)
        if self.link == "continuation":
            return risks
        rows = self.table.rows(points, every=True)
        effects = self.outcome.moments(posterior.natural[FACTOR])[0].copy()
        effects[list(self.baseline_places)] = 0.0
        probable = self._levels(posterior, points, None)
        risk = (rows.matrix @ effects).reshape(len(points), -1).mean(axis=1)
        return risks._replace(risk=risk, observed=-risks.time, expected=probable @ np.arange(probable.shape[1]))

    def predict(self, posterior: Posterior, data: Any, *, level: float = 0.9, known: Any = None) -> dict[str, Array]:
        """The mean number of the level, from 0, and an interval of levels."""
        check_level(level)
        probable = self.probabilities(posterior, data, known=known)
        below = np.cumsum(probable, axis=1)
        low, high = (
            (below < share - 1e-12).sum(axis=1).astype(float) for share in (0.5 - 0.5 * level, 0.5 + 0.5 * level)
        )
        return {"mean": probable @ np.arange(probable.shape[1]), "low": low, "high": high}

    def _draw_outcome(self, points: Array, linear: Array, noise: float, rng: np.random.Generator) -> None:
        chances = LEVELS[self.link](expit(linear).reshape(len(points), -1))
        reached = (rng.random(len(points))[:, None] > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
        points[:, self.table.target_place] = np.argsort(self.stack.places)[reached]


def is_deliberate(levels: Sequence[str]) -> bool:
    """Whether somebody has put levels in this order, or they are numbers: tables are read in alphabetical order."""
    named = [level for level in levels if level != OTHER]
    return not np.isnan([number_of(level) for level in levels]).any() or named != sorted(named)


def steps_to_levels(further: Array) -> Array:
    """(N, K): the probability of each level, given those of going beyond the first K − 1 levels once reached."""
    reached = np.cumprod(np.column_stack([np.ones(len(further)), further]), axis=1)
    return np.asarray(reached * np.column_stack([1.0 - further, np.ones(len(further))]), dtype=np.float64)


def thresholds_to_levels(beyond: Array) -> Array:
    """(N, K): the probability of each level, given those of being beyond the first K − 1 levels.

    If thresholds are out of order, as a merge of few data may leave them, levels between them have almost no
    probability.
    """
    falling = np.minimum.accumulate(beyond, axis=1)
    ends = np.column_stack([np.ones(len(beyond)), falling, np.zeros(len(beyond))])
    between = np.maximum(-np.diff(ends, axis=1), LEAST_PROBABLE)
    return np.asarray(between / between.sum(axis=1, keepdims=True), dtype=np.float64)


LEVELS: dict[str, Callable[[Array], Array]] = {"continuation": steps_to_levels, "cumulative": thresholds_to_levels}
