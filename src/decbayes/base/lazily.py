"""Rooms whose public names are loaded on first use, so that unused code costs no time."""

import sys

TYPE_CHECKING = False  # importing `typing` for it would take longer than everything here

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def exported(
    room: str, files: "Mapping[str, str]", rooms: str = "", further: str = "", extra: str = ""
) -> "tuple[Callable[[str], Any], list[str]]":
    """A room's `__getattr__` and `__all__`, from the names in each file and the rooms within it.

    Names are separated by spaces. A file is ".name" within the room, or a full name elsewhere. `further` rooms can be
    loaded by name but are not listed. `extra` is the extra that everything in the room needs.
    """
    homes = {name: file for file, names in files.items() for name in names.split()}
    homes |= dict.fromkeys([*rooms.split(), *further.split()], "")
    public = sorted({*homes} - {*further.split()})
    # What `dir` shows and editors complete, also before it is loaded.
    sys.modules[room].__dict__["__dir__"] = lambda: public

    def load(name: str) -> "Any":
        from importlib import import_module

        if name not in homes:
            raise AttributeError(f"{room} has no '{name}'; it has {', '.join(public)}.")
        if extra:
            from decbayes.base.extras import require_extra

            require_extra(extra, task=room)
        file = homes[name]
        value = getattr(import_module(file, room), name) if file else import_module(f".{name}", room)
        setattr(sys.modules[room], name, value)
        return value

    return load, public
