"""The number of slots: join while the cheapest join costs no more than noise.

Two slots of one true component differ by noise: by half a nat per parameter at least, by more if sites differ by more
than sampling. The losses of components in their slots measure it. The best split of m noisy components of p parameters
gains (1 + √(m/p))² times that, the largest eigenvalue of noise (Marchenko and Pastur). So

    ratio = cheapest join of two slots / (noise · (1 + √(m/p))²)

is about 0.5 to 1.5 while slots are halves of one component, and jumps when two different ones would be joined.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from decbayes.families.matrices import Array, Indices
from decbayes.merging.base.components import LEAST_EVIDENCE, Components, earlier_components, sites_of
from decbayes.merging.base.problem import Problem
from decbayes.merging.grouping.joins import grown_labels
from decbayes.merging.grouping.search import SlotSearch, count_new_slots

# A ratio above SURE means two components. A jump to at least PERHAPS counts; one by at least GAP over the previous
# ratio (or over RISE, if that is more) is clear.
SURE, PERHAPS, RISE, GAP = 4.0, 2.0, 2.5, 1.2
# These limits are for components with few parameters. With more, noise varies less relative to its mean, and limits
# move towards one by √(FEW / p), at least NARROWEST. Topics keep them, as sampling is not their only noise.
FEW, NARROWEST = 5.0, 1.0 / 3.0
# Bounds of the noise, relative to that of sampling alone.
LEAST_NOISE, MOST_NOISE = 1.0, 5.0
# If the largest site has at least this many times the components of the first number at which two perhaps differ, sites
# have split components into pieces: then too few slots cost much more than too many.
WIDE = 1.5
# The search starts at twice the largest site's number of components, at least at FIRST; above STEP slots, several are
# joined at once.
FIRST, STEP = 30, 40
SWEEPS = 5
# The most slots that may be added at once to those of an earlier merge.
MOST_BORN = 8
# With more components than this, the most similar ones are first joined into groups.
MOST_COMPONENTS = 1000


@dataclass(frozen=True)
class CheapestJoin:
    """The cheapest join at one number of slots, in units of its cost for noise of one nat, and the noise there.

    `spread` says how much costs of noise vary, relative to components with few parameters.
    """

    slots: int
    cost: float
    noise: float
    known: bool
    spread: float = 1.0

    def limit(self, ratio: float) -> float:
        """The limit, adjusted for the number of parameters."""
        return 1.0 + (ratio - 1.0) * self.spread


Stands = Literal["out", "unopposed", "wide", "no"]
"""Whether a number stands out: joins below it cost clearly more ("out"); no two components surely differ ("unopposed");
sites have far more components, which join at the price of noise ("wide"); or none of these."""


def estimated_number(problem: Problem) -> tuple[int, Stands]:
    """The number of slots, and whether it stands out; the largest site's number if costs rise too smoothly to decide.

    The slots of an earlier merge are kept, even if empty; clearly new components add some.
    """
    before = known_slots(problem)
    widest = max(contents[0].count for contents in problem.contents)
    components = Components.in_problem(problem)
    filled = np.flatnonzero(components.evidence >= LEAST_EVIDENCE)
    components, count = components.taken(filled), len(filled)
    if count < 2:
        return max(count, before, 1), "unopposed"
    anchors = earlier_components(problem, before + MOST_BORN)
    if anchors is not None:
        before += new_slots(components, anchors, sites_of(problem)[filled])
    components = searchable(components)
    count = len(components)
    start = min(count, max(2 * widest, FIRST))
    while True:
        number, clear, differ, first = descend(components, start)
        if number is not None:
            budget = any(factor.family.countable for factor in components.factors)
            if differ and not before and not budget and WIDE * first <= widest:
                return first, "wide"
            stands: Stands = "out" if clear else "no" if before or differ else "unopposed"
            return (before or min(widest, count) if stands == "no" else max(number, before)), stands
        if start >= count:
            return max(count, before), "out"
        start = min(count, 2 * start)


def searchable(components: Components) -> Components:
    """Those with data; if they are too many, the most similar ones joined."""
    filled = components.taken(np.flatnonzero(components.evidence >= LEAST_EVIDENCE))
    if len(filled) <= MOST_COMPONENTS:
        return filled
    labels = grown_labels(filled, filled.bases(MOST_COMPONENTS), MOST_COMPONENTS)
    return filled.joined(labels, MOST_COMPONENTS)


def known_slots(problem: Problem) -> int:
    """The number of non-empty slots of the earlier merge."""
    return 0 if problem.since is None else int((Components.of(problem.factors, [problem.since]).evidence > 0.0).sum())


def new_slots(components: Components, anchors: Components, sites: Indices) -> int:
    """The number of slots missing in an earlier merge, for components that at least two sites have found."""
    count = len(anchors)
    base = components.bases(count)
    search = SlotSearch(components, np.full(len(components), -1, dtype=np.intp), base, count, anchors)
    known, least = anchors.evidence > 0.0, sampling_noise(components)
    lost = search.alone() - np.where(known, search.gains(np.arange(len(components))), -np.inf).max(axis=1)
    return count_new_slots(search, known, sites, within_bounds(float(np.median(lost)), least))


def descend(components: Components, start: int) -> tuple[int | None, bool, bool, int]:
    """One descent: the number, whether costs jump there, whether the descent ends where two slots surely differ, and
    the first number at which two perhaps do.

    The number is None if the descent started too low.
    """
    best, perhaps, steepest, before = None, None, 0.0, 0.0
    waiting: list[CheapestJoin] = []
    first = True
    for join in cheapest_joins(components, start):
        waiting.append(join)
        if not join.known and join.slots > 2:
            continue
        for seen in waiting:
            ratio, sure, least = seen.cost / join.noise, seen.limit(SURE), seen.limit(PERHAPS)
            if first and ratio >= sure and seen.slots < len(components):
                return None, False, True, start
            first = False
            perhaps = seen.slots if perhaps is None and ratio >= least else perhaps
            rise = ratio / max(before, seen.limit(RISE))
            if rise > steepest and ratio >= least:
                best, steepest = seen.slots, rise
            if ratio >= sure:
                return best, steepest >= GAP, True, perhaps or seen.slots
            before = max(before, ratio)
        waiting = []
    return perhaps or 1, False, False, perhaps or 1


def cheapest_joins(components: Components, start: int) -> Iterator[CheapestJoin]:
    """Descend from this many slots, by one join (or a few) at a time, with moves after each."""
    base = components.bases(start)
    search = SlotSearch(components, grown_labels(components, base, start), base, start)
    least = sampling_noise(components)
    while search.count > 1:
        search.moves(SWEEPS)
        first, second, loss = search.cheapest_join()
        members = np.bincount(search.labels, minlength=search.count)
        parameters = float(search.freedom(np.array([first, second])).min())
        crowd = float(crowding(members[first] + members[second], parameters))
        noise, known = measured_noise(search, members, least)
        yield CheapestJoin(search.count, loss / crowd, noise, known, spread_of(components, parameters))
        for _ in range(max(1, search.count // STEP)):
            search.join(first, second)
            if search.count < 2:
                return
            first, second, _ = search.cheapest_join()


def spread_of(components: Components, parameters: float) -> float:
    """How much costs of noise vary, relative to components with few parameters."""
    if any(factor.family.countable for factor in components.factors):
        return 1.0
    return float(np.clip(np.sqrt(FEW / parameters), NARROWEST, 1.0))


def crowding(members: ArrayLike, parameters: ArrayLike) -> Array:
    """How much more the best split of noise gains than a random one."""
    return np.asarray((1.0 + np.sqrt(np.asarray(members) / parameters)) ** 2)


def sampling_noise(components: Components) -> float:
    """Half the median number of parameters that a component's data determine: the least cost of a join."""
    return float(np.median(0.5 * np.maximum(components.effective_freedom(), 1.0)))


def measured_noise(search: SlotSearch, members: Indices, least: float) -> tuple[float, bool]:
    """The median loss of components that share a slot, within bounds; and whether at least half of them share one."""
    shared = members[search.labels] > 1
    lost = search.lost()
    level = float(np.median(lost[shared])) if shared.any() else 0.0
    return within_bounds(level, least), bool(shared.mean() >= 0.5)


def within_bounds(level: float, least: float) -> float:
    """The noise within plausible bounds, relative to sampling alone."""
    return float(np.clip(level, LEAST_NOISE * least, MOST_NOISE * least))
