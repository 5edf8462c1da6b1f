"""Logistic regression: the probability of a yes."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import pi
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, logsumexp, ndtr, ndtri

from decbayes.columns import Categorical, Column, YesNo
from decbayes.columns.frames import known, likely_kind, values_in
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array
from decbayes.models.regressions.messages import doubts
from decbayes.models.regressions.outcome import Approximation, Generalized, Outcome
from decbayes.models.regressions.private.bounded_scores import YesNoScores
from decbayes.models.regressions.regression import Regression
from decbayes.remarks import Remark

Yes = Annotated[str, "The category of the outcome to model; all others count as no."]

# The logistic function as a mixture of normal distribution functions, Σ p Φ(s x), to 1e-8 (Monahan and Stefanski,
# 1989): expectations under any Gaussian then have a closed form.
SHARES = np.array([
    0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818,
    0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354,
])  # fmt: skip
SLOPES = np.array([
    1.365340806296348, 1.059523971016916, 0.830791313765644, 0.650732166639391,
    0.508135425366489, 0.396313345166341, 0.308904252267995, 0.238212616409306,
])  # fmt: skip

# Below this probability the mixture's tails are too light, and quadrature replaces it.
SMALL = 1e-5
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(64)


class Logistic(Generalized):
    """The probability of a yes is 1 / (1 + exp(−f)). The target is yes/no, or has two categories: the second is yes."""

    holds: ClassVar[type[Column]] = YesNo
    ratio: ClassVar[str] = "odds ratio"
    common: ClassVar[tuple[float, ...]] = (0.0, 1.0)
    heaviest: ClassVar[float | None] = 0.25
    recentres: ClassVar[bool] = True
    narrow: ClassVar[float] = 1.0
    anchors: ClassVar[tuple[float, ...]] = (3.0,)

    def check_column(self, model: str, name: str, column: Column) -> None:
        if column.factor == "yes_no" or (column.factor == "categorical" and len(column.entries) == 2):
            return
        content = f"has {len(column.entries)}" if column.factor == "categorical" else f"is {column.kind}"
        remedy = "" if column.factor != "categorical" else " Name the one that counts as yes: --yes (yes= in Python)."
        raise InvalidStructure(f"The target of {model} is yes/no, or has two categories; '{name}' {content}.{remedy}")

    def kind_in(self, frame: Any, name: str) -> str:
        try:
            words = likely_kind(values_in(frame, name)) is Categorical
        except InvalidData as error:
            raise InvalidData(f"Column '{name}': {error}") from None
        return Categorical.kind if words else YesNo.kind

    def modelled(self, name: str, column: Column) -> str:
        others = len(column.categories) - 1 if isinstance(column, YesNo) else 1
        against = f" against all {others} other categories" if others > 1 else ""
        return f"odds of {name} = {level_of(column)}{against}"

    def check_targets(self, name: str, targets: Array) -> None:
        if not np.isin(targets, (0.0, 1.0)).all():
            raise InvalidData(f"The target '{name}' must be 0 or 1 in every row.")

    def remarks(self, targets: Array, mean: Array, weights: Array, side: int) -> Iterator[Remark]:
        return doubts.of_outcomes(targets)

    def broadcast_remarks(self, targets: Array, mean: Array, weights: Array, design: Array) -> Iterator[Remark]:
        events = float(weights @ targets)
        apart = bool(((mean > 0) == (targets == 1.0)).all())
        separated = apart or doubts.separated(design[weights > 0], targets[weights > 0])
        return doubts.of_one_broadcast(events, float(weights.sum()) - events, design.shape[1], separated)

    def expectations(self, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        # log σ(f) and log σ(−f) differ by f: with the sign of the target there is one formula.
        sign = 2.0 * targets - 1.0
        wide = np.sqrt(variance[:, None] + SLOPES**-2.0)
        at = (-sign * mean)[:, None] / wide
        below, height = ndtr(at), np.exp(-0.5 * at**2) / np.sqrt(2 * pi)
        # E[log(1 + exp(−sf))]: each term is the mean of the positive part of a Gaussian.
        value = -(((-sign * mean)[:, None] * below + wide * height) @ SHARES)
        return value, sign * (below @ SHARES), (height / wide) @ SHARES

    def most_of_one(self, value: float) -> tuple[float, float]:
        # g + w E[f] of a yes falls from 1 to 0 as E[f] rises, and that of a no from 0 to −1.
        return 1.0, 0.25

    def scores(self, column: Column) -> YesNoScores:
        return YesNoScores()

    def beginning(self, targets: Array, offset: Array) -> Array:
        return offset

    def log_density(self, natural: Array, mean: Array, variance: Array, targets: Array) -> Array:
        signed = (2.0 * targets - 1.0) * mean
        probable = ndtr(signed[:, None] / np.sqrt(variance[:, None] + SLOPES**-2.0)) @ SHARES
        shares = np.log(WEIGHTS / WEIGHTS.sum())
        summed = logsumexp(log_expit(signed[:, None] + np.sqrt(variance)[:, None] * NODES) + shares, axis=1)
        return np.asarray(np.where(probable > SMALL, np.log(np.maximum(probable, SMALL)), summed))

    def predicted(self, natural: Array, mean: Array, variance: Array, level: float) -> dict[str, Array]:
        """The probability of a yes; the interval says how well it is known."""
        reach = ndtri(0.5 + 0.5 * level) * np.sqrt(variance)
        probable = np.exp(self.log_density(natural, mean, variance, np.ones(len(mean))))
        return {"mean": probable, "low": expit(mean - reach), "high": expit(mean + reach)}

    def draw(self, linear: Array, noise: float, rng: np.random.Generator) -> Array:
        return np.asarray(rng.random(len(linear)) < expit(linear), dtype=np.float64)


def level_of(column: Column) -> str:
    return column.yes if isinstance(column, YesNo) else column.entries[1]


def as_yes_or_no(name: str, column: Column, yes: str) -> Column:
    """The outcome as yes or no, where `yes` names the category that counts as yes; a site may only have the other."""
    if not yes or (isinstance(column, YesNo) and yes == column.yes):
        return column
    categories = column.categories if isinstance(column, Categorical | YesNo) else ()
    if yes not in categories and not (isinstance(column, Categorical) and len(categories) == 1):
        remedy = "`decbayes columns` lists its categories" if categories else "It is yes or no already; leave out --yes"
        raise InvalidStructure(f"There is no category '{yes}' in '{name}' to count as yes. {remedy}.")
    others = [category for category in categories if category != yes]
    if any(category.casefold() == yes.casefold() for category in others):
        raise InvalidStructure(f"Another category of '{name}' is '{yes}' but for capital letters. Write them alike.")
    return YesNo(yes, *others)


def name_level(model: Any) -> None:
    """Code the outcome by the setting `yes`, and let that setting name the level."""
    columns = known(model.columns)
    if model.target in columns:
        columns[model.target] = column = as_yes_or_no(model.target, columns[model.target], model.yes)
        binary = isinstance(column, YesNo) or len(column.entries) == 2
        object.__setattr__(model, "yes", level_of(column) if binary else "")
        object.__setattr__(model, "columns", columns)


@dataclass(frozen=True, kw_only=True)
class LogisticRegression(Regression):
    """The probability of a yes, from other columns: 1 / (1 + exp(−xβ)), with β ~ N(0, prior_variance · I).

    The target is yes/no, or has categories: `yes` names the one to model (of two, the second by default), and
    `modelled` states it. `approximation` is how the posterior is made Gaussian: by "variational" Bayes, or by
    "laplace", around the most probable coefficients, which is faster and less accurate. All else is as in
    `LinearRegression`, with variances in units of xβ.

    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(50, 10, 300)
    >>> patients = {"age": age, "ill": rng.random(300) < 1 / (1 + np.exp(5 - 0.1 * age))}
    >>> model = db.LogisticRegression.from_frame(patients, "ill ~ age")
    >>> posterior = model.fit(patients).posterior
    >>> round(model.coefficients(posterior)[1]["mean"], 2)
    0.12
    >>> model.predict(posterior, {"age": [30.0, 70.0]})["mean"].round(1)
    array([0.1, 0.9])
    """

    approximation: Approximation = "variational"
    yes: Yes = ""

    about: ClassVar[str] = "Predict a yes/no column from other columns."
    command: ClassVar[str] = "logistic-regression"
    example: ClassVar[str] = "patients.csv --formula 'smoker ~ age + sex'"
    outcome: ClassVar[Outcome] = Logistic()

    def __post_init__(self) -> None:
        name_level(self)
        super().__post_init__()
