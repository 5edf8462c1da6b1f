"""Reading a charter's TOML file, and the vocabulary and anchor beside it."""

import hashlib
import os
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from decbayes.base.writing import check_inside
from decbayes.errors import InvalidCharter
from decbayes.files import load
from decbayes.network.protocol.limits import Limits, PrivacyRules, Rules
from decbayes.posterior import Posterior

MOST_CHARTER_BYTES = 16 << 20


class GroupTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    id: str
    protocol: int
    structure: str
    secret: str = ""


class ModelTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    settings: dict[str, Any] = {}


class VocabularyTable(msgspec.Struct, forbid_unknown_fields=True):
    digest: str
    file: str | None = None


class SumsTable(msgspec.Struct, forbid_unknown_fields=True):
    rounds: int
    colluders: int
    most_rows: float
    anchor: str = ""
    file: str = ""


class CharterTables(msgspec.Struct, forbid_unknown_fields=True):
    """The tables of the TOML file; any other is refused."""

    group: GroupTable
    model: ModelTable
    members: dict[str, str]
    limits: Limits = Limits()
    rules: Rules = Rules()
    disclosure: dict[str, Any] | None = None
    vocabulary: VocabularyTable | None = None
    sums: SumsTable | None = None
    privacy: PrivacyRules | None = None


def read_tables(source: Path) -> CharterTables:
    """The tables of a charter file; anything missing, unknown or of another type is refused."""
    if source.stat().st_size > MOST_CHARTER_BYTES:
        raise InvalidCharter(f"{source} has more than {MOST_CHARTER_BYTES:,} bytes; a charter is a small text file.")
    try:
        return msgspec.convert(tomllib.loads(source.read_text(encoding="utf-8")), CharterTables)
    except (UnicodeDecodeError, RecursionError):
        raise InvalidCharter(f"{source} is not a charter. `decbayes charter new` makes one.") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InvalidCharter(f"{source} is not a charter: {error}. `decbayes charter new` makes one.") from None


def words_digest(words: tuple[str, ...]) -> str:
    return hashlib.sha256("".join(f"{word}\n" for word in words).encode()).hexdigest()


def read_words(table: VocabularyTable | None, charter: Path, given: str | os.PathLike[str] | None) -> tuple[str, ...]:
    """The vocabulary, one word per line, checked against the charter's digest."""
    if table is None:
        return ()
    if given is None and table.file is None:
        raise InvalidCharter(f"{charter} names its vocabulary by digest only. Name the file that holds it.")
    source = Path(given) if given is not None else beside(charter, str(table.file))
    words = tuple(source.read_text(encoding="utf-8").split("\n")[:-1])
    if words_digest(words) != table.digest:
        raise InvalidCharter(f"{source} is not the vocabulary that the charter was made with: its digest differs.")
    return words


def beside(charter: Path, name: str) -> Path:
    """A file that a charter names, which must lie beside it: others wrote the charter."""
    if Path(name).name != name:
        raise InvalidCharter(f"{charter} names the file {name!r}, which is not beside it. Copy it there, and name it.")
    return check_inside(charter.parent / name, charter.parent)


def read_anchor(table: SumsTable | None, charter: Path) -> Posterior | None:
    """The posterior whose slots members use for their sums, from the file beside the charter."""
    if table is None or not table.anchor:
        return None
    source = beside(charter, table.file)
    if not source.is_file():
        raise InvalidCharter(f"{charter} names the anchor {table.file}, which is not beside it. Copy both files.")
    anchor = load(source)
    if anchor.digest != table.anchor:
        raise InvalidCharter(f"{source} is not the anchor that the charter was made with: its digest differs.")
    return anchor
