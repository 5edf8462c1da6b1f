"""hmmlearn's variational models: posteriors, whose numbers are those of ours in other words."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from decbayes.columns import Categorical, Gaussian
from decbayes.errors import NotConvertible
from decbayes.extras import require
from decbayes.families import Array, NormalGamma, NormalWishart
from decbayes.models.hidden_markov import HiddenMarkov
from decbayes.posterior import Posterior


def from_variational(estimator: Any, model: HiddenMarkov) -> Posterior:
    """What a variational model contributes beyond its own prior, on top of the model's."""
    if not hasattr(estimator, "transmat_posterior_"):
        raise NotConvertible(f"{type(estimator).__name__} has no posterior; give the data that it was fitted to.")
    kind = emitted(model)
    if kind == "categorical" and hasattr(estimator, "emissionprob_posterior_"):
        added = {"categorical": estimator.emissionprob_posterior_ - estimator.emissionprob_prior_}
    elif kind == getattr(estimator, "covariance_type", None):
        added = {"real": in_natural(estimator, model, "posterior") - in_natural(estimator, model, "prior")}
    else:
        raise NotConvertible(NO_OTHERS)
    begun, moved = (
        getattr(estimator, f"{name}_posterior_") - getattr(estimator, f"{name}_prior_")
        for name in ("startprob", "transmat")
    )
    return Posterior(model.structure, {"start": begun[:, None], "transitions": moved, **added})


def to_variational(posterior: Posterior, model: HiddenMarkov) -> Any:
    """A VariationalGaussianHMM or a VariationalCategoricalHMM that has the whole posterior."""
    library = require("hmmlearn.vhmm", extra="hmmlearn", task="hmmlearn")
    kind = emitted(model)
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
        for name, values in numbers(natural, model).items():
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


def emitted(model: HiddenMarkov) -> str | None:
    """Which variational model suits: "categorical", or a covariance as hmmlearn calls it; None if none does."""
    kinds = [type(column) for column in model.columns.values()]
    if kinds == [Categorical]:
        return "categorical"
    if set(kinds) != {Gaussian} or model.variance is not None:
        return None
    return "full" if model.covariance == "full" else "diag"


def in_natural(estimator: Any, model: HiddenMarkov, when: str) -> Array:
    """A Normal-Wishart or Normal-Gamma distribution of hmmlearn's, in agreed units."""
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


def numbers(natural: Mapping[str, Array], model: HiddenMarkov) -> dict[str, Array]:
    """A posterior or a prior by hmmlearn's names."""
    chain = {"startprob": natural["start"][:, 0] + 1.0, "transmat": natural["transitions"] + 1.0}
    if "categorical" in natural:
        return {**chain, "emissionprob": natural["categorical"] + 1.0}
    return {**chain, **gaussian(natural["real"], model)}


def gaussian(natural: Array, model: HiddenMarkov) -> dict[str, Array]:
    """The way back: what hmmlearn calls means, beta, dof and scale."""
    centre, scale = units(model)
    if model.covariance == "full":
        mean, strength, degrees, inverse = NormalWishart().columns(natural)
        spread = inverse * np.outer(scale, scale)
    else:
        mean, strengths, shape, rate = NormalGamma().columns(natural)
        if not np.allclose(strengths, strengths[:, :1]):
            raise NotConvertible("hmmlearn knows no missing values, and some columns were seen less often than others.")
        strength, degrees, spread = strengths[:, 0], 2.0 * shape[:, 0], 2.0 * rate * scale**2
    return {"means": mean * scale + centre, "beta": strength, "dof": degrees, "scale": spread}


def units(model: HiddenMarkov) -> tuple[Array, Array]:
    """The agreed centre and scale of each column."""
    columns = [column for column in model.columns.values() if isinstance(column, Gaussian)]
    return np.array([column.centre for column in columns]), np.array([column.scale for column in columns])
