"""Alignment of components with transitions: rows and columns move together, which is a quadratic assignment."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from decbayes.base.arguments import check_whole
from decbayes.families import Array
from decbayes.merging.base.problem import TOLERANCE, Optimality, Problem, Solution, best_permutation
from decbayes.merging.matching._exhaustive import all_permutations
from decbayes.merging.matching.placement import Placement
from decbayes.structure import Permutation, identity

MOST_SWEEPS = 100
# Up to this many components all permutations are tried, which is faster than a search.
TRIED = 6
# Up to this many components, a few random starts are cheap.
FEW, RANDOM_STARTS = 16, 4
# Pairs are exchanged in blocks of about this many numbers.
BLOCK = 1 << 20

every_permutation = cache(all_permutations)


@dataclass(frozen=True)
class Quadratic:
    """For hidden Markov models: match sites in turn, by the emissions of states and by their transitions.

        J(p) = Σ_k L[k, p_k] + Σ_kl lnΓ(R_kl + O_{p_k p_l})

    R are the transitions of all other sites and the prior, O those of the site. Up to six components, all permutations
    are tried. With more, each match starts from the best assignment without the second term, from that of Gilmore and
    Lawler, from one around the current assignment and, for few components, from random ones; then pairs are exchanged
    while J rises.

    Attributes:
        restarts: further searches, each adding the sites in another order; the best J is kept.
        seed: the seed of the orders and random starts.

    >>> model = db.HiddenMarkov(2, columns={"x": db.columns.Gaussian(0.0, 1.0)})
    >>> rng = np.random.default_rng(0)
    >>> sites = [model.fit([{"x": np.repeat([-3.0, 3.0], 10)}], rng=rng).posterior for _ in range(2)]
    >>> db.align(sites, solver=db.solvers.Quadratic()).optimality
    'global'
    """

    restarts: int = 3
    seed: int = 0

    one_to_one: ClassVar[bool] = True
    two_sided: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole(0, restarts=self.restarts, seed=self.seed)

    def solve(self, problem: Problem) -> Solution:
        problem = problem.loaded()
        starts = [None, *range(0 if problem.solved_by_folding else self.restarts)]
        return max((self._solve(problem, start) for start in starts), key=lambda solution: solution.objective[-1])

    def _solve(self, problem: Problem, restart: int | None) -> Solution:
        rng = np.random.default_rng([self.seed, 0 if restart is None else restart + 1])
        order = range(problem.sites) if restart is None else rng.permutation(problem.sites).tolist()
        chains = Chains(problem)
        for site in order:
            chains.rematch(site, rng)
            problem.announce()
        trace = [chains.objective()]
        proven: Optimality = "none"
        for _ in range(MOST_SWEEPS):
            changed = [chains.rematch(site, rng) for site in range(problem.sites)]
            if not any(changed):
                proven = chains.proven()
                break
            trace.append(chains.objective())
        return Solution.permuted(chains.placement.assignments, tuple(trace), proven)


class Chains:
    """Sites in their slots: a `Placement` of the one-sided factors, and the sums of the transitions."""

    def __init__(self, problem: Problem) -> None:
        self.placement = Placement(problem.one_sided)
        places = [place for place, factor in enumerate(problem.factors) if factor.family.two_sided]
        self.priors = [problem.factors[place].prior for place in places]
        self.families = [problem.factors[place].family for place in places]
        self.transitions = [[rows[place].written_out() for place in places] for rows in problem.contents]

    def rematch(self, site: int, rng: np.random.Generator) -> bool:
        """Give one site the best assignment found against all others; returns whether it changed."""
        current, match = self.placement.assignments[site].copy(), self.match(site)
        placed = bool((current >= 0).all())
        best = match.best(current if placed else None, rng)
        if placed and match.value(best) <= match.value(current) + TOLERANCE * (1.0 + abs(match.value(current))):
            return False
        self.placement.place(site, best)
        return True

    def match(self, site: int) -> "Match":
        """The site against all others."""
        return Match(self.placement.gain(site), self._others(site), self.transitions[site])

    def proven(self) -> Optimality:
        """What is proven once no site changes: a bound may show that no relabelling of one site is better."""
        sites = range(self.placement.problem.sites)
        if not all(self.match(site).proves(self.placement.assignments[site]) for site in sites):
            return "swap"
        return "global" if self.placement.problem.solved_by_folding else "site"

    def objective(self) -> float:
        """J of the set."""
        self.placement.refresh()
        sums = self._others(-1)
        pairs = zip(self.families, sums, strict=True)
        return self.placement.objective() + sum(family.log_partition(alpha - 1.0) for family, alpha in pairs)

    def _others(self, site: int) -> list[Array]:
        """α of each two-sided factor over all placed sites except one; recomputed in a fixed order."""
        sums = [prior + 1.0 for prior in self.priors]
        for other, assignment in enumerate(self.placement.assignments):
            if other != site and (assignment >= 0).all():
                for total, transitions in zip(sums, self.transitions[other], strict=True):
                    total += transitions[np.ix_(assignment, assignment)]
        return sums


class Match:
    """One site against all others: a linear gain, and pairs of transitions, the others' (α) and the site's (counts)."""

    def __init__(self, gain: Array, rest: Sequence[Array], site: Sequence[Array]) -> None:
        sums = [gammaln(r.sum(axis=1)[:, None] + o.sum(axis=1)[None, :]) for r, o in zip(rest, site, strict=True)]
        self.linear = np.asarray(gain - np.sum(sums, axis=0))
        self.pairs = list(zip(rest, site, strict=True))
        self.slots = identity(len(gain))

    def value(self, permutation: Permutation) -> float:
        return float(self.values(permutation[None])[0])

    def values(self, permutations: NDArray[np.intp]) -> Array:
        """J of each permutation, up to a constant."""
        step = max(1, BLOCK // len(self.slots) ** 2)
        return np.concatenate([self._values(permutations[at : at + step]) for at in range(0, len(permutations), step)])

    def _values(self, permutations: NDArray[np.intp]) -> Array:
        total = self.linear[self.slots, permutations].sum(axis=1)
        for rest, site in self.pairs:
            total = total + gammaln(rest + site[permutations[:, :, None], permutations[:, None, :]]).sum(axis=(1, 2))
        return np.asarray(total)

    def best(self, current: Permutation | None, rng: np.random.Generator) -> Permutation:
        """The best permutation if components are few, else the best one found."""
        if len(self.slots) <= TRIED:
            everything = every_permutation(len(self.slots))
            return np.asarray(everything[self.values(everything).argmax()])
        return self.searched(current, rng)

    def searched(self, current: Permutation | None, rng: np.random.Generator) -> Permutation:
        """The best result of exchanges from all starts."""
        return max((self.climbed(start) for start in self.starts(current, rng)), key=self.value)

    def losses(self, permutation: Permutation, alike: NDArray[np.bool_]) -> Array:
        """Per slot: the loss in J if its component must go elsewhere; slots that are `alike` count as one.

        All permutations are tried if components are few, else all exchanges of two.
        """
        few = len(self.slots) <= TRIED
        candidates = every_permutation(len(self.slots)) if few else exchanges(permutation)
        goes_to = np.argsort(candidates, axis=1)[:, permutation]
        stays = (goes_to == self.slots) | (alike[goes_to] & alike)
        elsewhere = np.where(stays, -np.inf, self.values(candidates)[:, None])
        return np.asarray(self.value(permutation) - elsewhere.max(axis=0))

    def bound(self) -> float:
        """An upper bound on the value of all permutations (Gilmore and Lawler)."""
        most = self.linear + self.bounds()
        return float(most[self.slots, best_permutation(most)].sum())

    def proves(self, permutation: Permutation) -> bool:
        """Whether no permutation is better, once `best` has been found."""
        value = self.value(permutation)
        return len(self.slots) <= TRIED or value >= self.bound() - TOLERANCE * (1.0 + abs(value))

    def starts(self, current: Permutation | None, rng: np.random.Generator) -> list[Permutation]:
        starts = [best_permutation(self.linear), best_permutation(self.linear + self.bounds())]
        if current is not None:
            starts += [current, best_permutation(self.linear + self.around(current))]
        if len(self.slots) <= FEW:
            starts += [rng.permutation(len(self.slots)).astype(np.intp) for _ in range(RANDOM_STARTS)]
        return list({permutation.tobytes(): permutation for permutation in starts}.values())

    def bounds(self) -> Array:
        """(K, K): an upper bound on the transitions' part of J if slot k has component c (Gilmore and Lawler).

        lnΓ is convex, so sums are largest if large values are paired with large ones: sorting solves it.
        """
        total = np.zeros(self.linear.shape)
        for rest, site in self.pairs:
            apart = gammaln(np.diag(rest)[:, None] + np.diag(site)[None, :])
            ranked = gammaln(off_diagonal(rest)[:, None, :] + off_diagonal(site)[None, :, :]).sum(axis=2)
            total += apart + ranked
        return total

    def around(self, current: Permutation) -> Array:
        """(K, K): the transitions' part of J if slot k has component c and all others stay."""
        total = np.zeros(self.linear.shape)
        for rest, site in self.pairs:
            total += gammaln(rest[:, None, :] + site[:, current][None, :, :]).sum(axis=2)
            total += gammaln(rest.T[:, None, :] + site.T[:, current][None, :, :]).sum(axis=2)
        return total

    def climbed(self, permutation: Permutation) -> Permutation:
        """Exchange the pair that raises J most until none does."""
        value = self.value(permutation)
        while len(permutation) > 1:
            candidates = exchanges(permutation)
            values = self.values(candidates)
            best = int(values.argmax())
            if not values[best] > value + TOLERANCE * (1.0 + abs(value)):
                break
            permutation, value = candidates[best], float(values[best])
        return permutation


def exchanges(permutation: Permutation) -> NDArray[np.intp]:
    """(pairs, K): the permutation with two components exchanged, for each pair."""
    first, second = pairs_of(len(permutation))
    rows, candidates = np.arange(len(first)), np.tile(permutation, (len(first), 1))
    candidates[rows, first], candidates[rows, second] = permutation[second], permutation[first]
    return candidates


@cache
def pairs_of(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    first, second = np.triu_indices(count, 1)
    return first, second


def off_diagonal(matrix: Array) -> Array:
    """(K, K − 1): each row without its diagonal entry, in order of size."""
    size = len(matrix)
    others = matrix[~np.eye(size, dtype=np.bool_)].reshape(size, size - 1)
    return np.sort(others, axis=1)
