"""Who is in which slot, what the slots hold, and what each agent would gain elsewhere: the state of a search.

An agent's gain in slot k depends on nothing but the other agents in that slot. So its gains are kept, and a slot is
evaluated again only after somebody else's component has entered or left it: an agent none of whose slots has changed
cannot change either, and is passed over.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.merging.problem import Assignments, Problem, forbid_undefined
from decbayes.symmetry import Permutation, identity

Step = Callable[["Placement", int], bool]
"""Something that may move one agent, and says whether it did."""

# Gains are kept up to this size in all (N · K² numbers); beyond, they are computed anew each time.
MOST_KEPT_BYTES = 1 << 28


class Placement:
    """The components of some or all agents in their slots; nobody is placed at first, unless assignments are given."""

    def __init__(self, problem: Problem, assignments: Assignments | None = None) -> None:
        agents, components = problem.agents, problem.components
        self.problem = problem
        self.assignments: Assignments = np.full((agents, components), -1, dtype=np.intp)
        self._totals = [factor.family.totals(factor.prior) for factor in problem.factors]
        self._versions = np.zeros(components, dtype=np.int64)
        self._changed = np.zeros(components, dtype=np.bool_)
        self._keeping = 8 * agents * components**2 <= MOST_KEPT_BYTES
        self._gains: dict[int, Array] = {}
        self._seen: dict[int, NDArray[np.int64]] = {}
        if assignments is not None:
            self.assignments[:] = assignments
            self._sum(identity(components))

    def up_to_date(self, agent: int) -> bool:
        """Whether no slot has changed since the agent's gain was computed."""
        return agent in self._seen and bool((self._seen[agent] == self._versions).all())

    def gain(self, agent: int) -> Array:
        """(K, K): what J gains when component k' of the agent is in slot k, all other agents staying where they are."""
        gain = self._gains.get(agent)
        if gain is None:
            gain, seen = np.empty((len(self._versions),) * 2), np.full_like(self._versions, -1)
        else:
            seen = self._seen[agent]
        stale = np.flatnonzero(seen != self._versions)
        if len(stale):
            gain[stale] = self._slot_gains(agent, stale)
            seen[:] = self._versions
        if self._keeping:
            self._gains[agent], self._seen[agent] = gain, seen
        return forbid_undefined(gain)

    def place(self, agent: int, permutation: Permutation) -> None:
        """Put an agent's components into their slots, out of those they were in."""
        before = self.assignments[agent].copy()
        slots = np.flatnonzero(before != permutation)
        for totals, rows in zip(self._totals, self.problem.contents[agent], strict=True):
            totals.move(rows, slots, before[slots], permutation[slots])
        self.assignments[agent] = permutation
        self._changed[slots] = True
        self._versions[slots] += 1
        if agent in self._seen:
            # The agent's own moves do not change what it would gain.
            self._seen[agent][slots] += 1

    def refresh(self) -> None:
        """Sum the slots that have changed anew: adding and subtracting accumulates rounding."""
        slots = np.flatnonzero(self._changed)
        if len(slots):
            self._sum(slots)
        self._changed[:] = False

    def objective(self) -> float:
        """J of the set, −∞ outside the domain."""
        return sum(totals.objective() for totals in self._totals)

    def _sum(self, slots: Permutation) -> None:
        for totals in self._totals:
            totals.clear(slots)
        for agent, contents in enumerate(self.problem.contents):
            for totals, rows in zip(self._totals, contents, strict=True):
                totals.add(rows, slots, self.assignments[agent, slots])
        for totals in self._totals:
            totals.update(slots)

    def _slot_gains(self, agent: int, slots: Permutation) -> Array:
        held = self.assignments[agent, slots]
        pairs = zip(self._totals, self.problem.contents[agent], strict=True)
        return np.asarray(sum(totals.gains(rows, slots, held) for totals, rows in pairs))


def sweep(placement: Placement, step: Step) -> bool:
    """Give every agent that could still change one chance to; whether anybody did."""
    moved = False
    for agent in range(placement.problem.agents):
        if not placement.up_to_date(agent):
            moved |= step(placement, agent)
        placement.problem.announce()
    return moved
