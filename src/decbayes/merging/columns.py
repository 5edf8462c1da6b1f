"""Columns by their names: the same words in another order are brought into one."""

from collections.abc import Sequence

import numpy as np

from decbayes.families.matrices import Indices
from decbayes.posterior import Posterior
from decbayes.structure import Structure


def same_columns(posteriors: Sequence[Posterior]) -> tuple[Posterior, ...]:
    """The posteriors with their columns in one order: the smallest of theirs, whichever posterior comes first."""
    given = tuple(posteriors)
    if not all(isinstance(posterior, Posterior) for posterior in given):
        return given  # refused by name in a moment
    structures = [posterior.structure for posterior in given]
    if all(structure is structures[0] or structure.labels == structures[0].labels for structure in structures):
        return given
    model = min(structures, key=lambda structure: tuple(structure.labels.values()))
    return tuple(in_columns_of(model, posterior) for posterior in given)


def in_columns_of(structure: Structure, posterior: Posterior) -> Posterior:
    """The posterior with its columns in the order of a structure, where both have the same names for them."""
    own = posterior.structure
    orders = {name: order for name in own.labels if (order := column_order(structure, own, name)) is not None}
    if not orders:
        return posterior
    moved = Structure(
        own.families,
        {name: prior[:, orders[name]] if name in orders else prior for name, prior in own.prior.items()},
        own.symmetry,
        {name: structure.labels[name] if name in orders else words for name, words in own.labels.items()},
        own.sparse,
        own.model,
    )
    contents = posterior.contribution.items()
    contribution = {name: part[:, orders[name]] if name in orders else part for name, part in contents}
    return Posterior(moved, contribution, posterior.ids)


def column_order(wanted: Structure, own: Structure, name: str) -> Indices | None:
    """Which columns to take, one after another; None where they are right already, or have other names.

    A Gaussian's natural parameters have more columns than names: those are left as they are.
    """
    target, names = wanted.labels.get(name, ()), own.labels[name]
    if target == names or len(names) != own.prior[name].shape[1] or not same_names(target, names):
        return None
    places = {word: place for place, word in enumerate(names)}
    return np.array([places[word] for word in target], dtype=np.intp)


def same_names(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether both have the same names, each once."""
    return len(first) == len(second) == len(set(first)) and set(first) == set(second)
