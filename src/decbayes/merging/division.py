"""Components that are impure: their counts are divided among the slots column by column.

A site with little data finds topics that mix what others tell apart. Such a topic is treated as a document is: each of
its words is shared out among the slots, in proportion to how much of the component each slot accounts for and how often
the slot has that word. No data is needed for it, and every count stays in the sum.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.families.rows import Rows, SparseRows
from decbayes.merging.problem import Problem

# What a component starts with in its own slot; the rest is spread evenly, so that it can go anywhere.
KEPT = 0.5
# Smaller shares of a component are left out in the end.
NEGLIGIBLE = 1e-3


@dataclass(frozen=True, eq=False)
class Division:
    """How components are shared out: `shares[i]` is (components of site i, slots), `profiles` is (columns, slots)."""

    shares: tuple[Array, ...]
    profiles: Array

    def renamed(self, names: Indices) -> "Division":
        """The same with slot k called names[k]."""
        back = np.argsort(names)
        shares = tuple(np.ascontiguousarray(part[:, back]) for part in self.shares)
        return Division(shares, np.ascontiguousarray(self.profiles[:, back]))

    def add_to(self, total: Array, site: int, rows: Rows, order: Indices) -> None:
        """Add what each slot receives of a site's rows to `total`, (slots, columns); rows in the given order."""
        received = self.of_rows(site, rows, order)
        total += received.T

    def of_rows(self, site: int, rows: Rows, order: Indices) -> Array:
        """(columns, slots): what each slot receives of a site's rows, taken in the given order."""
        from decbayes.kernels.groups import divide

        sparse = rows.taken(order)
        assert isinstance(sparse, SparseRows), "counts are sparse"
        received = np.zeros(self.profiles.shape)
        shares = np.ascontiguousarray(self.shares[site][order])
        divide(*sparse.parts, shares, self.profiles, np.empty(shares.shape), received)
        return received


def divided(problem: Problem, labels: tuple[Indices, ...], passes: int) -> Division | None:
    """Shares after so many passes of expectation maximisation, from the slots that components are in.

    None where whole components are explained as well: copies of one posterior, say, have nothing to be divided.
    """
    slots, (factor,) = problem.components, problem.factors
    prior = np.ascontiguousarray((factor.prior - factor.family.apex(factor.prior.shape[1])).T)
    total = whole(problem, labels)
    undivided = Division(tuple(np.eye(slots)[own] for own in labels), normalised(total + prior))
    shares = [KEPT * own + (1.0 - KEPT) / slots for own in undivided.shares]
    for _ in range(passes):
        profiles = normalised(total + prior)
        total = np.zeros(total.shape)
        for site, rows in enumerate(sparse_contents(problem)):
            shares[site] = one_pass(rows, shares[site], profiles, total)
    found = Division(tuple(map(pruned, shares)), normalised(total + prior))
    return found if likelihood(problem, found) > likelihood(problem, undivided) else None


def normalised(counts: Array) -> Array:
    return np.asarray(counts / counts.sum(axis=0))


def likelihood(problem: Problem, division: Division) -> float:
    """How well the slots explain all components, each by its shares of them."""
    from decbayes.kernels.groups import shared_likelihood

    pairs = zip(sparse_contents(problem), division.shares, strict=True)
    return float(sum(shared_likelihood(*rows.parts, shares, division.profiles) for rows, shares in pairs))


def pruned(shares: Array) -> Array:
    """Shares without those that hardly count: what a slot receives is then sparse, too."""
    kept = np.where(shares < NEGLIGIBLE, 0.0, shares)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


def one_pass(rows: SparseRows, shares: Array, profiles: Array, total: Array) -> Array:
    """The next shares of a site's components; adds what the slots receive to `total`."""
    from decbayes.kernels.groups import divide

    received = np.empty(shares.shape)
    divide(*rows.parts, shares, profiles, received, total)
    sums = received.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, received / np.where(sums > 0.0, sums, 1.0), shares)


def whole(problem: Problem, labels: tuple[Indices, ...]) -> Array:
    """(columns, slots): the counts of undivided components in their slots."""
    total = np.zeros((problem.components, problem.factors[0].prior.shape[1]))
    for own, rows in zip(labels, sparse_contents(problem), strict=True):
        rows.add_to(total, own, np.arange(len(own)))
    return np.ascontiguousarray(total.T)


def sparse_contents(problem: Problem) -> Iterator[SparseRows]:
    for (rows,) in problem.contents:
        assert isinstance(rows, SparseRows), "counts are sparse"
        yield rows


def divisible(problem: Problem) -> bool:
    """Whether components are nothing but counts, each of which may come from another slot: topics.

    Counts below zero, which refined contributions may hold, are no counts.
    """
    countable = len(problem.factors) == 1 and problem.factors[0].family.countable
    return countable and all(rows.data.min(initial=0.0) >= 0.0 for rows in sparse_contents(problem))
