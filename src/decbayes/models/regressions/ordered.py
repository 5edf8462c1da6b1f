"""Ordered outcomes: how likely it is to go beyond each level, once it is reached."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.arguments import check_level, names_of
from decbayes.columns import Categorical, Column
from decbayes.columns.frames import known
from decbayes.errors import InvalidStructure, NotPrivate
from decbayes.families import Array
from decbayes.models.core.model import split_names
from decbayes.models.core.points import check_structure
from decbayes.models.regressions.logistic import Logistic
from decbayes.models.regressions.outcome import FACTOR, Approximation, Outcome
from decbayes.models.regressions.private.bounded_scores import YesNoScores
from decbayes.models.regressions.regression import Regression
from decbayes.models.regressions.stacking import Thresholds
from decbayes.posterior import Posterior


@dataclass(frozen=True)
class Step(Logistic):
    """Whether an observation that has reached one of the `ordered` levels goes beyond it."""

    ordered: tuple[str, ...] = ("", "", "")

    holds: ClassVar[type[Column]] = Categorical

    @property
    def heaviest(self) -> float:  # type: ignore[override]
        return 0.25 * (len(self.ordered) - 1)  # an observation is a row at each level but the last

    def check_column(self, model: str, name: str, column: Column) -> None:
        """The levels have been counted."""

    def kind_in(self, frame: Any, name: str) -> str:
        return Categorical.kind

    def modelled(self, name: str, column: Column) -> str:
        return f"odds of going beyond each level of {name}: {' < '.join(self.ordered)}"

    def scores(self, column: Column) -> YesNoScores:
        raise NotPrivate(
            "OrderedRegression has no private release: nobody has bounded what the levels of one person add together. "
            "Predict whether a level is passed, with LogisticRegression."
        )

    def check_targets(self, name: str, targets: Array) -> None:
        """Frames are checked by their column."""


@dataclass(frozen=True)
class OrderedRegression(Regression):
    """How an ordered outcome (mild, moderate, severe) depends on other columns, as steps from level to level.

        P(beyond k | reached k) = 1 / (1 + exp(−xβ − a_k))      (continuation ratio)

    Each observation is a row of a logistic regression for every level that it has reached, so that sites add up.
    exp(β) is the ratio of odds to go further, the same at each level; "age:threshold" in a formula lets it differ.
    `levels` is the order, from the lowest; the column's own if not given. All else is as in `LogisticRegression`.

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

    approximation: Approximation = field(default="variational", kw_only=True)
    levels: Sequence[str] = field(default=(), kw_only=True)

    about: ClassVar[str] = "Predict an ordered column, such as mild, moderate, severe."
    agreed_settings: ClassVar[frozenset[str]] = frozenset({"levels"})
    command: ClassVar[str] = "ordered-regression"
    example: ClassVar[str] = "patients.csv --formula 'pain ~ age + sex' --levels none,mild,severe"
    outcome: ClassVar[Outcome] = Step()
    level: ClassVar[str] = Thresholds.name
    from_data: ClassVar[frozenset[str]] = Regression.from_data | {"levels"}

    @cached_property
    def stack(self) -> Thresholds:
        column = known(self.columns).get(self.target)
        entries = () if column is None else column.entries
        if len(entries) < 3:
            raise InvalidStructure(
                f"The target '{self.target}' is to be a categorical column with three or more levels."
            )
        ordered = names_of(levels=self.levels or ()) or entries
        if sorted(ordered) != sorted(entries):
            raise InvalidStructure(
                f"The levels {', '.join(ordered)} are not those of '{self.target}': {', '.join(entries)}."
            )
        object.__setattr__(self, "levels", ordered)
        object.__setattr__(self, "outcome", Step(ordered))
        return Thresholds(ordered, tuple(ordered.index(entry) for entry in entries))

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
        """Say what to fit with --formula, or the --target, and the order of its --levels."""
        options |= {"levels": tuple(split_names(levels))} if levels else {}
        return super().from_file(path, formula=formula, varying=varying, **options)

    def _order(self, points: Array) -> tuple[Array, Array, Array]:
        reached = np.array(self.stack.places)[self.table.targets(points).astype(int)].astype(np.float64)
        return -reached, np.ones(len(reached)), np.full(len(reached), -np.inf)

    def probabilities(self, posterior: Posterior, data: Any) -> Array:
        """(N, levels): how probable each level is, in each row of `data`.

        >>> columns = {"pain": db.columns.Categorical("no", "some", "much"), "age": "real"}
        >>> model = db.OrderedRegression("pain", columns=columns)
        >>> model.probabilities(db.Posterior.of_prior(model.structure), {"age": [0.0]})
        array([[0.5 , 0.25, 0.25]])
        """
        check_structure(posterior, self.structure, "posterior")
        points = self.table.points(data, target=False)
        rows = self.table.rows(points, every=True)
        linear = self._linear(posterior, points, rows, None)
        natural = posterior.natural[FACTOR]
        further = np.exp(self.outcome.log_density(natural, *linear, np.ones(len(rows.targets))))
        return steps_to_levels(further.reshape(len(points), -1))

    def predict(self, posterior: Posterior, data: Any, *, level: float = 0.9, known: Any = None) -> dict[str, Array]:
        """The mean number of the level, from 0 on, and the levels between which an observation is expected."""
        check_level(level)
        probable = self.probabilities(posterior, data)
        below = np.cumsum(probable, axis=1)
        low, high = (
            (below < share - 1e-12).sum(axis=1).astype(float) for share in (0.5 - 0.5 * level, 0.5 + 0.5 * level)
        )
        return {"mean": probable @ np.arange(probable.shape[1]), "low": low, "high": high}

    def draw(
        self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator, *, data: Any = None, rows: int = 20
    ) -> tuple[Array, NDArray[np.float64]]:
        """Rows with made-up predictors, or with those of `data`, and the linear predictor of each step."""
        points = self._made_up_rows(size, rng, data, rows)
        linear, noise = self._drawn_linear(parameters, self.table.rows(points, every=True), points, rng)
        beyond = self.outcome.draw(linear, noise, rng).reshape(len(points), -1)
        reached = np.cumprod(beyond, axis=1).sum(axis=1).astype(int)
        points[:, self.table.target_place] = np.argsort(self.stack.places)[reached]
        return points, linear


def steps_to_levels(further: Array) -> Array:
    """(N, K): the probability of each level, given that of going beyond each of the first K − 1 once it is reached."""
    reached = np.cumprod(np.column_stack([np.ones(len(further)), further]), axis=1)
    return np.asarray(reached * np.column_stack([1.0 - further, np.ones(len(further))]), dtype=np.float64)
