"""hmmlearn's hidden Markov models as posteriors of `HiddenMarkov`, and back.

hmmlearn finds parameters that make its data most likely; it has no posterior (but for its variational models, which are
not read). Its states are enough for one: given how probable each is at each step, the posterior is exact.
"""

from typing import Any

import numpy as np

from decbayes.columns import Categorical, Gaussian, Poisson
from decbayes.errors import NotConvertible
from decbayes.extras import require
from decbayes.families import Array, NormalGamma
from decbayes.models.chains import smoothed
from decbayes.models.hidden_markov import HiddenMarkov
from decbayes.models.registry import model_for
from decbayes.posterior import Posterior


def from_hmmlearn(estimator: Any, model: HiddenMarkov, data: Any) -> Posterior:
    """The posterior of the sequences, with the states of a fitted GaussianHMM, PoissonHMM or CategoricalHMM."""
    if estimator.n_components != model.states:
        raise NotConvertible(f"hmmlearn's model has {estimator.n_components} states, this one {model.states}.")
    steps = model.steps(data)
    if np.isnan(steps.points).any():
        raise NotConvertible("hmmlearn knows no missing values; leave those steps out.")
    scores = np.ascontiguousarray(log_densities(estimator, model, steps.points))
    start, moves = (
        np.ascontiguousarray(part, dtype=np.float64) for part in (estimator.startprob_, estimator.transmat_)
    )
    _, moved, begun = smoothed(scores, steps, start, moves)
    return model.from_states(data, scores, moved, begun)


def log_densities(estimator: Any, model: HiddenMarkov, points: Array) -> Array:
    """(steps, states): log p(x | state) at hmmlearn's own parameters."""
    from scipy.stats import multivariate_normal, poisson

    kinds = {type(column) for column in model.columns.values()}
    found: list[Any]
    if hasattr(estimator, "means_") and hasattr(estimator, "covars_") and kinds == {Gaussian}:
        pairs = zip(estimator.means_, estimator.covars_, strict=True)
        found = [multivariate_normal(mean, covariance).logpdf(points) for mean, covariance in pairs]
    elif hasattr(estimator, "lambdas_") and kinds == {Poisson}:
        found = [poisson(rates).logpmf(points).sum(axis=1) for rates in estimator.lambdas_]
    elif hasattr(estimator, "emissionprob_") and kinds == {Categorical} and len(model.columns) == 1:
        with np.errstate(divide="ignore"):
            found = list(np.log(estimator.emissionprob_)[:, points[:, 0].astype(np.intp)])
    else:
        raise NotConvertible(
            f"{type(estimator).__name__} does not fit the columns: real ones need a GaussianHMM, counts a PoissonHMM, "
            "one categorical column a CategoricalHMM."
        )
    return np.column_stack([np.atleast_1d(each) for each in found])


def to_hmmlearn(posterior: Posterior) -> Any:
    """A GaussianHMM at the posterior's means, to predict with; of models whose columns are all real."""
    hmm = require("hmmlearn.hmm", extra="hmmlearn", task="hmmlearn")
    model = model_for(posterior.structure)
    if not isinstance(model, HiddenMarkov) or not all(isinstance(each, Gaussian) for each in model.columns.values()):
        raise NotConvertible("A GaussianHMM needs a posterior of HiddenMarkov whose columns are all real.")
    scale, centre = (
        np.array([getattr(column, name) for column in model.columns.values()]) for name in ("scale", "centre")
    )
    mean, _, shape, rate = NormalGamma().columns(posterior.natural["real"])
    estimator = hmm.GaussianHMM(model.states, "diag")
    estimator.startprob_, estimator.transmat_ = posterior.mean("start"), posterior.mean("transitions")
    estimator.means_, estimator.covars_ = mean * scale + centre, rate / shape * scale**2
    return estimator
