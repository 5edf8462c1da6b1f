"""Registries: things by name, shipped with the package, registered by users, or offered by other packages."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

Thing = TypeVar("Thing")


class Registry(Mapping[str, Thing]):
    """All things of one kind by name, each loaded on access.

    `shipped` has the package's own as "module:name". `name_of` checks a thing that somebody registers and returns its
    name. `group` is the group of entry points by which installed packages offer theirs.
    """

    def __init__(self, shipped: Mapping[str, str], name_of: Callable[[Any], str], group: str = "") -> None:
        self.shipped, self.name_of, self.group = shipped, name_of, group
        self.registered: dict[str, Thing] = {}

    def add(self, thing: Thing) -> None:
        self.registered[self.name_of(thing)] = thing

    def offered(self) -> Mapping[str, Any]:
        """The entry points of installed packages by name."""
        return points_of(self.group) if self.group else {}

    def __getitem__(self, name: str) -> Thing:
        if name in self.shipped:
            module, _, attribute = self.shipped[name].partition(":")
            thing: Thing = getattr(import_module(module), attribute)
            return thing
        if name not in self.registered and name in (offered := self.offered()):
            self.add(offered[name].load())
        return self.registered[name]

    def __contains__(self, name: object) -> bool:
        return name in self.shipped or name in self.registered or name in self.offered()

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*self.shipped, *self.registered, *self.offered()])

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def points_of(group: str) -> Mapping[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}
