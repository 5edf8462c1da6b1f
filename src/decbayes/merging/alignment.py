"""AMPS: align everybody's components, then add (eq:combopt)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import StructureMismatch
from decbayes.families import Array, dense
from decbayes.families.rows import Rows
from decbayes.merging.canonical import Canonical, canonical_order
from decbayes.merging.matching import Matching
from decbayes.merging.placement import Placement
from decbayes.merging.problem import STRENGTH, Factor, OnMatch, Optimality, Problem, Solution, Solver, best_permutation
from decbayes.merging.products import relabelled_product
from decbayes.merging.sources import Contents, as_sequence, in_memory, reordered
from decbayes.merging.sums import Relabelling
from decbayes.posterior import Posterior
from decbayes.symmetry import CoupledSet, Permutation, identity, inverse, is_permutation

Relabellings = tuple[Mapping[CoupledSet, Permutation], ...]


@dataclass(frozen=True)
class Alignment:
    """The permutations that align posteriors, and J after each sweep of the solver, never falling.

    `permutations[i][coupled][k]` is the component of posterior i that goes into slot k. The slots are labelled as in
    the posterior with the most evidence. `optimality` says what is proven about the permutations: nothing ("none"), no
    exchange of two components of one posterior raises J ("swap"), no relabelling of one posterior does ("agent"), no
    relabelling of all does ("global").
    """

    permutations: Relabellings
    objective: tuple[float, ...]
    posteriors: Sequence[Posterior] = field(repr=False)
    order: tuple[int, ...] = field(repr=False)
    optimality: Optimality = "none"

    def __post_init__(self) -> None:
        check_relabellings(self.permutations, len(self.posteriors))
        if not is_permutation(self.order, len(self.posteriors)):
            raise StructureMismatch(f"order must name each of the {len(self.posteriors)} posteriors once.")

    def merged(self) -> Posterior:
        """λ0 + Σ_i P_i (λ_i − λ0)."""
        return relabelled_product(self.posteriors, [by_factor(p) for p in self.permutations], self.order)

    def relabelled(self) -> tuple[Posterior, ...]:
        """Each posterior with its components in the common slots: their product is the merge."""
        return tuple(map(in_slots, self.posteriors, self.permutations))

    def margins(self) -> tuple[Mapping[CoupledSet, Array], ...]:
        """For each posterior and slot: what J loses when that match is forbidden and the next best is taken.

        All other posteriors keep their places. A margin near zero says that the component was matched by a hair;
        infinity, that there is no other place. Slots in which nobody else has anything are one place.
        """
        margins: tuple[dict[CoupledSet, Array], ...] = tuple({} for _ in self.posteriors)
        for coupled in self.posteriors[0].structure.symmetry:
            problem = coupled_problem(self.posteriors, coupled)
            placement = Placement(problem, np.array([permutation[coupled] for permutation in self.permutations]))
            filled = self.filled(coupled)
            for agent, own in enumerate(filled):
                vacant = (filled.sum(axis=0) == own) & problem.exchangeable
                margins[agent][coupled] = next_best_losses(placement.gain(agent), placement.assignments[agent], vacant)
        return margins

    def filled(self, coupled: CoupledSet) -> NDArray[np.bool_]:
        """(agents, slots): whether what the posterior has put there is more than the prior."""
        pairs = zip(self.posteriors, self.permutations, strict=True)
        return np.array([~posterior.untouched(coupled)[permutation[coupled]] for posterior, permutation in pairs])

    def bound(self) -> float:
        """A number that J cannot exceed whatever the permutations, so that no alignment beats this one by more.

            J ≤ Σ_i max_P Σ_k A(λ0_k + N c_iP(k)) / N

        It holds because A is convex, and is reached when all posteriors say the same. It is infinite where a posterior
        is so much less certain than the prior that N of its kind could not be merged.
        """
        structure = self.posteriors[0].structure
        sets = [upper_bound(coupled_problem(self.posteriors, coupled)) for coupled in structure.symmetry]
        return sum(sets) + naive_constant(self.posteriors, self.order)


def in_slots(posterior: Posterior, permutations: Mapping[CoupledSet, Permutation]) -> Posterior:
    rows = by_factor(permutations)
    parts = {name: c[rows[name]] if name in rows else c for name, c in posterior.contribution.items()}
    return Posterior(posterior.structure, parts)


def merge(
    posteriors: Iterable[Posterior], *, solver: Solver | None = None, progress: OnMatch | None = None
) -> Posterior:
    """Combine posteriors of separate data into the posterior of all of it, whatever their labels (AMPS).

        λ = λ0 + Σ_i P_i (λ_i − λ0),   {P_i} = argmax Σ_j A_j(λ_j)                 (eq:combopt)

    The result depends on the set of posteriors alone, not on their order. To withdraw a posterior, merge the others.
    `progress` is called each time that one more of them was matched against the others; each is, more than once. A
    solver may call it from several threads; `Exhaustive` matches nobody and never calls it.
    """
    return align(posteriors, solver=solver, progress=progress).merged()


def align(
    posteriors: Iterable[Posterior], *, solver: Solver | None = None, progress: OnMatch | None = None
) -> Alignment:
    """Find which components of the posteriors belong together, for each coupled set on its own."""
    held, chosen = as_sequence(posteriors), checked_solver(solver)
    order, readings = canonical_order(held)
    structure = held[0].structure
    permutations: tuple[dict[CoupledSet, Permutation], ...] = tuple({} for _ in held)
    solutions = [solve_canonically(held, coupled, order, readings, chosen, progress) for coupled in structure.symmetry]
    for coupled, solution in zip(structure.symmetry, solutions, strict=True):
        for agent, permutation in enumerate(solution.assignments):
            permutations[agent][coupled] = permutation
    trace = total_trace([solution.objective for solution in solutions], naive_constant(held, order))
    proven = [STRENGTH.index(solution.optimality) for solution in solutions]
    weakest = STRENGTH[min(proven, default=-1)]
    return Alignment(permutations, trace, held, tuple(order), weakest)


def objective(posteriors: Iterable[Posterior], permutations: Iterable[Mapping[CoupledSet, Permutation]]) -> float:
    """J_AMPS = Σ_j A_j(λ0_j + Σ_i P_i (λ_ij − λ0_j)), over all factors of the structure (eq:combopt)."""
    held, relabellings = as_sequence(posteriors), tuple(permutations)
    order, _ = canonical_order(held)
    structure = held[0].structure
    check_relabellings(relabellings, len(held))
    for agent, relabelling in enumerate(relabellings):
        for coupled in structure.symmetry:
            size = structure.components(coupled)
            if coupled not in relabelling or len(relabelling[coupled]) != size:
                raise StructureMismatch(f"Relabelling {agent} has no permutation of {size} components for {coupled}.")
    return relabelled_product(held, [by_factor(p) for p in relabellings], order).log_partition()


def check_relabellings(relabellings: Sequence[Mapping[CoupledSet, Permutation]], agents: int) -> None:
    """Refuse relabellings that are not one for each posterior, or no permutations."""
    if len(relabellings) != agents:
        raise StructureMismatch(f"There are {agents} posteriors and {len(relabellings)} relabellings.")
    for agent, relabelling in enumerate(relabellings):
        if not isinstance(relabelling, Mapping):
            raise StructureMismatch(f"Relabelling {agent} must map each coupled set to a permutation.")
        for coupled, permutation in relabelling.items():
            if not is_permutation(permutation, np.size(permutation)):
                raise StructureMismatch(
                    f"Relabelling {agent} has {permutation!r} for {coupled}: a permutation names each component once, "
                    "as an integer from 0 on."
                )


def checked_solver(solver: Solver | None) -> Solver:
    if isinstance(solver, type) or not hasattr(solver or Matching(), "solve"):
        raise TypeError(f"solver must be Matching(), Swaps(), Exhaustive() or Hierarchical(), not {solver!r}.")
    return solver or Matching()


def coupled_problem(
    posteriors: Sequence[Posterior], coupled: CoupledSet, components: Sequence[Permutation] | None = None
) -> Problem:
    """The alignment problem of one set, each agent's components in the given order."""
    structure = posteriors[0].structure
    orders = components or [identity(structure.components(coupled))] * len(posteriors)
    factors = tuple(Factor(structure.families[name], structure.prior[name]) for name in coupled.factors)
    problem = Problem(factors, Contents(posteriors, orders, coupled))
    return problem.loaded() if in_memory(posteriors) else problem


def solve_canonically(
    posteriors: Sequence[Posterior],
    coupled: CoupledSet,
    order: Sequence[int],
    readings: Sequence[Canonical],
    solver: Solver,
    progress: OnMatch | None,
) -> Solution:
    """Solve one set in canonical order and labels; the answer is in the caller's order and everybody's own labels."""
    components = [readings[agent].components[coupled] for agent in order]
    problem = replace(coupled_problem(reordered(posteriors, order), coupled, components), progress=progress)
    if problem.agents == 1:
        # Bayes' rule needs no alignment of a single posterior: it is the answer.
        own = identity(problem.components)[None]
        return Solution(own, (Placement(problem, inverse(components[0])[None]).objective(),), "global")
    solution = solver.solve(problem)
    own = np.array([order_of[slots] for order_of, slots in zip(components, solution.assignments, strict=True)])
    if problem.exchangeable:
        own = own[:, inverse(own[0])]
    assignments = np.empty_like(own)
    assignments[list(order)] = own
    return replace(solution, assignments=assignments)


def upper_bound(problem: Problem) -> float:
    """What J cannot exceed, by the convexity of A: see `Alignment.bound`."""
    slots = identity(problem.components)
    summed = [np.array(factor.prior) for factor in problem.factors]
    total = 0.0
    for contents in problem.contents:
        gain = full_gain(problem, contents)
        if np.isnan(gain).any():
            return np.inf
        total += float(gain[slots, best_permutation(gain)].sum()) / problem.agents
        for natural, rows in zip(summed, contents, strict=True):
            rows.add_to(natural, slots, slots)
    for factor, natural in zip(problem.factors, summed, strict=True):
        # The terms that belong to no row are the same for all permutations.
        total += float(factor.family.row_terms(factor.prior).sum()) + factor.family.shared_term(natural)
    return total


def full_gain(problem: Problem, contents: tuple[Rows, ...]) -> Array:
    """What the prior gains from N agents of the same contents; NaN where that leaves the domain."""
    slots = identity(problem.components)
    pairs = zip(problem.factors, contents, strict=True)
    gains = [
        factor.family.totals(factor.prior).gains(rows.times(problem.agents), slots, np.full_like(slots, -1))
        for factor, rows in pairs
    ]
    return np.asarray(np.sum(gains, axis=0))


def by_factor(relabelling: Mapping[CoupledSet, Permutation]) -> Relabelling:
    return {name: np.asarray(permutation) for coupled, permutation in relabelling.items() for name in coupled.factors}


def naive_constant(posteriors: Sequence[Posterior], order: Sequence[int]) -> float:
    """What the factors in no coupled set add to J."""
    structure = posteriors[0].structure
    relabelled = {name for coupled in structure.symmetry for name in coupled.factors}
    plain = [name for name in structure.families if name not in relabelled]
    totals = {name: np.zeros(structure.prior[name].shape) for name in plain}
    for agent in order if plain else ():
        for name, total in totals.items():
            total += dense(posteriors[agent].contribution[name])
    return sum(structure.families[name].log_partition(structure.prior[name] + totals[name]) for name in plain)


def total_trace(traces: Sequence[Sequence[float]], constant: float) -> tuple[float, ...]:
    """J of the whole structure as one set after another was solved."""
    current = [trace[0] for trace in traces]
    total = [constant + sum(current)]
    for index, trace in enumerate(traces):
        for value in trace[1:]:
            current[index] = value
            total.append(constant + sum(current))
    return tuple(total)


def next_best_losses(gain: Array, permutation: Permutation, alike: NDArray[np.bool_]) -> Array:
    """For each slot, what is lost when its component must go elsewhere and all slots are assigned anew.

    Slots that are `alike` count as one place. Around an optimal assignment the loss is the cheapest exchange of
    components along a cycle through the slot, found for all slots at once from all-pairs shortest paths (Floyd and
    Warshall).
    """
    slots = identity(len(gain))
    optimal = best_permutation(gain)
    placed = gain[:, optimal]
    step = np.diag(placed)[:, None] - placed
    path = step.copy()
    for via in slots:
        path = np.minimum(path, path[:, [via]] + path[[via], :])
    same_place = np.eye(len(gain), dtype=np.bool_) | np.logical_and.outer(alike, alike)
    leaving = np.where(same_place, np.inf, path + step.T).min(axis=1)
    now = inverse(optimal)[permutation]
    deficit = float((gain[slots, permutation] - gain[slots, optimal]).sum())
    return np.where(same_place[slots, now], np.maximum(leaving[now], 0.0), 0.0) + deficit
