"""Disclosure rules: the smallest groups of persons that a file may describe."""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from decbayes.base.arguments import is_number
from decbayes.errors import InvalidRules

# The rules for which a larger number is looser.
LOOSER_IF_LARGER = frozenset({"most_levels"})


@dataclass(frozen=True)
class Rules:
    """What may leave a site. The defaults are safe; a site may only tighten the rules of its group.

    Args:
        least_cell: the fewest persons behind any count: a category, a component, the difference of two releases.
        least_outcome: the fewest persons of one category with the same yes/no outcome of a regression.
        least_observations: the fewest persons, documents or sequences behind a file.
        least_documents: the fewest documents with a word that the file describes.
        rows_per_coefficient: the fewest rows per coefficient of a regression.
        most_levels: the most categories of a column.
        rows_per_level: the fewest rows per category of a column.
        approval: whether a file must have been released, see `release`.

    >>> db.disclosure.Rules(least_cell=10).looser_than(db.disclosure.Rules())
    []
    >>> db.disclosure.Rules(least_cell=3).looser_than(db.disclosure.Rules())
    ['least_cell']
    """

    least_cell: int = 5
    least_outcome: int = 2
    least_observations: int = 20
    least_documents: int = 5
    rows_per_coefficient: float = 3.0
    most_levels: int = 40
    rows_per_level: float = 3.0
    approval: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in (bool, "bool"):
                proper = isinstance(value, bool)
            else:
                proper = is_number(value) and value >= 1 and (field.type is not int or float(value).is_integer())
            if not proper:
                wanted = "true or false" if field.type is bool else "a number from 1 on"
                raise InvalidRules(f"{field.name} must be {wanted}, not {value!r}.")
            if field.type is int:
                object.__setattr__(self, field.name, int(value))
        if self.least_outcome > self.least_cell:
            raise InvalidRules("least_outcome cannot exceed least_cell: persons with an outcome are part of the cell.")
        if self.least_observations < self.least_cell:
            raise InvalidRules(
                f"least_observations ({self.least_observations}) cannot be below least_cell ({self.least_cell}): a "
                f"file would be a small cell itself. Set least_observations to {self.least_cell} or more."
            )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Rules":
        """Rules from plain values, as `plain` gives them; missing ones have their defaults."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise InvalidRules(f"There is no rule '{unknown[0]}'; there are {', '.join(sorted(known))}.")
        return cls(**values)

    @classmethod
    def load(cls, path: Path) -> "Rules":
        """Rules from a TOML file, such as `least_cell = 10`."""
        try:
            return cls.of(tomllib.loads(path.read_text(encoding="utf-8")))
        except (ValueError, InvalidRules) as error:
            raise InvalidRules(f"{path} does not hold disclosure rules: {error}") from None

    def plain(self) -> dict[str, Any]:
        """The rules as plain values, for files and charters."""
        return asdict(self)

    def looser_than(self, other: "Rules") -> list[str]:
        """The names of rules that allow more than the other ones."""
        return [field.name for field in fields(self) if self._looseness(field.name) > other._looseness(field.name)]

    def tightened(self, other: "Rules") -> "Rules":
        """The stricter of both, rule by rule."""
        return replace(self, **{name: getattr(other, name) for name in self.looser_than(other)})

    def loosened(self, other: "Rules") -> "Rules":
        """The looser of both, rule by rule: what anything that obeys either one also obeys."""
        return replace(self, **{name: getattr(other, name) for name in other.looser_than(self)})

    def _looseness(self, name: str) -> float:
        value = float(getattr(self, name))
        return value if name in LOOSER_IF_LARGER else -value
