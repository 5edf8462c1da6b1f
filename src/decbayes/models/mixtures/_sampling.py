"""A Gibbs sampler for mixtures with known variance: draws from the true posterior."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from decbayes.base.arguments import Seed, check_whole, generator
from decbayes.families import Array, IsotropicGaussian, Weights
from decbayes.models.core.points import as_points
from decbayes.models.likelihoods.likelihood import KnownVariance, squared_distances
from decbayes.models.mixtures.gaussian_mixture import GaussianMixture


def gibbs(
    model: GaussianMixture,
    data: Any,
    *,
    rng: Seed,
    draws: int,
    burn_in: int = 100,
    thinning: int = 1,
    relabel: bool = True,
) -> dict[str, Array]:
    """Draws of weights (draws, K) and components (draws, K, D) from the true posterior, as `sample` gives them.

    With `relabel` each sweep ends with a random relabelling, which the true posterior always accepts, so the chain
    visits all K! labellings. Without it a chain stays in its first labelling (figure 3a of the paper).

    Args:
        model: a Gaussian mixture of known variance.
        burn_in: sweeps before the first draw.
        thinning: sweeps per draw.
        relabel: whether each sweep ends with a random relabelling.

    >>> model = db.GaussianMixture(2, variance=1.0, prior_variance=100.0)
    >>> draws = db.checking.gibbs(model, [-9.0, -8.0, 8.0, 9.0], rng=0, draws=100)
    >>> draws["components"].shape
    (100, 2, 1)
    >>> np.sort(draws["components"][:, :, 0], axis=1).mean(axis=0).round()
    array([-8.,  8.])
    """
    check_whole(0, draws=draws, burn_in=burn_in)
    check_whole(1, thinning=thinning)
    if not isinstance(model, GaussianMixture) or model.variance is None:
        raise ValueError("The Gibbs sampler is for mixtures of known variance: give the model a `variance`.")
    check_whole(1, components=model.components)
    likelihood, model = KnownVariance(float(model.variance)), model.for_data(data)
    points, prior = as_points(data, model.dimension, columns=model.columns), model.structure.prior
    chain = Chain(prior["weights"], prior["components"], likelihood)
    random = generator(rng)
    weights, means = chain.first(random)
    drawn: list[tuple[Array, Array]] = []
    for sweep in range(burn_in + draws * thinning):
        weights, means = chain.sweep(points, weights, means, random)
        if relabel:
            order = random.permutation(model.components)
            weights, means = weights[order], means[order]
        if sweep >= burn_in and (sweep - burn_in) % thinning == thinning - 1:
            drawn.append((weights, means))
    return {"weights": np.array([w for w, _ in drawn]), "components": np.array([m for _, m in drawn])}


@dataclass(frozen=True)
class Chain:
    """The conditional distributions of the mixture, from its prior and the known variance."""

    weight_prior: Array
    component_prior: Array
    likelihood: KnownVariance

    def first(self, rng: np.random.Generator) -> tuple[Array, Array]:
        return self._draw(self.weight_prior, self.component_prior, rng)

    def sweep(self, points: Array, weights: Array, means: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Allocations given parameters, then parameters given allocations."""
        scores = np.log(weights) - 0.5 * squared_distances(points, means) / self.likelihood.variance
        allocation = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
        members = np.eye(len(weights))[allocation]
        sums = members.T @ self.likelihood.features(points)
        after = self.component_prior + self.likelihood.contribution(sums)
        return self._draw(self.weight_prior + sums[:, -1:], after, rng)

    def _draw(self, weights: Array, components: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        return Weights().sample(weights, 1, rng)[0], IsotropicGaussian().sample(components, 1, rng)[0]
