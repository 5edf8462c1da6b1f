"""A model's settings, and the structure that they describe: what sites agree on, and back to a model from it."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from numbers import Integral
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np

from decbayes.base.arguments import check_kind
from decbayes.errors import InvalidStructure, StructureMismatch
from decbayes.models.core.ascent import Ascent
from decbayes.posterior import Posterior
from decbayes.structure import Structure

Number = int | Literal["auto"]
"""How many components: so many, or as many as a fit finds."""

LOCAL: Mapping[str, Any] = MappingProxyType({"decbayes": "local"})
"""Metadata of a field that sites need not agree on: `field(default=10, kw_only=True, metadata=LOCAL)`.

Every other field of a model from outside the package, and of its likelihood, is part of the structure. The package's
own models place their settings themselves: in the prior, in labels, or beside the model's name.
"""


@dataclass(frozen=True)
class Settings(ABC):
    """The fields of a model; `agreed` is the structure of somebody else's posterior, in the place of their own."""

    ascent: Ascent = field(default=Ascent(), kw_only=True, metadata=LOCAL)
    agreed: Structure | None = field(default=None, kw_only=True, metadata=LOCAL)

    number: ClassVar[str] = ""
    """The setting that says how many components there are, where a fit can find that: it may then be "auto"."""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        check_kind(Ascent, ascent=self.ascent)

    @abstractmethod
    def described(self) -> Structure:
        """The structure that the settings describe. Its `model` holds the name under which the model is registered."""

    @cached_property
    def structure(self) -> Structure:
        """All that sites must agree on before their posteriors can be merged."""
        described = self.described()
        further = {name: value for name, value in self.unplaced().items() if name not in described.model}
        if further:
            described = replace(described, model={**described.model, **further})
        if self.agreed is None:
            return described
        if described.description() != self.agreed.description():
            raise StructureMismatch(
                f"The settings describe {described}, but `agreed` is {self.agreed}. They may differ in the prior only; "
                "leave `agreed` out to use the structure that the settings describe."
            )
        return self.agreed

    def unplaced(self) -> dict[str, Any]:
        """Settings that models from outside the package declare: `described` need not mention them."""
        ours = [kind for kind in type(self).__mro__ if is_ours(kind)]
        placed = {self.number}.union(*(getattr(kind, "__dataclass_fields__", ()) for kind in ours))
        return agreed_fields(self, besides=placed)

    @property
    def auto(self) -> bool:
        """Whether each fit finds how many components there are. The model's structure is then that of one component."""
        return getattr(self, self.number, None) == "auto"

    @property
    def undecided(self) -> str:
        """The setting that each fit finds for itself, and that sites would not agree on; empty if there is none."""
        return self.number if self.auto else ""

    def sized(self, count: Number) -> Self:
        """The same model of so many components."""
        agreed = None if self.agreed is None else self.agreed.with_components(1 if count == "auto" else count)
        settings: dict[str, Any] = {self.number: count, "agreed": agreed}
        return replace(self, **settings)

    def sized_for(self, posterior: Posterior) -> Self:
        """The same model with as many components as a posterior, which a merge may have changed."""
        count = number_of(posterior.structure)
        return self if not self.number or self.auto or getattr(self, self.number) == count else self.sized(count)

    def structure_for(self, posterior: Posterior) -> Structure:
        """The structure that a posterior should have for predictions: the model's, with any number of components."""
        check_kind(Posterior, posterior=posterior)
        if not self.number or not self.structure.resizable:
            return self.structure
        return self.structure.with_components(number_of(posterior.structure))

    @classmethod
    def from_structure(cls, structure: Structure) -> Self:
        """The model whose structure this is, prior included. Settings that are no part of it have their defaults."""
        described = cls(**cls.settings_of(structure))
        if described.structure == structure:
            return described
        holding = cls(**cls.settings_of(structure), agreed=structure)
        _ = holding.structure  # refused now if more than the prior differs
        return holding

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        """The settings that a structure tells: by default the number of components, and those beside the name."""
        number = {cls.number: number_of(structure)} if cls.number else {}
        beside = {name: tupled(value) for name, value in structure.model.items() if name not in ("name", "likelihood")}
        return {**number, **beside}


def number_of(structure: Structure) -> int:
    """How many components there are; 1 where nothing can be relabelled."""
    return structure.components(structure.symmetry[0]) if structure.symmetry else 1


def is_ours(kind: type) -> bool:
    """Whether a class is one of the package."""
    return kind.__module__.partition(".")[0] == "decbayes"


def agreed_fields(declared: Any, *, besides: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a model or of a likelihood that sites must agree on, as plain values."""
    if not is_dataclass(declared):
        if vars(declared):
            raise InvalidStructure(
                f"{type(declared).__name__} holds {', '.join(vars(declared))}. Write it as a frozen dataclass with "
                "these as fields: sites must agree on them."
            )
        return {}
    names = {field.name for field in fields(declared) if field.metadata != LOCAL} - set(besides)
    return {name: plain(f"{type(declared).__name__}.{name}", getattr(declared, name)) for name in names}


def tupled(value: Any) -> Any:
    """A setting as a model holds it: what JSON has as a list is a tuple."""
    return tuple(map(tupled, value)) if isinstance(value, list) else value


def plain(name: str, value: Any) -> Any:
    """A setting as JSON has it; 2 and 2.0 are the same number."""
    if value is None or isinstance(value, str | bool | np.bool_):
        return bool(value) if isinstance(value, np.bool_) else value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, float | np.floating):
        return int(value) if float(value).is_integer() else float(value)
    if isinstance(value, tuple | list | np.ndarray):
        return [plain(name, entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): plain(name, entry) for key, entry in value.items()}
    raise InvalidStructure(
        f"{name} is {value!r}. Sites agree on numbers, strings and lists of them; declare a field on which they need "
        "not agree with `metadata=decbayes.extending.LOCAL`, or make it a ClassVar."
    )
