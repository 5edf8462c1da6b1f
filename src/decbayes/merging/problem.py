"""The alignment of one coupled set, as solvers see it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array, Contribution, Family
from decbayes.merging.sums import add_relabelled
from decbayes.symmetry import Permutation

Assignments = NDArray[np.intp]
"""(agents, slots): which component of each agent fills each slot."""

Totals = list[Array]
"""One dense (K, d) matrix of natural parameters a factor."""

# Relative to the score of an agent's assignment: smaller improvements are rounding.
TOLERANCE = 1e-11


@dataclass(frozen=True)
class Factor:
    """One factor of a coupled set: its family, its prior and every agent's contribution."""

    family: Family
    prior: Array
    contributions: Sequence[Contribution]


@dataclass(frozen=True)
class Problem:
    """Find permutations P_i that maximise Σ_j A_j(λ0_j + Σ_i P_i c_ij) over the factors j of one set (eq:combopt)."""

    factors: tuple[Factor, ...]

    @property
    def agents(self) -> int:
        return len(self.factors[0].contributions)

    @property
    def components(self) -> int:
        return len(self.factors[0].prior)

    @property
    def exchangeable(self) -> bool:
        """Whether the prior treats all components alike, so that only the agents' labels against each other matter."""
        return all((factor.prior == factor.prior[0]).all() for factor in self.factors)

    def subset(self, agents: Sequence[int]) -> "Problem":
        """The same problem for some of the agents."""
        return Problem(
            tuple(Factor(f.family, f.prior, [f.contributions[agent] for agent in agents]) for f in self.factors)
        )

    def prior(self) -> Totals:
        """The totals before any agent is added."""
        return [np.array(factor.prior) for factor in self.factors]

    def add(self, totals: Totals, agent: int, permutation: Permutation, sign: float = 1.0) -> None:
        """Add an agent's relabelled contributions to the totals, in place."""
        for factor, total in zip(self.factors, totals, strict=True):
            add_relabelled(total, factor.contributions[agent], permutation, sign)

    def totals(self, assignments: Assignments) -> Totals:
        """λ0 + Σ_i P_i c_i, summed in the order of the agents."""
        totals = self.prior()
        for agent, permutation in enumerate(assignments):
            self.add(totals, agent, permutation)
        return totals

    def objective(self, totals: Totals) -> float:
        """J of the set, −∞ outside the domain."""
        pairs = list(zip(self.factors, totals, strict=True))
        if not all(factor.family.contains(total) for factor, total in pairs):
            return -np.inf
        return sum(factor.family.log_partition(total) for factor, total in pairs)

    def gain(self, rest: Totals, agent: int) -> Array:
        """(K, K): what J gains when component k' of the agent is added to slot k of the rest."""
        gains = [
            factor.family.gain(total, factor.contributions[agent])
            for factor, total in zip(self.factors, rest, strict=True)
        ]
        return forbid_undefined(np.sum(gains, axis=0))


@dataclass(frozen=True)
class Solution:
    """Assignments that a solver found, and J as it rose."""

    assignments: Assignments
    objective: tuple[float, ...]


class Solver(Protocol):
    """A way to find good permutations for one coupled set."""

    def solve(self, problem: Problem) -> Solution: ...


def forbid_undefined(gain: Array) -> Array:
    """The gain with a prohibitive loss wherever a sum would leave the domain."""
    defined = np.isfinite(gain)
    if defined.all():
        return gain
    largest = float(np.abs(gain[defined]).max(initial=1.0))
    return np.where(defined, gain, -1e6 * largest)


def best_permutation(gain: Array) -> Permutation:
    """The maximum-weight assignment of components to slots."""
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(gain, maximize=True)[1], dtype=np.intp)


def worthwhile(gain: Array, candidate: Permutation, current: Permutation) -> bool:
    """Whether the candidate beats the current permutation by more than rounding."""
    slots = np.arange(len(gain))
    kept = gain[slots, current]
    return bool((gain[slots, candidate] - kept).sum() > TOLERANCE * (1.0 + np.abs(kept).sum()))
