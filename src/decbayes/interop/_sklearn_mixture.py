"""scikit-learn's `BayesianGaussianMixture` as a posterior of `GaussianMixture`, and back.

scikit-learn's posterior of a component has the parameters m (means_), κ (mean_precision_), ν (degrees_of_freedom_) and
C (covariances_), where ν C is the scatter that its updates add up. In D dimensions it is

    full        NormalWishart(m, κ, degrees ν, inverse_scale ν C)
    diag        NormalGamma(m, κ, shape ν / 2, rate ν C / 2)                       in each dimension
    spherical   IsotropicNormalGamma(m, κ, shape D ν / 2, rate D ν C / 2)
    tied        as full, each component with the common C and the weight of its own observations

so that its updates are exactly the conjugate ones (its reg_covar counts as data) and E[precision] = 1 / C. For "full"
its responsibilities are ours as well. For "diag" and "spherical" it takes E[log precision] from a Wishart distribution
over full matrices, which differs slightly for D > 1: `predict_proba` and `score_samples` then differ from ours.

Natural parameters contain second moments around the origin: data r standard deviations away from it lose 2 log10(r) of
the sixteen digits of a covariance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from decbayes.base.extras import require
from decbayes.errors import NotConvertible
from decbayes.families import Array
from decbayes.models.mixtures.gaussian_mixture import Covariance, GaussianMixture
from decbayes.models.topics.word_prior import concentration
from decbayes.posterior import Posterior


@dataclass(frozen=True)
class Wishart:
    """scikit-learn's parameters of K components: means_, mean_precision_, degrees_of_freedom_ and covariances_."""

    mean: Array
    strength: Array
    degrees: Array
    covariance: Array


@dataclass(frozen=True)
class Convention:
    """How to convert one covariance type in both directions."""

    covariance: Covariance
    parameters: Callable[[Wishart], dict[str, Array]]
    wishart: Callable[[dict[str, Array]], Wishart]


def full_parameters(given: Wishart) -> dict[str, Array]:
    inverse_scale = given.degrees[:, None, None] * given.covariance
    return {"mean": given.mean, "strength": given.strength, "degrees": given.degrees, "inverse_scale": inverse_scale}


def full_wishart(parameters: dict[str, Array]) -> Wishart:
    degrees = parameters["degrees"]
    return Wishart(
        parameters["mean"], parameters["strength"], degrees, parameters["inverse_scale"] / degrees[:, None, None]
    )


def diagonal_parameters(given: Wishart) -> dict[str, Array]:
    shape, strength = 0.5 * given.degrees[:, None], given.strength[:, None]
    return {"mean": given.mean, "strength": strength, "shape": shape, "rate": shape * given.covariance}


def diagonal_wishart(parameters: dict[str, Array]) -> Wishart:
    strength, shape = (shared_by_dimensions(parameters[name], name) for name in ("strength", "shape"))
    return Wishart(parameters["mean"], strength, 2.0 * shape, parameters["rate"] / shape[:, None])


def spherical_parameters(given: Wishart) -> dict[str, Array]:
    shape = 0.5 * given.mean.shape[1] * given.degrees
    return {"mean": given.mean, "strength": given.strength, "shape": shape, "rate": shape * given.covariance}


def spherical_wishart(parameters: dict[str, Array]) -> Wishart:
    degrees = 2.0 * parameters["shape"] / parameters["mean"].shape[1]
    return Wishart(parameters["mean"], parameters["strength"], degrees, parameters["rate"] / parameters["shape"])


CONVENTIONS = {
    "full": Convention("full", full_parameters, full_wishart),
    "diag": Convention("diagonal", diagonal_parameters, diagonal_wishart),
    "spherical": Convention("spherical", spherical_parameters, spherical_wishart),
}


def mixture_posterior(estimator: Any) -> Posterior:
    """The posterior of a fitted `BayesianGaussianMixture`, with the estimator's prior."""
    if estimator.weight_concentration_prior_type != "dirichlet_distribution":
        raise NotConvertible(
            "The weights of a 'dirichlet_process' mixture are not exchangeable: its components cannot be relabelled. "
            "Fit with weight_concentration_prior_type='dirichlet_distribution'."
        )
    tied = estimator.covariance_type == "tied"
    convention = CONVENTIONS["full" if tied else estimator.covariance_type]
    structure = prior_model(estimator, convention.covariance).structure
    degrees, covariance = untie(estimator) if tied else (estimator.degrees_of_freedom_, estimator.covariances_)
    fitted = Wishart(estimator.means_, estimator.mean_precision_, degrees, covariance)
    natural = {
        "weights": structure.families["weights"].natural(alpha=estimator.weight_concentration_),
        "components": structure.families["components"].natural(**convention.parameters(fitted)),
    }
    return Posterior.from_natural(structure, natural)


def untie(estimator: Any) -> tuple[Array, Array]:
    """Degrees and covariance of each component, if all share one covariance.

    Each gets the common covariance, weighted by its own observations: E[precision] stays, and every observation counts
    once. It is lost that the components share it, so a merge may find them different.
    """
    counts = estimator.weight_concentration_ - estimator.weight_concentration_prior_
    shape = (len(counts), *estimator.covariances_.shape)
    return estimator.degrees_of_freedom_prior_ + counts, np.broadcast_to(estimator.covariances_, shape)


def prior_model(estimator: Any, covariance: Covariance) -> GaussianMixture:
    degrees = float(estimator.degrees_of_freedom_prior_)
    return GaussianMixture(
        estimator.n_components,
        len(estimator.mean_prior_),
        covariance=covariance,
        prior_mean=estimator.mean_prior_,
        prior_strength=float(estimator.mean_precision_prior_),
        prior_degrees=degrees,
        prior_scale=np.asarray(estimator.covariance_prior_) / degrees,
        weight_prior=float(estimator.weight_concentration_prior_),
        columns=tuple(map(str, getattr(estimator, "feature_names_in_", ()))),
    )


def mixture_estimator(posterior: Posterior) -> Any:
    structure = posterior.structure
    kinds = {convention.covariance: kind for kind, convention in CONVENTIONS.items()}
    kind = kinds.get(structure.model["covariance"])
    if kind is None:
        raise NotConvertible("scikit-learn has no mixture with a known variance; use covariance='spherical'.")
    if not all(structure.exchangeable(coupled) for coupled in structure.symmetry):
        raise NotConvertible("scikit-learn's prior is the same for all components; this posterior's prior is not.")
    family = structure.families["components"]
    fitted = CONVENTIONS[kind].wishart(posterior.parameters("components"))
    prior = CONVENTIONS[kind].wishart(family.parameters(structure.prior["components"][:1]))
    weight_prior = concentration(structure.prior["weights"])[:, 0]
    estimator = unfitted_estimator(kind, len(weight_prior), prior, float(weight_prior[0]))
    set_parameters(estimator, fitted, posterior.parameters("weights")["alpha"])
    return estimator


def unfitted_estimator(kind: str, components: int, prior: Wishart, weight_prior: float) -> Any:
    """An estimator with the prior both as arguments and as a fit would set it."""
    mixtures = require("sklearn.mixture", extra="interop", task="An estimator")
    settings = {
        "weight_concentration_prior": weight_prior,
        "mean_precision_prior": float(prior.strength[0]),
        "mean_prior": prior.mean[0],
        "degrees_of_freedom_prior": float(prior.degrees[0]),
        "covariance_prior": prior.degrees[0] * prior.covariance[0] + 0.0,  # no −0.0, which looks odd
    }
    estimator = mixtures.BayesianGaussianMixture(
        n_components=components,
        covariance_type=kind,
        weight_concentration_prior_type="dirichlet_distribution",
        **settings,
    )
    for name, value in settings.items():
        setattr(estimator, f"{name}_", value)
    return estimator


def set_parameters(estimator: Any, fitted: Wishart, concentration: Array) -> None:
    """Set everything that scikit-learn's `fit` would set."""
    root = precision_root(fitted.covariance)
    estimator.weight_concentration_ = concentration
    estimator.weights_ = concentration / concentration.sum()
    estimator.mean_precision_, estimator.means_ = fitted.strength, fitted.mean
    estimator.degrees_of_freedom_, estimator.covariances_ = fitted.degrees, fitted.covariance
    estimator.precisions_cholesky_ = root
    estimator.precisions_ = root @ np.swapaxes(root, -1, -2) if root.ndim == 3 else root**2
    estimator.n_features_in_ = fitted.mean.shape[1]
    estimator.converged_, estimator.n_iter_, estimator.lower_bound_ = True, 0, np.nan


def precision_root(covariance: Array) -> Array:
    """L with L Lᵀ = covariance⁻¹, upper triangular as in scikit-learn."""
    if covariance.ndim < 3:
        return np.asarray(1.0 / np.sqrt(covariance))
    return np.swapaxes(np.linalg.inv(np.linalg.cholesky(covariance)), -1, -2)


def shared_by_dimensions(values: Array, name: str) -> Array:
    if not np.allclose(values, values[:, :1], rtol=1e-12, atol=0.0):
        raise NotConvertible(f"scikit-learn has one {name} per component; here it differs between dimensions.")
    return values[:, 0]
