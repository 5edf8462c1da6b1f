"""Mixed components: their counts are divided among the slots column by column.

A site with little data finds topics that mix several topics of other sites. Such a topic is treated like a document:
each of its words is divided among the slots, in proportion to each slot's share of the component and to the frequency
of the word in the slot. This needs no data, and the sum of all counts stays the same.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, vstack

from decbayes.base.workers import even_parts, share_out
from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.families.rows import Rows, SparseRows, sparse_rows
from decbayes.merging.base.components import Components, earlier_components
from decbayes.merging.base.problem import Problem
from decbayes.structure import identity

# Initial share of a component in its slot; the rest is spread evenly, so that it can go anywhere.
KEPT = 0.1
# Sites read together if not all are in memory.
SITES_AT_A_TIME = 100
# Parts of the columns that are divided in parallel, for any number of threads.
PARTS = 16
# Up to this many counts stay in memory column by column (about 50 MB); beyond that, sites are reread in each pass.
MOST_KEPT = 1 << 22
# A component is divided if it has this many words per slot, or gains this many nats per additional slot: with few words
# the sources are mostly noise, and treating noise as mixtures makes overlapping slots drift apart.
WORDS, GAIN = 8, 10.0
# Smaller shares of a component are dropped at the end.
NEGLIGIBLE = 1e-3
# Weight of the earlier merge's counts relative to new ones when words are assigned. Words then keep their topics, which
# also makes the topics better.
EARLIER = 100.0
# The share of a word's earlier counts that stays in its slots. Each site's topics drift in their own direction: most of
# that drift does not reach the merge, while lasting changes do within days.
STEADY = 0.6
# Lower bound of shares and frequencies during the search: a zero would stay zero.
FLOOR = 1e-30

Block = tuple[slice, csc_array]
State = tuple[Array, Array]
"""Shares (components, slots) and profiles (columns, slots)."""


@dataclass(frozen=True, eq=False)
class Division:
    """How components are divided: `shares[i]` is (components of site i, slots), `profiles` is (columns, slots).

    The columns of several factors follow each other. Factors over the components are divided by shares alone.
    Slot k of the division is slot `names[k]` of the merge. `steady`, (columns, slots), is the part of a column's counts
    that stays in the slots of an earlier merge; it is zero in new slots. `received`, (columns, slots), holds the totals
    that slots receive from all sites, if already known.
    """

    shares: tuple[Array, ...]
    profiles: Array
    names: Indices
    steady: Array | None = None
    received: Array | None = None

    def renamed(self, names: Indices) -> "Division":
        """The same with slot k renamed to names[k]. Shares are unchanged, so that sums over slots keep their order."""
        return replace(self, names=names[self.names])

    def of_sites(self, shares: Iterable[Array]) -> "Division":
        """The same for reordered sites or components, or for some of the sites."""
        chosen = tuple(shares)
        return replace(self, shares=chosen, received=self.received if len(chosen) == len(self.shares) else None)

    def add_to(self, received: Array, site: int, rows: Rows, order: Indices) -> None:
        """Divide a site's rows, in this order, among the slots and add them to `received`, (columns, slots)."""
        from decbayes.kernels.joined_counts import divide_rows

        sparse = (rows if isinstance(rows, SparseRows) else sparse_rows(rows.written_out())).taken(order)
        shares = np.ascontiguousarray(self.shares[site][order])
        divide_rows(*sparse.parts, shares, self.profiles, received)

    def steadied(self, received: Array) -> Array:
        """The slots' totals after part of each column stays in place; no count is lost."""
        if self.steady is None:
            return received
        old = self.steady.any(axis=0)
        moving = 1.0 - self.steady.sum(axis=1, keepdims=True)
        known = received[:, old].sum(axis=1, keepdims=True)
        return np.where(old, moving * received + known * self.steady, received)

    def add_whole(self, total: Array, site: int, rows: Rows, order: Indices) -> None:
        """Add rows of a factor without profiles: each slot gets its share of the component."""
        total[self.names] += self.shares[site][order].T @ rows.taken(order).written_out()


def divided(problem: Problem, labels: tuple[Indices, ...], passes: int, at_once: int) -> Division | None:
    """Shares after this many passes of expectation maximisation, starting from the components' slots.

    None if whole components explain the counts as well, as for copies of one posterior. `at_once` is the number of
    sites in memory.
    """
    slots, prior = problem.components, prior_counts(problem)
    total = whole_counts(problem, labels)
    undivided = Division(
        tuple(np.eye(slots)[site_labels] for site_labels in labels), normalised(total + prior), identity(slots)
    )
    blocks = blocks_of_columns(problem, at_once)
    start = KEPT * np.eye(slots)[np.concatenate(labels)] + (1.0 - KEPT) / slots, undivided.profiles
    shares, profiles = climbed(blocks, prior, start, passes)
    ends = np.cumsum([len(site_labels) for site_labels in labels])[:-1]
    division = Division(tuple(np.split(pruned(shares), ends)), profiles, identity(slots))
    divisible, gained = dividable(problem, division, undivided)
    if gained <= 0.0:
        return None
    earlier = earlier_components(problem)
    if earlier is not None:
        return replace(division, steady=steady_counts(problem, division, earlier))
    pairs = zip(divisible, division.shares, undivided.shares, strict=True)
    mixed = [np.where(chosen[:, None], after, before) for chosen, after, before in pairs]
    return division.of_sites(mixed) if any(chosen.any() for chosen in divisible) else None


def dividable(problem: Problem, candidate: Division, undivided: Division) -> tuple[list[NDArray[np.bool_]], float]:
    """Which components of each site can be divided, and the gain from dividing all."""
    divisible, gained = [], 0.0
    for site, rows in enumerate(sparse_contents(problem)):
        parts = [(division.shares[site], division.profiles) for division in (candidate, undivided)]
        gained += likelihood(rows, slice(None), *parts[0]) - likelihood(rows, slice(None), *parts[1])
        divisible.append(well_determined(rows, *parts))
    return divisible, gained


def well_determined(rows: SparseRows, candidate: State, undivided: State) -> NDArray[np.bool_]:
    """Which components have enough words, or gain enough, for their mixture to be reliable."""
    slots = candidate[1].shape[1]
    enough = np.asarray(rows.stops - rows.starts >= WORDS * slots)
    for component in np.flatnonzero(~enough).tolist():
        row = slice(component, component + 1)
        gain = likelihood(rows, row, *candidate) - likelihood(rows, row, *undivided)
        enough[component] = gain > GAIN * (slots - 1)
    return enough


def steady_counts(problem: Problem, division: Division, earlier: Components) -> Array:
    """(columns, slots): the part of each column's counts that stays in each slot of an earlier merge.

    It is limited by the counts that the slot still receives and that the column still has in earlier slots.
    """
    received = np.zeros(division.profiles.shape)
    for site, rows in enumerate(sparse_contents(problem)):
        division.add_to(received, site, rows, identity(rows.count))
    before = np.ascontiguousarray(earlier.rows[0].written_out().T)
    before *= np.minimum(1.0, ratio(received.sum(axis=0), before.sum(axis=0)))
    known = received[:, before.any(axis=0)].sum(axis=1)
    return STEADY * before * ratio(1.0, np.maximum(before.sum(axis=1), known))[:, None]


def ratio(part: Array | float, whole: Array) -> Array:
    """part / whole, with 0 / 0 = 0."""
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0.0)


def climbed(blocks: Callable[[], Iterable[Block]], prior: Array, start: State, passes: int) -> State:
    """Shares and profiles after this many passes; from the third on, each starts from an extrapolated point.

    Plain passes take small steps; an extrapolated one is worth two to four of them.
    """
    from decbayes.kernels.joined_counts import lead_on

    state = extrapolated = start
    for step in range(passes):
        (shares, profiles), before = extrapolated, state
        total, new_shares = np.zeros(profiles.shape), np.empty(shares.shape)
        for span, part in blocks():
            new_shares[span] = next_shares(part, shares[span], profiles, total)
        state = extrapolated = new_shares, normalised(total + prior)
        if step > 0:
            shares = lead_on(np.ascontiguousarray(new_shares.T), np.ascontiguousarray(before[0].T), FLOOR)
            extrapolated = np.ascontiguousarray(shares.T), lead_on(state[1], before[1], FLOOR)
    return state


def prior_counts(problem: Problem) -> Array:
    """(columns, slots): counts of the prior and, if there is one, of the earlier merge, times EARLIER."""
    (factor,) = problem.factors
    counts = factor.prior - factor.family.apex(factor.prior.shape[1])
    earlier = earlier_components(problem)
    return np.ascontiguousarray((counts if earlier is None else counts + EARLIER * earlier.rows[0].written_out()).T)


def blocks_of_columns(problem: Problem, at_once: int) -> Callable[[], Iterable[Block]]:
    """Counts of a block of sites at a time, column by column, and the positions of their components."""

    def read() -> Iterator[Block]:
        first = 0
        for begin in range(0, problem.sites, at_once):
            part = problem.part(slice(begin, begin + at_once))
            matrix = csc_array(vstack([rows.matrix() for rows in sparse_contents(part)]))
            yield slice(first, first + matrix.shape[0]), matrix
            first += matrix.shape[0]

    if at_once < problem.sites and problem.numbers(most=MOST_KEPT) > MOST_KEPT:
        return read
    kept = tuple(read())
    return lambda: kept


def next_shares(columns: csc_array, shares: Array, profiles: Array, total: Array) -> Array:
    """The share of each component in each slot; adds the counts that the slots receive to `total`."""
    from decbayes.kernels.joined_counts import divide_columns

    parts = even_parts(columns.shape[1], PARTS)
    scales = np.zeros((len(parts), *shares.shape))

    def divide(part: slice, scale: Array) -> None:
        ends = columns.indptr[part.start : part.stop + 1]
        divide_columns(ends, columns.indices, columns.data, shares, profiles[part], scale, total[part])

    share_out(partial(divide, part, scale) for part, scale in zip(parts, scales, strict=True))
    scales = np.add.reduce(scales)  # summed in the order of the parts
    received = scales * shares
    sums = received.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(received, sums, out=shares.copy(), where=sums > 0.0))


def normalised(counts: Array) -> Array:
    """Counts divided by the sum of their column, in place."""
    from decbayes.kernels.joined_counts import normalise

    normalise(counts)
    return counts


def likelihood(rows: SparseRows, chosen: slice, shares: Array, profiles: Array) -> float:
    """How well the slots explain some of the components, given their shares."""
    from decbayes.kernels.joined_counts import shared_likelihood

    starts, stops, indices, data = rows.parts
    return float(shared_likelihood(starts[chosen], stops[chosen], indices, data, shares[chosen], profiles))


def pruned(shares: Any) -> Any:
    """Shares without negligible ones, so that slots stay sparse."""
    kept = np.where(shares < NEGLIGIBLE, 0.0, shares)
    return kept / kept.sum(axis=1, keepdims=True)


def whole_counts(problem: Problem, labels: tuple[Indices, ...]) -> Array:
    """(columns, slots): the counts of undivided components in their slots."""
    total = np.zeros((problem.components, problem.factors[0].prior.shape[1]))
    for site_labels, rows in zip(labels, sparse_contents(problem), strict=True):
        rows.add_to(total, site_labels, np.arange(len(site_labels)))
    return np.ascontiguousarray(total.T)


def sparse_contents(problem: Problem) -> Iterator[SparseRows]:
    for (rows,) in problem.contents:
        assert isinstance(rows, SparseRows), "counts are sparse"
        yield rows


def divisible(problem: Problem) -> bool:
    """Whether components consist of counts that may come from several slots, as topics do.

    Negative values, which refined contributions may have, are not counts.
    """
    countable = len(problem.factors) == 1 and problem.factors[0].family.countable
    return countable and all(rows.data.min(initial=0.0) >= 0.0 for rows in sparse_contents(problem))
