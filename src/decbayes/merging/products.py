"""The naive merge: natural parameters add up, components as they are labelled."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from decbayes.errors import OutOfDomain
from decbayes.families import Contribution, dense
from decbayes.merging.canonical import canonical_order
from decbayes.merging.sources import as_sequence
from decbayes.merging.sums import RelabelledSums, Relabelling
from decbayes.posterior import Posterior


def product(posteriors: Iterable[Posterior]) -> Posterior:
    """Combine posteriors by Bayes' rule, counting the shared prior once.

        λ = λ0 + Σ_i (λ_i − λ0)                                  (eq:decbayes)

    Components are taken as they are labelled; see `merge` to align them first.
    """
    given = as_sequence(posteriors)
    order, _ = canonical_order(given)
    return relabelled_product(given, [{}] * len(given), order)


def relabelled_product(
    posteriors: Sequence[Posterior], relabellings: Sequence[Relabelling], order: Sequence[int]
) -> Posterior:
    """λ0 + Σ_i P_i (λ_i − λ0), summed in the given order so that the result has the same bits each time."""
    if len(posteriors) == 1 and not relabellings[0]:
        return posteriors[0]
    sums = RelabelledSums(posteriors[0].structure)
    for agent in order:
        sums.add(posteriors[agent], relabellings[agent])
    totals = sums.contributions()
    check_domain(posteriors, relabellings, totals)
    return Posterior(sums.structure, totals)


def check_domain(
    posteriors: Sequence[Posterior], relabellings: Sequence[Relabelling], totals: Mapping[str, Contribution]
) -> None:
    """Refuse a merge outside a family's domain, naming the factor, the component and the agents to blame."""
    structure = posteriors[0].structure
    for name, family in structure.families.items():
        outside = np.flatnonzero(~family.contains_sum(structure.prior[name], family.rows(totals[name])))
        if len(outside):
            guilty = blame(posteriors, relabellings, name, int(outside[0]))
            raise OutOfDomain(
                f"The merge leaves the domain of {family.name} in '{name}', component {outside[0]}: posterior "
                f"{', '.join(map(str, guilty))} is less certain there than the prior, and no distribution is left "
                "when it is counted with the others. Leave it out, or fit it again with the shared prior."
            )


def blame(posteriors: Sequence[Posterior], relabellings: Sequence[Relabelling], name: str, slot: int) -> list[int]:
    """The agents whose contribution to a slot, were it everybody's, would leave the domain.

    Domains are convex and the total is the average of λ0 + N c_i, so there is always at least one.
    """
    structure = posteriors[0].structure
    rows = [
        dense(posterior.contribution[name][[relabelling[name][slot] if name in relabelling else slot]])
        for posterior, relabelling in zip(posteriors, relabellings, strict=True)
    ]
    extreme = structure.prior[name][slot] + len(rows) * np.concatenate(rows)
    return [int(agent) for agent in np.flatnonzero(~structure.families[name].contains_rows(extreme))]
