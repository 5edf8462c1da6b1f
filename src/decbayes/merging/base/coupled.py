"""One coupled set of many posteriors, as solvers see it, in memory or loaded on access."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from decbayes.families.rows import Rows
from decbayes.merging.base.compatibility import pad, same_columns
from decbayes.merging.base.problem import Factor, Problem
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Permutation, Structure, identity


def as_sequence(posteriors: Iterable[Posterior]) -> Sequence[Posterior]:
    """The posteriors as a tuple with columns in a common order; sequences that load them on access stay as is."""
    if isinstance(posteriors, Posterior):
        raise TypeError("posteriors must be a list of posteriors, not a single one.")
    if isinstance(posteriors, Sequence) and not in_memory(posteriors):
        return posteriors
    return same_columns(tuple(posteriors))


def in_memory(posteriors: Sequence[Posterior]) -> bool:
    """Whether all posteriors are in memory; other sequences (such as a `Library`) may load them on access."""
    return isinstance(posteriors, list | tuple)


def reordered(posteriors: Sequence[Posterior], order: Sequence[int]) -> Sequence[Posterior]:
    """The posteriors in another order, without loading any."""
    return tuple(posteriors[site] for site in order) if in_memory(posteriors) else OnAccess(posteriors, order)


@dataclass(frozen=True)
class OnAccess(Sequence[Posterior]):
    """Some of a sequence's posteriors, in this order, loaded on access and padded to `structure` if there is one."""

    posteriors: Sequence[Posterior]
    order: Sequence[int]
    structure: Structure | None = None

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, index: int) -> Posterior: ...
    @overload
    def __getitem__(self, index: slice) -> "OnAccess": ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return OnAccess(self.posteriors, self.order[index], self.structure)
        posterior = self.posteriors[self.order[index]]
        return posterior if self.structure is None else padded_to(posterior, self.structure)


@dataclass(frozen=True)
class Contents(Sequence[tuple[Rows, ...]]):
    """Each site's rows in some factors of one coupled set, with components in the given order."""

    posteriors: Sequence[Posterior]
    orders: Sequence[Permutation] | None
    factors: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.posteriors)

    @overload
    def __getitem__(self, index: int) -> tuple[Rows, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> "Contents": ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Contents(self.posteriors[index], self.orders and self.orders[index], self.factors)
        posterior, order = self.posteriors[index], self.orders and self.orders[index]
        families = posterior.structure.families
        return tuple(families[name].rows(posterior.contribution[name], order) for name in self.factors)


def coupled_problem(
    posteriors: Sequence[Posterior],
    coupled: CoupledSet,
    structure: Structure,
    components: Sequence[Permutation] | None = None,
) -> Problem:
    """The alignment problem of one set, with components in the given order and without factors that follow."""
    return loaded_from(posteriors, problem_of(posteriors, coupled, structure, components))


def problem_of(
    posteriors: Sequence[Posterior],
    coupled: CoupledSet,
    structure: Structure,
    components: Sequence[Permutation] | None = None,
) -> Problem:
    """The same problem, with rows computed on access."""
    names = leading(structure, coupled)
    factors = tuple(Factor(structure.families[name], structure.prior[name]) for name in names)
    return Problem(factors, Contents(posteriors, components, names))


def leading(structure: Structure, coupled: CoupledSet) -> tuple[str, ...]:
    """The factors that distinguish components: those that do not follow others."""
    names = tuple(name for name in coupled.factors if not structure.families[name].follows)
    return names or tuple(coupled.factors)


def loaded_from(posteriors: Sequence[Posterior], problem: Problem) -> Problem:
    """The problem with all rows in memory, if the posteriors are."""
    return problem.loaded() if in_memory(posteriors) else problem


def all_padded(posteriors: Sequence[Posterior], structure: Structure) -> Sequence[Posterior]:
    """The posteriors with as many components as the structure."""
    if in_memory(posteriors):
        return tuple(padded_to(posterior, structure) for posterior in posteriors)
    return OnAccess(posteriors, range(len(posteriors)), structure)


def padded_to(posterior: Posterior, structure: Structure) -> Posterior:
    return posterior if posterior.structure == structure else pad(posterior, structure)


def constant(posteriors: Sequence[Posterior], order: Sequence[int], structure: Structure) -> float:
    """The part of J from factors in no coupled set."""
    coupled = {name for coupled_set in structure.symmetry for name in coupled_set.factors}
    plain = [name for name in structure.families if name not in coupled]
    totals = {name: np.zeros(structure.prior[name].shape) for name in plain}
    for site in order if plain else ():
        for name, total in totals.items():
            structure.families[name].rows(posteriors[site].contribution[name]).add_to(
                total, identity(len(total)), identity(len(total))
            )
    return sum(structure.families[name].log_partition(structure.prior[name] + totals[name]) for name in plain)
