"""The first step of every merge: find a slot for each component, in an order that depends only on contents."""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from decbayes.base.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.families.matrices import Indices
from decbayes.merging import matching
from decbayes.merging.alignment import Alignment, Assignments
from decbayes.merging.base.canonical import Canonical, canonical_order
from decbayes.merging.base.components import evidence_by_site
from decbayes.merging.base.coupled import (
    all_padded,
    as_sequence,
    constant,
    coupled_problem,
    loaded_from,
    problem_of,
    reordered,
)
from decbayes.merging.base.lineage import check_followed
from decbayes.merging.base.problem import (
    STRENGTH,
    Decided,
    Number,
    OnMatch,
    Problem,
    Solution,
    Solver,
    checked_solver,
    solved,
)
from decbayes.merging.base.recentring import recentred
from decbayes.merging.grouping.grouping import Grouping, countable, is_large
from decbayes.merging.grouping.inherited_ids import inherited
from decbayes.merging.grouping.number import Stands, estimated_number
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Permutation, Structure, identity, inverse

# Why a number was chosen, by how it stands out.
FOUND: dict[Stands, str] = {
    "out": "joining any two of them would lose clearly more than noise explains",
    "wide": "sites have pieces of components, and fewer slots would mix different ones",
    "unopposed": "components that share a slot differ by no more than noise may explain",
}


def align(
    posteriors: Iterable[Posterior],
    *,
    components: Number = None,
    solver: Solver | str | None = None,
    since: Posterior | None = None,
    progress: OnMatch | None = None,
) -> Alignment:
    """Find out which components of the posteriors belong together, for each coupled set separately.

    Args:
        posteriors: one per site, of one structure; numbers of components may differ.
        components: the number of slots; "auto" to estimate it; "largest" for that of the posterior with the most
            components. Default: for mixtures and classes, as many as predict the sites' data well, at least "largest";
            otherwise "largest". `reason` of the result says why.
        solver: how to search, an object of `db.solvers` or its name. Default: depends on the model, as for `merge`.
        since: an earlier merge whose components keep their ids and numbers.
        progress: called without arguments after each site is matched, possibly from several threads.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> sites = [model.fit(0.01 * n + np.array([[-9.0], [-8.0], [9.0]]), rng=rng).posterior for n in range(3)]
    >>> alignment = db.align(sites)
    >>> [np.sort(slots).tolist() for assignment in alignment.assignments for slots in assignment.values()]
    [[0, 1], [0, 1], [0, 1]]
    >>> np.sort(alignment.merged().mean("components")[:, 0]).round()
    array([-8.,  9.])
    """
    alignment, traces = aligned(posteriors, components, solver, since, progress)
    # A plain copy, because the alignment was already checked.
    traced_alignment = copy(alignment)
    object.__setattr__(traced_alignment, "objective", traced(alignment, traces))
    return traced_alignment


def aligned(
    posteriors: Iterable[Posterior],
    components: Number = None,
    solver: Solver | str | None = None,
    since: Posterior | None = None,
    progress: OnMatch | None = None,
    least: int = 0,
    centred: bool = False,
    scattered: bool = False,
) -> tuple[Alignment, list[tuple[float, ...]]]:
    """The alignment in at least `least` slots, and each set's trace of J; the total J would cost as much as a merge.

    `centred`: the posteriors were recentred before. `scattered`: one further slot stays empty.
    """
    received, chosen = as_sequence(posteriors), checked_solver(solver)
    sites = received if centred else recentred(received)
    task = Task(sites, *canonical_order(sites), chosen, since, progress)
    searched, decided, why, spare, pieces = sized_structure(task, components)
    if most_components(searched) < least:
        searched, decided, why, spare, pieces = Sized(searched.with_components(least), "given", spare=spare)
    structure = searched.with_components(most_components(searched) + 1) if spare or scattered else searched
    count = most_components(structure)
    reason = f"{count} slot{'' if count == 1 else 's'}: {why}." if why else ""
    solutions = {coupled: solve_canonically(task, coupled, searched, pieces) for coupled in structure.symmetry}
    assignments = tuple(
        {coupled: solution.slots[site] for coupled, solution in solutions.items()} for site in range(len(sites))
    )
    proven = [STRENGTH.index(solution.optimality) for solution in solutions.values()]
    alignment = Alignment(
        assignments,
        objective=(),
        posteriors=sites,
        order=tuple(task.order),
        structure=structure,
        optimality=STRENGTH[min(proven, default=-1)],
        divisions={coupled: solved.division for coupled, solved in solutions.items() if solved.division is not None},
        ids=slot_ids(task, structure, assignments),
        reason=reason,
        decided=decided,
        sent=() if sites is received else received,
    )
    traces = [solution.objective for solution in solutions.values()]
    return alignment if since is None else alignment.since(since), traces


@dataclass(frozen=True)
class Task:
    """Posteriors to align, their canonical order and readings; how to search; and an earlier merge to follow."""

    posteriors: Sequence[Posterior]
    order: Sequence[int]
    readings: Sequence[Canonical]
    solver: Solver | None
    since: Posterior | None
    progress: OnMatch | None

    def problem(self, coupled: CoupledSet, structure: Structure) -> tuple[Problem, list[Permutation]]:
        """The problem of one set in canonical order, and each site's components in theirs."""
        components = [self.readings[site].components[coupled] for site in self.order]
        return problem_of(reordered(self.posteriors, self.order), coupled, structure, components), components


def slot_ids(task: Task, structure: Structure, assignments: Assignments) -> tuple[str, ...]:
    """The ids that slots inherit from the sites' components; none if no component has one."""
    ids = [reading.ids for reading in task.readings]
    if not any(ids):
        return ()
    (coupled,) = structure.symmetry
    evidence = np.concatenate(evidence_by_site(coupled_problem(task.posteriors, coupled, structure)))
    slots = [assignment[coupled] for assignment in assignments]
    return inherited(ids, slots, evidence, structure.components(coupled))


def largest_structure(readings: Sequence[Canonical], since: Posterior | None = None) -> Structure:
    """The structure with the most components among the posteriors and an earlier merge."""
    structures = [reading.structure for reading in readings]
    if since is not None:
        check_kind(Posterior, since=since)
        check_followed(since.structure, structures[0])
        structures.append(since.structure)
    return max(structures, key=most_components)


class Sized(NamedTuple):
    """A structure with the number of components; what decided it and why; whether one more slot stays empty; and
    whether sites have sent pieces."""

    structure: Structure
    decided: Decided
    why: str = ""
    spare: bool = False
    pieces: bool = False


def sized_structure(task: Task, components: Number) -> Sized:
    since, largest = task.since, largest_structure(task.readings, task.since)
    most, names = most_components(largest), "the earlier merge or the largest site" if since else "the largest site"
    as_largest = f"as many as {names} has components" if largest.symmetry else ""
    if components == "largest" or not largest.symmetry:
        return Sized(largest, "largest", as_largest)
    if components is not None and components != "auto":
        return Sized(largest.with_components(components), "given")
    coupled = largest.symmetry[0]
    problem, _ = task.problem(coupled, largest)
    raised = since is None and largest.resizable and raisable(problem, task.solver)
    if raised:
        from decbayes.merging.grouping.default_number import alike_in, default_number  # not for topics
    if components == "auto":
        loaded = loaded_from(task.posteriors, problem)
        number, stands = estimated_number(following(loaded, since, coupled, largest))
        if number < most and since is None and countable(problem):
            from decbayes.merging.grouping.elsewhere import better_elsewhere  # few merges need it

            if better_elsewhere(loaded, number, most):
                return Sized(largest, "auto", f"fewer would describe other sites' topics worse; {as_largest}")
        if stands in ("out", "wide") or not raised or (stands == "unopposed" and alike_in(loaded, number)):
            if stands == "wide":
                from decbayes.merging.grouping.pieces import worthwhile_slots  # few merges need it

                number = worthwhile_slots(loaded, number)
            why = FOUND.get(stands, f"no number stands out; {as_largest}")
            return Sized(largest.with_components(number), "auto", why, pieces=stands == "wide")
    if not raised:
        return Sized(largest, "largest", as_largest)
    default = default_number(loaded_from(task.posteriors, problem))
    reason = f"no number stands out; {default}" if components == "auto" else str(default)
    structure = largest if default.slots == most else largest.with_components(default.slots)
    return Sized(structure, "predictions" if default.tried else "largest", reason, bool(default.spare))


def raisable(problem: Problem, solver: Solver | None) -> bool:
    """Whether more slots than a site's components may help; not for topics, which more slots always make finer."""
    many_to_one = not getattr(solver or solver_for(problem), "one_to_one", True)
    return many_to_one and problem.sites > 1 and not countable(problem) and not is_large(problem)


def following(problem: Problem, since: Posterior | None, coupled: CoupledSet, structure: Structure) -> Problem:
    """The problem with the slots of an earlier merge, if there is one."""
    if since is None:
        return problem
    return replace(problem, since=coupled_problem((since,), coupled, structure).contents[0])


def most_components(structure: Structure) -> int:
    return max((structure.components(coupled) for coupled in structure.symmetry), default=0)


def solver_for(problem: Problem) -> Solver:
    """`Grouping` if an observation belongs to one component; otherwise one component of each site per slot."""
    families = [factor.family for factor in problem.factors]
    if problem.two_sided and all(contents[0].count <= problem.components for contents in problem.contents):
        return matching.Quadratic()
    distinguished = any(not family.over_components for family in families)
    return Grouping() if distinguished and any(family.exclusive for family in families) else matching.Matching()


def solve_canonically(task: Task, coupled: CoupledSet, structure: Structure, pieces: bool = False) -> Solution:
    """Solve one set in canonical order and labels; return the solution in the caller's order and the sites' labels."""
    problem, components = task.problem(coupled, structure)
    slots, in_order = structure.components(coupled), reordered(task.posteriors, task.order)
    pairs = zip(task.order, components, strict=True)
    ids = tuple(named(task.readings[site].ids, labels) for site, labels in pairs)
    problem = replace(problem, progress=task.progress, ids=ids, pieces=pieces)
    problem = following(problem, task.since, coupled, structure)
    if problem.sites == 1 and len(components[0]) <= slots:
        # A single posterior needs no alignment.
        return Solution((identity(len(components[0])),), (), "global")
    chosen = task.solver or solver_for(problem)
    if getattr(chosen, "one_to_one", True):
        solution = solve_one_to_one(in_order, coupled, components, structure, chosen, task.progress)
    else:
        solution = solved(chosen, loaded_from(in_order, problem), [*map(len, components)])
    relabelled = [
        in_places(component, slots_of) for component, slots_of in zip(components, solution.slots, strict=True)
    ]
    division = solution.division
    if division is not None:
        shares = [part[inverse(component)] for component, part in zip(components, division.shares, strict=True)]
        division = division.of_sites(shares)
    if problem.exchangeable:
        names = numbered(relabelled, slots)
        relabelled = [names[slots_of] for slots_of in relabelled]
        division = None if division is None else division.renamed(names)
    back = inverse(np.asarray(task.order))
    sites = tuple(relabelled[place] for place in back)
    if division is not None:
        division = division.of_sites(division.shares[place] for place in back)
    return replace(solution, slots=sites, division=division)


def named(ids: Sequence[str], components: Permutation) -> tuple[str, ...]:
    return tuple(ids[component] for component in components) if ids else ()


def solve_one_to_one(
    posteriors: Sequence[Posterior],
    coupled: CoupledSet,
    components: Sequence[Permutation],
    structure: Structure,
    solver: Solver,
    progress: OnMatch | None,
) -> Solution:
    """Solve with posteriors padded to the number of slots."""
    slots = structure.components(coupled)
    most = max(map(len, components))
    if most > slots:
        raise StructureMismatch(
            f"A site has {most} components, and {type(solver).__name__} puts one of each site into each slot: at least "
            f"{most} slots are needed. Grouping(), the default, merges into fewer."
        )
    orders = [order if len(order) == slots else np.append(order, np.arange(len(order), slots)) for order in components]
    problem = coupled_problem(all_padded(posteriors, structure), coupled, structure, orders)
    sizes = [slots] * len(orders)
    if problem.two_sided and not getattr(solver, "two_sided", False):
        # Without these factors, J is not that of the merge.
        solution = replace(solved(solver, replace(problem.one_sided, progress=progress), sizes), objective=())
    else:
        solution = solved(solver, replace(problem, progress=progress), sizes)
    pairs = zip(solution.slots, components, strict=True)
    return replace(solution, slots=tuple(slots_of[: len(order)] for slots_of, order in pairs))


def in_places(places: Permutation, values: Indices) -> Indices:
    """The values, each moved to its place."""
    moved = np.empty_like(values)
    moved[places] = values
    return moved


def numbered(slots: Sequence[Indices], count: int) -> Indices:
    """New numbers of slots: in the order of the first site, then of the others, then the empty ones."""
    visited = np.concatenate([*slots, np.arange(count)])
    _, first = np.unique(visited, return_index=True)
    names = np.empty(count, dtype=np.intp)
    names[visited[np.sort(first)]] = np.arange(count)
    return names


def traced(alignment: Alignment, traces: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """J of the whole structure while sets were solved; only J of the merge if a solver keeps no trace."""
    if not all(traces) or any(family.follows for family in alignment.structure.families.values()):
        return (alignment.merged().log_partition(),)
    fixed = constant(alignment.posteriors, alignment.order, alignment.structure)
    current = [trace[0] for trace in traces]
    total = [fixed + sum(current)]
    for index, trace in enumerate(traces):
        for value in trace[1:]:
            current[index] = value
            total.append(fixed + sum(current))
    return tuple(total)
