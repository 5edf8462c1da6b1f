"""Alignment of sites that differ: any component into any slot; several of one site may share a slot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from decbayes.base.arguments import check_whole
from decbayes.devices import device_for
from decbayes.families import Array
from decbayes.families.groups import Groups
from decbayes.families.matrices import Indices
from decbayes.merging.base.components import (
    LEAST_EVIDENCE,
    Components,
    bases,
    chunks,
    earlier_components,
    prior_components,
    sites_of,
)
from decbayes.merging.base.division import MOST_KEPT, SITES_AT_A_TIME, Division, divided, divisible
from decbayes.merging.base.problem import Problem, Slots, Solution
from decbayes.merging.grouping._escapes import escape, vacate
from decbayes.merging.grouping.inherited_ids import home_slots
from decbayes.merging.grouping.joins import grown_labels
from decbayes.merging.grouping.search import SlotSearch, empty_slots, start_empty_slots

if TYPE_CHECKING:
    from decbayes.kernels.cuda.device import Device

# Components without evidence, or with less than this share of the median component's, are placed last.
LEAST_SHARE = 0.01
# Entries of a sparse row that the first tree uses. Moves use all of them.
SHORT = 100
# Limits on the numbers in all rows (about 300 MB) and on components. Beyond them, a sample of SAMPLED components is
# searched, and then all components move in ROUNDS rounds, if necessary one block of sites at a time.
MOST_LOADED, MOST_SEARCHED, SAMPLED, ROUNDS = 1 << 24, 5_000, 2_000, 4
# Components whose gains are then computed together: enough for several threads.
WIDE_BLOCK = 1024
# The number of gains above which a GPU is worth its launches.
LARGE = 1_000_000


@dataclass(frozen=True)
class Grouping:
    """Any component into any slot: similar components go together, whichever sites they come from.

        maximise Σ_k F(S_k),   F(S) = the log-likelihood of a group's data at its best parameters

    It starts with a tree of the cheapest joins, then moves single components while that gains, then splits and joins
    slots.

    Attributes:
        escapes: the most times a slot is split and two others are joined.
        passes: passes in which counts of topics are divided among slots column by column, because a topic of a small
            site may be a mixture of several; 0 keeps components whole, also pieces of classes.

    >>> db.align(sites, components=1, solver=db.solvers.Grouping()).one_to_one
    False
    """

    escapes: int = 20
    passes: int = 12

    one_to_one: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole(0, escapes=self.escapes, passes=self.passes)

    def solve(self, problem: Problem) -> Solution:
        # Depends on size only: files and memory must give the same result.
        large = is_large(problem)
        problem = problem if large else problem.loaded()
        device = None if large and not keepable(problem) else device_of(problem)
        components = None if large else Components.in_problem(problem)
        labels = (
            self._sample_labels(problem, device) if components is None else self._labels(problem, components, device)
        )
        sites = split(labels, [contents[0].count for contents in problem.contents])
        return Solution(sites, (), "none", self._division(problem, sites, components, device))

    def _division(
        self, problem: Problem, sites: Slots, components: Components | None, device: "Device | None"
    ) -> Division | None:
        if self.passes and problem.pieces and components is not None and not problem.two_sided:
            from decbayes.merging.grouping.pieces import divided_pieces  # few merges need it

            return divided_pieces(components, sites, problem.components)
        if not self.passes or not divisible(problem):
            return None
        if device is None:
            return divided(problem, sites, self.passes, SITES_AT_A_TIME if components is None else problem.sites)
        from decbayes.merging.grouping.cuda.gpu_division import divided as gpu_divided
        from decbayes.merging.grouping.cuda.gpu_search import sparse

        return gpu_divided(device, problem, sites, self.passes, None if components is None else sparse(components))

    def _sample_labels(self, problem: Problem, device: "Device | None") -> Indices:
        """For too many components to search together: search a sample, then move all components."""
        evidence = np.concatenate([part.evidence for _, part in chunks(problem, SITES_AT_A_TIME)])
        sample, places = sampled(problem, evidence)
        base = sample.bases(problem.components)
        labels = np.full(len(evidence), -1, dtype=np.intp)
        labels[places] = self._searched(problem, sample, base, places, None, device, vacating=False)
        return moved_from_sample(problem, labels, bases(sample.factors, float(evidence.sum()), problem.components))

    def _labels(self, problem: Problem, components: Components, device: "Device | None") -> Indices:
        count = problem.components
        base = components.bases(count)
        if not problem.exchangeable:
            return anchored_labels(problem, components, [np.zeros_like(row) for row in base])
        main = np.flatnonzero(components.evidence > least_evidence(components.evidence))
        labels, home = np.full(len(components), -1, dtype=np.intp), homes_of(problem, components)
        if len(main):
            homes = None if home is None else home[main]
            labels[main] = self._searched(problem, components.taken(main), base, sites_of(problem)[main], homes, device)
        return attached(components, labels, base, count)

    def _searched(
        self,
        problem: Problem,
        components: Components,
        base: Sequence[Array],
        sites: Indices,
        home: Indices | None,
        device: "Device | None",
        vacating: bool = True,
    ) -> Indices:
        count, anchors = problem.components, earlier_components(problem)
        fixed = problem.since is not None or home is not None
        if device is not None and not fixed and len(components) > count:
            from decbayes.merging.grouping.cuda.gpu_search import fits, searched

            if fits(device, components, count, short=SHORT):
                return searched(device, components, count, short=SHORT, escapes=self.escapes, announce=problem.announce)
        start = home if home is not None else start_labels(problem, components, base, count)
        search = SlotSearch(components, start, base, count, anchors, home)
        if anchors is not None:
            start_empty_slots(search, anchors.evidence, sites)
        elif home is not None:
            start_empty_slots(search, np.bincount(home[home >= 0], minlength=count).astype(float), sites)
        if fixed or len(components) > count:
            search.moves(announce=problem.announce)
            escape(search, self.escapes)
        if vacating and not countable(problem):
            vacate(search)
        return search.labels


def is_large(problem: Problem) -> bool:
    """Whether there are too many components, or numbers in them, to search together; stops reading as soon as it knows.

    A search that starts from a prior's slots or an earlier merge is quick and always covers all components.
    """
    if not problem.exchangeable or problem.since is not None:
        return False
    components, numbers = 0, 0
    for contents in problem.contents:
        components, numbers = components + contents[0].count, numbers + sum(rows.size for rows in contents)
        if numbers > MOST_LOADED or (components > MOST_SEARCHED and countable(problem)):
            return True
    return False


def keepable(problem: Problem) -> bool:
    """Whether all components fit in memory together, even if they are too many to search."""
    return problem.numbers(most=MOST_KEPT) <= MOST_KEPT


def device_of(problem: Problem) -> "Device | None":
    """The GPU, if one is available and components are many counts; not for merges that follow an earlier one."""
    if problem.since is not None or len(problem.factors) > 1 or not countable(problem):
        return None
    if problem.evaluations(most=LARGE) < LARGE:
        return None
    return device_for()


def countable(problem: Problem) -> bool:
    """Whether components are counts, which fill all slots; clusters may leave slots empty (`vacate`)."""
    return all(factor.family.countable for factor in problem.factors)


def anchored_labels(problem: Problem, components: Components, base: Sequence[Array]) -> Indices:
    """Start each component in the slot whose prior fits best, then move: slots with different priors stay apart."""
    nowhere = np.full(len(components), -1, dtype=np.intp)
    search = SlotSearch(components, nowhere, base, problem.components, prior_components(problem.factors))
    search.restart(search.gains(np.arange(len(components))).argmax(axis=1))
    search.moves(announce=problem.announce)
    return search.labels


def start_labels(problem: Problem, components: Components, base: Sequence[Array], count: int) -> Indices:
    """The groups of a tree; no slots if the search starts from an earlier merge."""
    if problem.since is not None:
        return np.full(len(components), -1, dtype=np.intp)
    if len(components) <= count:
        return np.arange(len(components), dtype=np.intp)
    return grown_labels(components.shortened(SHORT), base, count)


def homes_of(problem: Problem, components: Components) -> Indices | None:
    """The slots that components belong to by their ids; not used after an earlier merge, which is more reliable."""
    if problem.since is not None or not any(problem.ids):
        return None
    sizes = [contents[0].count for contents in problem.contents]
    return home_slots(problem.ids, sizes, components.evidence, problem.components)


def attached(components: Components, labels: Indices, base: Sequence[Array], count: int) -> Indices:
    """Components without a slot go where they gain most; empty ones into the first slot."""
    left = np.flatnonzero(labels < 0)
    if len(left):
        search = SlotSearch(components, labels, base, count)
        labels[left] = search.gains(left).argmax(axis=1)
    return labels


def least_evidence(evidence: Array) -> float:
    positive = evidence[evidence > 0.0]
    return min(LEAST_EVIDENCE, LEAST_SHARE * float(np.median(positive))) if len(positive) else 0.0


def split(labels: Indices, sizes: Sequence[int]) -> tuple[Indices, ...]:
    """Labels of all components, site by site."""
    return tuple(np.split(labels, np.cumsum(sizes)[:-1]))


def moved_from_sample(problem: Problem, labels: Indices, base: Sequence[Array]) -> Indices:
    """Labels after rounds of moves of all components, starting from the slots of a sample."""
    if not keepable(problem):
        return moved_in_blocks(problem, labels, base)
    components = Components.in_problem(problem)
    search = SlotSearch(components, labels, base, problem.components)
    search.moves(ROUNDS, problem.announce, block=WIDE_BLOCK)
    return search.labels


def moved_in_blocks(problem: Problem, labels: Indices, base: Sequence[Array]) -> Indices:
    """The same for more components than fit in memory: each round takes one block of sites at a time."""
    labels = labels.copy()
    for _ in range(ROUNDS):
        slots = filled_slots(problem, labels, base)
        for span, components in chunks(problem, SITES_AT_A_TIME):
            search = SlotSearch.among(components, labels[span], slots)
            search.sweep(block=WIDE_BLOCK)
            labels[span] = search.labels
            problem.announce()
    return labels


def sampled(problem: Problem, evidence: Array) -> tuple[Components, Indices]:
    """A sample of components, and their positions: every n-th of those with more evidence than the median."""
    larger = np.argsort(-evidence, kind="stable")[: -(-len(evidence) // 2)]
    chosen = np.sort(larger[np.unique(np.linspace(0, len(larger) - 1, SAMPLED).astype(np.intp))])
    parts: list[Components] = []
    for span, part in chunks(problem, SITES_AT_A_TIME):
        parts.append(part.taken(chosen[slice(*np.searchsorted(chosen, (span.start, span.stop)))] - span.start))
        problem.announce()
    return parts[0].followed_by(parts[1:]), chosen


def filled_slots(problem: Problem, labels: Indices, base: Sequence[Array]) -> list[Groups]:
    slots: list[Groups] = []
    for span, components in chunks(problem, SITES_AT_A_TIME):
        slots = slots or empty_slots(components.factors, base, problem.components)
        for groups, rows in zip(slots, components.rows, strict=True):
            groups.fill(rows, labels[span], components.evidence)
    for groups in slots:
        groups.update()
    return slots
