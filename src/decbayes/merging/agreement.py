"""Posteriors merge only if they share one structure."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import numpy as np

from decbayes.arguments import check_kind
from decbayes.errors import NothingToMerge, StructureMismatch
from decbayes.merging.columns import same_names
from decbayes.merging.padding import truncated
from decbayes.posterior import Posterior
from decbayes.structure import Structure, shape_text


def common_structure(posteriors: Sequence[Posterior]) -> Structure:
    """The one structure that all posteriors share."""
    for posterior in agreeing(posteriors, strictly=True):
        structure = posterior.structure
    return structure


def agreeing(posteriors: Sequence[Posterior], *, strictly: bool) -> Iterator[Posterior]:
    """The posteriors one by one, each compared with the first; numbers of components may differ unless `strictly`."""
    if not len(posteriors):
        raise NothingToMerge("There are no posteriors to merge. The posterior of no data is `Posterior.of_prior`.")
    structure = None
    for index, posterior in enumerate(posteriors):
        check_kind(Posterior, **{f"posteriors[{index}]": posterior})
        structure = structure or posterior.structure
        if posterior.structure != structure and (strictly or not alike(posterior.structure, structure)):
            raise StructureMismatch(
                f"Posterior {index} does not share the structure of posterior 0: "
                f"{why(structure, posterior.structure, strictly)} Posteriors merge only if they share one structure."
            )
        yield posterior


def alike(first: Structure, second: Structure) -> bool:
    """Whether two structures differ in nothing but the number of components, all of which share a prior."""
    return first.resizable and second.resizable and first.with_components(1) == second.with_components(1)


def why(first: Structure, second: Structure, strictly: bool) -> str:
    """What keeps two structures apart; numbers of components do not, where they may differ."""
    if not strictly and first.resizable and second.resizable:
        first, second = first.with_components(1), second.with_components(1)
    return difference(first, second)


def difference(first: Structure, second: Structure) -> str:
    """What differs between two structures, in a sentence."""
    for name in sorted(first.families.keys() | second.families.keys()):
        if name not in first.families or name not in second.families:
            return f"only one of them has the factor '{name}'."
        if first.families[name] != second.families[name]:
            return f"'{name}' is {first.families[name].name} in one and {second.families[name].name} in the other."
        shapes = shape_text(first.prior[name].shape), shape_text(second.prior[name].shape)
        if shapes[0] != shapes[1]:
            remedy = " `pad` completes the smaller one (`merge --components`)." if paddable(first, second) else ""
            names = labels_text(first, second, name)
            return f"'{name}' is {shapes[0]} in one and {shapes[1]} in the other{names}.{remedy}"
        if first.labels.get(name) != second.labels.get(name):
            return f"the columns of '{name}' have {columns_text(first, second, name)}."
        if not np.array_equal(first.prior[name], second.prior[name]):
            return f"the priors of '{name}' differ."
    for key in sorted(first.model.keys() | second.model.keys()):
        if first.model.get(key) != second.model.get(key):
            return f"the model's {key} is {first.model.get(key)} in one and {second.model.get(key)} in the other."
    return "their symmetry, labels or sparse factors differ."


def paddable(first: Structure, second: Structure) -> bool:
    """Whether they differ in nothing but the number of components."""
    return truncated(first, second) == second or truncated(second, first) == first


def columns_text(first: Structure, second: Structure, name: str) -> str:
    """How the columns differ; the same names in another order need no other fit of a Dirichlet, only a list."""
    if not same_names(first.labels.get(name, ()), second.labels.get(name, ())):
        return f"different names{labels_text(first, second, name)}"
    listed = len(first.labels[name]) == first.prior[name].shape[1]
    remedy = "pass a list: `merge` brings its columns into one order" if listed else "fit with the columns in one order"
    return f"the same names in another order; {remedy}"


def labels_text(first: Structure, second: Structure, name: str) -> str:
    """The first column that the two name differently, if they name any."""
    pairs = enumerate(zip_longest(first.labels.get(name, ()), second.labels.get(name, ()), fillvalue="nothing"))
    for column, (one, other) in pairs:
        if one != other:
            return f"; column {column} is {one!r} in one and {other!r} in the other"
    return ""
