"""Hidden Markov models of hmmlearn, fitted by maximum likelihood or variationally, in and out."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from decbayes.base.extras import require
from decbayes.errors import NotConvertible
from decbayes.families import Array, NormalGamma, NormalWishart
from decbayes.models.core.registry import model_for
from decbayes.models.sequences.chains import smooth_states
from decbayes.models.sequences.hidden_markov import HiddenMarkov
from decbayes.models.tables.profiles import column_likelihood
from decbayes.posterior import Posterior


def from_variational(estimator: Any, model: HiddenMarkov) -> Posterior:
    """The contribution of a variational model beyond its own prior, on top of our model's prior."""
    if not hasattr(estimator, "transmat_posterior_"):
        raise NotConvertible(f"{type(estimator).__name__} has no posterior; give the data it was fitted to.")
    kind = variational_kind(model)
    if kind == "categorical" and hasattr(estimator, "emissionprob_posterior_"):
        emissions = {"categorical": estimator.emissionprob_posterior_ - estimator.emissionprob_prior_}
    elif kind == getattr(estimator, "covariance_type", None):
        emissions = {"real": in_natural(estimator, model, "posterior") - in_natural(estimator, model, "prior")}
    else:
        raise NotConvertible(NO_OTHERS)
    starts, moves = (
        getattr(estimator, f"{name}_posterior_") - getattr(estimator, f"{name}_prior_")
        for name in ("startprob", "transmat")
    )
    return Posterior(model.structure, {"start": starts[:, None], "transitions": moves, **emissions})


def to_variational(posterior: Posterior, model: HiddenMarkov) -> Any:
    """A VariationalGaussianHMM or a VariationalCategoricalHMM with the whole posterior."""
    library = require("hmmlearn.vhmm", extra="hmmlearn", task="hmmlearn")
    kind = variational_kind(model)
    if kind is None:
        raise NotConvertible(NO_OTHERS)
    if kind == "categorical":
        estimator = library.VariationalCategoricalHMM(model.states)
        estimator.emissionprob_ = posterior.mean("categorical")
        estimator.n_features = estimator.emissionprob_.shape[1]
    else:
        estimator = library.VariationalGaussianHMM(model.states, kind)
        estimator.n_features = len(model.columns)
    for when, natural in (("posterior", posterior.natural), ("prior", model.structure.prior)):
        for name, values in hmmlearn_parameters(natural, model).items():
            setattr(estimator, f"{name}_{when}_", values)
    estimator.startprob_, estimator.transmat_ = posterior.mean("start"), posterior.mean("transitions")
    if kind != "categorical":
        spread, freedom = estimator.scale_posterior_, estimator.dof_posterior_
        estimator.covars_ = spread / freedom.reshape(-1, *[1] * (spread.ndim - 1))
    return estimator


NO_OTHERS = (
    "hmmlearn has variational models of real columns with unknown variances ('diag' or 'full', as here) and of one "
    "categorical column; the model and the columns must be of the same kind."
)


def variational_kind(model: HiddenMarkov) -> str | None:
    """The matching variational model: "categorical", or hmmlearn's name of a covariance; None if there is none."""
    factors = [column.factor for column in model.columns.values()]
    if factors == ["categorical"]:
        return "categorical"
    if set(factors) != {"real"} or model.variance is not None:
        return None
    return "full" if model.covariance == "full" else "diag"


def in_natural(estimator: Any, model: HiddenMarkov, when: str) -> Array:
    """A Normal-Wishart or Normal-Gamma distribution of hmmlearn, in agreed units."""
    centre, scale = units(model)
    mean, strength, degrees, spread = (
        np.asarray(getattr(estimator, f"{name}_{when}_"), float) for name in ("means", "beta", "dof", "scale")
    )
    mean = (mean - centre) / scale
    if model.covariance == "full":
        inverse = spread / np.outer(scale, scale)
        return NormalWishart().natural(mean=mean, strength=strength, degrees=degrees, inverse_scale=inverse)
    shape = 0.5 * np.repeat(degrees[:, None], len(scale), axis=1)
    return NormalGamma().natural(mean=mean, strength=strength[:, None], shape=shape, rate=0.5 * spread / scale**2)


def hmmlearn_parameters(natural: Mapping[str, Array], model: HiddenMarkov) -> dict[str, Array]:
    """A posterior or a prior by hmmlearn's names."""
    chain = {"startprob": natural["start"][:, 0] + 1.0, "transmat": natural["transitions"] + 1.0}
    if "categorical" in natural:
        return {**chain, "emissionprob": natural["categorical"] + 1.0}
    return {**chain, **gaussian_parameters(natural["real"], model)}


def gaussian_parameters(natural: Array, model: HiddenMarkov) -> dict[str, Array]:
    """The inverse: means, beta, dof and scale of hmmlearn."""
    centre, scale = units(model)
    if model.covariance == "full":
        mean, strength, degrees, inverse = NormalWishart().columns(natural)
        spread = inverse * np.outer(scale, scale)
    else:
        mean, strengths, shape, rate = NormalGamma().columns(natural)
        if not np.allclose(strengths, strengths[:, :1]):
            raise NotConvertible(
                "hmmlearn does not support missing values, and some columns have fewer values than others."
            )
        strength, degrees, spread = strengths[:, 0], 2.0 * shape[:, 0], 2.0 * rate * scale**2
    return {"means": mean * scale + centre, "beta": strength, "dof": degrees, "scale": spread}


def units(model: HiddenMarkov) -> tuple[Array, Array]:
    """The agreed centre and scale of each column."""
    centres, scales = np.transpose([column.zero_and_unit for column in model.columns.values()])
    return centres, scales


def from_hmmlearn(estimator: Any, model: HiddenMarkov, data: Any = None) -> Posterior:
    """The posterior of the sequences, with the states that a fitted model of hmmlearn finds in them.

    `estimator` is that model, `model` the `HiddenMarkov` of the posterior, with as many states, and `data` are the
    sequences.

    A GMMHMM of K states and M mixtures is a chain of K · M states, each of one Gaussian. A VariationalGaussianHMM
    ("full", or "diag" if the model is diagonal) and a VariationalCategoricalHMM are posteriors: without data they
    are taken as they are, except for their prior, which is replaced by the model's.

    >>> from hmmlearn.hmm import GaussianHMM
    >>> steps = np.random.default_rng(0).normal(np.repeat([[0.0], [5.0], [0.0]], 30, axis=0))
    >>> estimator = GaussianHMM(2, "diag", random_state=0).fit(steps)
    >>> posterior = db.interop.from_hmmlearn(estimator, db.HiddenMarkov(2, columns={"x": "real"}), [steps])
    >>> sorted(posterior.mean("real")[:, 0].round().tolist())
    [0.0, 5.0]
    """
    states = estimator.n_components * getattr(estimator, "n_mix", 1)
    if states != model.states:
        raise NotConvertible(f"hmmlearn's model has {states} states, this one {model.states}.")
    if data is None:
        return from_variational(estimator, model)
    steps = model.steps(data)
    if np.isnan(steps.points).any():
        raise NotConvertible("hmmlearn does not support missing values; leave those steps out.")
    scores = np.ascontiguousarray(log_densities(estimator, model, steps.points))
    _, moved, begun = smooth_states(scores, steps, *chain_of(estimator))
    return model.from_states(data, scores, moved, begun)


def chain_of(estimator: Any) -> tuple[Array, Array]:
    """Probabilities of first states and of moves; each mixture of a GMMHMM's state is a state here."""
    start, moves = np.asarray(estimator.startprob_, float), np.asarray(estimator.transmat_, float)
    if hasattr(estimator, "n_mix"):
        mixes = np.asarray(estimator.weights_)
        start = (start[:, None] * mixes).ravel()
        moves = np.repeat((moves[:, :, None] * mixes).reshape(len(moves), -1), estimator.n_mix, axis=0)
    return start, np.ascontiguousarray(moves)


def log_densities(estimator: Any, model: HiddenMarkov, points: Array) -> Array:
    """(steps, states): log p(x | state) at hmmlearn's parameters."""
    from scipy.stats import multivariate_normal, poisson

    factors = [column.factor for column in model.columns.values()]
    densities: list[Any]
    if hasattr(estimator, "means_") and hasattr(estimator, "covars_") and set(factors) == {"real"}:
        pairs = zip(*gaussians(estimator), strict=True)
        densities = [multivariate_normal(mean, covariance).logpdf(points) for mean, covariance in pairs]
    elif hasattr(estimator, "lambdas_") and set(factors) == {"counts"}:
        densities = [poisson(rates).logpmf(points).sum(axis=1) for rates in estimator.lambdas_]
    elif hasattr(estimator, "emissionprob_") and not hasattr(estimator, "n_trials") and factors == ["categorical"]:
        with np.errstate(divide="ignore"):
            densities = list(np.log(estimator.emissionprob_)[:, points[:, 0].astype(np.intp)])
    else:
        raise NotConvertible(
            f"{type(estimator).__name__} does not fit the columns: real ones need a GaussianHMM or a GMMHMM, counts a "
            "PoissonHMM, one categorical column a CategoricalHMM."
        )
    return np.column_stack([np.atleast_1d(density) for density in densities])


def gaussians(estimator: Any) -> tuple[Array, Array]:
    """Means and covariance matrices of all states, or of all their mixtures."""
    means, covariances = np.asarray(estimator.means_), np.asarray(estimator.covars_)
    if not hasattr(estimator, "n_mix"):
        # hmmlearn 0.3.3 repeats spherical covariances for each dimension.
        return means, covariances.reshape(len(means), -1, *covariances.shape[1:])[:, 0]
    _, mixes, width = means.shape
    if estimator.covariance_type == "tied":
        covariances = np.repeat(covariances[:, None], mixes, axis=1)
    elif estimator.covariance_type in ("diag", "spherical"):
        covariances = np.broadcast_to(covariances.reshape(*means.shape[:2], -1), means.shape)[..., None] * np.eye(width)
    return means.reshape(-1, width), covariances.reshape(-1, width, width)


def to_hmmlearn(posterior: Posterior, *, variational: bool = False) -> Any:
    """A GaussianHMM, PoissonHMM or CategoricalHMM at the posterior's means, to predict with.

    `posterior` is one of `HiddenMarkov`. With `variational` the result is a VariationalGaussianHMM or a
    VariationalCategoricalHMM with the whole posterior.

    >>> import hmmlearn
    >>> steps = np.random.default_rng(0).normal(np.repeat([[0.0], [5.0], [0.0]], 30, axis=0))
    >>> posterior = db.HiddenMarkov(2, columns={"x": "real"}).fit([steps], rng=0).posterior
    >>> sorted(db.interop.to_hmmlearn(posterior).means_[:, 0].round().tolist())
    [0.0, 5.0]
    """
    hmm = require("hmmlearn.hmm", extra="hmmlearn", task="hmmlearn")
    model = model_for(posterior.structure)
    if not isinstance(model, HiddenMarkov):
        raise NotConvertible("This is not a hidden Markov model, and hmmlearn has no other models.")
    if variational:
        return to_variational(posterior, model)
    factors = [column.factor for column in model.columns.values()]
    if set(factors) == {"real"}:
        estimator = hmm.GaussianHMM(model.states, "full" if model.covariance == "full" else "diag")
        estimator.means_ = column_likelihood(model.emissions.parts[0]).expected(posterior.natural["real"])
        estimator.covars_ = covariances(posterior, model)
    elif set(factors) == {"counts"}:
        estimator = hmm.PoissonHMM(model.states)
        estimator.lambdas_ = posterior.mean("counts")
    elif factors == ["categorical"]:
        estimator = hmm.CategoricalHMM(model.states)
        estimator.emissionprob_ = posterior.mean("categorical")
    else:
        raise NotConvertible("hmmlearn's models need columns that are all real, all counts, or one categorical column.")
    estimator.startprob_, estimator.transmat_ = posterior.mean("start"), posterior.mean("transitions")
    estimator.n_features = getattr(estimator, "emissionprob_", np.empty((0, len(factors)))).shape[1]
    return estimator


def covariances(posterior: Posterior, model: HiddenMarkov) -> Array:
    """The covariance of each state, at the mean precision, in the units of the columns."""
    scale = units(model)[1]
    if model.variance is not None:
        return np.tile(model.variance * scale**2, (model.states, 1))
    precision = posterior.mean("real", "precision")
    return np.asarray(
        np.linalg.inv(precision) * np.outer(scale, scale) if model.covariance == "full" else scale**2 / precision
    )
