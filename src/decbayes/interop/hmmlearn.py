"""hmmlearn's hidden Markov models as posteriors of `HiddenMarkov`, and back.

Most of hmmlearn's models find parameters that make their data most likely, and have no posterior. Their states are
enough for one: given how probable each is at each step, the posterior is exact. Its variational models have posteriors,
which need no data.
"""

from typing import Any

import numpy as np

from decbayes.columns import Categorical, Gaussian, Poisson
from decbayes.errors import NotConvertible
from decbayes.extras import require
from decbayes.families import Array
from decbayes.interop.hmmlearn_variational import from_variational, to_variational, units
from decbayes.models.chains import smoothed
from decbayes.models.hidden_markov import HiddenMarkov
from decbayes.models.profiles import column_likelihood
from decbayes.models.registry import model_for
from decbayes.posterior import Posterior


def from_hmmlearn(estimator: Any, model: HiddenMarkov, data: Any = None) -> Posterior:
    """The posterior of the sequences, with the states that a fitted model of hmmlearn finds in them.

    A GMMHMM of K states and M mixtures is a chain of K · M states, each of one Gaussian. A VariationalGaussianHMM
    ("full", or "diag" where the model is diagonal) and a VariationalCategoricalHMM are posteriors: without data they
    are taken as they are, but for their prior, which becomes the model's.
    """
    states = estimator.n_components * getattr(estimator, "n_mix", 1)
    if states != model.states:
        raise NotConvertible(f"hmmlearn's model has {states} states, this one {model.states}.")
    if data is None:
        return from_variational(estimator, model)
    steps = model.steps(data)
    if np.isnan(steps.points).any():
        raise NotConvertible("hmmlearn knows no missing values; leave those steps out.")
    scores = np.ascontiguousarray(log_densities(estimator, model, steps.points))
    _, moved, begun = smoothed(scores, steps, *chain_of(estimator))
    return model.from_states(data, scores, moved, begun)


def chain_of(estimator: Any) -> tuple[Array, Array]:
    """First states and moves; the mixtures of a GMMHMM's states are states of their own."""
    start, moves = np.asarray(estimator.startprob_, float), np.asarray(estimator.transmat_, float)
    if hasattr(estimator, "n_mix"):
        mixes = np.asarray(estimator.weights_)
        start = (start[:, None] * mixes).ravel()
        moves = np.repeat((moves[:, :, None] * mixes).reshape(len(moves), -1), estimator.n_mix, axis=0)
    return start, np.ascontiguousarray(moves)


def log_densities(estimator: Any, model: HiddenMarkov, points: Array) -> Array:
    """(steps, states): log p(x | state) at hmmlearn's own parameters."""
    from scipy.stats import multivariate_normal, poisson

    kinds = [type(column) for column in model.columns.values()]
    found: list[Any]
    if hasattr(estimator, "means_") and hasattr(estimator, "covars_") and set(kinds) == {Gaussian}:
        pairs = zip(*gaussians(estimator), strict=True)
        found = [multivariate_normal(mean, covariance).logpdf(points) for mean, covariance in pairs]
    elif hasattr(estimator, "lambdas_") and set(kinds) == {Poisson}:
        found = [poisson(rates).logpmf(points).sum(axis=1) for rates in estimator.lambdas_]
    elif hasattr(estimator, "emissionprob_") and not hasattr(estimator, "n_trials") and kinds == [Categorical]:
        with np.errstate(divide="ignore"):
            found = list(np.log(estimator.emissionprob_)[:, points[:, 0].astype(np.intp)])
    else:
        raise NotConvertible(
            f"{type(estimator).__name__} does not fit the columns: real ones need a GaussianHMM or a GMMHMM, counts a "
            "PoissonHMM, one categorical column a CategoricalHMM."
        )
    return np.column_stack([np.atleast_1d(each) for each in found])


def gaussians(estimator: Any) -> tuple[Array, Array]:
    """Means and covariance matrices of all states, and of all mixtures in them."""
    means, covariances = np.asarray(estimator.means_), np.asarray(estimator.covars_)
    if not hasattr(estimator, "n_mix"):
        # hmmlearn 0.3.3 repeats spherical ones for each dimension.
        return means, covariances.reshape(len(means), -1, *covariances.shape[1:])[:, 0]
    _, mixes, width = means.shape
    if estimator.covariance_type == "tied":
        covariances = np.repeat(covariances[:, None], mixes, axis=1)
    elif estimator.covariance_type in ("diag", "spherical"):
        covariances = np.broadcast_to(covariances.reshape(*means.shape[:2], -1), means.shape)[..., None] * np.eye(width)
    return means.reshape(-1, width), covariances.reshape(-1, width, width)


def to_hmmlearn(posterior: Posterior, *, variational: bool = False) -> Any:
    """A GaussianHMM, PoissonHMM or CategoricalHMM at the posterior's means, to predict with.

    With `variational` it is a VariationalGaussianHMM or a VariationalCategoricalHMM that has the whole posterior.
    """
    hmm = require("hmmlearn.hmm", extra="hmmlearn", task="hmmlearn")
    model = model_for(posterior.structure)
    if not isinstance(model, HiddenMarkov):
        raise NotConvertible("hmmlearn has hidden Markov models, and this is none.")
    if variational:
        return to_variational(posterior, model)
    kinds = [type(column) for column in model.columns.values()]
    if set(kinds) == {Gaussian}:
        estimator = hmm.GaussianHMM(model.states, "full" if model.covariance == "full" else "diag")
        estimator.means_ = column_likelihood(model.emissions.parts[0]).expected(posterior.natural["real"])
        estimator.covars_ = covariances(posterior, model)
    elif set(kinds) == {Poisson}:
        estimator = hmm.PoissonHMM(model.states)
        estimator.lambdas_ = posterior.mean("counts")
    elif kinds == [Categorical]:
        estimator = hmm.CategoricalHMM(model.states)
        estimator.emissionprob_ = posterior.mean("categorical")
    else:
        raise NotConvertible("hmmlearn's models have columns that are all real, all counts, or one categorical column.")
    estimator.startprob_, estimator.transmat_ = posterior.mean("start"), posterior.mean("transitions")
    estimator.n_features = getattr(estimator, "emissionprob_", np.empty((0, len(kinds)))).shape[1]
    return estimator


def covariances(posterior: Posterior, model: HiddenMarkov) -> Array:
    """Of each state, at the mean precision, in the columns' own units."""
    scale = units(model)[1]
    if model.variance is not None:
        return np.tile(model.variance * scale**2, (model.states, 1))
    precision = posterior.mean("real").precision
    return np.asarray(
        np.linalg.inv(precision) * np.outer(scale, scale) if model.covariance == "full" else scale**2 / precision
    )
