"""Latent class regression: the probability of each class, from columns that were not used to find the classes.

    p(row | x) = Σ_k P(k | x) p(row | k),   P(k | x) = exp(xβ_k) / Σ_j exp(xβ_j)

Classes are known: those of a merged posterior, the same at all sites, so that coefficients have one labelling. The
likelihood of β is that of the rows, not of assigned classes, so errors of classification do not bias it (the two-step
estimator of Bakk and Kuha, 2018). With r_k the probability of class k given row and x, and a_k given x alone,

    ∂ log p / ∂f = r − a,   −∂² log p / ∂f² = (diag a − aaᵀ) − (diag r − rrᵀ)
                                            = Σ_{i<j} (a_i a_j − r_i r_j) (e_i − e_j)(e_i − e_j)ᵀ

so there are rows for pairs of classes again, with weights that may be negative: what is unknown about the class.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from decbayes.columns import Gaussian, plain
from decbayes.columns.frames import known as known_columns
from decbayes.columns.frames import names_in, rows_in, values_in
from decbayes.errors import InvalidStructure, warn
from decbayes.families import Array
from decbayes.inputs.mixed_tables import read_frame
from decbayes.inputs.tables import Report
from decbayes.models.core.model import Columns as Names
from decbayes.models.core.model import ignore, split_names
from decbayes.models.regressions._making import formula_for, model_of_columns, model_of_frame
from decbayes.models.regressions.classes.known import Classes, ClassesTable, Memberships
from decbayes.models.regressions.formulas.design import needed
from decbayes.models.regressions.multinomial import POINTS, MultinomialRegression, Softmax, tilted
from decbayes.models.regressions.outcome import Outcome
from decbayes.models.regressions.rows.stacking import Pairs
from decbayes.models.regressions.rows.table import complete
from decbayes.models.regressions.varying.climb import FACTOR, GaussianClimb, GaussianPlace, Natural, Problem
from decbayes.models.regressions.varying.site_effects import SiteEffects
from decbayes.models.tables.tabular import Agreed, Kinds, columns_text, kinds_from, read_columns
from decbayes.posterior import Posterior

CLASS = "class"
"""The left side of formulas."""
NAME = re.compile(r"[^\W\d]\w*")


class Member(Softmax):
    """The class of a row, known only with the probabilities that the row implies."""

    recentres: ClassVar[bool] = False

    def against(self, name: str, level: str) -> str:
        return f"odds of {level} against {self.compared[0]}"

    def likelihoods(self, targets: Array) -> Array:
        """(N, classes): log p(row | class), zero for the reference."""
        return self._whole(targets)

    def _levels(self, targets: Array) -> NDArray[np.intp]:
        return np.asarray(self.likelihoods(targets).argmax(axis=1))

    def expectations(self, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """Of E log Σ exp(f + log-likelihood) − E log Σ exp(f), each bounded by `tilted`."""
        means, covariances = self.joint(mean, variance)
        (before, without), (after, whole) = (
            tilted(part, covariances) for part in (means, means + self.likelihoods(targets))
        )
        later, earlier = self.stack.pairs
        value = np.zeros((len(means), len(later)))
        value[:, 0] = whole - without
        slope = after[:, later] * before[:, earlier] - after[:, earlier] * before[:, later]
        weight = before[:, later] * before[:, earlier] - after[:, later] * after[:, earlier]
        return value.ravel(), slope.ravel(), weight.ravel()

    def log_density(self, natural: Array, mean: Array, variance: Array, targets: Array) -> Array:
        logs = self.log_shares(mean, variance) + self.likelihoods(targets)[:, :, None]
        density = np.zeros((len(logs), self._pairs))
        density[:, 0] = logsumexp(logs, axis=(1, 2)) - np.log(2 * POINTS)
        return density.ravel()

    def climb(self, problem: Problem) -> "MemberClimb":
        return MemberClimb(self, problem)


class MemberClimb(GaussianClimb):
    """Steps that clip negative precisions, which rows with little information may have together."""

    def begin(self, start: Natural | None) -> GaussianPlace:
        return self.settle(self.before if start is None else start)

    def place(self, natural: dict[str, Array], effects: SiteEffects) -> GaussianPlace:
        place = super().place(natural, effects)
        shift, precision = place.sums
        values, axes = np.linalg.eigh(precision)
        clipped = (axes * np.maximum(values, 0.0)[:, None, :]) @ np.swapaxes(axes, 1, 2)
        mean = self.outcome.moments(natural[FACTOR])[0]
        return replace(place, sums=(shift + (clipped - precision) @ mean, clipped))


@dataclass(frozen=True, kw_only=True)
class ClassMembership(MultinomialRegression):
    """The probability of each class of `LatentClasses`, from other columns: who belongs to which class.

        P(class) = exp(xβ_class) / Σ exp(xβ),   β of the `reference` is zero

    `classes` is the merged posterior of the classes, the same at all sites. Predictors must not be among the columns
    that classes were found by. The `reference` is by default the largest class; classes go by their names (`decbayes
    name`), or are "class 0", "class 1" and so on. exp(β) is the odds ratio of a class against the reference.

    Rows are weighted by their probability in each class, so doubtful ones count less and errors of classification cause
    no bias. Intervals treat the classes as known: they are too narrow if classes themselves are uncertain.

    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(50, 10, 800)
    >>> ill = rng.random(800) < 1 / (1 + np.exp(5 - 0.1 * age))
    >>> frame = {"age": age} | {name: rng.random(800) < np.where(ill, 0.8, 0.2) for name in "abcde"}
    >>> found = db.LatentClasses.from_frame(frame, names="abcde", components=2)
    >>> classes = found.fit(frame, rng=0).posterior
    >>> model = db.models.ClassMembership.from_frame(frame, "~ age", classes=classes)
    >>> [round(abs(row["mean"]), 1) for row in model.coefficients(model.fit(frame).posterior)][1:]
    [0.1]
    """

    classes: Any = None

    about: ClassVar[str] = "Probabilities of latent classes, given columns that were not used to find them."
    command: ClassVar[str] = "membership"
    may_vary: ClassVar[bool] = False
    example: ClassVar[str] = "patients.csv --classes merged.posterior --formula '~ age + sex'"
    outcome: ClassVar[Outcome] = Member()
    from_data: ClassVar[frozenset[str]] = MultinomialRegression.from_data | {"classes", "target"}

    def __post_init__(self) -> None:
        check_settings({"varying": self.varying, "by": self.by, "classes": self.classes})
        known = self.known
        object.__setattr__(self, "classes", known.plain())
        object.__setattr__(self, "target", next(iter(known.likelihoods)))
        others = {name: column for name, column in known_columns(self.columns).items() if name != CLASS}
        object.__setattr__(self, "columns", {**others, **known.likelihoods})
        check_apart(known, others)
        super().__post_init__()

    @cached_property
    def known(self) -> Classes:
        """The classes."""
        return Classes.of(self.classes)

    @cached_property
    def stack(self) -> Pairs:
        names, columns = self.known.names, tuple(self.known.likelihoods)
        reference = self.reference or self.known.largest
        if reference not in names or len(names) < 2:
            raise InvalidStructure(f"There is no class '{reference}' to compare with; there are {', '.join(names)}.")
        compared = (reference, *(name for name in names if name != reference))
        places = tuple(compared.index(name) for name in names)
        stack = Memberships(compared, places, tuple(columns[names.index(name)] for name in compared))
        object.__setattr__(self, "reference", reference)
        object.__setattr__(self, "outcome", Member(stack))
        return stack

    @cached_property
    def table(self) -> ClassesTable:
        return ClassesTable(
            self.target, self.columns, self.terms, self.intercept, offset=self.offset, weights=self.weights,
            stack=self.stack, classes=self.known,
        )  # fmt: skip

    def constants(self) -> dict[str, Any]:
        """Columns of likelihoods follow from the classes."""
        others = {name: column for name, column in self.columns.items() if name not in self.known.likelihoods}
        stated = {name: value for name, value in super().constants().items() if name != "target"}
        return {**stated, "columns": plain(others), "classes": self.classes}

    @property
    def formula(self) -> str:
        return f"{CLASS} ~{super().formula.partition('~')[2]}"

    @property
    def legend(self) -> str:
        return "; ".join(f"{name}: {what}" for name, what in self.known.captions.items())

    @property
    def predicted_levels(self) -> tuple[str, ...]:
        """In the order of probabilities."""
        return self.known.names

    @classmethod
    def left_side(cls, text: str) -> tuple[str, dict[str, str]]:
        if text not in ("", CLASS):
            raise InvalidStructure(f"Membership is explained: write '~ age + sex', not '{text} ~ …'.")
        return CLASS, {}

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        formula: str = "",
        *,
        target: str = "",
        kinds: Mapping[str, str] | None = None,
        report: Report = warn,
        classes: Any = None,
        **settings: Any,
    ) -> Self:
        """The model of a data frame, by a formula such as "~ age + sex", and of the posterior of the `classes`."""
        check_settings({**settings, "target": target, "classes": classes})
        known = Classes.of(classes)
        check_apart(known, NAME.findall(formula.rpartition("~")[2]))
        names = [name for name in names_in(frame) if name not in known.model.columns]
        whole = {CLASS: np.zeros(rows_in(frame)), **{name: values_in(frame, name) for name in names}}
        text = formula if "~" in formula else f"~ {formula or '.'}"
        model: Self = model_of_frame(cls, whole, text, "", kinds, report, {**settings, "classes": classes})
        return model

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        classes: Annotated[Posterior | None, "The merged posterior of the classes, the same at all sites."] = None,
        formula: Annotated[str, "What explains membership, as in '~ age + sex'."] = "",
        columns: Names = "",
        kinds: Kinds = "",
        agreed_columns: Agreed = None,
        report: Report = ignore,
        **options: Any,
    ) -> tuple[Self, Any]:
        """Rows in which a predictor is missing are left out; columns of the classes may be missing."""
        options |= {"classes": classes}
        check_settings(options)
        known = Classes.of(classes)
        check_apart(known, NAME.findall(formula.rpartition("~")[2]))
        if agreed_columns is not None:
            agreed = {CLASS: Gaussian(0, 1), **read_columns(agreed_columns)}
            model: Self = model_of_columns(cls, agreed, formula, "", options)
            return model, model.read(path, report=report)
        frame = read_frame(path)
        chosen = split_names(columns) or list(frame)
        predictors = {name: frame[name] for name in chosen if name in frame and name not in known.model.columns}
        wanted, _ = formula_for(cls, formula, predictors)
        used = {name: frame[name] for name in needed(predictors, *wanted.terms, wanted.offset)}
        rows = complete(path, used, report).rows if used else slice(None)
        whole = {name: values[rows] for name, values in frame.items()}
        model = cls.from_frame(whole, formula, kinds=kinds_from(kinds), report=report, **options)
        report(f"{path}: {columns_text({name: model.columns[name] for name in used})}")
        return model, model.points(whole)

    def _draw_outcome(self, points: Array, linear: Array, noise: float, rng: np.random.Generator) -> None:
        """Draw a class, a row of that class, and the evidence of the row about its class."""
        super()._draw_outcome(points, linear, noise, rng)
        known, components = self.known, points[:, self.table.target_place].astype(np.intp)
        natural = known.posterior.natural
        expected = {name: family.expected(natural[name]) for name, family in known.posterior.structure.families.items()}
        drawn = known.model.emissions.draw(expected, components, rng)
        places = [list(self.columns).index(name) for name in known.likelihoods]
        points[:, places] = known.model.emissions.log_predictive(natural, drawn)

    def largest_contribution(self, value: float) -> Mapping[str, Array]:
        """There is no bound: rows that contradict their predictors may contribute anything."""
        return {}


def check_apart(known: Classes, names: Iterable[str]) -> None:
    """Refuse to explain classes by the columns they were found by."""
    shared = [name for name in names if name in known.model.columns]
    if shared:
        raise InvalidStructure(
            f"Classes were found by '{shared[0]}', so that it cannot explain them. Leave it out of the formula, or "
            "find classes without it."
        )


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings of other regressions that mean nothing here."""
    if settings.get("classes") is None:
        raise InvalidStructure("Give the merged posterior of the classes: classes=…, or --classes FILE.")
    if settings.get("target"):
        raise InvalidStructure("The target is the class: say what explains it with a formula such as '~ age + sex'.")
    if settings.get("varying") or settings.get("by"):
        raise InvalidStructure("Coefficients of membership are the same at all sites: leave out what varies.")
