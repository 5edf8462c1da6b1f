"""Deviations found by calibration in place of mean field's, and the method."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

import numpy as np

from decbayes.base.arguments import real_array
from decbayes.errors import InvalidPosterior
from decbayes.families import Array, Family
from decbayes.families.matrices import Value

LONGEST_METHOD = 200
QUANTILES = "quantiles"
"""The name of an array of quantiles in files, in place of a quantity's name."""

# Quantiles of skewed quantities are stored at these probabilities: every quarter of a Gaussian's standard deviation.
SIDES = np.linspace(-3.0, 3.0, 25)
PROBABILITIES = np.array([NormalDist().cdf(side) for side in SIDES])


@dataclass(frozen=True, eq=False)
class Calibration:
    """The standard deviation of every entry of a posterior, by factor and quantity, and where it comes from.

    A factor may also have `quantiles`, (probabilities, entries), of what a model derives from it where a deviation does
    not say enough, such as a regression's standard deviations between sites.

    It belongs to one posterior: a merge of calibrated posteriors is not calibrated, and says so.
    """

    method: str
    deviations: Mapping[str, Mapping[str, Array]]
    quantiles: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given: object = self.method
        if not isinstance(given, str) or not given.isprintable() or not 0 < len(given) <= LONGEST_METHOD:
            raise InvalidPosterior("A calibration needs one line of text that says where its deviations come from.")
        frozen = {
            factor: MappingProxyType({name: read_only(values) for name, values in parts.items()})
            for factor, parts in sorted(self.deviations.items())
        }
        object.__setattr__(self, "deviations", MappingProxyType(frozen))
        quantiles = {factor: read_only(values) for factor, values in sorted(self.quantiles.items())}
        object.__setattr__(self, "quantiles", MappingProxyType(quantiles))
        for values in quantiles.values():
            if values.ndim != 2 or len(values) != len(SIDES) or not (np.diff(values, axis=0) >= 0.0).all():
                raise InvalidPosterior(f"Quantiles of a calibration are {len(SIDES)} rows of rising numbers.")

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only views cannot be pickled.
        deviations = {factor: dict(parts) for factor, parts in self.deviations.items()}
        return Calibration, (self.method, deviations, dict(self.quantiles))

    def check(self, factor: str, means: Mapping[str, Array]) -> None:
        """Refuse deviations that do not match the means' entries, or are negative or NaN."""
        expected = {name: np.shape(part) for name, part in means.items()}
        shapes = {name: part.shape for name, part in self.deviations.get(factor, {}).items()}
        if expected != shapes:
            raise InvalidPosterior(f"The calibration of '{factor}' has the shapes {shapes}, its mean has {expected}.")
        if not all((part >= 0.0).all() for part in self.deviations[factor].values()):
            raise InvalidPosterior(f"The calibration of '{factor}' holds deviations below zero, or NaN.")

    def deviation(self, factor: str, family: Family) -> Value:
        """A factor's deviations in the family's format."""
        return family.of_quantities(self.deviations[factor])

    def stretch(self, factor: str, family: Family, natural: Array) -> Value:
        """Each entry's width relative to the family's; 1 where the family has no deviation to compare with."""
        plain = family.quantities(family.deviation(natural))
        return family.of_quantities({name: ratio(wide, plain[name]) for name, wide in self.deviations[factor].items()})

    def quantile(self, factor: str, probability: float) -> Array:
        """(entries,): a quantile of a factor that has quantiles."""
        side = NormalDist().inv_cdf(probability)
        return np.array([np.interp(side, SIDES, column) for column in self.quantiles[factor].T])

    def arrays(self) -> dict[str, Array]:
        """All deviations and quantiles by the names of their arrays in files."""
        deviations = {
            f"calibration/{factor}/{name}": values
            for factor, parts in self.deviations.items()
            for name, values in parts.items()
        }
        return deviations | {f"calibration/{factor}/{QUANTILES}": values for factor, values in self.quantiles.items()}

    @classmethod
    def of_arrays(cls, method: str, arrays: Mapping[str, Any]) -> "Calibration":
        """The inverse of `arrays`."""
        deviations: dict[str, dict[str, Any]] = {}
        quantiles: dict[str, Any] = {}
        for path, values in arrays.items():
            _, factor, name = path.split("/")
            if name == QUANTILES:
                quantiles[factor] = values
            else:
                deviations.setdefault(factor, {})[name] = values
        return cls(method, deviations, quantiles)


def ratio(wide: Array, plain: Array) -> Array:
    comparable = (plain > 0.0) & (plain < np.inf) & (wide > 0.0) & (wide < np.inf)
    return np.divide(wide, plain, out=np.ones(wide.shape), where=comparable)


def read_only(values: Any) -> Array:
    array = np.array(real_array(values), dtype=np.float64)
    array.flags.writeable = False
    return array
