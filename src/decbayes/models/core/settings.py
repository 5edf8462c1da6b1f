"""Traits and settings of models, the structure that settings describe, and models from structures."""

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
"""The number of components, or "auto" to let each fit find it."""
Width = Number | Literal["wide"]
"""Also "wide": more and smaller components than a site could tell apart, for a merge to combine."""

LOCAL: Mapping[str, Any] = MappingProxyType({"decbayes": "local"})
"""Metadata of a field that sites need not agree on: `field(default=10, kw_only=True, metadata=LOCAL)`.

Every other field of a model from outside the package, and of its likelihood, is part of the structure. The package's
own models place their settings themselves: in the prior, in labels, or beside the model's name.
"""

Method = Literal["linear response", "bootstrap"]
"""How a model's intervals are calibrated: from the dependence of contributions on the posterior, or by refits."""


class Traits:
    """A class of models described: what people call it and its parts, and what it can do."""

    about: ClassVar[str] = ""
    """One line for `decbayes fit --help`; default: the first line of the docstring."""

    command: ClassVar[str] = ""
    """What `decbayes fit` calls the model; default: its own name in lower case."""

    example: ClassVar[str] = "data.csv"
    """The rest of the example `decbayes fit COMMAND …`: a file, and options."""

    from_data: ClassVar[frozenset[str]] = frozenset({"dimension", "columns"})
    """Settings that `from_file` takes from the data; they are not options."""

    agreed_settings: ClassVar[frozenset[str]] = frozenset()
    """Settings that each file would decide for itself; sites that fit together must state them."""

    summed_settings: ClassVar[frozenset[str]] = frozenset()
    """Those among them that need not be stated, because the sums of all sites settle them."""

    in_parts: ClassVar[bool] = False
    """Whether a score is about a part of each observation, given the rest."""

    unit: ClassVar[str] = "observation"
    """The unit of contributions: observations, or parts of them such as words."""

    record: ClassVar[str] = "observation"
    """What one person's data are called where units are parts of them: a document, a sequence."""

    said_by_options: ClassVar[bool] = False
    """Whether options and column names determine the model, whatever data a file holds."""

    reading_options: ClassVar[frozenset[str]] = frozenset({"columns"})
    """Options of `from_file` and `read` that only locate observations in files."""

    many_files: ClassVar[bool] = False
    """Whether observations may come from several files and folders."""

    in_batches: ClassVar[bool] = False
    """Whether fits can learn from batches of observations, and on a GPU."""

    made_up: ClassVar[bool] = False
    """Whether `draw` invents a part of the data that posteriors do not describe, such as predictors."""

    calibrated_by: ClassVar[Method] = "linear response"

    view: ClassVar[str] = "table"
    """The best way to show components, by the name of a view (`decbayes.views`)."""

    noun: ClassVar[str] = "component"
    """What one component is called."""

    caption: ClassVar[str] = ""
    """The column of `describe` that tells components apart best; default: the last one."""

    joins: ClassVar[bool] = True
    """Whether a component with few observations may be joined to another; else it is not sent."""

    @classmethod
    def nouns(cls, count: int) -> str:
        """A number of components in words: 1 class, 3 classes."""
        several = f"{cls.noun}es" if cls.noun.endswith("s") else f"{cls.noun}s"
        return f"{count} {cls.noun if count == 1 else several}"

    @property
    def usual_name(self) -> str:
        """What people call such a model: logistic regression, topics."""
        return self.command.replace("-", " ") or type(self).__name__

    @property
    def modelled(self) -> str:
        """What is modelled, in words, if the model's name does not say it: a regression's outcome."""
        return ""


def comparable(value: Any) -> Any:
    """A setting as a value that can be compared and hashed: arrays and lists as tuples, mappings as their items."""
    if isinstance(value, np.ndarray):
        return comparable(value.tolist())
    if isinstance(value, Mapping):
        return tuple((name, comparable(one)) for name, one in value.items())
    return tuple(map(comparable, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings(Traits, ABC):
    """The fields of a model; `agreed` is the structure of another site's posterior, used in place of their own."""

    ascent: Ascent = field(default=Ascent(), metadata=LOCAL)
    agreed: Structure | None = field(default=None, metadata=LOCAL)

    number: ClassVar[str] = ""
    """The setting for the number of components, if fits can find it: it may then be "auto".

    In mixtures it may also be "wide".
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A dataclass would write its own, which fail for arrays and mappings.
        for method in (Settings.__eq__, Settings.__hash__):
            if method.__name__ not in cls.__dict__:
                setattr(cls, method.__name__, method)

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        check_kind(Ascent, ascent=self.ascent)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)

    @cached_property
    def _values(self) -> tuple[Any, ...]:
        return tuple(comparable(getattr(self, setting.name)) for setting in fields(self) if setting.compare)

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
        """Settings declared by models from outside the package, which `described` need not mention."""
        ours = [kind for kind in type(self).__mro__ if is_ours(kind)]
        placed = {self.number}.union(*(getattr(kind, "__dataclass_fields__", ()) for kind in ours))
        return agreed_fields(self, besides=placed)

    @property
    def auto(self) -> bool:
        """Whether each fit finds the number of components. The model's structure then has one component."""
        return isinstance(getattr(self, self.number, None), str)

    @property
    def undecided(self) -> str:
        """The setting that each fit finds for itself, so that sites would differ; empty if there is none."""
        return self.number if self.auto else ""

    def sized(self, count: Width) -> Self:
        """The same model with `count` components."""
        agreed = None if self.agreed is None else self.agreed.with_components(1 if isinstance(count, str) else count)
        settings: dict[str, Any] = {self.number: count, "agreed": agreed}
        return replace(self, **settings)

    def sized_for(self, posterior: Posterior) -> Self:
        """The same model with the posterior's number of components, which a merge may have changed."""
        count = number_of(posterior.structure)
        return self if not self.number or self.auto or getattr(self, self.number) == count else self.sized(count)

    def structure_for(self, posterior: Posterior) -> Structure:
        """The structure that a posterior needs for predictions: the model's, with any number of components."""
        check_kind(Posterior, posterior=posterior)
        if not self.number or not self.structure.resizable:
            return self.structure
        return self.structure.with_components(number_of(posterior.structure))

    @classmethod
    def from_structure(cls, structure: Structure) -> Self:
        """The model with this structure, prior included. Settings outside the structure have their defaults."""
        described = cls(**cls.settings_of(structure))
        if described.structure == structure:
            return described
        holding = cls(**cls.settings_of(structure), agreed=structure)
        _ = holding.structure  # raises now if more than the prior differs
        return holding

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        """The settings in a structure: by default the number of components, and those stored beside the name."""
        number = {cls.number: number_of(structure)} if cls.number else {}
        beside = {name: tupled(value) for name, value in structure.model.items() if name not in ("name", "likelihood")}
        return {**number, **beside}


def number_of(structure: Structure) -> int:
    """The number of components; 1 if nothing can be relabelled."""
    return structure.components(structure.symmetry[0]) if structure.symmetry else 1


def is_ours(kind: type) -> bool:
    """Whether a class belongs to the package."""
    return kind.__module__.partition(".")[0] == "decbayes"


def agreed_fields(declared: Any, *, besides: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a model or likelihood that sites must agree on, as plain values."""
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
    """Convert JSON lists to tuples, as models hold them."""
    return tuple(map(tupled, value)) if isinstance(value, list) else value


def plain(name: str, value: Any) -> Any:
    """Convert a setting to plain JSON values; 2 and 2.0 are the same number."""
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
