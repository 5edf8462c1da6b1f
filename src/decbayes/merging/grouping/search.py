"""Any component into any slot: single moves while they gain, and new components for empty slots.

The objective Σ_k F(S_k) (see `families.groups`) never falls. Components come in an order that depends only on their
contents, and so does the result.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.families.groups import Groups, Visited, Visiting
from decbayes.families.matrices import Indices
from decbayes.merging.base.components import Components
from decbayes.merging.base.problem import Factor

# Components that prefer their slot by more than this, in nats per observation, are visited less often.
SURE = 0.05
# Nats per observation that a component must gain to leave the slot of its id, so that ids do not follow noise.
STAYS = 0.2
# Nats per observation that a move must gain: far above rounding, far below anything that matters.
LEAST_GAIN = 1e-9
# Full sweeps, and sweeps over unsure components between two of them. Every move gains, so searches end by themselves.
MOST_SWEEPS, ASIDES = 50, 20
# Components whose gains are computed together; one that would move is checked again by itself.
BLOCK = 64

Announce = Callable[[], None]


class SlotSearch:
    """The state of a search: the slot of each component, the contents of slots, and each component's gain elsewhere.

    Gains are cached: a slot is evaluated again only after it has changed.
    """

    def __init__(
        self,
        components: Components,
        labels: Indices,
        bases: Sequence[Array],
        count: int,
        anchors: Components | None = None,
        homes: Indices | None = None,
    ) -> None:
        """`anchors` are additional fixed components, one per slot; `homes` are slots that components prefer."""
        self.components, self.count, self.bases, self.anchors, self.homes = components, count, bases, anchors, homes
        self.slots = empty_slots(components.factors, bases, count)
        self.restart(labels)

    @classmethod
    def among(cls, components: Components, labels: Indices, slots: list[Groups]) -> "SlotSearch":
        """A search for some of the components in these slots; the others stay in place."""
        search = cls.__new__(cls)
        search.components, search.count, search.slots = components, len(slots[0].values()), slots
        search.anchors = search.homes = None
        search._begin(labels)
        return search

    def restart(self, labels: Indices) -> None:
        """Put the components into the slots of the labels; a negative label is no slot."""
        self._begin(labels)
        self.refill()

    def _begin(self, labels: Indices) -> None:
        self.labels = np.array(labels, dtype=np.intp)
        self._gains = np.zeros((len(labels), self.count))
        self._seen = np.full((len(labels), self.count), -1, dtype=np.int64)
        self._versions = np.zeros(self.count, dtype=np.int64)
        self._sureness = np.full(len(labels), -np.inf)

    def refill(self) -> None:
        """Recompute the sums of the slots: adding and subtracting accumulates rounding errors."""
        for factor, groups in enumerate(self.slots):
            groups.clear()
            if self.anchors is not None:
                groups.fill(self.anchors.rows[factor], np.arange(self.count), self.anchors.evidence)
            groups.fill(self.components.rows[factor], self.labels, self.components.evidence)
            groups.update()

    def value(self) -> float:
        """Σ_k F(S_k), plus a bonus for components in their home slots."""
        known = float(sum(groups.values().sum() for groups in self.slots))
        at_home = 0.0 if self.homes is None else float(self.components.evidence[self.labels == self.homes].sum())
        return known + STAYS * at_home

    def gains(self, chosen: Indices) -> Array:
        """(chosen, slots): the gain of each slot from a component, including the slot that holds it."""
        stale = self._seen[chosen] != self._versions
        if stale.any():
            current, evidence = self.labels[chosen], self.components.evidence
            pairs = zip(self.slots, self.components.rows, strict=True)
            fresh = np.asarray(sum(groups.gains(rows, chosen, current, evidence, stale) for groups, rows in pairs))
            if self.homes is not None:
                fresh = fresh + STAYS * evidence[chosen, None] * (self.homes[chosen, None] == np.arange(self.count))
            self._gains[chosen] = np.where(stale, fresh, self._gains[chosen])
            self._seen[chosen] = self._versions
        return self._gains[chosen]

    def moves(self, most: int = MOST_SWEEPS, announce: Announce | None = None, block: int = BLOCK) -> float:
        """Single moves until none gains, or for this many full sweeps; returns Σ_k F(S_k)."""
        for _ in range(most):
            moved = self.sweep(block=block)
            if announce is not None:
                announce()
            if not moved:
                break
            for _ in range(ASIDES):
                if not self.sweep(SURE, block):
                    break
            self.refill()
        return self.value()

    def join_losses(self) -> Array:
        """(slots, slots): the loss of joining two slots; infinite on the diagonal."""
        losses = np.asarray(sum(groups.join_losses() for groups in self.slots), dtype=np.float64)
        np.fill_diagonal(losses, np.inf)
        return losses

    def cheapest_join(self) -> tuple[int, int, float]:
        """The two slots that lose least by joining, and the loss."""
        losses = self.join_losses()
        kept, absorbed = sorted(map(int, np.unravel_index(np.argmin(losses), losses.shape)))
        return kept, absorbed, float(losses[kept, absorbed])

    def join(self, kept: int, absorbed: int) -> None:
        """Join slot `absorbed` to slot `kept`; the last slot takes its number, and there is one less."""
        last = self.count - 1
        for groups in self.slots:
            groups.join(kept, absorbed)
        self.labels[self.labels == absorbed] = kept
        self.labels[self.labels == last] = absorbed
        self._versions[kept] += 1
        for state in (self._gains, self._seen):
            state[:, absorbed] = state[:, last]
        self._versions[absorbed] = self._versions[last]
        self._gains, self._seen = self._gains[:, :last].copy(), self._seen[:, :last].copy()
        self._versions, self.count = self._versions[:last].copy(), last
        self._sureness[:] = -np.inf

    def freedom(self, slots: Indices) -> Array:
        """The number of parameters that the data in these slots determine."""
        return np.maximum(sum(groups.freedom(slots) for groups in self.slots), 1.0)

    def alone(self) -> Array:
        """F of each component by itself."""
        pairs = zip(self.slots, self.components.rows, strict=True)
        return np.asarray(sum(groups.alone(rows, self.components.evidence) for groups, rows in pairs))

    def lost(self) -> Array:
        """What each component loses by sharing its slot; rounding cannot make it negative."""
        everyone = np.arange(len(self.components))
        return np.asarray(np.maximum(self.alone() - self.gains(everyone)[everyone, self.labels], 0.0))

    def margins(self) -> Array:
        """What each component would lose in the next best slot; infinite if there is no other.

        Empty slots are ignored: a component alone loses nothing, and slots stay empty only where the evidence is
        against using them.
        """
        everyone, slots = np.arange(len(self.components)), np.arange(self.count)
        gains = self.gains(everyone)
        evidence = np.bincount(self.labels, self.components.evidence, minlength=self.count)
        filled = (evidence > 0.0) | (self.anchors is not None)
        others = np.where(filled & (slots != self.labels[:, None]), gains, -np.inf)
        return np.asarray(np.maximum(gains[everyone, self.labels] - others.max(axis=1), 0.0))

    def halves(self, groups: Sequence[Indices]) -> list[tuple[Indices, float]]:
        """Split the members of each slot in two; returns halves and gains."""
        splits = []
        for members in groups:
            two, whole = self.split_start(members)
            gain = two.moves() - whole
            splits.append((two.labels, gain))
        return splits

    def split_start(self, members: Indices) -> tuple["SlotSearch", float]:
        """A search with two slots for the members of one, and their value in one.

        One slot begins with the member that fits worst, the other with the one farthest from it.
        """
        part = self.components.taken(members)
        everyone = np.arange(len(part))
        one = SlotSearch(part, np.zeros(len(part), dtype=np.intp), self.bases, 1)
        whole, alone = one.value(), one.alone()
        worst = int(np.argmax(alone - one.gains(everyone)[:, 0]))
        one.restart(np.where(everyone == worst, 0, -1))
        apart = alone - one.gains(everyone)[:, 0]
        apart[worst] = -np.inf
        start = np.full(len(part), -1, dtype=np.intp)
        start[worst], start[int(np.argmax(apart))] = 0, 1
        return SlotSearch(part, start, self.bases, 2), whole

    def sweep(self, below: float = np.inf, block: int = BLOCK) -> bool:
        """Give every unsure component one chance to move; returns whether any did."""
        order = self.components.order
        waiting = order[self._sureness[order] < below]
        moved = False
        for first in range(0, len(waiting), block):
            chosen = waiting[first : first + block]
            gains = self.gains(chosen)
            moved |= self._visit_all(chosen[self._wishes(chosen, gains)])
            self._note_sureness(chosen, gains)
        return moved

    def _visit_all(self, wishing: Indices) -> bool:
        """Visit components one after another; returns whether any has moved."""
        if not len(wishing):
            return False
        if len(self.slots) > 1 or not isinstance(self.slots[0], Visiting):
            return sum(self._visit(component) for component in wishing.tolist()) > 0
        evidence = self.components.evidence[wishing]
        homes = np.full(len(wishing), -1, dtype=np.intp) if self.homes is None else self.homes[wishing]
        visited = Visited(wishing, LEAST_GAIN * evidence, homes, STAYS * evidence)
        known = self._gains, self._seen, self._versions
        return self.slots[0].visit(self.components.rows[0], visited, self.labels, known)

    def _wishes(self, chosen: Indices, gains: Array) -> Array:
        """Which components would gain by a move."""
        slots = self.labels[chosen]
        current = np.where(slots >= 0, gains[np.arange(len(chosen)), slots], -np.inf)
        return np.asarray(gains.max(axis=1) > current + LEAST_GAIN * self.components.evidence[chosen])

    def _visit(self, component: int) -> bool:
        """Move one component into its best slot, if that gains."""
        chosen = np.array([component])
        gains = self.gains(chosen)
        if not self._wishes(chosen, gains)[0]:
            return False
        self.move(component, int(gains[0].argmax()))
        return True

    def move(self, component: int, slot: int) -> None:
        before = int(self.labels[component])
        for groups, rows in zip(self.slots, self.components.rows, strict=True):
            groups.move(rows, component, before, slot, float(self.components.evidence[component]))
        self.labels[component] = slot
        for changed in (before, slot):
            if changed >= 0:
                self._versions[changed] += 1

    def _note_sureness(self, block: Indices, gains: Array) -> None:
        if self.count > 1:
            best = np.partition(gains, self.count - 2, axis=1)[:, -2:]
            self._sureness[block] = (best[:, 1] - best[:, 0]) / np.maximum(self.components.evidence[block], 1e-300)


def empty_slots(factors: Sequence[Factor], bases: Sequence[Array], count: int) -> list[Groups]:
    return [factor.family.groups(base, count) for factor, base in zip(factors, bases, strict=True)]


# Components tried as the first of an empty slot.
CANDIDATES = 10
# A component is new if it and one of another site both gain by sharing a new slot: more than BORN times the noise each,
# and the first one APART nats per observation. Halves of a known topic do not reach this.
BORN, APART = 3.5, 0.5


def start_empty_slots(search: SlotSearch, filled: Array, sites: Indices) -> None:
    """Start empty slots with new components, then put each component into the slot with the largest gain."""
    known = filled > 0.0
    if not known.any():
        search.restart(np.zeros(len(search.labels), dtype=np.intp))
        known[0] = True
    for slot in np.flatnonzero(~known).tolist():
        search.move(new_component(search, slot, known, sites)[0], slot)
        known[slot] = True
    search.restart(search.gains(np.arange(len(search.labels))).argmax(axis=1))


def new_component(search: SlotSearch, slot: int, known: NDArray[np.bool_], sites: Indices) -> tuple[int, float]:
    """The component to start an empty slot with, and the smaller of its gain and that of its best follower.

    It is among those that fit the known slots worst, and a component of another site gains by following it. A mixture
    found by a single site fits as badly, but nothing gains as much by following it.
    """
    everyone = np.arange(len(search.labels))
    best_known = np.where(known, search.gains(everyone), -np.inf).max(axis=1)
    lost, worth = search.alone() - best_known, []
    far = lost > APART * search.components.evidence
    worst = np.argsort(-lost, kind="stable")[:CANDIDATES]
    for component in worst.tolist():
        home = int(search.labels[component])
        search.move(component, slot)
        follow = np.where(sites != sites[component], search.gains(everyone)[:, slot] - best_known, -np.inf)
        worth.append(min(float(lost[component]), float(follow.max())) if far[component] else 0.0)
        search.move(component, home)
    best = int(np.argmax(worth))
    return int(worst[best]), worth[best]


def count_new_slots(search: SlotSearch, known: NDArray[np.bool_], sites: Indices, noise: float) -> int:
    """The number of unknown slots needed for components found by two sites."""
    empty, known = np.flatnonzero(~known).tolist(), known.copy()
    for born, slot in enumerate(empty):
        component, worth = new_component(search, slot, known, sites)
        if worth < BORN * noise:
            return born
        search.move(component, slot)
        known[slot] = True
    return len(empty)
