"""scikit-learn in and out: `LatentDirichletAllocation` and `BayesianGaussianMixture`."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from decbayes.base.arguments import check_kind
from decbayes.base.extras import require
from decbayes.errors import NotConvertible, NothingToMerge, StructureMismatch
from decbayes.families import Array, Dirichlet
from decbayes.interop._sklearn_mixture import mixture_estimator, mixture_posterior
from decbayes.interop._topics import on_vocabulary, topic_parameters, topic_posterior
from decbayes.merging import merge, pad
from decbayes.merging.base.compatibility import same_columns
from decbayes.merging.base.problem import Solver
from decbayes.models.core.counts import Vocabulary, words_in_order
from decbayes.posterior import Posterior
from decbayes.structure import Structure

# What scikit-learn takes from the data by default.
FROM_DATA = ("mean_prior_", "covariance_prior_")
# What estimators must share to be merged.
AGREEMENT = (
    "covariance_type",
    "n_features_in_",
    "feature_names_in_",
    "doc_topic_prior_",
    "topic_word_prior_",
    "weight_concentration_prior_",
    "mean_precision_prior_",
    "degrees_of_freedom_prior_",
    *FROM_DATA,
)

OWN_WORDS = " If sites count different words, own_words=… names those of this estimator."

ROUNDING = 1e-12  # rounding of conversions to natural parameters and back; no prior has so many digits


def from_sklearn(
    estimator: Any,
    *,
    vocabulary: Vocabulary | None = None,
    own_words: Vocabulary | None = None,
    document_prior: float | None = None,
    topic_prior: float | None = None,
) -> Posterior:
    """The posterior of a fitted estimator: its exact natural parameters on top of its own prior.

    `estimator` is a LatentDirichletAllocation or a BayesianGaussianMixture of scikit-learn.

    A topic model's columns are `own_words`, else `feature_names_in_`, else `vocabulary`, else they are numbered: a
    `CountVectorizer` has them as `vocabulary_`. If sites count different words, `vocabulary` is the shared one: columns
    are put in its order, and words that a site has not counted have the prior.

    Priors are the estimator's own. Those of a topic model are 1 / n_components by default, so that models with
    different numbers of topics have different priors; `document_prior` and `topic_prior` set those of the merged model.

    Mixtures must be of the "dirichlet_distribution" type; `mixture_posterior` explains how their parameters correspond.

    >>> from sklearn.mixture import BayesianGaussianMixture
    >>> points = np.random.default_rng(0).normal(np.repeat([[2.0], [9.0]], 50, axis=0))
    >>> settings = {"weight_concentration_prior_type": "dirichlet_distribution", "random_state": 0}
    >>> posterior = db.interop.from_sklearn(BayesianGaussianMixture(n_components=2, **settings).fit(points))
    >>> sorted(posterior.mean("components")[:, 0].round().tolist())
    [2.0, 9.0]
    """
    check_fitted(estimator)
    if isinstance(estimator, library("mixture").BayesianGaussianMixture):
        return mixture_posterior(estimator)
    return topics_of(estimator, vocabulary, own_words, document_prior, topic_prior)


def topics_of(
    estimator: Any,
    vocabulary: Vocabulary | None,
    own_words: Vocabulary | None,
    document_prior: float | None,
    topic_prior: float | None,
) -> Posterior:
    prior = float(estimator.topic_word_prior_)
    contribution = np.asarray(estimator.components_, dtype=np.float64) - prior
    names = getattr(estimator, "feature_names_in_", vocabulary) if own_words is None else own_words
    words = tuple(map(str, range(contribution.shape[1]))) if names is None else words_in_order(names)
    if len(words) != contribution.shape[1]:
        raise NotConvertible(
            f"The model has {contribution.shape[1]:,} words, the vocabulary {len(words):,}.{OWN_WORDS}"
        )
    shared = words if vocabulary is None else words_in_order(vocabulary)
    return topic_posterior(
        on_vocabulary(contribution, words, shared),
        topic_prior=prior if topic_prior is None else topic_prior,
        document_prior=estimator.doc_topic_prior_ if document_prior is None else document_prior,
        vocabulary=shared,
    )


def to_sklearn(posterior: Posterior, *, named: bool = False) -> Any:
    """A fitted estimator with this posterior, for `transform`, `predict`, `score` and `score_samples`.

    `posterior` is one of latent Dirichlet allocation or of a Gaussian mixture. With `named` the estimator has
    `feature_names_in_` and expects data frames with these columns.

    scikit-learn has its own definitions: `score` of a topic model is its variational bound for the given documents,
    topics included; `score_samples` of a mixture is log Σ_k exp(E[log π_k] + E[log p(x | θ_k)]), which never exceeds
    the posterior predictive density of `GaussianMixture.log_predictive`.

    >>> import sklearn
    >>> points = np.random.default_rng(0).normal(np.repeat([[0.0, 0.0], [9.0, 9.0]], 50, axis=0))
    >>> posterior = db.GaussianMixture(2, 2, covariance="full").fit(points, rng=0).posterior
    >>> db.interop.to_sklearn(posterior).predict_proba([[0.0, 0.0]]).max().item()
    1.0
    """
    check_kind(Posterior, posterior=posterior)
    posterior.check_uncertainty("An estimator")
    name = posterior.structure.model.get("name")
    if name == "LatentDirichletAllocation":
        estimator = topic_estimator(posterior)
    elif name == "GaussianMixture":
        estimator = mixture_estimator(posterior)
    else:
        raise NotConvertible(f"scikit-learn has no estimator for the posterior of {name or 'an unnamed model'}.")
    names = next(iter(posterior.structure.labels.values()), ())
    if named and names:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    return estimator


def merge_sklearn(
    estimators: Iterable[Any],
    *,
    vocabulary: Vocabulary | None = None,
    components: int | None = None,
    solver: Solver | None = None,
) -> Any:
    """One fitted estimator from several that were fitted on separate data: `to_sklearn(merge(…))`.

    `estimators` are as for `from_sklearn`; `vocabulary` is shared by all topic models, and `solver` matches components,
    as in `merge`.

    `components` is the number of components of the merge, by default that of the estimator with the most. With more,
    components found by few estimators keep their own slot. Topic models must count the same words; for others see
    `own_words` and `vocabulary` of `from_sklearn`. If they have different numbers of topics, default priors become
    1 / `components`, as in scikit-learn.

    >>> from sklearn.decomposition import LatentDirichletAllocation
    >>> counts = np.random.default_rng(0).poisson(2.0 * np.kron(np.eye(2), np.ones((20, 3))))
    >>> sites = [LatentDirichletAllocation(2, random_state=0).fit(counts[half::2]) for half in (0, 1)]
    >>> db.interop.merge_sklearn(sites).transform(counts).shape
    (40, 2)
    """
    fitted = tuple(estimators)
    if not fitted:
        raise NothingToMerge("There are no estimators to merge.")
    words = None if vocabulary is None else words_in_order(vocabulary)
    most = max(estimator.n_components for estimator in fitted)
    priors: dict[str, Any] = default_priors(fitted, components or most)
    converted = same_columns([from_sklearn(estimator, vocabulary=words, **priors) for estimator in fitted])
    padded = [pad(posterior, max(most, components or 0)) for posterior in converted]
    posteriors = [on_structure(posterior, padded[0].structure) for posterior in padded]
    for index, posterior in enumerate(posteriors):
        if posterior.structure != posteriors[0].structure:
            check_agreement(fitted[0], fitted[index], index)
    merged = merge(posteriors, components=components or "largest", solver=solver)
    return to_sklearn(merged, named=hasattr(fitted[0], "feature_names_in_"))


def default_priors(fitted: Sequence[Any], components: int) -> dict[str, float]:
    """scikit-learn's default for this number of topics, if no estimator sets another."""
    names = {"document_prior": "doc_topic_prior", "topic_prior": "topic_word_prior"}
    numbers = {getattr(estimator, "n_components", None) for estimator in fitted}
    left_open = {
        prior for prior, name in names.items() if all(getattr(estimator, name, 0) is None for estimator in fitted)
    }
    return {prior: 1.0 / components for prior in sorted(left_open) if len(numbers) > 1}


def on_structure(posterior: Posterior, structure: Structure) -> Posterior:
    """The posterior on a structure whose prior differs only by rounding, as after `to_sklearn`."""
    old = posterior.structure
    if old == structure or old.description() != structure.description():
        return posterior
    close = (np.allclose(old.prior[name], prior, ROUNDING, ROUNDING) for name, prior in structure.prior.items())
    return Posterior.from_natural(structure, posterior.natural) if all(close) else posterior


def library(part: str) -> Any:
    return require(f"sklearn.{part}", extra="interop", task="An estimator's posterior")


def check_fitted(estimator: Any) -> None:
    known = library("decomposition").LatentDirichletAllocation, library("mixture").BayesianGaussianMixture
    if not isinstance(estimator, known):
        raise NotConvertible(
            f"{type(estimator).__name__} has no posterior that decbayes can merge; LatentDirichletAllocation and "
            "BayesianGaussianMixture have one (GaussianMixture is a point estimate)."
        )
    if not hasattr(estimator, "n_features_in_"):
        raise NotConvertible(f"This {type(estimator).__name__} is not fitted yet; call its `fit` first.")


def check_agreement(first: Any, other: Any, index: int) -> None:
    """Refuse estimators with different features or priors, by the names of their parameters."""
    if type(first) is not type(other):
        raise StructureMismatch(f"Estimator 0 is a {type(first).__name__}, estimator {index} a {type(other).__name__}.")
    for name in AGREEMENT:
        seen, expected = getattr(other, name, None), getattr(first, name, None)
        if not np.array_equal(np.asarray(seen), np.asarray(expected)):
            # These may come from data, which are never quoted.
            values = "another one" if name in FROM_DATA else f"{brief(seen)}, of estimator 0 {brief(expected)}"
            raise StructureMismatch(f"{name} of estimator {index} is {values}. {advice_on(name)}")


def advice_on(name: str) -> str:
    if name in FROM_DATA:
        return (
            "scikit-learn takes it from the data by default: fit all with the same mean_prior=… and covariance_prior=…"
        )
    if name in ("n_features_in_", "feature_names_in_"):
        return (
            "Estimators merge only if they agree on features. Topic models of different words merge on a shared "
            "vocabulary: db.merge([from_sklearn(estimator, own_words=…, vocabulary=…) for …])."
        )
    if name in ("doc_topic_prior_", "topic_word_prior_", "weight_concentration_prior_"):
        return f"It is 1 / n_components by default: fit all with the same {name.removesuffix('_')}=…"
    return "Estimators merge only if they agree on features and priors."


def brief(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}…"


def expected_logarithm(alpha: Array) -> Array:
    """E[log β] with scikit-learn's ψ, which has nine digits, so that its models transform as before."""
    private = getattr(getattr(library("decomposition"), "_lda", None), "_dirichlet_expectation_2d", None)
    exact = Dirichlet().expected_statistics  # in case scikit-learn renames its private function
    return np.asarray(exact(alpha - 1.0) if private is None else private(np.ascontiguousarray(alpha)))


def topic_estimator(posterior: Posterior) -> Any:
    alpha, prior, documents = topic_parameters(posterior)
    if (prior != prior[0, 0]).any():
        raise NotConvertible("scikit-learn's topic_word_prior is one number; this posterior's prior has several.")
    if (documents != documents[0]).any():
        raise NotConvertible(
            "scikit-learn's doc_topic_prior is one number; this posterior's was learned, one per topic. "
            "`decbayes.sklearn.LatentDirichletAllocation` and gensim take it as it is."
        )
    document_prior = float(documents[0])
    estimator = library("decomposition").LatentDirichletAllocation(
        len(alpha), doc_topic_prior=document_prior, topic_word_prior=float(prior[0, 0])
    )
    estimator.components_ = alpha
    estimator.exp_dirichlet_component_ = np.exp(expected_logarithm(alpha))
    estimator.doc_topic_prior_, estimator.topic_word_prior_ = document_prior, float(prior[0, 0])
    estimator.n_features_in_ = alpha.shape[1]
    estimator.n_iter_, estimator.n_batch_iter_, estimator.bound_ = 0, 1, np.nan
    estimator.random_state_ = np.random.RandomState(0)
    return estimator
