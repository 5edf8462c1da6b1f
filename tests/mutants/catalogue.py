"""The list of mutants: small changes of the source, each of which some test must notice."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
SOURCE = Path("src/decbayes")


@dataclass(frozen=True)
class Mutant:
    """One change: `old` occurs once in `file` (of src/decbayes); `tests` (of tests/) must fail when it is `new`."""

    area: str
    name: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]

    @property
    def path(self) -> Path:
        return SOURCE / self.file

    def applied(self, text: str) -> str:
        """The text of the file with the change; ValueError where the list no longer fits the source."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.area}/{self.name}: the old text occurs {found} times in {self.path}, not once.")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Patched:
    """Mutants that a test makes by itself, in its own process: it passes where one is noticed."""

    area: str
    test: str


def areas() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def mutants(area: str) -> Iterator[Mutant]:
    """The mutants of one file, families.toml say; `tests` that it names at its top are those of all its mutants."""
    content = read(area)
    for entry in content.get("mutant", ()):
        tests = entry.pop("tests", content.get("tests", ()))
        yield Mutant(area=area, tests=tuple(tests), **entry)


def patched(area: str) -> list[Patched]:
    return [Patched(area, test) for test in read(area).get("patched", ())]


def read(area: str) -> dict:
    return tomllib.loads((FOLDER / f"{area}.toml").read_text(encoding="utf-8"))
