"""scikit-learn in and out: `LatentDirichletAllocation` and `BayesianGaussianMixture`."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from decbayes.arguments import check_kind
from decbayes.errors import NotConvertible, NothingToMerge, StructureMismatch
from decbayes.extras import require
from decbayes.interop.sklearn_mixture import mixture_estimator, mixture_posterior
from decbayes.interop.topics import topic_parameters, topic_posterior
from decbayes.merging import merge, pad
from decbayes.merging.problem import Solver
from decbayes.posterior import Posterior

# What estimators must share to be merged; the last two come from the data unless they are given.
AGREEMENT = (
    "n_components",
    "covariance_type",
    "n_features_in_",
    "feature_names_in_",
    "doc_topic_prior_",
    "topic_word_prior_",
    "weight_concentration_prior_",
    "mean_precision_prior_",
    "degrees_of_freedom_prior_",
    "mean_prior_",
    "covariance_prior_",
)


def from_sklearn(estimator: Any, *, vocabulary: Iterable[str] | None = None) -> Posterior:
    """The posterior that a fitted estimator holds: its exact natural parameters on top of its own prior.

    Topic models take their words from `vocabulary`, else from `feature_names_in_`, else they are numbered:
    a `CountVectorizer` gives them as `get_feature_names_out()`. Mixtures must be of the "dirichlet_distribution" type;
    `mixture_posterior` says how their parameters correspond.
    """
    check_fitted(estimator)
    if isinstance(estimator, library("decomposition").LatentDirichletAllocation):
        names = getattr(estimator, "feature_names_in_", None) if vocabulary is None else vocabulary
        prior = float(estimator.topic_word_prior_)
        return topic_posterior(
            np.asarray(estimator.components_, dtype=np.float64) - prior,
            topic_prior=prior,
            document_prior=estimator.doc_topic_prior_,
            vocabulary=names,
        )
    if isinstance(estimator, library("mixture").BayesianGaussianMixture):
        return mixture_posterior(estimator)
    raise NotConvertible(
        f"{type(estimator).__name__} has no posterior that decbayes can merge; LatentDirichletAllocation and "
        "BayesianGaussianMixture have one (GaussianMixture is a point estimate)."
    )


def to_sklearn(posterior: Posterior, *, named: bool = False) -> Any:
    """A fitted estimator that holds the posterior, for `transform`, `predict`, `score` and `score_samples`.

    With `named` it has `feature_names_in_` and expects data frames with these columns.

    scikit-learn's definitions are its own: `score` of a topic model is its variational bound of the documents it is
    given, topics included; `score_samples` of a mixture is log Σ_k exp(E[log π_k] + E[log p(x | θ_k)]), which is never
    more than the posterior predictive density that `GaussianMixture.log_predictive` gives.
    """
    check_kind(Posterior, posterior=posterior)
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
    vocabulary: Iterable[str] | None = None,
    components: int | None = None,
    solver: Solver | None = None,
) -> Any:
    """One fitted estimator from several that were fitted on separate data: `to_sklearn(merge(…))`.

    With more `components` than the estimators have, what only some of them have found keeps a place of its own.
    """
    fitted = tuple(estimators)
    if not fitted:
        raise NothingToMerge("There are no estimators to merge.")
    words = None if vocabulary is None else tuple(vocabulary)
    for estimator in fitted:
        check_fitted(estimator)
    for index, estimator in enumerate(fitted):
        check_agreement(fitted[0], estimator, index)
    posteriors = [from_sklearn(estimator, vocabulary=words) for estimator in fitted]
    if components is not None:
        posteriors = [pad(posterior, components) for posterior in posteriors]
    return to_sklearn(merge(posteriors, solver=solver), named=hasattr(fitted[0], "feature_names_in_"))


def library(part: str) -> Any:
    return require(f"sklearn.{part}", extra="interop", task="An estimator's posterior")


def check_fitted(estimator: Any) -> None:
    if not hasattr(estimator, "n_features_in_"):
        raise NotConvertible(f"This {type(estimator).__name__} is not fitted yet; call its `fit` first.")


def check_agreement(first: Any, other: Any, index: int) -> None:
    """Refuse estimators with different features, priors or K, in the words of their own parameters."""
    if type(first) is not type(other):
        raise StructureMismatch(f"Estimator 0 is a {type(first).__name__}, estimator {index} a {type(other).__name__}.")
    for name in AGREEMENT:
        seen, expected = getattr(other, name, None), getattr(first, name, None)
        if not np.array_equal(np.asarray(seen), np.asarray(expected)):
            raise StructureMismatch(
                f"{name} of estimator {index} is {brief(seen)}, of estimator 0 {brief(expected)}. {cure(name)}"
            )


def cure(name: str) -> str:
    if name in ("mean_prior_", "covariance_prior_"):
        return f"scikit-learn takes it from the data unless it is given: fit all with the same {name[:-1]}=…"
    return "Estimators merge only if they agree on features, priors and the number of components."


def brief(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}…"


def topic_estimator(posterior: Posterior) -> Any:
    alpha, prior, document_prior = topic_parameters(posterior)
    if (prior != prior[0, 0]).any():
        raise NotConvertible("scikit-learn's topic_word_prior is one number; this posterior's prior has several.")
    estimator = library("decomposition").LatentDirichletAllocation(
        len(alpha), doc_topic_prior=document_prior, topic_word_prior=float(prior[0, 0])
    )
    estimator.components_ = alpha
    estimator.exp_dirichlet_component_ = np.exp(posterior.structure.families["topics"].mean(alpha - 1.0))
    estimator.doc_topic_prior_, estimator.topic_word_prior_ = document_prior, float(prior[0, 0])
    estimator.n_features_in_ = alpha.shape[1]
    estimator.n_iter_, estimator.n_batch_iter_, estimator.bound_ = 0, 1, np.nan
    estimator.random_state_ = np.random.RandomState(0)
    return estimator
