"""The slots of one factor when any component may go into any slot, and the peak of each slot.

The peak of a group of components is the log-likelihood of their data at its maximum,

    F(S) = sup_θ ⟨Σ_{i∈S} c_i, T(θ)⟩,

up to a constant that is the same for all groupings. Unlike A(λ0 + Σ c_i) with a tiny prior, it does not reward a slot
for collecting small and noisy components. It is convex and homogeneous: joining two groups never gains.
"""

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from decbayes.families.matrices import Array, Indices
from decbayes.families.rows import Rows

if TYPE_CHECKING:
    from decbayes.families.family import Family

Mask = NDArray[np.bool_]
Known = tuple[Array, NDArray[np.int64], NDArray[np.int64]]
"""State of a search: the gain of each slot from each row, the slot's version it was computed for, and all versions."""


class Visited(NamedTuple):
    """Rows that may move, the least gain of each, its home slot (negative for none), and its bonus there."""

    rows: Indices
    least_gains: Array
    homes: Indices
    at_home: Array


class Groups(Protocol):
    """Slots of one factor. `evidence` is the number of observations of each row."""

    def fill(self, rows: Rows, slots: Indices, evidence: Array) -> None:
        """Put rows into slots, in several calls if there are many, then `update`. Negative numbers mean no slot."""

    def update(self) -> None:
        """Bring everything that depends on the sums up to date."""

    def clear(self) -> None:
        """Empty all slots."""

    def values(self) -> Array:
        """F of each slot."""

    def gains(self, rows: Rows, chosen: Indices, current: Indices, evidence: Array, needed: Mask) -> Array:
        """(chosen, slots): F(S ∪ i) − F(S), or F(S) − F(S without i) for its current slot; only where needed."""

    def move(self, rows: Rows, component: int, before: int, after: int, evidence: float) -> None:
        """Take a row out of one slot and put it into another."""

    def alone(self, rows: Rows, evidence: Array) -> Array:
        """F of each row by itself."""

    def join_losses(self) -> Array:
        """(slots, slots): F(S) + F(T) − F(S ∪ T)."""

    def join(self, kept: int, absorbed: int) -> None:
        """Join slot `absorbed` to slot `kept`; the last slot takes its number, and there is one less."""

    def freedom(self, slots: Indices) -> Array:
        """The number of parameters that the data in these slots determine."""


@runtime_checkable
class Visiting(Protocol):
    """Slots in which rows can be moved one after another by a single call."""

    def visit(self, rows: Rows, visited: Visited, labels: Indices, known: Known) -> bool:
        """Move each row into its best slot if that gains, as `SlotSearch` does; returns whether any moved."""


class Joins(Protocol):
    """Groups that are joined in pairs; at first, each component is a group."""

    def losses(self, group: int, others: Indices) -> Array:
        """F(S) + F(T) − F(S ∪ T) of a group and each of the others."""

    def join(self, kept: int, absorbed: int) -> None:
        """Join two groups under the number of the first."""


@runtime_checkable
class Growing(Protocol):
    """A family that builds a whole tree in a single call."""

    def tree(self, rows: Rows, fewest: int) -> tuple[Indices, Indices, Array]:
        """Join rows until this many groups are left; returns the first members of both groups, and the losses."""


class PlainGroups:
    """Slots of any family, by its own `peak`."""

    def __init__(self, family: "Family", base: Array, slots: int) -> None:
        self.family, self.base = family, base
        self.added, self.evidence, self.known = np.zeros((slots, len(base))), np.zeros(slots), np.zeros(slots)

    def fill(self, rows: Rows, slots: Indices, evidence: Array) -> None:
        placed = np.flatnonzero(slots >= 0)
        rows.add_to(self.added, slots[placed], placed)
        np.add.at(self.evidence, slots[placed], evidence[placed])

    def update(self) -> None:
        self.known = self._peak(self.added, self.evidence)

    def clear(self) -> None:
        self.added[:], self.evidence[:] = 0.0, 0.0

    def values(self) -> Array:
        return self.known

    def gains(self, rows: Rows, chosen: Indices, current: Indices, evidence: Array, needed: Mask) -> Array:
        (row, slot), gains = np.nonzero(needed), np.zeros(needed.shape)
        sign = np.where(current[row] == slot, -1.0, 1.0)
        after = self.added[slot] + sign[:, None] * rows.written_out()[chosen[row]]
        observations = self.evidence[slot] + sign * evidence[chosen[row]]
        gains[row, slot] = sign * (self._peak(after, observations) - self.known[slot])
        return gains

    def move(self, rows: Rows, component: int, before: int, after: int, evidence: float) -> None:
        for slot, sign in ((before, -1.0), (after, 1.0)):
            if slot >= 0:
                self.added[slot] += sign * rows.written_out()[component]
                self.evidence[slot] += sign * evidence
                self.known[slot] = self._peak(self.added[slot : slot + 1], self.evidence[slot : slot + 1])[0]

    def alone(self, rows: Rows, evidence: Array) -> Array:
        return self._peak(rows.written_out(), evidence)

    def join_losses(self) -> Array:
        first, second = np.triu_indices(len(self.added), 1)
        joined = self._peak(self.added[first] + self.added[second], self.evidence[first] + self.evidence[second])
        losses = np.zeros((len(self.added),) * 2)
        losses[first, second] = losses[second, first] = self.known[first] + self.known[second] - joined
        return losses

    def join(self, kept: int, absorbed: int) -> None:
        self.added, self.evidence = one_less(self.added, kept, absorbed), one_less(self.evidence, kept, absorbed)
        self.known = one_less(self.known, kept, absorbed)
        self.known[kept] = self._peak(self.added[[kept]], self.evidence[[kept]])[0]

    def freedom(self, slots: Indices) -> Array:
        return self.family.freedom(self.added[slots])

    def _peak(self, contribution: Array, evidence: Array) -> Array:
        return self.family.peak(contribution, evidence, self.base)


def one_less(values: Array, kept: int, absorbed: int) -> Array:
    """Sums by slot after a join: `absorbed` is added to `kept`, and the last slot takes its number."""
    values[kept] += values[absorbed]
    values[absorbed] = values[-1]
    return values[:-1].copy()


class PlainJoins:
    """Joins of groups of any family."""

    def __init__(self, family: "Family", base: Array, rows: Rows, evidence: Array) -> None:
        self.family, self.base = family, base
        self.added, self.evidence = rows.written_out().copy(), evidence.copy()
        self.known = family.peak(self.added, self.evidence, base)

    def losses(self, group: int, others: Indices) -> Array:
        joined = self.added[group] + self.added[others], self.evidence[group] + self.evidence[others]
        return np.asarray(self.known[group] + self.known[others] - self.family.peak(*joined, self.base))

    def join(self, kept: int, absorbed: int) -> None:
        self.added[kept] += self.added[absorbed]
        self.evidence[kept] += self.evidence[absorbed]
        self.known[kept] = self.family.peak(self.added[[kept]], self.evidence[[kept]], self.base)[0]
