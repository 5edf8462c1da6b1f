"""The alignment of one coupled set, as solvers see it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array, Family
from decbayes.families.rows import Rows
from decbayes.symmetry import Permutation

Assignments = NDArray[np.intp]
"""(agents, slots): which component of each agent fills each slot."""

Optimality = Literal["none", "swap", "agent", "global"]
"""What is proven about an alignment, weakest first: nothing; no exchange of two components of one agent raises J; no
relabelling of one agent raises J; no relabelling of all agents raises J. Differences that are rounding do not count."""

OnMatch = Callable[[], None]
"""Called whenever one more agent was matched against the others."""

STRENGTH: tuple[Optimality, ...] = ("none", "swap", "agent", "global")

# Relative to the score of an agent's assignment: smaller improvements are rounding.
TOLERANCE = 1e-11


@dataclass(frozen=True)
class Factor:
    """One factor of a coupled set."""

    family: Family
    prior: Array


@dataclass(frozen=True)
class Problem:
    """Find permutations P_i that maximise Σ_j A_j(λ0_j + Σ_i P_i c_ij) over the factors j of one set (eq:combopt).

    `contents[i]` are agent i's rows, one matrix a factor. They may be read from disk each time they are asked for.
    Whoever waits for the solution may pass `progress`.
    """

    factors: tuple[Factor, ...]
    contents: Sequence[tuple[Rows, ...]]
    progress: OnMatch | None = field(default=None, repr=False, compare=False)

    @property
    def agents(self) -> int:
        return len(self.contents)

    @property
    def components(self) -> int:
        return len(self.factors[0].prior)

    @property
    def exchangeable(self) -> bool:
        """Whether the prior treats all components alike, so that only the agents' labels against each other matter."""
        return all((factor.prior == factor.prior[0]).all() for factor in self.factors)

    def evaluations(self, *, most: int) -> int:
        """How many numbers all agents' gains take together: what a sweep costs.

        Counted until there are more than `most`, because agents may have to be read from disk.
        """
        total = 0
        for contents in self.contents:
            total += self.components * sum(rows.size for rows in contents)
            if total > most:
                break
        return total

    @property
    def solved_by_folding(self) -> bool:
        """Whether matching agents one after the other is exact: there is only one whose place is not arbitrary."""
        return self.agents <= 1 + self.exchangeable

    def part(self, agents: slice) -> "Problem":
        """The same problem for some of the agents."""
        return replace(self, contents=self.contents[agents])

    def loaded(self) -> "Problem":
        """The same problem with everybody's rows in memory."""
        return replace(self, contents=tuple(self.contents))

    def announce(self) -> None:
        """Say that one more agent was matched."""
        if self.progress is not None:
            self.progress()

    def __getstate__(self) -> dict[str, Any]:
        # Workers in other processes cannot reach whoever waits here.
        return {**self.__dict__, "progress": None}


@dataclass(frozen=True)
class Solution:
    """Assignments that a solver found, J as it rose, and what is proven about them."""

    assignments: Assignments
    objective: tuple[float, ...]
    optimality: Optimality


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
