"""The symmetric version of a mean-field posterior: the mixture of all its relabellings."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import lgamma
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from decbayes.base.arguments import Seed, check_kind, generator
from decbayes.errors import TooManyRelabellings
from decbayes.families import Array
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet

# A density sums over K! relabellings in 2^K · K steps per draw; 16 components take about a million.
MOST_COMPONENTS = 16


def symmetrize(posterior: Posterior) -> "Symmetrized":
    """The posterior without a preferred labelling: the mixture of all K! relabellings, equally weighted.

    Args:
        posterior: a mean-field posterior with one labelling.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> posterior = model.fit(np.array([[-9.0], [9.0]]), rng=np.random.default_rng(0)).posterior
    >>> draws = db.merging.symmetrize(posterior).sample(1000, np.random.default_rng(0))
    >>> bool(abs(draws["components"].mean()) < 1.0)
    True
    """
    check_kind(Posterior, posterior=posterior)
    return Symmetrized(posterior)


@dataclass(frozen=True)
class Symmetrized:
    """q̃(θ) = 1/K! Σ_P q_{Pλ}(θ), invariant to any relabelling of θ.

    Attributes:
        posterior: the posterior with one labelling.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> posterior = model.fit(np.array([[-9.0], [9.0]]), rng=np.random.default_rng(0)).posterior
    >>> symmetric = db.merging.Symmetrized(posterior)
    >>> draws = symmetric.sample(3, np.random.default_rng(0))
    >>> swapped = {name: values[:, ::-1] for name, values in draws.items()}
    >>> bool(np.allclose(symmetric.log_density(draws), symmetric.log_density(swapped)))
    True
    """

    posterior: Posterior

    def sample(self, size: int, rng: Seed) -> dict[str, Any]:
        """Draws of every factor, each draw relabelled at random."""
        random = generator(rng)
        draws = self.posterior.sample(size, random)
        for coupled in self.posterior.structure.symmetry:
            components = self.posterior.structure.components(coupled)
            orders = random.permuted(np.tile(np.arange(components), (size, 1)), axis=1)
            for name in coupled.factors:
                draws[name] = self._reordered(name, draws[name], orders)
        return draws

    def log_density(self, values: Mapping[str, Any]) -> Array:
        """log q̃ of draws in the format of `sample`, one number per draw."""
        structure = self.posterior.structure
        relabelled = {name for coupled in structure.symmetry for name in coupled.factors}
        plain = [
            family.log_density(self.posterior.natural[name], values[name])
            for name, family in structure.families.items()
            if name not in relabelled
        ]
        coupled = [self._coupled_log_density(coupled, values) for coupled in structure.symmetry]
        return np.asarray(np.sum([*plain, *coupled], axis=0))

    def _reordered(self, name: str, draws: Any, orders: NDArray[np.int64]) -> Any:
        family = self.posterior.structure.families[name]
        if family.two_sided:
            return np.take_along_axis(reordered(draws, orders), orders[:, None, :], axis=2)
        parts = family.quantities(draws)
        return family.of_quantities({quantity: reordered(values, orders) for quantity, values in parts.items()})

    def _coupled_log_density(self, coupled: CoupledSet, values: Mapping[str, Any]) -> Array:
        structure = self.posterior.structure
        components = structure.components(coupled)
        if components > MOST_COMPONENTS:
            raise TooManyRelabellings(
                f"The density is a sum over {components}! relabellings, {2.0**components * components:.1e} steps per "
                f"draw at best; up to {MOST_COMPONENTS} components are feasible. Samples can be drawn for any number."
            )
        if any(structure.families[name].two_sided for name in coupled.factors):
            raise TooManyRelabellings(
                "With transitions among components, the density has no efficient formula. Samples can be drawn."
            )
        scores: Any = 0.0
        constant = -lgamma(components + 1)
        for name in coupled.factors:
            family, natural = structure.families[name], self.posterior.natural[name]
            # scores[draw, k, l]: how well component l's parameters explain the value of component k
            scores = scores + np.einsum("nkd,ld->nkl", family.statistics(values[name]), natural)
            constant += components * family.log_base_measure(natural.shape[1]) - family.log_partition(natural)
        return log_permanents(scores) + constant


def log_permanents(scores: Array) -> Array:
    """log Σ_P exp(Σ_k scores[:, k, P(k)]), row by row over sets of used columns, so that all terms are positive."""
    draws, components, _ = scores.shape
    used = np.full((draws, 1 << components), -np.inf)
    used[:, 0] = 0.0
    sizes = np.array([index.bit_count() for index in range(1 << components)])
    for k in range(components):
        sets = np.flatnonzero(sizes == k + 1)
        # A set without the column keeps its size, and has no value yet.
        terms = [used[:, sets & ~(1 << column)] + scores[:, k, [column]] for column in range(components)]
        used[:, sets] = logsumexp(terms, axis=0)
    return used[:, -1]


def reordered(value: Array, orders: NDArray[np.int64]) -> Array:
    """Each draw's components in its own order."""
    return np.take_along_axis(value, orders.reshape(*orders.shape, *(1,) * (value.ndim - 2)), axis=1)
