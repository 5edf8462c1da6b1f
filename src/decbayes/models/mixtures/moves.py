"""Changing the number of a mixture's components: joins, deletions and splits."""

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from functools import reduce
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, softmax

from decbayes.families import Array, Weights
from decbayes.models.core.ascent import Ascent, Climb, OnPass, announce, climb
from decbayes.models.core.component_search import ComponentSearch, Moves
from decbayes.models.likelihoods.emissions import Reference, coefficients, plus
from decbayes.models.likelihoods.likelihood import squared_distances, summed
from decbayes.models.likelihoods.point_pass import MOST_CANDIDATES, PointBlocks
from decbayes.models.mixtures.consensus import (
    MOST_COMPARED,
    MOST_FITTED,
    MOST_PIECES,
    ROWS_FITTED,
    ROWS_PIECE,
    agreed_pieces,
)
from decbayes.models.mixtures.own_prior import BY_CHANCE, FIRST, STRENGTHS, discrete_columns, own_prior
from decbayes.structure import Structure

if TYPE_CHECKING:
    from decbayes.models.mixtures.clusters import Clusters

Natural = dict[str, Array]

# With fewer points per component, k-means++ would give every point its own component.
FEW = 10
# Starts of the fit from which a wide fit estimates its prior.
STARTS = 3
# With fewer rows per discrete column, several classes may look like one.
ROWS_PER_COLUMN = 20


class MixtureMoves(Moves[Natural]):
    """The moves of a mixture whose components share a prior; a state is its natural parameters."""

    def __init__(self, model: "Clusters", blocks: PointBlocks, rng: np.random.Generator) -> None:
        self._model, self._blocks, self._rng = model, blocks, rng
        self._structure = model.structure
        self._candidates = blocks.sample(MOST_CANDIDATES, rng)
        self._places = model.embedding(blocks.emissions, self._candidates)
        self.observations = self.rows = len(blocks)

    def search(self, ascent: Ascent, progress: OnPass | None) -> Climb[Natural]:
        """The best state; where columns are discrete, under a prior of their own, which first searches have led to."""
        columns = discrete_columns(self._blocks.emissions)
        if not columns:
            return ComponentSearch(self, ascent, progress).run()
        whole, firsts = self._whole(), []
        for strength in FIRST:
            moves, _ = self._under_own_prior(whole, np.array([strength]))
            first = ComponentSearch(moves, replace(ascent, restarts=0), progress).run()
            firsts.append((first.height, moves._agreed(first.state)))
            if first.interrupted:
                return replace(first, state=firsts[-1][-1])
        best = max(firsts, key=itemgetter(0))[-1]
        moves, density = self._under_own_prior(less(best, prior_of(self._model.structure, 1)))
        found = ComponentSearch(moves, ascent, progress).run()
        several = replace(found, state=moves._agreed(found.state))
        alone, density_alone = self._under_own_prior(whole)
        one = more(alone._prior(1), whole)
        bound = alone.step(one)[1]
        enough = found.interrupted or found.height + density - density_alone > bound + BY_CHANCE * columns
        return several if enough else Climb(alone._agreed(one), (bound,), True)

    def wide(self, ascent: Ascent, progress: OnPass | None) -> Climb[Natural]:
        """Pieces on which several fits agree, more and smaller than this site's own components: see `consensus.py`."""
        count, bounds = max(1, min(MOST_FITTED, self.rows // ROWS_FITTED)), list[float]()
        if not discrete_columns(self._blocks.emissions):
            return self._pieces(count, ascent, progress, bounds)
        moves, _ = self._under_own_prior(self._whole(), np.array([FIRST[-1]]))
        fits = [moves._climbed(count, ascent, progress, bounds) for _ in range(STARTS)]
        best = reduce(Climb.or_higher, fits)
        under, _ = self._under_own_prior(moves._statistics(best.state))
        return under._pieces(count, ascent, progress, bounds)

    def _pieces(self, count: int, ascent: Ascent, progress: OnPass | None, bounds: list[float]) -> Climb[Natural]:
        rows = self._blocks.sample(MOST_COMPARED, self._rng)
        features, together = self._blocks.emissions.features(rows), np.zeros((len(rows), len(rows)))
        fits = 2 * (1 + ascent.restarts)
        for _ in range(fits):
            reached = self._climbed(count, ascent, progress, bounds)
            shares = softmax(features @ coefficients(self._blocks.emissions, reached.state), axis=1)
            together += shares @ shares.T / fits
        labels = agreed_pieces(together, max(1, min(MOST_PIECES, self.rows // ROWS_PIECE)))
        sums = summed(features, labels, int(labels.max()) + 1)
        state = plus(self._blocks.emissions, self._prior(len(sums)), sums)
        state = state if len(rows) == self.rows else self.step(state)[0]
        return Climb(self._agreed(state), tuple(bounds), True)

    def may_hide(self, found: int) -> bool:
        """Whether several components of discrete columns may look like the one that was found: rows are few."""
        return found == 1 and self.rows < ROWS_PER_COLUMN * discrete_columns(self._blocks.emissions)

    def _climbed(self, count: int, ascent: Ascent, progress: OnPass | None, bounds: list[float]) -> Climb[Natural]:
        """A fit from a start of its own; `bounds` are the best after each of them."""

        def report(number: int, bound: float) -> None:
            announce(progress, len(bounds), number, bound)

        reached = climb(self.begin(count), self.step, ascent, self.observations, report)
        if reached.interrupted:
            raise KeyboardInterrupt
        bounds.append(max([reached.height, *bounds[-1:]]))
        return reached

    def begin(self, count: int) -> Natural:
        kind = self._model.start_from or ("k-means++" if len(self._blocks) >= FEW * count else "random")
        return self._model.sized(count)._begin(self._blocks, self._prior(count), kind, self._rng)

    def step(self, state: Natural) -> tuple[Natural, float]:
        before = Reference(self._structure.families, self._prior(len(state["weights"])))
        return self._model._pass(self._blocks, before, state)

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
        slopes = coefficients(self._blocks.emissions, state)
        nearer, farther = np.zeros((2, len(apart), self._blocks.width))
        for points, features in zip(self._blocks, self._blocks.features(), strict=True):
            places, responsibilities = self._places(points), softmax(features @ slopes, axis=1)
            near = squared_distances(places, seeds[0]) <= squared_distances(places, seeds[1])
            nearer += (responsibilities * near).T @ features
            farther += (responsibilities * ~near).T @ features
        sums = np.concatenate([nearer, farther[apart]])
        return plus(self._blocks.emissions, self._prior(len(sums)), sums)

    def _seeds(self, state: Natural) -> tuple[Array, Array]:
        """(2, K, D): two points of each component, the second far from the first; and whether they differ."""
        slopes, places = coefficients(self._blocks.emissions, state), self._places(self._candidates)
        owner = np.argmax(self._blocks.emissions.features(self._candidates) @ slopes, axis=1)
        seeds = np.zeros((2, slopes.shape[1], places.shape[1]))
        for component in range(slopes.shape[1]):
            members = places[owner == component]
            if len(members):
                first = members[self._rng.integers(len(members))]
                distance = squared_distances(members, first[None])[:, 0]
                share = distance / distance.sum() if distance.any() else None
                seeds[:, component] = first, members[self._rng.choice(len(members), p=share)]
        return seeds, (seeds[0] != seeds[1]).any(axis=1)

    def _prior(self, count: int) -> Natural:
        return prior_of(self._structure, count)

    def _under_own_prior(self, statistics: Natural, strengths: Array = STRENGTHS) -> tuple["MixtureMoves", float]:
        """The moves under the columns' own prior, by the statistics of components; and the strengths' log-density."""
        agreed = prior_of(self._model.structure, 1)
        before, density = own_prior(self._blocks.emissions, agreed, statistics, strengths)
        moves = copy(self)
        moves._structure, moves.distinct = replace(self._model.structure, prior=before), False
        return moves, density

    def _whole(self) -> Natural:
        """The statistics of all points as one component."""
        sums = np.add.reduce([features.sum(axis=0, keepdims=True) for features in self._blocks.features()])
        nothing = prior_of(self._model.structure, 1)
        return less(plus(self._blocks.emissions, nothing, sums), nothing)

    def _statistics(self, state: Natural) -> Natural:
        return less(state, self._prior(len(state["weights"])))

    def _agreed(self, state: Natural) -> Natural:
        """The same statistics on top of the agreed prior."""
        return more(prior_of(self._model.structure, 1), self._statistics(state))


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
