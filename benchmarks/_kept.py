"""Results that are kept in files, so that an interrupted benchmark goes on; those of other code are not used."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import decbayes

Summary = Callable[[Mapping[str, list[Any]]], Iterable[Mapping[str, Any]]]


def kept(folder: Path, name: str, compute: Callable[[], Any]) -> Any:
    """What an earlier run of the same code has found, or what is computed now."""
    path = folder / code() / f"{name}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        found = json.dumps(compute())
        part = path.with_suffix(".part")
        part.write_text(found, encoding="utf-8")
        part.replace(path)
    return json.loads(path.read_text(encoding="utf-8"))


def by_worlds(settings: Iterable[str], worlds: int, world: Callable[[str, int], Any], summary: Summary) -> None:
    """Print what worlds of each setting have in common: every ten of them, and all as one JSON object at the end.

    `world(setting, number)` is pairs of a name and a result; `summary` makes rows of the results by name.
    """
    answer = {}
    for setting in settings:
        results: dict[str, list[Any]] = {}
        for number in range(worlds):
            for name, found in world(setting, number):
                results.setdefault(name, []).append(found)
            if number % 10 == 9 or number == worlds - 1:
                answer[setting] = [*summary(results)]
                for row in answer[setting]:
                    print(setting, *(f"{key} {value}" for key, value in row.items()), flush=True)
    print(json.dumps(answer))


@cache
def code() -> str:
    """A name for all sources of decbayes and of the benchmarks as they are."""
    digest = hashlib.sha256()
    for folder in (Path(decbayes.__file__).parent, Path(__file__).parent):
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.cu")]):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
