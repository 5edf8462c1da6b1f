"""What sites must agree on before their posteriors can be merged, including which factors are relabelled together."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import check_kind, check_whole, names_of, real_array
from decbayes.errors import InvalidStructure
from decbayes.families import Array, Family
from decbayes.families.matrices import smallest

EMPTY: Mapping[str, Any] = MappingProxyType({})
Permutation = NDArray[np.intp]
"""Slot k is filled by the site's component `permutation[k]`; `matrix[permutation]` relabels rows."""


@dataclass(frozen=True)
class CoupledSet:
    """The factors that one permutation relabels together, such as a mixture's means and weights.

    `factors` are their names in the structure.

    >>> db.extending.CoupledSet(["means", "weights"]).factors
    ('means', 'weights')
    """

    factors: Sequence[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", names_of(factors=self.factors))


@dataclass(frozen=True, eq=False)
class Structure:
    """Everything that sites must agree on in advance: families, prior λ0, symmetry, labels and model settings.

    `labels` names the dimensions of a factor, such as the words of a vocabulary. `sparse` lists the factors whose
    contributions are kept and sent as CSR matrices. `model` describes the likelihood (its name and known constants),
    because sites that assume different noise variances must not merge. All of this is part of the fingerprint.

    `families` names the family of each factor, `prior` holds its natural parameters, and `symmetry` lists the factors
    that are relabelled together.

    >>> from decbayes.families import Gamma, Weights
    >>> structure = db.extending.Structure(
    ...     families={"weights": Weights(), "rates": Gamma()},
    ...     prior={
    ...         "weights": Weights().natural(alpha=np.ones(3)),
    ...         "rates": Gamma().natural(shape=np.ones(3), rate=np.ones(3)),
    ...     },
    ...     symmetry=[db.extending.CoupledSet(["weights", "rates"])],
    ...     model={"name": "mixture of Poissons"},
    ... )
    >>> structure.fingerprint[:12], structure.components(structure.symmetry[0])
    ('68e75fdbba72', 3)
    """

    families: Mapping[str, Family]
    prior: Mapping[str, Array]
    symmetry: Sequence[CoupledSet] = ()
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sparse: Collection[str] = frozenset()
    model: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze = object.__setattr__
        check_kind(CoupledSet, **{f"symmetry[{number}]": coupled for number, coupled in enumerate(self.symmetry)})
        freeze(self, "families", MappingProxyType(dict(sorted(self.families.items()))))
        freeze(
            self, "prior", MappingProxyType({name: compact(name, prior) for name, prior in sorted(self.prior.items())})
        )
        freeze(self, "symmetry", tuple(sorted(self.symmetry, key=lambda coupled: coupled.factors)))
        labels = {name: tuple(map(str, names_of(labels=words))) for name, words in sorted(self.labels.items())}
        freeze(self, "labels", MappingProxyType(labels))
        freeze(self, "sparse", frozenset(self.sparse))
        freeze(self, "model", MappingProxyType(dict(sorted(self.model.items()))))
        check_factors(self)
        check_symmetry(self)
        check_model(self)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical bytes, by which people check that they agree."""
        digest = hashlib.sha256(canonical_json(self.description()))
        for part in map(smallest, self.prior.values()):
            # Numbers alone do not distinguish equal rows from equal columns, or show where one prior ends.
            digest.update(canonical_json(part.shape))
            digest.update(part.astype("<f8").tobytes())
        return digest.hexdigest()

    def description(self) -> dict[str, Any]:
        """Everything except the prior's numbers, as plain JSON values."""
        return {
            "families": {name: family.name for name, family in self.families.items()},
            "shapes": {name: list(prior.shape) for name, prior in self.prior.items()},
            "symmetry": [list(coupled.factors) for coupled in self.symmetry],
            "labels": {name: list(words) for name, words in self.labels.items()},
            "sparse": sorted(self.sparse),
            "model": dict(self.model),
        }

    def components(self, coupled: CoupledSet) -> int:
        """K, the number of components that the set relabels."""
        return len(self.prior[coupled.factors[0]])

    def exchangeable(self, coupled: CoupledSet) -> bool:
        """Whether the prior treats all components of the set alike, so that their order has no meaning."""
        return all(self.families[name].exchangeable(self.prior[name]) for name in coupled.factors)

    @property
    def resizable(self) -> bool:
        """Whether there is one set of components that share a prior, so that their number can change."""
        return len(self.symmetry) == 1 and self.exchangeable(self.symmetry[0])

    def with_prior(self, prior: Mapping[str, Array]) -> "Structure":
        """The same structure with another prior, such as the merged posterior of an earlier epoch."""
        return Structure(self.families, prior, self.symmetry, self.labels, self.sparse, self.model)

    def with_components(self, count: int) -> "Structure":
        """The same structure with another number of components, all with the prior they share here."""
        check_whole(1, components=count)
        if not self.resizable:
            raise InvalidStructure(
                f"{self} has no single set of components that share a prior, so their number cannot be changed. "
                "Build the structure that you need."
            )
        (coupled,) = self.symmetry
        if count == self.components(coupled):
            return self
        rows = {name: self.families[name].resized(self.prior[name], int(count)) for name in coupled.factors}
        return self.with_prior({**self.prior, **rows})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and (self is other or self.fingerprint == other.fingerprint)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only views cannot be pickled; a prior is sent as its distinct part.
        parts = {name: (smallest(prior), prior.shape) for name, prior in self.prior.items()}
        return unpickled, (dict(self.families), parts, self.symmetry, dict(self.labels), self.sparse, dict(self.model))

    def __repr__(self) -> str:
        factors = ", ".join(
            f"{name}: {family.name} {shape_text(self.prior[name].shape)}" for name, family in self.families.items()
        )
        return f"Structure({factors}; fingerprint {self.fingerprint[:12]})"


def unpickled(families: Any, parts: Mapping[str, Any], *others: Any) -> Structure:
    return Structure(families, {name: np.broadcast_to(part, shape) for name, (part, shape) in parts.items()}, *others)


def canonical_json(value: Any, errors: str = "strict") -> bytes:
    """The canonical JSON of a value: sorted keys, no spaces, no NaN; `errors` is for what is not UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode(errors=errors)


def shape_text(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{size:,}" for size in shape)


def compact(name: str, prior: Any) -> Array:
    """A read-only matrix that stores equal rows or entries once (a topic prior is one number, not K × W)."""
    try:
        matrix = np.array(real_array(prior), dtype=np.float64, ndmin=2)
    except (TypeError, ValueError) as error:
        raise InvalidStructure(f"The prior of '{name}' must be a matrix of real numbers: {error}.") from None
    part = matrix[:1] if len(matrix) and (matrix == matrix[:1]).all() else matrix
    part = part[:, :1] if part.size and (part == part[:, :1]).all() else part
    return np.broadcast_to(np.ascontiguousarray(part) + 0.0, matrix.shape)


def check_factors(structure: Structure) -> None:
    if not structure.families or structure.families.keys() != structure.prior.keys():
        raise InvalidStructure(
            f"families name the factors {list(structure.families)}, the prior {list(structure.prior)}. "
            "Each factor needs one family and one prior matrix."
        )
    for name, family in structure.families.items():
        check_kind(Family, **{f"families['{name}']": family})
        prior = structure.prior[name]
        if prior.ndim != 2 or not prior.size:
            raise InvalidStructure(f"The prior of '{name}' has shape {prior.shape}; it must be (components, columns).")
        try:
            dimension = family.dimension(prior.shape[1])
        except ValueError as error:
            raise InvalidStructure(f"The prior of '{name}': {error}") from None
        if not family.contains(prior):
            raise InvalidStructure(
                f"The prior of '{name}' is outside the domain of {family.name}. "
                f"Natural parameters are expected; {family.name}().natural(…) makes them from the ordinary ones."
            )
        words = structure.labels.get(name)
        if words is not None and len(words) != dimension:
            raise InvalidStructure(f"'{name}' has {dimension:,} dimensions and {len(words):,} labels.")
    for role, names in (("Sparse", structure.sparse), ("Labelled", structure.labels.keys())):
        unknown = names - structure.families.keys()
        if unknown:
            raise InvalidStructure(f"{role} factors {sorted(unknown)} do not exist.")


def check_symmetry(structure: Structure) -> None:
    named = [name for coupled in structure.symmetry for name in coupled.factors]
    unknown = sorted(set(named) - structure.families.keys())
    if unknown:
        raise InvalidStructure(f"The symmetry names factors that do not exist: {unknown}.")
    if len(set(named)) != len(named) or not all(coupled.factors for coupled in structure.symmetry):
        raise InvalidStructure("Coupled sets must be disjoint and not empty: one permutation relabels each factor.")
    for coupled in structure.symmetry:
        sizes = {name: len(structure.prior[name]) for name in coupled.factors}
        if len(set(sizes.values())) > 1:
            raise InvalidStructure(f"Coupled factors must have equally many components; here: {sizes}.")


def check_model(structure: Structure) -> None:
    try:
        canonical_json(dict(structure.model))
    except (TypeError, ValueError) as error:
        raise InvalidStructure(
            f"The model's settings {dict(structure.model)} must be numbers, strings and lists of them: {error}."
        ) from None


def identity(size: int) -> Permutation:
    return np.arange(size, dtype=np.intp)


def inverse(permutation: Permutation) -> Permutation:
    back = np.empty(len(permutation), dtype=np.intp)
    back[permutation] = np.arange(len(permutation))
    return back


def is_permutation(candidate: Sequence[int] | Permutation, size: int) -> bool:
    """Whether every number below `size` occurs once, as an integer that can be used as an index."""
    array = np.asarray(candidate)
    whole = array.ndim == 1 and array.dtype.kind in "ui" and not np.ma.is_masked(candidate)
    return whole and np.array_equal(np.sort(array), np.arange(size))
