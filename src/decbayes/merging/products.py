"""The naive merge, components as they are labelled; and sums in common slots, with blame where none is proper."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from decbayes.errors import OutOfDomain
from decbayes.families import Array, Contribution
from decbayes.merging.canonical import canonical_order
from decbayes.merging.division import Division
from decbayes.merging.sources import as_sequence
from decbayes.merging.sums import AssignedSums, Assignment
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet


def product(posteriors: Iterable[Posterior]) -> Posterior:
    """Combine posteriors by Bayes' rule, counting the shared prior once.

        λ = λ0 + Σ_i (λ_i − λ0)

    Components are taken as they are labelled; see `merge` to align them first.
    """
    given = as_sequence(posteriors)
    order, _ = canonical_order(given, strictly=True)
    return assigned_product(given, [{}] * len(given), order, given[0].structure)


def assigned_product(
    posteriors: Sequence[Posterior],
    assignments: Sequence[Mapping[CoupledSet, Assignment]],
    order: Sequence[int],
    structure: Structure,
    divisions: Mapping[CoupledSet, Division] | None = None,
) -> Posterior:
    """λ0 + Σ_i (λ_i − λ0 in its slots), summed in the given order so that the result has the same bits each time."""
    if len(posteriors) == 1 and not assignments[0]:
        return posteriors[0]
    sums = AssignedSums(structure, divisions)
    for site in order:
        sums.add(posteriors[site], assignments[site], site, divisions)
    totals = sums.contributions()
    check_domain(posteriors, assignments, totals, structure)
    return Posterior(structure, totals)


def check_domain(
    posteriors: Sequence[Posterior],
    assignments: Sequence[Mapping[CoupledSet, Assignment]],
    totals: Mapping[str, Contribution],
    structure: Structure,
) -> None:
    """Refuse a merge outside a family's domain, naming the factor, the component and the posteriors to blame."""
    for name, family in structure.families.items():
        outside = np.flatnonzero(~family.contains_sum(structure.prior[name], family.rows(totals[name])))
        if len(outside):
            guilty = blame(posteriors, assignments, structure, name, int(outside[0]))
            raise OutOfDomain(
                f"The merge leaves the domain of {family.name} in '{name}', component {outside[0]}: posterior "
                f"{', '.join(map(str, guilty))} is less certain there than the prior, so the sum is not a proper "
                "distribution. Leave it out, or fit it again with the shared prior."
            )


def blame(
    posteriors: Sequence[Posterior],
    assignments: Sequence[Mapping[CoupledSet, Assignment]],
    structure: Structure,
    name: str,
    slot: int,
) -> list[int]:
    """The posteriors whose contribution to a slot, were it everybody's, would leave the domain.

    Domains are convex and the total is the average of λ0 + N c_i, so there is always at least one.
    """
    rows = np.array([row_in(*pair, structure, name, slot) for pair in zip(posteriors, assignments, strict=True)])
    extreme = structure.prior[name][slot] + len(rows) * rows
    return [int(site) for site in np.flatnonzero(~structure.families[name].contains_rows(extreme))]


def row_in(
    posterior: Posterior, assignment: Mapping[CoupledSet, Assignment], structure: Structure, name: str, slot: int
) -> Array:
    """What a posterior has put into a slot."""
    sums = AssignedSums(structure)
    sums.add(posterior, assignment)
    row = structure.families[name].rows(sums.contributions()[name]).taken(np.array([slot]))
    return np.asarray(row.written_out()[0])
