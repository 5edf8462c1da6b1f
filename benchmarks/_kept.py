"""Results that are kept in files, so that an interrupted benchmark goes on; those of other code are not used."""

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import decbayes


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


@cache
def code() -> str:
    """A name for all sources of decbayes and of the benchmarks as they are."""
    digest = hashlib.sha256()
    for folder in (Path(decbayes.__file__).parent, Path(__file__).parent):
        for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.cu")]):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
