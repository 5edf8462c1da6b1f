"""A model's settings, and the structure that they describe: what sites agree on, and back to a model from it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from decbayes.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.models.core.ascent import Ascent
from decbayes.posterior import Posterior
from decbayes.structure import Structure

Number = int | Literal["auto"]
"""How many components: so many, or as many as a fit finds."""


@dataclass(frozen=True)
class Settings(ABC):
    """The fields of a model; `agreed` is the structure of somebody else's posterior, in the place of their own."""

    ascent: Ascent = field(default=Ascent(), kw_only=True)
    agreed: Structure | None = field(default=None, kw_only=True)

    number: ClassVar[str] = ""
    """The setting that says how many components there are, where a fit can find that: it may then be "auto"."""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        check_kind(Ascent, ascent=self.ascent)

    @abstractmethod
    def agreement(self) -> Structure:
        """The structure that the settings describe. Its `model` holds the name under which the model is registered."""

    @cached_property
    def structure(self) -> Structure:
        """All that sites must agree on before their posteriors can be merged."""
        described = self.agreement()
        if self.agreed is None:
            return described
        if described.description() != self.agreed.description():
            raise StructureMismatch(
                f"The settings describe {described}, but `agreed` is {self.agreed}. They may differ in the prior only; "
                "leave `agreed` out to use the structure that the settings describe."
            )
        return self.agreed

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

    def structure_for(self, posterior: Posterior) -> Structure:
        """The structure that this posterior should have: the model's, of as many components if any number is right."""
        check_kind(Posterior, posterior=posterior)
        return self.structure.with_components(number_of(posterior.structure)) if self.auto else self.structure

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
        """The settings that a structure tells: by default those that are stored beside the model's name."""
        return {name: value for name, value in structure.model.items() if name != "name"}


def number_of(structure: Structure) -> int:
    """How many components there are; 1 where nothing can be relabelled."""
    return structure.components(structure.symmetry[0]) if structure.symmetry else 1
