"""How many slots: join while the cheapest join costs no more than noise does.

Two slots of one truth differ by noise: by half a nat per parameter at least, by more where sites differ by more than
sampling. What components lose in their slots measures it. The best of all ways to divide m noisy components of p
parameters in two gains (1 + √(m/p))² times that, the largest eigenvalue of noise (Marchenko and Pastur). So

    ratio = cheapest join of two slots / (noise · (1 + √(m/p))²)

is about 0.5 to 1.5 while slots are one thing cut in two, and jumps where two things would be joined.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from decbayes.families.matrices import Array, Indices
from decbayes.merging.base.components import LEAST_EVIDENCE, Components, bases, earlier_components, sites_of
from decbayes.merging.base.problem import Problem
from decbayes.merging.grouping.joins import grown_labels
from decbayes.merging.grouping.search import Search, births

# Ratios above SURE are two things; a jump to PERHAPS or more counts, and one by GAP or more over what came before
# (RISE at least) is clear.
SURE, PERHAPS, RISE, GAP = 4.0, 2.0, 2.5, 1.2
# Noise is taken to be within this many times what sampling alone would make.
LEAST_NOISE, MOST_NOISE = 1.0, 5.0
# The way down begins at twice what a site has, at least here; above STEP slots several are joined between two looks.
FIRST, STEP = 30, 40
SWEEPS = 5
# Slots that may begin at once beside those of an earlier merge.
MOST_BORN = 8
# Of more components than this, groups of the most alike are taken for one.
MOST_COMPONENTS = 1000


@dataclass(frozen=True)
class Look:
    """One number of slots: the cost of its cheapest join, in units that noise of one nat would have; and the noise."""

    slots: int
    cost: float
    noise: float
    known: bool


def found_number(problem: Problem) -> int:
    """The number of slots; the largest that a site has where costs rise too smoothly to tell.

    An earlier merge keeps its slots, empty where nothing goes into them; what is clearly new adds some.
    """
    before = known_slots(problem)
    widest = max(contents[0].count for contents in problem.contents)
    components = Components.of(problem.factors, [*problem.contents])
    told = np.flatnonzero(components.evidence >= LEAST_EVIDENCE)
    components, count = components.taken(told), len(told)
    if count < 2:
        return max(count, before, 1)
    anchors = earlier_components(problem, before + MOST_BORN)
    if anchors is not None:
        before += new_slots(components, anchors, sites_of(problem)[told])
    if count > MOST_COMPONENTS:
        base = bases(components.factors, float(components.evidence.sum()), MOST_COMPONENTS)
        components = components.joined(grown_labels(components, base, MOST_COMPONENTS), MOST_COMPONENTS)
        count = MOST_COMPONENTS
    start = min(count, max(2 * widest, FIRST))
    while True:
        found, clear, last = descend(components, start)
        if found is not None:
            sure = clear or (not before and last < SURE)
            return max(found, before) if sure else before or min(widest, count)
        if start >= count:
            return max(count, before)
        start = min(count, 2 * start)


def known_slots(problem: Problem) -> int:
    """How many slots of the earlier merge hold something."""
    return 0 if problem.since is None else int((Components.of(problem.factors, [problem.since]).evidence > 0.0).sum())


def new_slots(components: Components, anchors: Components, sites: Indices) -> int:
    """How many slots an earlier merge lacks: two sites, or more, have found what is in none of its own."""
    count = len(anchors)
    base = bases(components.factors, float(components.evidence.sum()), count)
    search = Search(components, np.full(len(components), -1, dtype=np.intp), base, count, anchors)
    known, least = anchors.evidence > 0.0, sampling_noise(components)
    lost = search.alone() - np.where(known, search.gains(np.arange(len(components))), -np.inf).max(axis=1)
    return births(search, known, sites, within_bounds(float(np.median(lost)), least))


def descend(components: Components, start: int) -> tuple[int | None, bool, float]:
    """One way down: the number found, whether it is clear, and the last ratio; None where it began too low."""
    best, perhaps, steepest, before, ratio = None, None, 0.0, RISE, 0.0
    waiting: list[Look] = []
    first = True
    for look in looks(components, start):
        waiting.append(look)
        if not look.known and look.slots > 2:
            continue
        for seen in waiting:
            ratio = seen.cost / look.noise
            if first and ratio >= SURE and seen.slots < len(components):
                return None, False, ratio
            first = False
            perhaps = seen.slots if perhaps is None and ratio >= PERHAPS else perhaps
            if ratio / before > steepest and ratio >= PERHAPS:
                best, steepest = seen.slots, ratio / before
            if ratio >= SURE:
                return best, steepest >= GAP, ratio
            before = max(before, ratio)
        waiting = []
    return perhaps or 1, False, ratio


def looks(components: Components, start: int) -> Iterator[Look]:
    """Down from so many slots, a join (or a few) at a time, with moves after each."""
    base = bases(components.factors, float(components.evidence.sum()), start)
    search = Search(components, grown_labels(components, base, start), base, start)
    least = sampling_noise(components)
    while search.count > 1:
        search.moves(SWEEPS)
        losses = search.join_losses()
        first, second = sorted(map(int, np.unravel_index(np.argmin(losses), losses.shape)))
        members = np.bincount(search.labels, minlength=search.count)
        parameters = float(search.freedom(np.array([first, second])).min())
        crowd = float(crowding(members[first] + members[second], parameters))
        noise, known = measured_noise(search, members, least)
        yield Look(search.count, float(losses[first, second]) / crowd, noise, known)
        for _ in range(max(1, search.count // STEP)):
            search.join(first, second)
            if search.count < 2:
                return
            losses = search.join_losses()
            first, second = sorted(map(int, np.unravel_index(np.argmin(losses), losses.shape)))


def crowding(members: ArrayLike, parameters: ArrayLike) -> Array:
    """How much more the best of all ways to divide noise in two gains than a given one."""
    return np.asarray((1.0 + np.sqrt(np.asarray(members) / parameters)) ** 2)


def sampling_noise(components: Components) -> float:
    """Half the number of parameters that a component's data can tell apart (median): the least that a join can cost."""
    return float(np.median(0.5 * np.maximum(components.told(), 1.0)))


def measured_noise(search: Search, members: Indices, least: float) -> tuple[float, bool]:
    """The median of what components lose by sharing a slot, within bounds; and whether enough share one to know."""
    shared = members[search.labels] > 1
    lost = search.lost()
    level = float(np.median(lost[shared])) if shared.any() else 0.0
    return within_bounds(level, least), bool(shared.mean() >= 0.5)


def within_bounds(level: float, least: float) -> float:
    """A level of noise that is believable, given what sampling alone makes."""
    return float(np.clip(level, LEAST_NOISE * least, MOST_NOISE * least))
