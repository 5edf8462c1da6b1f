"""Changing the number of a mixture's components: joins, deletions and splits."""

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, softmax

from decbayes.families import Array, Weights
from decbayes.models.core.component_search import Moves
from decbayes.models.likelihoods.emissions import Natural, Reference, coefficients, plus
from decbayes.models.likelihoods.likelihood import squared_distances
from decbayes.models.likelihoods.point_pass import MOST_CANDIDATES, PointBlocks
from decbayes.structure import Structure

if TYPE_CHECKING:
    from decbayes.models.mixtures.clusters import Clusters

# With fewer points per component, k-means++ would give every point its own component.
FEW = 10


class MixtureMoves(Moves[Natural]):
    """The moves of a mixture whose components share a prior; a state is its natural parameters."""

    def __init__(self, model: "Clusters", blocks: PointBlocks, rng: np.random.Generator) -> None:
        self._model, self.blocks, self.rng = model, blocks, rng
        self._structure = model.structure
        self.agreed_prior = prior_of(model.structure, 1)
        self._candidates = blocks.sample(MOST_CANDIDATES, rng)
        self._places = model.embedding(blocks.emissions, self._candidates)
        self.observations = self.rows = len(blocks)

    def begin(self, count: int) -> Natural:
        kind = self._model.start_from or ("k-means++" if len(self.blocks) >= FEW * count else "random")
        return self._model.sized(count)._begin(self.blocks, self.prior(count), kind, self.rng)

    def step(self, state: Natural) -> tuple[Natural, float]:
        before = Reference(self._structure.families, self.prior(len(state["weights"])))
        return self._model._pass(self.blocks, before, state)

    def evidence(self, state: Natural) -> Array:
        return evidence(self._structure, state)

    def gains(self, state: Natural) -> Iterable[tuple[float, int, int]]:
        gain = join_gains(self._structure, state)
        first, second = np.triu_indices(len(gain), 1)
        return zip(gain[first, second].tolist(), first.tolist(), second.tolist(), strict=True)

    def joined(self, state: Natural, first: int, second: int) -> Natural:
        return joined(self._structure, state, first, second)

    def without(self, state: Natural, component: int) -> Natural:
        return without(state, component)

    def divided(self, state: Natural) -> Natural:
        """Split components between two of their points, by distance; those without two different points stay."""
        seeds, apart = self._seeds(state)
        slopes = coefficients(self.blocks.emissions, state)
        nearer, farther = np.zeros((2, len(apart), self.blocks.width))
        for points, features in zip(self.blocks, self.blocks.features(), strict=True):
            places, responsibilities = self._places(points), softmax(features @ slopes, axis=1)
            near = squared_distances(places, seeds[0]) <= squared_distances(places, seeds[1])
            nearer += (responsibilities * near).T @ features
            farther += (responsibilities * ~near).T @ features
        sums = np.concatenate([nearer, farther[apart]])
        return plus(self.blocks.emissions, self.prior(len(sums)), sums)

    def _seeds(self, state: Natural) -> tuple[Array, Array]:
        """(2, K, D): two points of each component, the second far from the first; and whether they differ."""
        slopes, places = coefficients(self.blocks.emissions, state), self._places(self._candidates)
        owner = np.argmax(self.blocks.emissions.features(self._candidates) @ slopes, axis=1)
        seeds = np.zeros((2, slopes.shape[1], places.shape[1]))
        for component in range(slopes.shape[1]):
            members = places[owner == component]
            if len(members):
                first = members[self.rng.integers(len(members))]
                distance = squared_distances(members, first[None])[:, 0]
                share = distance / distance.sum() if distance.any() else None
                seeds[:, component] = first, members[self.rng.choice(len(members), p=share)]
        return seeds, (seeds[0] != seeds[1]).any(axis=1)

    def prior(self, count: int) -> Natural:
        """`count` components without data."""
        return prior_of(self._structure, count)

    def under(self, prior: Natural) -> "MixtureMoves":
        """The same moves under another prior, (1, d) per factor, so close to the data that components may be equal."""
        moves = copy(self)
        moves._structure, moves.distinct = replace(self._structure, prior=prior), False
        return moves

    def statistics(self, state: Natural) -> Natural:
        """The contribution of the data to a state."""
        return less(state, self.prior(len(state["weights"])))

    def as_agreed(self, state: Natural) -> Natural:
        """The same statistics on top of the agreed prior."""
        return more(self.agreed_prior, self.statistics(state))

    def whole(self) -> Natural:
        """The statistics of all points as one component."""
        sums = np.add.reduce([features.sum(axis=0, keepdims=True) for features in self.blocks.features()])
        return less(plus(self.blocks.emissions, self.agreed_prior, sums), self.agreed_prior)


def prior_of(structure: Structure, count: int) -> Natural:
    """`count` components without data."""
    return {name: np.repeat(rows[:1], count, axis=0) for name, rows in structure.prior.items()}


def less(state: Natural, before: Natural) -> Natural:
    return {name: rows - before[name] for name, rows in state.items()}


def more(before: Natural, statistics: Natural) -> Natural:
    return {name: before[name] + rows for name, rows in statistics.items()}


def evidence(structure: Structure, state: Natural) -> Array:
    """(K,): the number of points that each component accounts for."""
    return np.asarray((state["weights"] - structure.prior["weights"][:1])[:, 0])


def joined(structure: Structure, state: Natural, first: int, second: int) -> Natural:
    """Join two components: λ0 + c_i + c_j."""
    together = {name: rows.copy() for name, rows in state.items()}
    for name, rows in together.items():
        rows[first] += rows[second] - structure.prior[name][0]
    return without(together, second)


def without(state: Natural, component: int) -> Natural:
    return {name: np.delete(rows, component, axis=0) for name, rows in state.items()}


def join_gains(structure: Structure, state: Natural) -> Array:
    """(K, K): an upper bound on the gain from joining two components while all responsibilities stay.

        A(λ0 + c_i + c_j) + A(λ0) − A(λ0 + c_i) − A(λ0 + c_j), plus the joint term of the weights

    It ignores that responsibilities lose entropy. The diagonal is meaningless.
    """
    count, prior = len(state["weights"]), prior_of(structure, 1)
    if count < 2:
        return np.zeros((count, count))
    first, second = np.triu_indices(count, 1)
    single = row_terms(structure, state)
    pairs = {name: rows[first] + rows[second] - prior[name] for name, rows in state.items()}
    total, alpha = float(evidence(structure, state).sum()), float(Weights().parameters(prior["weights"])["alpha"][0])
    in_common = [gammaln(number * alpha) - gammaln(number * alpha + total) for number in (count - 1, count)]
    gains = np.zeros((count, count))
    gains[first, second] = row_terms(structure, pairs) + row_terms(structure, prior) - single[first] - single[second]
    gains[first, second] += in_common[0] - in_common[1]
    return gains + gains.T


def row_terms(structure: Structure, natural: Natural) -> Array:
    return np.asarray(sum(structure.families[name].row_terms(rows) for name, rows in natural.items()))
