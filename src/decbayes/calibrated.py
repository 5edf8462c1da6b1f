"""Deviations that do not come from mean field: what calibration has found, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from decbayes.arguments import real_array
from decbayes.errors import InvalidPosterior
from decbayes.families import Array, Family
from decbayes.families.matrices import Value

LONGEST_METHOD = 200


@dataclass(frozen=True, eq=False)
class Calibration:
    """The standard deviation of every entry of a posterior, by factor and quantity, and where it comes from.

    It belongs to one posterior: a merge of calibrated posteriors is not calibrated, and says so.
    """

    method: str
    deviations: Mapping[str, Mapping[str, Array]]

    def __post_init__(self) -> None:
        given: object = self.method
        if not isinstance(given, str) or not given.isprintable() or not 0 < len(given) <= LONGEST_METHOD:
            raise InvalidPosterior("A calibration says in a line of text where its deviations come from.")
        frozen = {
            factor: MappingProxyType({name: read_only(values) for name, values in parts.items()})
            for factor, parts in sorted(self.deviations.items())
        }
        object.__setattr__(self, "deviations", MappingProxyType(frozen))

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only views cannot be pickled.
        return Calibration, (self.method, {factor: dict(parts) for factor, parts in self.deviations.items()})

    def check(self, factor: str, means: Mapping[str, Array]) -> None:
        """Refuse deviations that are not one for each entry of the means, or not deviations."""
        expected = {name: np.shape(part) for name, part in means.items()}
        shapes = {name: part.shape for name, part in self.deviations.get(factor, {}).items()}
        if expected != shapes:
            raise InvalidPosterior(f"The calibration of '{factor}' has the shapes {shapes}, its mean has {expected}.")
        if not all((part >= 0.0).all() for part in self.deviations[factor].values()):
            raise InvalidPosterior(f"The calibration of '{factor}' holds deviations below zero, or NaN.")

    def deviation(self, factor: str, family: Family) -> Value:
        """The deviations of a factor, as the family has them."""
        return family.of_quantities(self.deviations[factor])

    def stretch(self, factor: str, family: Family, natural: Array) -> Value:
        """How many times wider each entry is than the family says; 1 where that has no deviation to compare with."""
        plain = family.quantities(family.deviation(natural))
        return family.of_quantities(
            {name: ratio(wide, plain[name]) for name, wide in self.deviations[factor].items()},
        )

    def arrays(self) -> dict[str, Array]:
        """All deviations by the names that they have in files."""
        return {
            f"calibration/{factor}/{name}": values
            for factor, parts in self.deviations.items()
            for name, values in parts.items()
        }

    @classmethod
    def of_arrays(cls, method: str, arrays: Mapping[str, Any]) -> "Calibration":
        """What `arrays` gave."""
        deviations: dict[str, dict[str, Any]] = {}
        for path, values in arrays.items():
            _, factor, name = path.split("/")
            deviations.setdefault(factor, {})[name] = values
        return cls(method, deviations)


def ratio(wide: Array, plain: Array) -> Array:
    comparable = (plain > 0.0) & (plain < np.inf) & (wide > 0.0) & (wide < np.inf)
    return np.divide(wide, plain, out=np.ones(wide.shape), where=comparable)


def read_only(values: Any) -> Array:
    array = np.array(real_array(values), dtype=np.float64)
    array.flags.writeable = False
    return array
