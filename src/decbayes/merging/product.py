"""The naive merge: natural parameters add up, components as they are labelled."""

from collections.abc import Mapping, Sequence

import numpy as np

from decbayes.errors import NothingToMerge, OutOfDomain, StructureMismatch
from decbayes.families import Contribution, dense
from decbayes.merging.canonical import canonical_order
from decbayes.merging.sums import relabelled_sum
from decbayes.posterior import Posterior
from decbayes.structure import Structure, shape_text
from decbayes.symmetry import Permutation, identity

Relabelling = Mapping[str, Permutation]
"""The permutation of each relabelled factor."""


def product(posteriors: Sequence[Posterior]) -> Posterior:
    """Combine posteriors by Bayes' rule, counting the shared prior once.

        λ = λ0 + Σ_i (λ_i − λ0)                                  (eq:decbayes)

    Components are taken as they are labelled; see `merge` to align them first.
    """
    common_structure(posteriors)
    order, _ = canonical_order(posteriors)
    return relabelled_product(posteriors, [{}] * len(posteriors), order)


def relabelled_product(
    posteriors: Sequence[Posterior], relabellings: Sequence[Relabelling], order: Sequence[int]
) -> Posterior:
    """λ0 + Σ_i P_i (λ_i − λ0), summed in the given order so that the result has the same bits each time."""
    structure = posteriors[0].structure
    if len(posteriors) == 1 and not relabellings[0]:
        return posteriors[0]
    totals = {}
    for name, prior in structure.prior.items():
        kept = identity(len(prior))
        parts = ((posteriors[i].contribution[name], relabellings[i].get(name, kept)) for i in order)
        totals[name] = relabelled_sum(parts, like=posteriors[0].contribution[name])
    check_domain(posteriors, relabellings, totals)
    return Posterior(structure, totals)


def common_structure(posteriors: Sequence[Posterior]) -> Structure:
    """The one structure that all posteriors share."""
    if not posteriors:
        raise NothingToMerge("There are no posteriors to merge. The posterior of no data is `Posterior.of_prior`.")
    structure = posteriors[0].structure
    for index, posterior in enumerate(posteriors):
        if posterior.structure != structure:
            raise StructureMismatch(
                f"Posterior {index} does not share the structure of posterior 0: "
                f"{difference(structure, posterior.structure)} Posteriors merge only if they share one structure."
            )
    return structure


def difference(first: Structure, second: Structure) -> str:
    """What differs between two structures, in a sentence."""
    for name in sorted(first.families.keys() | second.families.keys()):
        if name not in first.families or name not in second.families:
            return f"only one of them has the factor '{name}'."
        if first.families[name] != second.families[name]:
            return f"'{name}' is {first.families[name].name} in one and {second.families[name].name} in the other."
        shapes = shape_text(first.prior[name].shape), shape_text(second.prior[name].shape)
        if shapes[0] != shapes[1]:
            return f"'{name}' is {shapes[0]} in one and {shapes[1]} in the other."
        if first.labels.get(name) != second.labels.get(name):
            return f"the labels of '{name}' differ; compare the vocabularies."
        if not np.array_equal(first.prior[name], second.prior[name]):
            return f"the priors of '{name}' differ."
    for key in sorted(first.model.keys() | second.model.keys()):
        if first.model.get(key) != second.model.get(key):
            return f"the model's {key} is {first.model.get(key)} in one and {second.model.get(key)} in the other."
    return "their symmetry, labels or sparse factors differ."


def check_domain(
    posteriors: Sequence[Posterior], relabellings: Sequence[Relabelling], totals: Mapping[str, Contribution]
) -> None:
    """Refuse a merge outside a family's domain, naming the factor, the component and the agents to blame."""
    structure = posteriors[0].structure
    for name, family in structure.families.items():
        outside = np.flatnonzero(~family.contains_rows(structure.prior[name] + dense(totals[name])))
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
