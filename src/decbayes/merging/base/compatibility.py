"""Posteriors merge only if they share one structure: columns are matched by name, missing components are padded."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from decbayes.base.arguments import check_kind
from decbayes.errors import NothingToMerge, StructureMismatch
from decbayes.families.matrices import Indices, stored
from decbayes.merging.base.vocabularies import with_all_words
from decbayes.posterior import Posterior
from decbayes.structure import Structure, shape_text

# Names listed in a difference between models.
MOST_NAMES = 3


def same_columns(posteriors: Sequence[Posterior], *, grow: bool = True) -> tuple[Posterior, ...]:
    """The posteriors with their columns in a common order that does not depend on the posteriors' order.

    If sites count different words, each gets the words of all, unless `grow` is false.
    """
    given = tuple(posteriors)
    if not all(isinstance(posterior, Posterior) for posterior in given):
        return given  # refused by name below
    structures = [posterior.structure for posterior in given]
    if all(structure is structures[0] or structure.labels == structures[0].labels for structure in structures):
        return given
    given = with_all_words(given) if grow else given
    first = min((posterior.structure for posterior in given), key=lambda structure: tuple(structure.labels.values()))
    return tuple(in_columns_of(first, posterior) for posterior in given)


def in_columns_of(structure: Structure, posterior: Posterior) -> Posterior:
    """The posterior with its columns in the order of a structure, if both have the same column names."""
    current = posterior.structure
    orders = {name: order for name in current.labels if (order := column_order(structure, current, name)) is not None}
    if not orders:
        return posterior
    moved = Structure(
        current.families,
        {name: prior[:, orders[name]] if name in orders else prior for name, prior in current.prior.items()},
        current.symmetry,
        {name: structure.labels[name] if name in orders else words for name, words in current.labels.items()},
        current.sparse,
        current.model,
    )
    contents = posterior.contribution.items()
    contribution = {name: part[:, orders[name]] if name in orders else part for name, part in contents}
    return replace(posterior, structure=moved, contribution=contribution, calibration=None)


def column_order(wanted: Structure, current: Structure, name: str) -> Indices | None:
    """The order in which to take columns; None if they are already in order or have different names.

    A Gaussian's natural parameters have more columns than names, and stay unchanged.
    """
    target, names = wanted.labels.get(name, ()), current.labels[name]
    if target == names or len(names) != current.prior[name].shape[1] or not same_names(target, names):
        return None
    places = {word: place for place, word in enumerate(names)}
    return np.array([places[word] for word in target], dtype=np.intp)


def same_names(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether both have the same names, each once."""
    return len(first) == len(second) == len(set(first)) and set(first) == set(second)


def pad(posterior: Posterior, to: Structure | int) -> Posterior:
    """The same posterior with more components; the added ones equal the prior.

    `merge(posteriors, components=60)` merges into more slots without padding first.

    Args:
        posterior: the posterior with fewer components.
        to: their number, or a structure that has them. All else must agree: families, columns, labels, model, and the
            prior of the existing components.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> posterior = model.fit(np.array([[-9.0], [9.0]]), rng=np.random.default_rng(0)).posterior
    >>> db.merging.pad(posterior, 3).mean("components").shape
    (3, 1)
    """
    check_kind(Posterior, posterior=posterior)
    current = posterior.structure
    structure = to if isinstance(to, Structure) else current.with_components(to)
    if truncated(structure, current) != current:
        raise StructureMismatch(
            f"{current} cannot be padded to {structure}: except for the number of components in the coupled sets they "
            "must be equal, including prior and labels, and the larger one must be the target."
        )
    contribution = {name: padded(posterior, name, structure) for name in structure.families}
    return replace(posterior, structure=structure, contribution=contribution, ids=(), names=(), calibration=None)


def padded(posterior: Posterior, name: str, structure: Structure) -> csr_array:
    contribution = csr_array(posterior.contribution[name])
    rows = len(structure.prior[name])
    indptr = np.append(contribution.indptr, np.full(rows - contribution.shape[0], contribution.indptr[-1]))
    return csr_array((contribution.data, contribution.indices, indptr), shape=structure.prior[name].shape)


def truncated(structure: Structure, like: Structure) -> Structure | None:
    """The structure with as many components as another, if possible."""
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


def common_structure(posteriors: Sequence[Posterior]) -> Structure:
    """The structure that all posteriors share."""
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
        posterior.check_uncertainty("A merge")
        structure = structure or posterior.structure
        if posterior.structure != structure and (strictly or not alike(posterior.structure, structure)):
            raise StructureMismatch(
                f"Posterior {index} does not share the structure of posterior 0: "
                f"{why(structure, posterior.structure, strictly)} Posteriors merge only if they share one structure."
            )
        yield posterior


def alike(first: Structure, second: Structure) -> bool:
    """Whether two structures differ only in the number of components, and all components share a prior."""
    return first.resizable and second.resizable and first.with_components(1) == second.with_components(1)


def why(first: Structure, second: Structure, strictly: bool) -> str:
    """The difference between two structures; numbers of components count only if `strictly`."""
    if not strictly and first.resizable and second.resizable:
        first, second = first.with_components(1), second.with_components(1)
    return difference(first, second)


def difference(first: Structure, second: Structure) -> str:
    """The difference between two structures in a sentence, preferably that of their models."""
    for sentence in model_differences(first.model, second.model):
        return sentence
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
    """Whether they differ only in the number of components."""
    return truncated(first, second) == second or truncated(second, first) == first


def columns_text(first: Structure, second: Structure, name: str) -> str:
    """How the columns differ; a Dirichlet with the same names in another order needs no refit, only a list."""
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


def model_differences(first: Any, second: Any) -> Iterator[str]:
    """How two models differ in kind, outcome, terms and columns, most important first."""
    names = [str(model.get("name", "")) for model in (first, second)]
    if all(names) and names[0] != names[1]:
        yield f"they are different models, {names[0]} and {names[1]}."
    if first.get("target") != second.get("target"):
        yield f"one predicts '{first.get('target')}', the other '{second.get('target')}'."
    for key, what in (("terms", "term"), ("varying", "varying term")):
        one, other = (listed(model.get(key)) for model in (first, second))
        if set(one) != set(other):
            yield only_one_has(what, one, other)
    yield from column_differences(columns_in(first), columns_in(second))


def listed(names: Any) -> list[str]:
    """The names that a structure lists; none if a foreign file has something else there."""
    return list(map(str, names)) if isinstance(names, list | tuple) else []


def columns_in(model: Any) -> dict[str, list[Any]]:
    """The columns that a structure lists, kind and details by name; none if it lists them differently."""
    columns = model.get("columns")
    listed = isinstance(columns, list) and all(isinstance(column, list) and len(column) > 1 for column in columns)
    return {str(name): details for name, *details in columns} if listed else {}


def column_differences(first: dict[str, list[Any]], second: dict[str, list[Any]]) -> Iterator[str]:
    if not first or not second:
        return
    if first.keys() != second.keys():
        yield only_one_has("column", [*first], [*second])
    for name, (kind, *details) in first.items():
        other, *others = second.get(name, [kind, *details])
        if kind != other:
            yield f"column '{name}' is {kind} in one and {other} in the other."
        elif details != others and all(isinstance(detail, str) for detail in (*details, *others)):
            if set(details) == set(others):
                yield f"the categories of column '{name}' are in another order."
            else:
                yield only_one_has("category", details, others, f" in column '{name}'")
        elif details != others:
            yield f"the agreed centre, scale or mean of column '{name}' differs."


def only_one_has(what: str, first: Sequence[Any], second: Sequence[Any], where: str = "") -> str:
    names = [name for name in (*first, *second) if (name in first) != (name in second)]
    several = f"{what.removesuffix('y')}ies" if what.endswith("y") else f"{what}s"
    shown = ", ".join(f"'{name}'" for name in names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"only one of them has the {what if len(names) == 1 else several} {shown}{more}{where}."


def check_different(
    posteriors: Sequence[Posterior], names: Sequence[str] = (), otherwise: str = 'duplicates="allow"'
) -> None:
    """Refuse posteriors that occur twice, naming them; posteriors without data may."""
    by_sums: dict[tuple[float, ...], list[int]] = {}
    for place, posterior in enumerate(posteriors):
        check_kind(Posterior, **{f"posteriors[{place}]": posterior})
        # Equal posteriors have equal sums, which are cheaper than hashes.
        sums = tuple(float(stored(part).sum()) for part in posterior.contribution.values())
        alike_before = by_sums.setdefault(sums, [])
        before = next((other for other in alike_before if posteriors[other] == posterior), place)
        alike_before.append(place)
        if before != place and posterior != Posterior.of_prior(posterior.structure):
            one, other = (names[site] if names else f"posterior {site}" for site in (before, place))
            raise StructureMismatch(
                f"{other} is the same posterior as {one}: its data would count twice. Leave one of them out, or allow "
                f"it: {otherwise}."
            )
