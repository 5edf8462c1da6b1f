"""Changes that no test can notice, each with its reason, in `equivalents.toml`."""

from __future__ import annotations

import keyword
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from generator import Mutant

KNOWN: list[dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["equivalent"]
# Names that a function may give as it likes: neither attributes, nor functions, nor keywords of calls.
LOCAL = re.compile(r"(?<![\w.\"'])[a-z_]\w*(?![\w(]|=(?!=))")


def meant(entry: dict[str, str], changes: Iterable[Mutant]) -> list[Mutant]:
    """Of the changes of a file those that an entry is about: a function's change, or a statement with all its changes
    of one `kind`. If locals have been renamed since, the statement that is the same but for their names."""
    names = [name for name in ("file", "function", "kind", "old", "change") if name in entry]
    changes = [change for change in changes if all(form(entry, name) == form(change, name) for name in names)]
    exact = [change for change in changes if all(entry[name] == getattr(change, name) for name in names)]
    return exact or (changes if len({change.old for change in changes}) == 1 else [])


def form(holder: Mutant | dict[str, str], name: str) -> str:
    """A text with locals numbered in their order, in place of their names."""
    text = holder[name] if isinstance(holder, dict) else getattr(holder, name)
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        word = found[0]
        return word if keyword.iskeyword(word) or word == "self" else numbers.setdefault(word, f"${len(numbers)}")

    return LOCAL.sub(number, text) if name in ("old", "change") else text


def equivalents(everything: dict[str, list[Mutant]]) -> set[str]:
    """Their keys."""
    return {change.key for entry in KNOWN for change in meant(entry, everything.get(entry["file"], ()))}
