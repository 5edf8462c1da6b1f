"""One coupled set of many posteriors, as solvers see it; and what no set has a say in."""

from collections.abc import Sequence

import numpy as np

from decbayes.merging.padding import pad
from decbayes.merging.problem import Factor, Problem
from decbayes.merging.sources import Contents, Mapped, in_memory
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet, Permutation, identity


def coupled_problem(
    posteriors: Sequence[Posterior],
    coupled: CoupledSet,
    structure: Structure,
    components: Sequence[Permutation] | None = None,
) -> Problem:
    """The alignment problem of one set, each site's components in the given order, without factors that follow."""
    return loaded_from(posteriors, problem_of(posteriors, coupled, structure, components))


def problem_of(
    posteriors: Sequence[Posterior],
    coupled: CoupledSet,
    structure: Structure,
    components: Sequence[Permutation] | None = None,
) -> Problem:
    """The same, whose rows are made when they are asked for."""
    names = tuple(name for name in coupled.factors if not structure.families[name].follows) or coupled.factors
    factors = tuple(Factor(structure.families[name], structure.prior[name]) for name in names)
    return Problem(factors, Contents(posteriors, components, names))


def loaded_from(posteriors: Sequence[Posterior], problem: Problem) -> Problem:
    """The problem with all rows there, where the posteriors are."""
    return problem.loaded() if in_memory(posteriors) else problem


def fitting(posteriors: Sequence[Posterior], structure: Structure) -> Sequence[Posterior]:
    """The posteriors with as many components as the structure has."""
    if in_memory(posteriors):
        return tuple(padded_to(posterior, structure) for posterior in posteriors)
    return Mapped(posteriors, lambda posterior: padded_to(posterior, structure))


def padded_to(posterior: Posterior, structure: Structure) -> Posterior:
    return posterior if posterior.structure == structure else pad(posterior, structure)


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
