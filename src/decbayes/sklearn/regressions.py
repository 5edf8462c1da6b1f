"""Estimators of regressions: a number, a class or a count, from numbers."""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from decbayes.calibrated import Calibration
from decbayes.columns import Categorical, Column, Gaussian, Poisson, YesNo
from decbayes.columns.frames import known
from decbayes.families import Array
from decbayes.models.core.model import Model
from decbayes.models.regressions.linear import LinearRegression as LinearModel
from decbayes.models.regressions.logistic import LogisticRegression as LogisticModel
from decbayes.models.regressions.multinomial import MultinomialRegression as MultinomialModel
from decbayes.models.regressions.outcome import Outcome
from decbayes.models.regressions.poisson import PoissonOutcome
from decbayes.models.regressions.poisson import PoissonRegression as PoissonModel
from decbayes.models.regressions.regression import Regression
from decbayes.posterior import Posterior
from decbayes.remarks import Remark
from decbayes.sklearn.sited import Sited

TARGET = "target"


@dataclass(eq=False, repr=False)
class Regressing(Sited):
    """An estimator of how a target depends on columns.

    Columns have units, which are those of the first data unless `columns` are given, as agreed by sites. The target is
    called "target", and columns without names x0, x1, … `prior_variance` is that of each coefficient, and
    `fit_intercept` is whether there is an intercept.

    `max_iter` and `tol` end a site's fit; `rounds` is how often each site is refitted given the posteriors of the
    others; `forgetting` is the share that each `partial_fit` forgets, or "learn"; `random_state` has no effect.
    """

    _model: ClassVar[type[Regression]]
    _outcome: ClassVar[type[Column]]
    _numeric: ClassVar[bool] = True
    _: KW_ONLY
    prior_variance: float = 10.0
    fit_intercept: bool = True
    columns: Mapping[str, Any] | None = None
    max_iter: int = 100
    tol: float = 1e-10
    model_: Regression = field(init=False)

    @property
    def coef_(self) -> Array:
        """The change of the target, or of its logarithm or log-odds, per unit of each column."""
        return np.array([row["mean"] for row in self._rows() if row["term"] != "intercept"])

    @property
    def intercept_(self) -> float:
        """The target, or its logarithm or log-odds, if all columns are zero."""
        return float(self._rows()[0]["mean"]) if self.fit_intercept else 0.0

    def coefficients(self, *, level: float = 0.9) -> list[dict[str, Any]]:
        """Each coefficient with its interval: rows for a data frame."""
        return self.model_.coefficients(self.posterior_, level=level)

    def interval(self, X: Any, *, level: float = 0.9) -> Array:
        """(rows, 2): an interval for a new value; for a probability, its uncertainty."""
        predicted = self._predict_rows(X, level)
        return np.column_stack([predicted["low"], predicted["high"]])

    def _rows(self) -> list[dict[str, Any]]:
        return self.model_.coefficients(self.posterior_)

    def _predict_rows(self, X: Any, level: float = 0.9) -> dict[str, Array]:
        data = self._new_rows(X)
        return self.model_.predict(self.posterior_, data, level=level)

    def _read(self, X: Any, y: Any, *, reset: bool) -> Any:
        """The columns, and the target as the last one; NaN if unknown."""
        if y is None and not reset:
            rows = validate_data(self, X, dtype=np.float64, reset=False)
            return np.column_stack([rows, np.full(len(rows), np.nan)])
        rows, target = validate_data(self, X, y, dtype=np.float64, y_numeric=self._numeric, reset=reset)
        return np.column_stack([rows, self._target(target, reset)])

    def _target(self, target: Any, reset: bool) -> Array:
        return np.asarray(target, dtype=np.float64)

    def _make_model(self, given: Any) -> Model:
        names = [*getattr(self, "feature_names_in_", (f"x{place}" for place in range(given.shape[1] - 1))), TARGET]
        kinds = [*map(Gaussian.found_in, given.T[:-1]), self._outcome_column(given[:, -1])]
        columns: dict[str, Column] = dict(zip(map(str, names), kinds, strict=True))
        return self._kind(given[:, -1])(
            TARGET,
            columns=columns if self.columns is None else self.columns,
            intercept=self.fit_intercept,
            prior_variance=self.prior_variance,
            ascent=self._ascent(),
        )

    def _outcome_column(self, targets: Array) -> Column:
        return self._outcome.found_in(targets)

    def _kind(self, targets: Array) -> type[Regression]:
        return self._model


class LinearRegression(RegressorMixin, Regressing):  # type: ignore[misc]
    """A number from other numbers, with noise of unknown size. The merge is exactly the posterior of all rows.

    See `decbayes.LinearRegression` for `prior_variance`, and `decbayes.columns` for `columns`, which sites agree on;
    without it columns have the units of the first data. `fit_intercept` is whether there is an intercept. `max_iter`
    and `tol` end a site's fit; `rounds` is how often each site is refitted given the posteriors of the others;
    `forgetting` is the share that each `partial_fit` forgets, or "learn"; `random_state` has no effect.

    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> lines = db.sklearn.LinearRegression().fit(x, 3.0 + x @ [1.0, 2.0], sites=np.arange(100) % 4)
    >>> lines.coef_.round(1), round(lines.intercept_, 1)
    (array([1., 2.]), 3.0)
    """

    _model, _outcome = LinearModel, Gaussian

    def predict(self, X: Any) -> Array:
        """The expected target of each row."""
        return self._predict_rows(X)["mean"]


class PoissonRegression(RegressorMixin, Regressing):  # type: ignore[misc]
    """How often something happens, from other numbers.

    See `decbayes.PoissonRegression` for `prior_variance`; all other settings are those of `LinearRegression`. Targets
    that are not integers have the same mean, exp(xβ), and robust errors, which assume nothing about their variance.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 1))
    >>> rates = db.sklearn.PoissonRegression().fit(x, rng.poisson(np.exp(1.0 + 0.5 * x[:, 0])))
    >>> rates.coef_.round(1)
    array([0.5])
    """

    _model, _outcome = PoissonModel, Poisson

    def predict(self, X: Any) -> Array:
        """The expected count of each row."""
        return self._predict_rows(X)["mean"]

    def _kind(self, targets: Array) -> type[Regression]:
        return PoissonModel if (targets == np.rint(targets)).all() else QuasiPoisson

    def _learn(self, data: Any, sites: Any, earlier: Mapping[Any, Posterior]) -> Self:
        fitted = super()._learn(data, sites, earlier)
        if isinstance(self.model_, QuasiPoisson) and not earlier and len(data) > data.shape[1]:
            self.posterior_ = with_robust_errors(self.model_, self.posterior_, data)
        return fitted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class Amounts(PoissonOutcome):
    """Numbers from 0 on with the mean exp(f); nothing else is assumed about them."""

    def check_targets(self, name: str, targets: Array) -> None:
        if not (targets >= 0).all():
            raise ValueError(f"The target '{name}' must be a number from 0 on in every row.")

    def remarks(self, targets: Array, mean: Array, weights: Array, side: int) -> Iterator[Remark]:
        return iter(())


@dataclass(frozen=True)
class QuasiPoisson(PoissonModel):
    """A Poisson regression of numbers that are not counts: its estimates are valid, its standard errors are not."""

    outcome: ClassVar[Outcome] = Amounts()


def with_robust_errors(model: Regression, posterior: Posterior, data: Array) -> Posterior:
    errors = model.robust_errors(posterior)
    return replace(posterior, calibration=Calibration("robust errors", errors.deviations(*errors.sums(data))))


class Classifying(ClassifierMixin, Regressing):  # type: ignore[misc]
    """An estimator of the class of each row."""

    _numeric = False

    def partial_fit(self, X: Any, y: Any = None, sites: Any = None, classes: Any = None) -> Self:
        """Add rows; `classes` names all classes if the first rows do not have them."""
        if classes is not None and not hasattr(self, "classes_"):
            self._given_classes = np.unique(classes)
        return super().partial_fit(X, y, sites)

    def predict_proba(self, X: Any) -> Array:
        """(rows, classes): the probability of each class."""
        return self._predict_rows(X)["mean"]

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        likely = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likely])

    def _check_classes(self, target: Any, reset: bool) -> None:
        check_classification_targets(target)
        if reset:
            self.classes_ = self.__dict__.pop("_given_classes", np.unique(target))


class LogisticRegression(Classifying):
    """One of two classes, from numbers.

    See `decbayes.LogisticRegression` for `prior_variance`; all other settings are those of `LinearRegression`.

    >>> x = np.random.default_rng(0).normal(size=(100, 1))
    >>> classes = db.sklearn.LogisticRegression().fit(x, np.where(x[:, 0] > 0, "high", "low"))
    >>> classes.predict([[-1.0], [1.0]]).tolist()
    ['low', 'high']
    """

    _model, _outcome = LogisticModel, YesNo

    def predict_proba(self, X: Any) -> Array:
        """(rows, 2): the probability of each class."""
        second = self._predict_rows(X)["mean"]
        return np.column_stack([1.0 - second, second])

    def _target(self, target: Any, reset: bool) -> Array:
        self._check_classes(target, reset)
        if len(self.classes_) != 2 or not np.isin(target, self.classes_).all():
            kind = type_of_target(target) if len(self.classes_) > 1 else "one class"
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}; "
                "partial_fit(classes=…) names both classes if the first rows have only one."
            )
        return np.asarray(target == self.classes_[1], dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class MultinomialRegression(Classifying):
    """One of several classes, from numbers; the first in alphabetical order is the reference.

    See `decbayes.MultinomialRegression` for `prior_variance`; all other settings are those of `LinearRegression`.
    `coef_` is (classes − 1, columns), and `intercept_` has one number for each class but the reference.

    >>> x = np.random.default_rng(0).normal(size=(150, 1))
    >>> names = np.array(["low", "mid", "top"])[np.digitize(x[:, 0], [-1, 1])]
    >>> classes = db.sklearn.MultinomialRegression().fit(x, names)
    >>> classes.predict([[-2.0], [0.0], [2.0]]).tolist()
    ['low', 'mid', 'top']
    """

    _model, _outcome = MultinomialModel, Categorical

    @property
    def coef_(self) -> Array:
        """(classes − 1, columns): the change of the log-odds against the first class per unit of each column."""
        return self._by_class()[:, int(self.fit_intercept) :]

    @property
    def intercept_(self) -> Array:  # type: ignore[override]
        """(classes − 1,): log-odds against the first class if all columns are zero."""
        return self._by_class()[:, 0] if self.fit_intercept else np.zeros(len(self.classes_) - 1)

    def interval(self, X: Any, *, level: float = 0.9) -> Array:
        """(rows, classes, 2): the interval of each probability."""
        predicted = self._predict_rows(X, level)
        return np.stack([predicted["low"], predicted["high"]], axis=-1)

    def _by_class(self) -> Array:
        return np.array([row["mean"] for row in self._rows()]).reshape(len(self.classes_) - 1, -1)

    def _target(self, target: Any, reset: bool) -> Array:
        self._check_classes(target, reset)
        if len(self.classes_) < 2 or not np.isin(target, self.classes_).all():
            raise ValueError(
                "The target has one class, or an unknown one; partial_fit(classes=…) names all classes if "
                "the first rows do not have them."
            )
        return np.asarray(np.searchsorted(self.classes_, target), dtype=np.float64)

    def _outcome_column(self, targets: Array) -> Column:
        column = Categorical(*map(str, self.classes_))
        agreed = None if self.columns is None else known(self.columns).get(TARGET)
        if agreed is not None and agreed.entries != column.entries:
            raise ValueError(f"Agree on the classes in this order: {', '.join(column.entries)}.")
        return column
