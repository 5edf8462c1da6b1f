"""Estimators of components: topics of documents, clusters of points, classes of the rows of a table."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.utils.validation import check_non_negative, validate_data

from decbayes.base.arguments import check_whole
from decbayes.columns.frames import is_frame
from decbayes.families import Array
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.counts import Vocabulary, words_in_order
from decbayes.models.core.model import Model, Row
from decbayes.models.core.settings import Number, number_of
from decbayes.models.mixtures.gaussian_mixture import Covariance
from decbayes.models.mixtures.gaussian_mixture import GaussianMixture as PointModel
from decbayes.models.tables.latent_classes import LatentClasses as TableModel
from decbayes.models.topics.lda import LatentDirichletAllocation as TopicModel
from decbayes.models.topics.word_prior import shared_prior, with_priors
from decbayes.posterior import Posterior
from decbayes.sklearn.sited import Sited


@dataclass(eq=False, repr=False)
class Components(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, Sited):  # type: ignore[misc]
    """An estimator of components; each row has a share of each."""

    n_components: Number = 2
    _: KW_ONLY
    max_iter: int = 200
    tol: float = 1e-5
    n_init: int = 10

    def transform(self, X: Any) -> Array:
        """(rows, components): the share of each component in each row."""
        data = self._new_rows(X)
        return self.model_.assign(self.posterior_, data)

    def score_samples(self, X: Any) -> Array:
        """The log predictive density of each row; for documents, a bound."""
        data = self._new_rows(X)
        return self.model_.log_predictive(self.posterior_, data)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log predictive density per row; for documents, per word."""
        data = self._new_rows(X)
        return self.model_.score(self.posterior_, data)

    @property
    def _n_features_out(self) -> int:
        return number_of(self.posterior_.structure)

    def _ascent(self, **settings: Any) -> Ascent:
        check_whole(1, n_init=self.n_init)
        return super()._ascent(restarts=self.n_init - 1, **settings)


class Clusters(Components):
    """An estimator of components; each row belongs to one of them."""

    def predict_proba(self, X: Any) -> Array:
        """(rows, components): the probability that each row belongs to each component."""
        return Components.transform(self, X)

    def predict(self, X: Any) -> Array:
        """The most probable component of each row."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def fit_predict(self, X: Any, y: Any = None, sites: Any = None) -> Array:
        """Fit, and return the most probable component of each row."""
        return self.fit(X, y, sites=sites).predict(X)

    @property
    def weights_(self) -> Array:
        """The expected share of each component."""
        return np.asarray(self.posterior_.mean("weights"))


@dataclass(eq=False, repr=False)
class LatentDirichletAllocation(Components):
    """Topics of documents: rows are documents, columns are words, values are counts.

    `n_components` is the number of topics, or "auto". The columns are the words of `vocabulary`, or those of a data
    frame, or are numbered. `document_prior` and `topic_prior` are as in `decbayes.LatentDirichletAllocation`.

    `max_iter` and `tol` end a site's fit, and `n_init` is the number of its starts; `rounds` is how often each site is
    refitted given the posteriors of the others; `forgetting` is the share that each `partial_fit` forgets, or "learn";
    `random_state` seeds the fits.

    >>> counts = np.random.default_rng(0).poisson(2.0 * np.kron(np.eye(2), np.ones((20, 3))))
    >>> topics = db.sklearn.LatentDirichletAllocation(2, random_state=0)
    >>> topics.fit_transform(counts, sites=np.arange(40) % 4).shape
    (40, 2)
    """

    n_components: Number = 10
    _: KW_ONLY
    document_prior: Any = 0.1
    topic_prior: Any = 0.01
    vocabulary: Vocabulary | None = None
    max_iter: int = 100
    tol: float = 1e-3
    n_init: int = 1

    @property
    def components_(self) -> Array:
        """(topics, words): α of each word in each topic, as in scikit-learn's estimator."""
        return np.asarray(self.posterior_.natural["topics"] + 1.0)

    def _read(self, X: Any, y: Any, *, reset: bool) -> Any:
        counts = validate_data(self, X, accept_sparse="csr", reset=reset)
        check_non_negative(counts, type(self).__name__)
        return counts

    def _make_model(self, given: Any) -> Model:
        numbered = tuple(map(str, range(given.shape[1])))
        words: Any = getattr(self, "feature_names_in_", numbered) if self.vocabulary is None else self.vocabulary
        return TopicModel(
            self.n_components,
            words_in_order(words),
            self.document_prior,
            self.topic_prior,
            ascent=self._ascent(warm_up=10),
        )

    def _with_common_prior(self, posteriors: dict[Any, Posterior]) -> dict[Any, Posterior]:
        if self.model_.undecided != "topic_prior":
            return posteriors
        site_posteriors = list(posteriors.values())
        common = with_priors(site_posteriors, topic_prior="learn") if len(site_posteriors) > 1 else site_posteriors
        setting: Any = {"topic_prior": shared_prior(common[0].structure)}
        self.model_ = replace(self.model_, **setting)
        return dict(zip(posteriors, common, strict=True))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Integers from 0 on, as for `CategoricalNB`: weighted words are not counts.
        tags.input_tags.positive_only = tags.input_tags.categorical = tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False)
class GaussianMixture(Clusters):
    """Clusters of points: a Gaussian mixture.

    `n_components` is the number of clusters, or "auto"; `covariance` is "full", "diagonal" or "spherical".
    `weight_prior`, `prior_strength` and `prior_degrees` are as in `decbayes.GaussianMixture`. `prior_mean` and
    `prior_scale` are the mean and variance of the first data by default. Estimators that are fitted in different
    places merge only if they are given the same.

    `max_iter` and `tol` end a site's fit, and `n_init` is the number of its starts; `rounds` is how often each site is
    refitted given the posteriors of the others; `forgetting` is the share that each `partial_fit` forgets, or "learn";
    `random_state` seeds the fits.

    >>> points = np.random.default_rng(0).normal(np.repeat([[2.0, 2.0], [9.0, 9.0]], 50, axis=0))
    >>> clusters = db.sklearn.GaussianMixture(2, random_state=0).fit(points, sites=np.arange(100) % 4)
    >>> sorted(clusters.means_[:, 0].round().tolist())
    [2.0, 9.0]
    """

    _: KW_ONLY
    covariance: Covariance = "full"
    weight_prior: float = 1.0
    prior_mean: Any = None
    prior_strength: float = 0.01
    prior_degrees: float | None = None
    prior_scale: Any = None

    @property
    def means_(self) -> Array:
        """(clusters, dimensions): the expected mean of each."""
        return self.posterior_.mean("components")

    @property
    def precisions_(self) -> Array:
        """The expected precision of each: a number, one per dimension, or a matrix."""
        return self.posterior_.mean("components", "precision")

    def _read(self, X: Any, y: Any, *, reset: bool) -> Any:
        return validate_data(self, X, dtype=np.float64, reset=reset)

    def _make_model(self, given: Any) -> Model:
        variance = given.var(axis=0)
        variance = np.where(variance > 0, variance, 1.0)
        scale = variance.mean() if self.covariance == "spherical" else variance
        return PointModel(
            self.n_components,
            given.shape[1],
            columns=tuple(map(str, getattr(self, "feature_names_in_", ()))),
            covariance=self.covariance,
            weight_prior=self.weight_prior,
            prior_mean=given.mean(axis=0) if self.prior_mean is None else self.prior_mean,
            prior_strength=self.prior_strength,
            prior_degrees=self.prior_degrees,
            prior_scale=scale if self.prior_scale is None else self.prior_scale,
            ascent=self._ascent(),
        )


@dataclass(eq=False, repr=False)
class LatentClasses(Clusters):
    """Classes of the rows of a table, with columns of any kind and values missing anywhere.

    `n_components` is the number of classes, or "auto", and `weight_prior` is α of their weights. The kinds of columns
    are found in the first data; `kinds` corrects misleading values, as in {"age": "real"}, and `columns` are those that
    sites agreed on, as listed by `decbayes columns`. Columns of an array are called x0, x1, …

    `max_iter` and `tol` end a site's fit, and `n_init` is the number of its starts; `rounds` is how often each site is
    refitted given the posteriors of the others; `forgetting` is the share that each `partial_fit` forgets, or "learn";
    `random_state` seeds the fits.

    >>> import pandas
    >>> age = np.random.default_rng(0).normal(np.repeat([30.0, 80.0], 50), 5.0)
    >>> patients = pandas.DataFrame({"age": age, "ward": np.repeat(["bone", "heart"], 50)})
    >>> classes = db.sklearn.LatentClasses(2, random_state=0).fit(patients, sites=np.arange(100) % 2)
    >>> classes.predict(patients)[[0, 1, 98, 99]].tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """

    _: KW_ONLY
    kinds: Mapping[str, str] | None = None
    columns: Mapping[str, Any] | None = None
    weight_prior: float = 1.0
    model_: TableModel = field(init=False)

    def profiles(self, *, level: float = 0.9) -> list[Row]:
        """Each class column by column, with intervals: rows for a data frame."""
        return self.model_.profiles(self.posterior_, level=level)

    def _read(self, X: Any, y: Any, *, reset: bool) -> Any:
        if not issparse(X) and is_frame(X):  # some sparse matrices of SciPy are mappings
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        points = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
        return {f"x{place}": column for place, column in enumerate(points.T)}

    def _make_model(self, given: Any) -> Model:
        settings: dict[str, Any] = {
            "components": self.n_components,
            "weight_prior": self.weight_prior,
            "ascent": self._ascent(),
        }
        if self.columns is not None:
            return TableModel(columns=self.columns, **settings)
        return TableModel.from_frame(given, kinds=self.kinds, **settings)

    def _as_data(self, given: Any) -> Any:
        return self.model_.points(given)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags
