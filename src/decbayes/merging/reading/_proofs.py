"""What is proven about an alignment: bounds on its objective, and matches that every best alignment contains.

One to one, A is convex and λ0 + Σ_i c_i is the mean of λ0 + N c_i over sites and of λ0 + ½N (c_i + c_j) over pairs:

    J ≤ mean_i max_P Σ_k A(λ0_k + N c_iP(k)),    J ≤ mean_{i<j} max_P Σ_k A(λ0 + ½N (c_ik + c_jP(k)))

Any set of pairs will do in which all sites occur equally often. The second bound needs a prior that treats components
alike, and is exact for two sites.

Many to one, the loss Σ_i F(c_i) − F(Σ_i c_i) of a slot is at least that of any part of it, and at least the sum over
disjoint parts. Of K + 1 components, two must share one of K slots. So any alignment loses at least the sum, over
disjoint sets of K + 1 components, of each set's cheapest join.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import check_kind
from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.families.rows import Rows
from decbayes.merging.alignment import Alignment
from decbayes.merging.base.components import LEAST_EVIDENCE, Components
from decbayes.merging.base.coupled import all_padded, constant, coupled_problem
from decbayes.merging.base.problem import Problem, best_permutation
from decbayes.merging.grouping.search import SlotSearch
from decbayes.merging.matching.quadratic import Match
from decbayes.merging.reading._margins import next_best_losses, slot_search
from decbayes.structure import CoupledSet, identity

# Each site is paired with at most twice this many others.
MOST_SHIFTS = 8
# With more components than this, the largest ones bound the loss of all.
MOST_PACKED = 400
# A bound must be below J by more nats than this, which is far above rounding.
CLEARLY = 1e-6


class Bounded(NamedTuple):
    """The objective of `Grouping`, and an upper bound over all ways to fill this number of slots."""

    value: float
    bound: float


def upper_bound(alignment: Alignment) -> float:
    """An upper bound on J over all permutations: no one-to-one alignment exceeds it.

    A is convex, so J is at most the mean, over pairs of posteriors, of the best J for ½N copies of both. The bound is
    exact for two posteriors, and infinite if a posterior is so much less certain than the prior that N copies of it
    could not be merged.

    >>> alignment = db.align(sites, solver="matching")
    >>> alignment.objective[-1] <= db.merging.upper_bound(alignment) + 1e-9
    True
    """
    check_kind(Alignment, alignment=alignment)
    structure = alignment.structure
    padded = all_padded(alignment.posteriors, structure)
    problems = [coupled_problem(padded, coupled, structure) for coupled in structure.symmetry]
    sets = [min(problem_bound(problem), pair_bound(problem)) for problem in problems]
    return sum(sets) + constant(alignment.posteriors, alignment.order, structure)


def proven(alignment: Alignment) -> tuple[Mapping[CoupledSet, NDArray[np.bool_]], ...]:
    """Matches that every best one-to-one alignment contains: without them J would be lower.

    A component is proven if it shares its slot with the same component of at least one other posterior in every
    alignment whose J is at least as large. Nothing is proven for alignments in which components of one posterior share
    a slot, or for priors that treat components differently.

    Args:
        alignment: what `align` returns, with a one-to-one solver.

    Returns:
        `[i][coupled][k]`: whether the match of component k of posterior i is proven.

    >>> alignment = db.align(sites, solver="matching")
    >>> [bool(site[coupled].all()) for site in db.merging.proven(alignment) for coupled in site]
    [True, True, True]
    """
    check_kind(Alignment, alignment=alignment)
    sets, structures = alignment.structure.symmetry, [posterior.structure for posterior in alignment.posteriors]
    if not alignment.one_to_one or not alignment.objective:
        return tuple(
            {coupled: np.zeros(structure.components(coupled), np.bool_) for coupled in sets} for structure in structures
        )
    gap = upper_bound(alignment) - alignment.objective[-1]
    columns = [proven_in(alignment, coupled, gap) for coupled in sets]
    return tuple(
        {coupled: column[site][: structure.components(coupled)] for coupled, column in zip(sets, columns, strict=True)}
        for site, structure in enumerate(structures)
    )


def proven_in(alignment: Alignment, coupled: CoupledSet, gap: float) -> list[NDArray[np.bool_]]:
    """Proven components per posterior, each padded to the number of slots."""
    padded = all_padded(alignment.posteriors, alignment.structure)
    problem = coupled_problem(padded, coupled, alignment.structure)
    known = [np.zeros(problem.components, dtype=np.bool_) for _ in padded]
    if not np.isfinite(gap) or problem.two_sided or not problem.exchangeable or problem.sites < 2:
        return known
    fillings = [filled(slots, problem.components) for slots in alignment.slots(coupled)]
    pairs, of_pairs = list(pairs_of(problem.sites)), pair_bound(problem)
    gap += of_pairs - min(of_pairs, problem_bound(problem))
    nobody = np.zeros(problem.components, dtype=np.bool_)
    for first, second in pairs:
        gain = pair_gain(problem, first, second)
        permutation = np.empty(problem.components, dtype=np.intp)
        permutation[fillings[first]] = fillings[second]
        # The loss of the bound if the pair must be apart, provided that its present pairing is optimal.
        lost = next_best_losses(gain, best_permutation(gain), nobody)
        sure = (best_permutation(gain) == permutation) & (lost / len(pairs) > gap + CLEARLY)
        known[first] |= sure
        known[second][permutation[sure]] = True
    return known


def filled(slots: Indices, count: int) -> NDArray[np.intp]:
    """The component in each slot; padded components fill the remaining slots."""
    by_slot = np.full(count, -1, dtype=np.intp)
    by_slot[slots] = np.arange(len(slots))
    by_slot[by_slot < 0] = np.arange(len(slots), count)
    return by_slot


def pairs_of(sites: int) -> Iterator[tuple[int, int]]:
    """Pairs in which all sites occur equally often: each site with its next neighbours on a circle."""
    shifts = range(1, min(sites // 2, MOST_SHIFTS) + 1)
    for shift in shifts:
        for site in range(sites // 2 if 2 * shift == sites else sites):
            yield site, (site + shift) % sites
            if 2 * shift == sites:
                yield site, (site + shift) % sites


def pair_gain(problem: Problem, first: int, second: int) -> Array:
    """(components, components): Σ A of ½N copies of both rows, for each component of one site with each of the other;
    NaN outside the domain."""
    gains = np.zeros((problem.components, problem.components))
    for factor, one, other in zip(problem.factors, problem.contents[first], problem.contents[second], strict=True):
        half = 0.5 * problem.sites
        rest = factor.prior + half * one.written_out()
        sums = rest[:, None, :] + half * other.written_out()[None, :, :]
        flat = factor.family.defined_terms(sums.reshape(-1, sums.shape[-1]))
        gains += flat.reshape(gains.shape)
    return gains


def pair_bound(problem: Problem) -> float:
    """An upper bound on J of one coupled set from pairs of sites; infinite if it does not apply."""
    if problem.two_sided or not problem.exchangeable or problem.sites < 2:
        return np.inf
    values = []
    for first, second in pairs_of(problem.sites):
        gain = pair_gain(problem, first, second)
        if np.isnan(gain).any():
            return np.inf
        values.append(gain[identity(problem.components), best_permutation(gain)].sum())
    return float(np.mean(values)) + shared_terms(problem)


def shared_terms(problem: Problem) -> float:
    """The part of J that no permutation changes."""
    slots, total = identity(problem.components), 0.0
    for place, factor in enumerate(problem.factors):
        natural = np.array(factor.prior)
        for contents in problem.contents:
            contents[place].add_to(natural, slots, slots)
        total += factor.family.shared_term(natural)
    return total


def grouping_bound(alignment: Alignment) -> Mapping[CoupledSet, Bounded]:
    """The objective of a many-to-one alignment, Σ_k F(S_k), and an upper bound for as many slots.

    If they are equal, no other way to fill as many slots is better.

    >>> (found,) = db.merging.grouping_bound(db.align(sites)).values()
    >>> found.value <= found.bound
    True
    """
    check_kind(Alignment, alignment=alignment)
    bounds = {}
    for coupled in alignment.structure.symmetry:
        search = slot_search(alignment.problem(coupled), alignment.slots(coupled))
        loss = packed_loss(search.components, search.bases, search.count)
        bounds[coupled] = Bounded(search.value(), float(search.alone().sum()) - loss)
    return bounds


def packed_loss(components: Components, base: Sequence[Array], slots: int) -> float:
    """The least loss of any way to fill this number of slots, from disjoint sets of one more component."""
    large = components.order[:MOST_PACKED]
    some = components.taken(large[components.evidence[large] >= LEAST_EVIDENCE])
    if len(some) <= slots:
        return 0.0
    losses = SlotSearch(some, np.arange(len(some)), base, len(some)).join_losses()
    left, total = list(range(len(some))), 0.0
    while len(left) > slots:
        chosen = far_apart(losses[np.ix_(left, left)], slots + 1)
        among = losses[np.ix_([left[place] for place in chosen], [left[place] for place in chosen])]
        total += max(float(among.min()), 0.0)
        left = [component for place, component in enumerate(left) if place not in set(chosen)]
    return total


def far_apart(losses: Array, count: int) -> list[int]:
    """This many components, at least two, whose cheapest join is expensive: each is the farthest from those before."""
    off = np.where(np.isfinite(losses), losses, -np.inf)
    chosen = list(map(int, np.unravel_index(np.argmax(off), off.shape)))
    while len(chosen) < count:
        nearest = losses[:, chosen].min(axis=1)
        nearest[chosen] = -np.inf
        chosen.append(int(np.argmax(nearest)))
    return chosen


def problem_bound(problem: Problem) -> float:
    """An upper bound on J of one coupled set, by the convexity of A."""
    slots, plain = identity(problem.components), problem.one_sided
    summed = [np.array(factor.prior) for factor in plain.factors]
    total = 0.0
    for both, contents in zip(problem.contents, plain.contents, strict=True):
        gain = full_gain(plain, contents)
        if np.isnan(gain).any():
            return np.inf
        total += most_of(problem, both, gain) / problem.sites
        for natural, rows in zip(summed, contents, strict=True):
            rows.add_to(natural, slots, slots)
    for factor, natural in zip(plain.factors, summed, strict=True):
        # Terms that do not depend on rows are the same for all permutations.
        total += float(factor.family.row_terms(factor.prior).sum()) + factor.family.shared_term(natural)
    return total


def most_of(problem: Problem, contents: tuple[Rows, ...], gain: Array) -> float:
    """An upper bound for N copies of one site over all permutations; `gain` covers one-sided factors."""
    pairs = [(factor, rows) for factor, rows in zip(problem.factors, contents, strict=True) if factor.family.two_sided]
    rest = [factor.prior + 1.0 for factor, _ in pairs]
    match = Match(gain, rest, [problem.sites * rows.written_out() for _, rows in pairs])
    # With a prior that treats components alike, all permutations have the same value.
    return match.value(match.slots) if problem.exchangeable else match.bound()


def full_gain(problem: Problem, contents: tuple[Rows, ...]) -> Array:
    """The gain of the prior from N copies of a site; NaN outside the domain."""
    slots = identity(problem.components)
    pairs = zip(problem.factors, contents, strict=True)
    gains = [
        factor.family.totals(factor.prior).gains(rows.times(problem.sites), slots, np.full_like(slots, -1))
        for factor, rows in pairs
    ]
    return np.asarray(np.sum(gains, axis=0))
