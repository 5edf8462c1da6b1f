"""Gaussian mixtures: known variance as in the paper, or unknown diagonal or full covariances."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp, softmax

from decbayes.arguments import check_positive, check_whole, spread, stated
from decbayes.families import Array, NormalWishart, Weights
from decbayes.models.ascent import Ascent, Fit, Progress, fit_best
from decbayes.models.likelihoods import (
    DiagonalCovariance,
    FullCovariance,
    KnownVariance,
    Likelihood,
    SphericalCovariance,
    squared_distances,
)
from decbayes.models.points import as_points, check_fit, check_rounding, check_structure
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet

Natural = dict[str, Array]
Start = Literal["k-means++", "random"]
Covariance = Literal["spherical", "diagonal", "full"]

# Rows of a block are weighed while they are still in the cache.
BLOCK = 1024
POINTS_A_CENTRE = 10
# Features up to this many numbers (128 MiB) stay in memory between passes.
MOST_KEPT = 1 << 24

UNKNOWN: dict[str, Likelihood] = {
    "spherical": SphericalCovariance(),
    "diagonal": DiagonalCovariance(),
    "full": FullCovariance(),
}


@dataclass(frozen=True)
class GaussianMixture:
    """x ~ Σ_k π_k N(μ_k, ·), with a Dirichlet prior on π and a conjugate prior on each component.

    With `variance` the components share that known variance and μ_k ~ N(prior_mean, prior_variance I). Without it
    `covariance` is "spherical" or "diagonal" (Normal-Gamma) or "full" (Normal-Wishart): the prior expects a variance of
    `prior_scale` with the weight of `prior_degrees` observations, and a mean of `prior_mean` with the weight of
    `prior_strength`. `columns` names the dimensions; sites that name them differently do not merge.

    A fit starts from the nearest of centres chosen by "k-means++", or from "random" responsibilities where there are
    fewer than ten points a component: centres would then give every point a component of its own.
    """

    components: int
    dimension: int = 1
    variance: float | None = None
    covariance: Covariance | None = None
    prior_mean: Any = 0.0
    prior_variance: float = 1.0
    prior_strength: float = 0.01
    prior_degrees: float | None = None
    prior_scale: Any = 1.0
    weight_prior: float = 1.0
    columns: tuple[str, ...] = ()
    start_from: Start | None = None
    ascent: Ascent = field(default=Ascent(restarts=9))

    def __post_init__(self) -> None:
        if (self.variance is None) == (self.covariance is None):
            raise ValueError("Give either `variance` (known) or `covariance` ('spherical', 'diagonal' or 'full').")
        if self.covariance not in (None, *UNKNOWN):
            raise ValueError(f"covariance is 'spherical', 'diagonal' or 'full', not {self.covariance!r}.")
        if len(self.columns) not in (0, self.dimension):
            raise ValueError(f"{len(self.columns)} column names for {self.dimension} dimensions.")
        if self.start_from not in (None, "k-means++", "random"):
            raise ValueError(f"start_from is 'k-means++' or 'random', not {self.start_from!r}.")
        check_whole(1, components=self.components, dimension=self.dimension)
        check_positive(
            prior_variance=self.prior_variance,
            prior_strength=self.prior_strength,
            weight_prior=self.weight_prior,
            **stated(variance=self.variance, prior_degrees=self.prior_degrees),
        )

    @cached_property
    def structure(self) -> Structure:
        # A site that writes 1 and one that writes 1.0 agree.
        variance = None if self.variance is None else float(self.variance)
        described = {"name": "GaussianMixture", "covariance": self.covariance or "known", "variance": variance}
        return Structure(
            families={"weights": Weights(), "components": self.likelihood.family},
            prior={
                "weights": Weights().natural(alpha=np.full(self.components, self.weight_prior)),
                "components": np.tile(self._component_prior(), (self.components, 1)),
            },
            symmetry=(CoupledSet(("weights", "components")),),
            labels={"components": tuple(self.columns)} if self.columns else {},
            model=described,
        )

    @cached_property
    def likelihood(self) -> Likelihood:
        if self.variance is not None:
            return KnownVariance(float(self.variance))
        return UNKNOWN[self.covariance or "full"]

    def fit(
        self,
        data: Any,
        *,
        rng: np.random.Generator,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """The posterior of the data, on top of `prior` if given, climbing from `start` if given."""
        points = as_points(data, self.dimension)
        check_fit(self.structure, rng, prior, start)
        before = dict((prior or Posterior.of_prior(self.structure)).natural)
        if not len(points):
            return Fit(Posterior.from_natural(self.structure, before), (0.0,), True)
        blocks = Blocks(self.likelihood, points)
        begin = partial(self._begin, points, before, rng) if start is None else lambda: dict(start.natural)
        ascent = self.ascent if start is None else Ascent(self.ascent.passes, self.ascent.tolerance)
        return fit_best(
            begin,
            partial(self._pass, blocks, before),
            partial(Posterior.from_natural, self.structure),
            ascent=ascent,
            observations=len(points),
            progress=progress,
        )

    def responsibilities(self, posterior: Posterior, data: Any) -> Array:
        """(N, K): the probability that each observation belongs to each component."""
        check_structure(posterior, self.structure, "posterior")
        features = self.likelihood.features(as_points(data, self.dimension))
        return np.asarray(softmax(features @ self._coefficients(dict(posterior.natural)), axis=1))

    def log_predictive(self, posterior: Posterior, data: Any) -> Array:
        """log p(x | posterior), one value an observation, all parameters integrated out."""
        check_structure(posterior, self.structure, "posterior")
        points = as_points(data, self.dimension)
        density = self.likelihood.log_predictive(posterior.natural["components"], points)
        return np.asarray(logsumexp(density + np.log(posterior.mean("weights")), axis=1))

    def _component_prior(self) -> Array:
        mean = spread("prior_mean", self.prior_mean, (1, self.dimension))
        if self.variance is not None:
            return self.likelihood.family.natural(mean=mean, variance=self.prior_variance)
        if self.covariance == "spherical":
            scale = spread("prior_scale", self.prior_scale, (), above=0.0)
            weight = 0.5 * self.dimension * (2.0 if self.prior_degrees is None else self.prior_degrees)
            return self.likelihood.family.natural(
                mean=mean, strength=self.prior_strength, shape=weight, rate=weight * scale
            )
        if self.covariance == "diagonal":
            degrees = 2.0 if self.prior_degrees is None else self.prior_degrees
            rate = 0.5 * degrees * spread("prior_scale", self.prior_scale, (1, self.dimension), above=0.0)
            return self.likelihood.family.natural(
                mean=mean, strength=[[self.prior_strength]], shape=[[0.5 * degrees]], rate=rate
            )
        degrees = self.dimension + 2.0 if self.prior_degrees is None else self.prior_degrees
        if np.ndim(self.prior_scale) == 2:
            scale = spread("prior_scale", self.prior_scale, (self.dimension, self.dimension))
        else:
            scale = np.diag(spread("prior_scale", self.prior_scale, (self.dimension,), above=0.0))
        return NormalWishart().natural(
            mean=mean, strength=self.prior_strength, degrees=degrees, inverse_scale=degrees * scale
        )

    def _begin(self, points: Array, before: Natural, rng: np.random.Generator) -> Natural:
        """A first posterior: every point belongs to its nearest centre, or to a random mix of components."""
        crowded = len(points) >= POINTS_A_CENTRE * self.components
        if (self.start_from or ("k-means++" if crowded else "random")) == "random":
            responsibilities = rng.dirichlet(np.ones(self.components), size=len(points))
        else:
            centres = spread_out_centres(points, self.components, rng)
            nearest = np.argmin(squared_distances(points, centres), axis=1)
            responsibilities = np.eye(self.components)[nearest]
        return self._plus(before, responsibilities.T @ self.likelihood.features(points))

    def _pass(self, blocks: "Blocks", before: Natural, natural: Natural) -> tuple[Natural, float]:
        """One pass over the data; the bound is that of the parameters it was given."""
        from decbayes.kernels.softmax import normalise

        families = self.structure.families
        bound = -sum(families[name].kl(natural[name], before[name]) for name in families)
        coefficients = self._coefficients(natural).T
        sums = np.zeros(coefficients.shape)
        buffer = np.empty(self.components * BLOCK)  # fresh memory for each product would cost as much as the product
        for features in blocks:
            shape = (self.components, len(features))
            scores = np.dot(coefficients, features.T, out=buffer[: shape[0] * shape[1]].reshape(shape))
            bound += normalise(scores)
            sums += scores @ features
        return self._plus(before, sums), bound

    def _coefficients(self, natural: Natural) -> Array:
        """(p, K): features times these are E[log π_k] + E[log p(x | θ_k)]; the last feature is 1."""
        coefficients = self.likelihood.coefficients(natural["components"])
        # The constant is half the squared distance of a component from zero, in its own standard deviations; the scores
        # of the points in it are small because the other terms cancel it.
        check_rounding(float(np.abs(coefficients[-1]).max()))
        coefficients[-1] += Weights().mean(natural["weights"])[:, 0]
        return coefficients

    def _plus(self, natural: Natural, sums: Array) -> Natural:
        """Natural parameters with the evidence of some points added."""
        components = natural["components"] + self.likelihood.contribution(sums)
        # What has left the domain has lost all its digits.
        check_rounding(0.0 if self.likelihood.family.contains(components) else np.inf)
        return {"weights": natural["weights"] + sums[:, -1:], "components": components}


class Blocks:
    """Features of the points, a block at a time; kept between passes unless they are too large."""

    def __init__(self, likelihood: Likelihood, points: Array) -> None:
        blocks = [points[first : first + BLOCK] for first in range(0, len(points), BLOCK)]
        width = likelihood.features(points[:1]).shape[1]
        kept = len(points) * width <= MOST_KEPT
        self._features = [likelihood.features(block) for block in blocks] if kept else []
        self._later = [] if kept else [partial(likelihood.features, block) for block in blocks]

    def __iter__(self) -> Iterator[Array]:
        yield from self._features
        yield from (features() for features in self._later)


def spread_out_centres(points: Array, count: int, rng: np.random.Generator) -> Array:
    """Centres chosen among the points, each with probability proportional to its squared distance (k-means++)."""
    chosen = [int(rng.integers(len(points)))]
    distance = squared_distances(points, points[chosen])[:, 0]
    while len(chosen) < min(count, len(points)) and distance.sum() > 0:
        chosen.append(int(rng.choice(len(points), p=distance / distance.sum())))
        distance = np.minimum(distance, squared_distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen]
