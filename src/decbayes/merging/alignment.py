"""Align everybody's components, then add: the merge."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.families.matrices import Indices
from decbayes.merging.canonical import Canonical, canonical_order
from decbayes.merging.division import Division
from decbayes.merging.grouping import Grouping
from decbayes.merging.margins import component_margins, upper_bound
from decbayes.merging.matching import Matching
from decbayes.merging.number import found_number
from decbayes.merging.padding import pad
from decbayes.merging.problem import STRENGTH, Factor, OnMatch, Optimality, Problem, Solution, Solver
from decbayes.merging.products import assigned_product
from decbayes.merging.shared import Shared, shared_components
from decbayes.merging.sources import Contents, Mapped, as_sequence, in_memory, reordered
from decbayes.merging.sums import AssignedSums, Assignment
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet, Permutation, identity, inverse, is_permutation

Assignments = tuple[Mapping[CoupledSet, Assignment], ...]
Number = int | Literal["auto"] | None


@dataclass(frozen=True)
class Alignment:
    """Which slot each component of each posterior goes into, and J of the merge.

    `assignments[i][coupled][k]` is the slot of component k of posterior i. Several components may share a slot; where
    none do, `permutations` says the same the other way round. The slots are labelled as in the posterior with the most
    evidence. `objective` is J as the solver raised it. `optimality` says what is proven: nothing ("none"), no exchange
    of two components of one posterior raises J ("swap"), no relabelling of one posterior does ("site"), no relabelling
    of all does ("global"). `divisions` says how counts of impure components are shared out among slots.
    """

    assignments: Assignments
    objective: tuple[float, ...]
    posteriors: Sequence[Posterior] = field(repr=False)
    order: tuple[int, ...] = field(repr=False)
    structure: Structure = field(repr=False)
    optimality: Optimality = "none"
    divisions: Mapping[CoupledSet, Division] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_assignments(self.assignments, len(self.posteriors), self.structure)
        if not is_permutation(self.order, len(self.posteriors)):
            raise StructureMismatch(f"order must name each of the {len(self.posteriors)} posteriors once.")
        object.__setattr__(self, "divisions", MappingProxyType(dict(self.divisions)))

    @property
    def permutations(self) -> tuple[Mapping[CoupledSet, Permutation], ...]:
        """Which component of each posterior fills each slot, −1 for none; refused where some share a slot."""
        return tuple(
            {coupled: filled_by(slots, self.structure.components(coupled)) for coupled, slots in assignment.items()}
            for assignment in self.assignments
        )

    @property
    def one_to_one(self) -> bool:
        """Whether no two components of one posterior share a slot."""
        return not self.divisions and all(distinct(slots) for each in self.assignments for slots in each.values())

    def merged(self) -> Posterior:
        """λ0 + Σ_i (what posterior i has put into each slot)."""
        return assigned_product(self.posteriors, self.assignments, self.order, self.structure, self.divisions)

    def relabelled(self) -> tuple[Posterior, ...]:
        """Each posterior with its components in the common slots: their product is the merge."""
        return tuple(self.in_slots(site) for site in range(len(self.posteriors)))

    def in_slots(self, site: int) -> Posterior:
        """One posterior with its components in the common slots."""
        sums = AssignedSums(self.structure)
        sums.add(self.posteriors[site], self.assignments[site], site, self.divisions)
        return Posterior(self.structure, sums.contributions())

    def margins(self) -> tuple[Mapping[CoupledSet, Array], ...]:
        """For each posterior and component: what the objective loses when it must go into another slot.

        All other posteriors keep their places. Zero says that the next best slot is as good; infinity, that there is no
        other. The objective is J where each site fills each slot once, else what the slots know (see `Grouping`). A
        margin is no probability: how sure a match is also depends on how far the sites' posteriors can be believed.
        """
        margins: tuple[dict[CoupledSet, Array], ...] = tuple({} for _ in self.posteriors)
        for coupled in self.structure.symmetry:
            slots = [assignment[coupled] for assignment in self.assignments]
            problem = self._problem(coupled)
            for own, values in zip(margins, component_margins(problem, slots), strict=True):
                own[coupled] = values
        return margins

    def filled(self, coupled: CoupledSet) -> NDArray[np.bool_]:
        """(sites, slots): whether what the posterior has put there is more than the prior."""
        filled = np.zeros((len(self.posteriors), self.structure.components(coupled)), dtype=np.bool_)
        for site, (posterior, assignment) in enumerate(zip(self.posteriors, self.assignments, strict=True)):
            filled[site, assignment[coupled][~posterior.untouched(coupled)]] = True
        return filled

    def shared(self) -> Mapping[CoupledSet, Shared]:
        """Who has what: for each slot the sites that support it, with how much, and how far their versions differ."""
        return {coupled: shared_components(self, coupled) for coupled in self.structure.symmetry}

    def bound(self) -> float:
        """A number that J cannot exceed whatever the permutations, so that no one-to-one alignment beats it.

            J ≤ Σ_i max_P Σ_k A(λ0_k + N c_iP(k)) / N

        It holds because A is convex, and is reached when all posteriors say the same. It is infinite where a posterior
        is so much less certain than the prior that N of its kind could not be merged.
        """
        sets = [upper_bound(self._problem(coupled, padded=True)) for coupled in self.structure.symmetry]
        return sum(sets) + constant(self.posteriors, self.order, self.structure)

    def _problem(self, coupled: CoupledSet, *, padded: bool = False) -> Problem:
        held = fitting(self.posteriors, self.structure) if padded else self.posteriors
        return coupled_problem(held, coupled, self.structure)


def merge(
    posteriors: Iterable[Posterior],
    *,
    components: Number = None,
    solver: Solver | None = None,
    progress: OnMatch | None = None,
) -> Posterior:
    """Combine posteriors of separate data into the posterior of all of it, whatever their labels.

        λ = λ0 + Σ_i (λ_i − λ0 in common slots)

    Sites may have found different things, and different numbers of them. `components` is the number of slots: the
    largest that a posterior has unless given, or "auto" to find it. The result depends on the set of posteriors alone,
    not on their order. To withdraw a posterior, merge the others. `Grouping` is the default solver where an observation
    belongs to one component (mixtures, topics), `Matching` where it has several at once (features).

    `progress` is called now and then while the solver works, from several threads at times.
    """
    return align(posteriors, components=components, solver=solver, progress=progress).merged()


def align(
    posteriors: Iterable[Posterior],
    *,
    components: Number = None,
    solver: Solver | None = None,
    progress: OnMatch | None = None,
) -> Alignment:
    """Find which components of the posteriors belong together, for each coupled set on its own."""
    held, chosen = as_sequence(posteriors), checked_solver(solver)
    order, readings = canonical_order(held)
    structure = merged_structure(held, readings, order, components)
    solutions = {
        coupled: solve_canonically(held, coupled, order, readings, structure, chosen, progress)
        for coupled in structure.symmetry
    }
    assignments = tuple(
        {coupled: solution.slots[site] for coupled, solution in solutions.items()} for site in range(len(held))
    )
    divisions = {coupled: found.division for coupled, found in solutions.items() if found.division is not None}
    proven = [STRENGTH.index(solution.optimality) for solution in solutions.values()]
    weakest = STRENGTH[min(proven, default=-1)]
    found = Alignment(assignments, (), held, tuple(order), structure, weakest, divisions)
    return replace(found, objective=traced(found, [solution.objective for solution in solutions.values()]))


def objective(posteriors: Iterable[Posterior], assignments: Iterable[Mapping[CoupledSet, Assignment]]) -> float:
    """J = Σ_j A_j(λ0_j + Σ_i (λ_ij − λ0_j in its slots)), over all factors of the structure."""
    held, given = as_sequence(posteriors), tuple(assignments)
    order, readings = canonical_order(held)
    structure = merged_structure(held, readings, order, None)
    check_assignments(given, len(held), structure)
    return assigned_product(held, given, order, structure).log_partition()


def merged_structure(
    posteriors: Sequence[Posterior], readings: Sequence[Canonical], order: Sequence[int], components: Number
) -> Structure:
    """The structure of the merge: that of the posteriors, with so many components."""
    largest = max((reading.structure for reading in readings), key=most_components)
    if components is None or not largest.symmetry:
        return largest
    if components == "auto":
        coupled = largest.symmetry[0]
        contents = [readings[site].components[coupled] for site in order]
        problem = coupled_problem(reordered(posteriors, order), coupled, largest, contents)
        return largest.with_components(found_number(problem))
    return largest.with_components(components)


def most_components(structure: Structure) -> int:
    return max((structure.components(coupled) for coupled in structure.symmetry), default=0)


def checked_solver(solver: Solver | None) -> Solver | None:
    if isinstance(solver, type) or (solver is not None and not hasattr(solver, "solve")):
        raise TypeError(
            f"solver must be Grouping(), Matching(), Swaps(), Exhaustive() or Hierarchical(), not {solver!r}."
        )
    return solver


def solver_for(problem: Problem) -> Solver:
    """Any component into any slot where observations belong to one component; else one of each site into each slot."""
    families = [factor.family for factor in problem.factors]
    tells = any(not family.over_components for family in families)
    return Grouping() if tells and any(family.exclusive for family in families) else Matching()


def coupled_problem(
    posteriors: Sequence[Posterior],
    coupled: CoupledSet,
    structure: Structure,
    components: Sequence[Permutation] | None = None,
) -> Problem:
    """The alignment problem of one set, each site's components in the given order."""
    factors = tuple(Factor(structure.families[name], structure.prior[name]) for name in coupled.factors)
    problem = Problem(factors, Contents(posteriors, components, coupled))
    return problem.loaded() if in_memory(posteriors) else problem


def solve_canonically(
    posteriors: Sequence[Posterior],
    coupled: CoupledSet,
    order: Sequence[int],
    readings: Sequence[Canonical],
    structure: Structure,
    solver: Solver | None,
    progress: OnMatch | None,
) -> Solution:
    """Solve one set in canonical order and labels; the answer is in the caller's order and everybody's own labels."""
    components, slots = [readings[site].components[coupled] for site in order], structure.components(coupled)
    held = reordered(posteriors, order)
    problem = replace(coupled_problem(held, coupled, structure, components), progress=progress)
    if problem.sites == 1 and len(components[0]) <= slots:
        # Bayes' rule needs no alignment of a single posterior: it is the answer.
        return Solution((identity(len(components[0])),), (), "global")
    chosen = solver or solver_for(problem)
    if getattr(chosen, "one_to_one", True):
        solution = solve_one_to_one(held, coupled, components, structure, chosen, progress)
    else:
        solution = chosen.solve(problem)
    own = [slots_of[inverse(component)] for component, slots_of in zip(components, solution.slots, strict=True)]
    division = solution.division
    if division is not None:
        shares = [part[inverse(component)] for component, part in zip(components, division.shares, strict=True)]
        division = Division(tuple(shares), division.profiles)
    if problem.exchangeable:
        names = numbered(own, slots)
        own = [names[slots_of] for slots_of in own]
        division = None if division is None else division.renamed(names)
    back = inverse(np.asarray(order))
    sites = tuple(own[place] for place in back)
    if division is not None:
        division = Division(tuple(division.shares[place] for place in back), division.profiles)
    return replace(solution, slots=sites, division=division)


def solve_one_to_one(
    posteriors: Sequence[Posterior],
    coupled: CoupledSet,
    components: Sequence[Permutation],
    structure: Structure,
    solver: Solver,
    progress: OnMatch | None,
) -> Solution:
    """Solve with posteriors that are padded to as many components as there are slots."""
    slots = structure.components(coupled)
    most = max(map(len, components))
    if most > slots:
        raise StructureMismatch(
            f"A site has {most} components, and {type(solver).__name__} puts one of each site into each slot: at least "
            f"{most} slots are needed. Grouping(), the default, merges into fewer."
        )
    orders = [np.append(own, np.arange(len(own), slots)) for own in components]
    problem = coupled_problem(fitting(posteriors, structure), coupled, structure, orders)
    solution = solver.solve(replace(problem, progress=progress))
    pairs = zip(solution.slots, components, strict=True)
    return replace(solution, slots=tuple(slots_of[: len(own)] for slots_of, own in pairs))


def fitting(posteriors: Sequence[Posterior], structure: Structure) -> Sequence[Posterior]:
    """The posteriors with as many components as the structure has."""
    if in_memory(posteriors):
        return tuple(padded_to(posterior, structure) for posterior in posteriors)
    return Mapped(posteriors, lambda posterior: padded_to(posterior, structure))


def padded_to(posterior: Posterior, structure: Structure) -> Posterior:
    return posterior if posterior.structure == structure else pad(posterior, structure)


def numbered(slots: Sequence[Indices], count: int) -> Indices:
    """New numbers for slots: as in the first site, then as others come upon them, then the empty ones."""
    met = np.concatenate([*slots, np.arange(count)])
    _, first = np.unique(met, return_index=True)
    names = np.empty(count, dtype=np.intp)
    names[met[np.sort(first)]] = np.arange(count)
    return names


def filled_by(slots: Assignment, count: int) -> Permutation:
    if not distinct(slots):
        raise StructureMismatch("Several components of one posterior share a slot; `assignments` says which.")
    filled = np.full(count, -1, dtype=np.intp)
    filled[slots] = np.arange(len(slots))
    return filled


def distinct(slots: Assignment) -> bool:
    return len(np.unique(slots)) == len(slots)


def check_assignments(assignments: Sequence[Mapping[CoupledSet, Assignment]], sites: int, structure: Structure) -> None:
    """Refuse assignments that are not one for each posterior, or name slots that do not exist."""
    if len(assignments) != sites:
        raise StructureMismatch(f"There are {sites} posteriors and {len(assignments)} assignments.")
    for site, assignment in enumerate(assignments):
        if not isinstance(assignment, Mapping):
            raise StructureMismatch(f"Assignment {site} must map each coupled set to slots.")
        for coupled in structure.symmetry:
            given = assignment.get(coupled, ())
            slots = np.asarray(given)
            whole = slots.ndim == 1 and slots.size and slots.dtype.kind in "ui" and not np.ma.is_masked(given)
            if not whole or slots.min() < 0 or slots.max() >= structure.components(coupled):
                raise StructureMismatch(
                    f"Assignment {site} has {assignment.get(coupled)!r} for {coupled}: it names a slot for each "
                    f"component, as integers from 0 to {structure.components(coupled) - 1}."
                )


def constant(posteriors: Sequence[Posterior], order: Sequence[int], structure: Structure) -> float:
    """What the factors in no coupled set add to J."""
    coupled = {name for each in structure.symmetry for name in each.factors}
    plain = [name for name in structure.families if name not in coupled]
    totals = {name: np.zeros(structure.prior[name].shape) for name in plain}
    for site in order if plain else ():
        for name, total in totals.items():
            structure.families[name].rows(posteriors[site].contribution[name]).add_to(
                total, identity(len(total)), identity(len(total))
            )
    return sum(structure.families[name].log_partition(structure.prior[name] + totals[name]) for name in plain)


def traced(found: Alignment, traces: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """J of the whole structure as one set after another was solved; where a solver has not said, J of the merge."""
    if not all(traces):
        return (found.merged().log_partition(),)
    fixed = constant(found.posteriors, found.order, found.structure)
    current = [trace[0] for trace in traces]
    total = [fixed + sum(current)]
    for index, trace in enumerate(traces):
        for value in trace[1:]:
            current[index] = value
            total.append(fixed + sum(current))
    return tuple(total)
