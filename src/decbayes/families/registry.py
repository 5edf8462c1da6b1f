"""Families by name: those that files may hold."""

from collections.abc import Mapping
from types import MappingProxyType

from decbayes.families.family import Family

_families: dict[str, Family] = {}

FAMILIES: Mapping[str, Family] = MappingProxyType(_families)
"""Every registered family by its name."""


def register(family: Family) -> None:
    """Make a family known by its name, so that posteriors of it can be saved and read.

    Whoever reads such a file must have registered the same family. A name belongs to one class for good.
    """
    if not isinstance(family, Family):
        raise TypeError(f"register takes a family, such as Gamma(), not {family!r}.")
    known = FAMILIES.get(family.name, family)
    if origin(known) != origin(family):
        raise ValueError(f"There is already a family {family.name}, of {origin(known)[0]}. Choose another name.")
    _families[family.name] = family


def registered(name: str) -> Family:
    """The family of that name."""
    if name not in FAMILIES:
        raise ValueError(f"the family {name!r} is not registered here; call `decbayes.families.register` first")
    return FAMILIES[name]


def origin(family: Family) -> tuple[str, str]:
    """Where a family's class was defined: a cell of a notebook may be run again."""
    return type(family).__module__, type(family).__qualname__
