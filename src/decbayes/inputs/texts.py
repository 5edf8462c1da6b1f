"""Texts from files of any kind, folders and standard input. Unreadable documents are counted, never quoted."""

import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from decbayes.base.extras import require
from decbayes.base.writing import scratch_folder
from decbayes.errors import InvalidData
from decbayes.inputs._bounds import check_parquet
from decbayes.inputs.tables import WideText, ending, opened, places, reading
from decbayes.inputs.tables import csv_rows as table_rows

STANDARD_INPUT = Path("/dev/stdin")  # by this name on any system; "-" on a command line
STANDARD = "standard input"
FORMATS = ("txt", "jsonl", "ndjson", "csv", "tsv", "parquet")
# Options of text readers; the strings are their help on the command line.
TextColumns = Annotated[str, "Columns of a table that hold the texts, separated by commas; default: text."]
TokenizerName = Annotated[str, "MODULE:FUNCTION that splits a text into words."]
Format = Annotated[str, "File format, whatever the file's name: txt, jsonl, csv or parquet."]
Encoding = Annotated[str, "Encoding of the texts."]
Whole = Annotated[bool, "Treat each .txt file as one document, as in folders."]
Strict = Annotated[bool, "Stop at a line that is not a document instead of skipping it."]
# Places to name; their number is always given.
NAMED_PLACES = 5

UNREADABLE = re.compile("[\ud800-\udfff]")
NOT_UTF8 = "not in this encoding; --encoding sets another one"


class Text(NamedTuple):
    """A document, and its place: its line or row, or its file."""

    place: str
    text: str


@dataclass
class LeftOut:
    """What was read, and what could not be: how often, for which reason, and the first few places."""

    documents: int = 0
    reasons: dict[tuple[str, str], list[Any]] = field(default_factory=lambda: defaultdict(lambda: [0, []]))

    def add(self, source: str, place: str, reason: str) -> None:
        lines = self.reasons[source, reason]
        lines[0] += 1
        if len(lines[1]) < NAMED_PLACES:
            lines[1].append(place)

    def __iter__(self) -> Iterator[str]:
        """One sentence for each file and reason."""
        for (source, reason), (count, seen) in self.reasons.items():
            more = ", …" if count > len(seen) else ""
            yield f"{source}: {count:,} left out ({', '.join(seen)}{more}): {reason}."


@dataclass(frozen=True)
class Texts:
    """Where a site's texts are, and how to read files.

    In a table the texts are in the `columns` (default: `text`), joined if there are several. A .txt file has one
    document per line; in a folder, or if `whole` is true, it is one document. `format` is for files whose names do
    not show it: "txt", "jsonl", "csv", "parquet". Unreadable documents are left out, or refused if `strict`.
    """

    paths: tuple[Path, ...]
    columns: tuple[str, ...] = ()
    format: str = ""
    encoding: str = "utf-8"
    whole: bool = False
    strict: bool = False
    numbers: bool = False
    """Whether JSON numbers count as text, too: ids and authors may be numbers."""

    def __post_init__(self) -> None:
        if self.format and self.format not in FORMATS:
            raise InvalidData(f"There is no format {self.format}; files are {', '.join(FORMATS)}.")
        try:
            "".encode(self.encoding)
        except LookupError:
            raise InvalidData(f"There is no encoding {self.encoding}; try utf-8, utf-16, cp1252 or latin-1.") from None

    def read(self, left_out: LeftOut) -> Iterator[Text]:
        """All readable documents in order; problems with others go to `left_out`."""
        for path, whole in self.files(left_out):
            alone = self.paths == (path,)
            for place, text, reason in self._documents(path, whole):
                if not reason and not text.isascii() and UNREADABLE.search(text):
                    reason = NOT_UTF8
                if not reason:
                    left_out.documents += 1
                    yield Text(place if alone else f"{path}:{place}".rstrip(":"), text)
                elif self.strict:
                    raise InvalidData(f"{display_name(path)}: {place or 'it'}: {reason}.")
                else:
                    left_out.add(display_name(path), place or "the whole file", reason)
        if not left_out.documents:
            names, why = ", ".join(map(display_name, self.paths)), "".join(f" {line}" for line in left_out)
            raise InvalidData(f"{names} holds no documents.{why}")

    def files(self, left_out: LeftOut) -> Iterator[tuple[Path, bool]]:
        """Each file, and whether it is one document; folders in the order of their names."""
        for path in self.paths:
            if not path.is_dir():
                yield path, self.whole
                continue
            for file in sorted(path.rglob("*")):
                if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
                    if not file.resolve().is_relative_to(path.resolve()):
                        left_out.add(str(path), file.name, "links that lead out of the folder; name their targets")
                    elif self.kind(file) in FORMATS:
                        yield file, self.kind(file) == "txt"
                    else:
                        left_out.add(str(path), file.name, "files whose names are not those of texts; see --format")

    def kind(self, path: Path) -> str:
        return self.format or ending(path)

    def _documents(self, path: Path, whole: bool) -> Iterator[tuple[str, str, str]]:
        """The place of each document, its text, and what is wrong with it, if anything."""
        kind = self.kind(path)
        if kind not in FORMATS and path.stat():  # report a missing file as missing
            raise InvalidData(
                f"{path}: texts are in .{', .'.join(FORMATS)} files. --format sets the format of other files."
            )
        with reading(path, "text" if kind in ("txt", "jsonl", "ndjson") else f".{kind}"):
            try:
                if whole and kind == "txt":
                    with opened(path, self.encoding, "surrogateescape") as file:
                        yield "", file.read(), ""
                else:
                    yield from READERS[kind](self, path)
            except WideText as error:
                yield "", "", str(error)


def lines(source: Texts, path: Path) -> Iterator[tuple[str, str, str]]:
    with opened(path, source.encoding, "surrogateescape") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield str(number), line, ""


def json_lines(source: Texts, path: Path) -> Iterator[tuple[str, str, str]]:
    wanted = source.columns or ("text",)
    wrong = f"neither a string nor an object with a string as its {' or '.join(map(repr, wanted))}"
    for number, line, _ in lines(source, path):
        text = text_of(line, wanted, numbers=source.numbers)
        yield (f"line {number}", "", wrong) if text is None else (number, text, "")


def text_of(line: str, columns: Sequence[str], *, numbers: bool = False) -> str | None:
    """The text of a JSON line; an object whose text is null is an empty document."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and len(columns) == 1 and isinstance(only := value.get(columns[0]), str):
        return only
    parts = [value[name] for name in columns if name in value] if isinstance(value, dict) else []
    if numbers:
        parts = [str(part) if isinstance(part, int | float) else part for part in parts]
    if not parts or not all(part is None or isinstance(part, str) for part in parts):
        return None
    return "\n".join(filter(None, parts))


def csv_rows(source: Texts, path: Path) -> Iterator[tuple[str, str, str]]:
    """Rows are counted from 1, without the header."""
    rows = table_rows(path, source.encoding, "surrogateescape")
    names = [cell.strip() for cell in next(rows, [])]
    kept = text_columns(names, source.columns)
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            yield f"row {number}", "", "another number of cells than the first line"
        else:
            yield str(number), "\n".join(filter(None, (row[place] for place in kept))), ""


def parquet_rows(source: Texts, path: Path) -> Iterator[tuple[str, str, str]]:
    parquet = require("pyarrow.parquet", extra="parquet", task="Reading Parquet files")
    # With buffering, the whole file would end up in memory.
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        check_parquet(path, file.metadata)
        names = file.schema_arrow.names
        chosen = [names[place] for place in text_columns(names, source.columns)]
        number = 0
        for batch in file.iter_batches(1 << 12, columns=chosen):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number += 1
                fits = all(cell is None or isinstance(cell, str) for cell in row)
                text = "\n".join(filter(None, row)) if fits else ""
                yield (str(number), text, "") if fits else (f"row {number}", "", "not a string")


def text_columns(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    return places(names, wanted or ("text",), " --columns names those with the texts.")


READERS: dict[str, Callable[[Texts, Path], Iterator[tuple[str, str, str]]]] = {
    "txt": lines,
    "jsonl": json_lines,
    "ndjson": json_lines,
    "csv": csv_rows,
    "tsv": csv_rows,
    "parquet": parquet_rows,
}


def display_name(path: Path) -> str:
    """The name of a file in messages; for standard input not that of its temporary copy."""
    return path.stem if path.stem == STANDARD else str(path)


class StandardInput:
    """Standard input as a file, since texts may be read twice; it is deleted when no longer referenced."""

    def __init__(self, format: str) -> None:
        if sys.stdin is None:
            raise InvalidData("standard input is closed.")
        self.path = scratch_folder(self) / f"{STANDARD}.{format or 'txt'}"
        with self.path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)


def without_standard_input(texts: Texts) -> tuple[Texts, StandardInput | None]:
    """The same texts, with standard input replaced by a copy."""
    if STANDARD_INPUT not in texts.paths:
        return texts, None
    copied = StandardInput(texts.format)
    return replace(texts, paths=tuple(copied.path if path == STANDARD_INPUT else path for path in texts.paths)), copied
