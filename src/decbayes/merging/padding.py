"""Posteriors with fewer components than the others, completed with components that saw no data."""

import numpy as np
from scipy.sparse import csr_array

from decbayes.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.posterior import Posterior
from decbayes.structure import Structure


def pad(posterior: Posterior, to: Structure | int) -> Posterior:
    """The same posterior with more components: the added ones are as the prior has them.

    `to` is their number, or a structure that has them. All else must agree: families, columns, labels, model, and the
    prior of the existing components. `merge(posteriors, components=60)` merges into more slots without padding first.
    """
    check_kind(Posterior, posterior=posterior)
    own = posterior.structure
    structure = to if isinstance(to, Structure) else own.with_components(to)
    if truncated(structure, own) != own:
        raise StructureMismatch(
            f"{own} cannot be padded to {structure}: but for the number of components in the coupled sets they must be "
            "equal, prior and labels included, and the larger one must be the target."
        )
    return Posterior(structure, {name: padded(posterior, name, structure) for name in structure.families})


def padded(posterior: Posterior, name: str, structure: Structure) -> csr_array:
    contribution = csr_array(posterior.contribution[name])
    rows = len(structure.prior[name])
    indptr = np.append(contribution.indptr, np.full(rows - contribution.shape[0], contribution.indptr[-1]))
    return csr_array((contribution.data, contribution.indices, indptr), shape=structure.prior[name].shape)


def truncated(structure: Structure, like: Structure) -> Structure | None:
    """The structure with as many components as another has, where that makes sense."""
    if structure.symmetry != like.symmetry:
        return None
    relabelled = {name for coupled in structure.symmetry for name in coupled.factors}
    rows = {name: len(like.prior.get(name, ())) for name in structure.prior}
    if any(rows[name] != len(prior) for name, prior in structure.prior.items() if name not in relabelled):
        return None
    both = {name for name, family in structure.families.items() if family.two_sided}
    shortened = {name: prior[: rows[name]] for name, prior in structure.prior.items()}
    return structure.with_prior(
        {name: prior[:, : rows[name]] if name in both else prior for name, prior in shortened.items()}
    )
