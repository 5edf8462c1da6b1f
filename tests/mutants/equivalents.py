"""Changes that no test can notice, each with its reason, in `equivalents.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from generator import Mutant

KNOWN: list[dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["equivalent"]


def matches(entry: dict[str, str], mutant: Mutant) -> bool:
    """An entry names a file, a function and the change, or the old statement with all its changes of one `kind`."""
    names = [name for name in ("file", "function", "kind", "old", "change") if name in entry]
    return all(entry[name] == getattr(mutant, name) for name in names)


def is_equivalent(mutant: Mutant) -> bool:
    return any(matches(entry, mutant) for entry in KNOWN)
