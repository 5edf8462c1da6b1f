"""Observations from files: tables, arrays and sparse counts, by file name extension.

Messages say where in a file something is wrong, and never quote it: it is somebody's data.
"""

import csv
import gzip
import lzma
import re
import warnings
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO
from zipfile import BadZipFile

import numpy as np
from scipy.sparse import csr_array, issparse

from decbayes.base.arguments import check_all_named, columns_listed
from decbayes.base.extras import require
from decbayes.errors import InvalidData
from decbayes.inputs._bounds import OPENERS, check_archive, check_array, check_market, check_parquet, check_unpacking

# What readers raise if a file is damaged, or is not what its name says.
DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    RecursionError,
    BadZipFile,
    NotImplementedError,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    csv.Error,
)
# Their libraries do not decompress these, and their errors are about the format, not about the contents.
BINARY = ("parquet", "npy", "npz")
# A cell may be a text; by default the csv module refuses long cells.
LONGEST_CELL = 1 << 30
# Formats that are not read, and what unpacks them.
UNPACKING = {".zst": "zstd -d", ".zip": "unzip", ".tar": "tar -xf", ".tgz": "tar -xf", ".7z": "7z x"}

Report = Callable[[str], None]
"""Called with what a user should know about a reading, such as how many words were left out."""


class WideText(InvalidData):
    """A file has zero bytes, as texts in UTF-16 without its mark have."""


class RowsLeftOut(str):
    """A report of rows that were left out: a sentence, their number and the reason."""

    rows: int
    reason: str

    def __new__(cls, text: str, rows: int, reason: str) -> "RowsLeftOut":
        left_out = super().__new__(cls, text)
        left_out.rows, left_out.reason = rows, reason
        return left_out


@dataclass(frozen=True)
class Observations:
    """Rows of numbers, dense or sparse, and the names of the columns if the file has them."""

    values: Any
    columns: tuple[str, ...] = ()


def ending(path: Path) -> str:
    """The type of a file by its name, "csv" for data.CSV.gz; empty if the name does not say."""
    name = path.stem if is_compressed(path) else path.name
    return Path(name).suffix.lower().removeprefix(".")


def is_compressed(path: Path) -> bool:
    return path.suffix.lower() in OPENERS


def check_unpacked(path: Path) -> None:
    """Refuse archives, and unsupported compression."""
    kind = f".{ending(path)}"
    if kind in UNPACKING and not path.is_dir():
        raise InvalidData(
            f"{path}: {kind} files are not read. Unpack it first ({UNPACKING[kind]}); .gz, .bz2 and .xz are read as "
            "they are."
        )


def read_table(path: Path, columns: Sequence[str] = ()) -> Observations:
    """The numbers of a CSV, Parquet, NumPy or MatrixMarket file, or those of the named columns."""
    check_unpacked(path)
    suffix = ending(path)
    if path.is_dir():
        raise InvalidData(f"{path} is a folder; name one file with the data.")
    size = path.stat().st_size  # report a missing file as missing
    if suffix not in READERS:
        unknown = f"that end in .{suffix}" if suffix else "without an ending"
        raise InvalidData(f"{path}: files {unknown} are not supported; supported are .{', .'.join(READERS)}.")
    if not size:
        raise InvalidData(f"{path} is empty.")
    if is_compressed(path) and suffix in BINARY:
        raise InvalidData(f"{path}: compressed .{suffix} files are not supported; decompress it with gunzip first.")
    with reading(path, f".{suffix}"):
        return READERS[suffix](path, columns)


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Prefix errors with the name of the file."""
    try:
        yield
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        raise InvalidData(
            f"{path}: not UTF-8 text ({error.reason} at byte {error.start}). Save it as 'CSV UTF-8', or convert it: "
            "iconv -f WINDOWS-1252 -t UTF-8."
        ) from None
    except DAMAGE as error:
        # For pickled objects, NumPy would explain how to run what is in the file.
        cause = f" ({error})" if kind.removeprefix(".") in BINARY and "pickle" not in str(error) else ""
        if is_compressed(path):
            cause = f": it is not a complete {path.suffix.lower()} file. It may have been cut off; copy it again"
        raise InvalidData(f"{path}: not a readable {kind} file{cause}.") from None


def read_csv(path: Path, columns: Sequence[str]) -> Observations:
    rows = list(csv_rows(path))
    if not rows:
        raise InvalidData("it holds only blank lines.")
    first = [cell.strip() for cell in rows[0]]
    named, kept, chosen = named_columns(first, columns)
    cells = [[row[place] for place in kept] for row in same_width(rows, len(first))]
    return Observations(numbers(cells[named:], chosen), chosen)


def csv_rows(path: Path, encoding: str = "utf-8", errors: str = "strict") -> Iterator[list[str]]:
    """Rows that are not blank, with the delimiter of the first line.

    Spreadsheets that separate cells by semicolons write decimal commas, and some begin with a line such as `sep=;`.
    """
    limit = csv.field_size_limit(LONGEST_CELL)
    try:
        with opened(path, encoding, errors) as file:
            delimiter = delimiter_of(file)
            rows = filter(None, csv.reader(file, delimiter=delimiter))
            yield from (list(map(with_point, row)) for row in rows) if delimiter == ";" else rows
    finally:
        csv.field_size_limit(limit)


def delimiter_of(file: TextIO) -> str:
    """The delimiter, by the first line of a file that has just been opened; a line `sep=;` is skipped."""
    first = file.readline()
    if SEPARATOR_LINE.fullmatch(first.strip("\r\n")):
        return first[4]
    file.seek(0)
    bare = QUOTED.sub("", first)
    decimals = all(is_number(with_point(cell)) for cell in first.split(";"))
    return "\t" if "\t" in bare else ";" if bare.count(";") > bare.count(",") or (";" in bare and decimals) else ","


def with_point(cell: str) -> str:
    """A number with a decimal point in place of a decimal comma."""
    return cell.replace(".", "").replace(",", ".") if DECIMAL_COMMA.fullmatch(cell.strip()) else cell


QUOTED = re.compile(r'"[^"]*"')
SEPARATOR_LINE = re.compile(r"sep=[,;\t]", re.IGNORECASE)
DECIMAL_COMMA = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+")


def named_columns(first: Sequence[str], columns: Sequence[str]) -> tuple[bool, Sequence[int], tuple[str, ...]]:
    """Whether a first line names columns, the positions of the selected ones, and their names."""
    names = () if all(map(is_number, first)) else tuple(first)
    check_names(names)
    kept = places(names, columns) if columns else range(len(first))
    chosen = tuple(names[place] for place in kept) if names else ()
    if any(names.count(name) > 1 for name in chosen):
        raise InvalidData("two of its columns have the same name.")
    check_all_named(chosen)
    return bool(names), kept, chosen


def check_names(names: Sequence[str]) -> None:
    """Refuse a first line that holds numbers: it is a row of data, and data must not become column names.

    Names may be numbered: 0, 1, two in sequence, or more in equal steps, such as years.
    """
    numbers = [float(name) for name in names if name.lower() != "nan" and is_number(name)]
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    numbered = not steps - {1.0} and (len(numbers) > 1 or numbers in ([0.0], [1.0]))
    if numbers and not (numbered or (len(numbers) > 2 and len(steps) == 1 and min(steps) >= 1.0)):
        raise InvalidData("its first line holds numbers: a table begins with the names of its columns.")


def places(names: Sequence[str], columns: Sequence[str], advice: str = "") -> list[int]:
    unknown = [name for name in columns if name not in names]
    if unknown:
        if any(name.endswith(".columns") for name in unknown):
            advice = " Models of tables and regressions take a list of agreed columns with --agreed-columns."
        lacks = f"there {'is no column' if len(unknown) == 1 else 'are no columns'} {', '.join(unknown)}"
        raise InvalidData(f"{lacks}; the columns are {columns_listed(names)}.{advice}")
    return [list(names).index(name) for name in columns]


def same_width(rows: list[list[str]], width: int, before: int = 0) -> list[list[str]]:
    """The rows, if all have `width` cells; `before` is the number of rows before them."""
    for number, row in enumerate(rows, start=before + 1):
        if len(row) != width:
            raise InvalidData(f"row {number} has {len(row)} columns, the first has {width}.")
    return rows


WITHOUT_VALUES = "Leave it out at all sites (--columns), or fit a model that takes missing values, such as classes."


def numbers(cells: list[list[str]], names: Sequence[str], before: int = 0) -> Any:
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        row, column = next((i, j) for i, line in enumerate(cells) for j, cell in enumerate(line) if not is_number(cell))
        where = f"'{names[column]}'" if names else f"number {column}"
        if not any(line[column].strip() for line in cells):
            rows = f"{before} to {before + len(cells) - 1}"
            raise InvalidData(f"column {where} is empty in observations {rows}. {WITHOUT_VALUES}") from None
        raise InvalidData(
            f"column {where} is not a number in observation {before + row}. Fill in missing values, or choose the "
            "columns to use (--columns)."
        ) from None


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def read_parquet(path: Path, columns: Sequence[str]) -> Observations:
    table = parquet_table(path)
    kept = places(table.column_names, columns) if columns else range(table.num_columns)
    names = tuple(table.column_names[place] for place in kept)
    parts = [table.column(place).to_numpy() for place in kept]
    check_numeric(names, parts)
    return Observations(np.column_stack([part.astype(np.float64) for part in parts]), names)


def parquet_table(path: Path) -> Any:
    """A whole Parquet file, if it is within the limit."""
    parquet = require("pyarrow.parquet", extra="parquet", task="Reading Parquet files")
    arrow = require("pyarrow", extra="parquet", task="Reading Parquet files")
    try:
        check_parquet(path, parquet.read_metadata(path))
        return parquet.read_table(path)
    except (arrow.ArrowInvalid, arrow.ArrowException) as error:
        raise InvalidData(f"not a Parquet file ({error}).") from None


def check_numeric(names: Sequence[str], parts: Sequence[Any]) -> None:
    wrong = [name for name, part in zip(names, parts, strict=True) if part.dtype.kind not in "buif"]
    if wrong:
        raise InvalidData(f"the columns {', '.join(wrong)} are not numbers. Choose others (--columns).")


def read_array(path: Path, columns: Sequence[str]) -> Observations:
    places((), columns)
    check_array(path)
    return Observations(np.load(path, allow_pickle=False))


def read_arrays(path: Path, columns: Sequence[str]) -> Observations:
    """One dense array, or the parts of a CSR matrix, with the words of a `vocab` if there is one."""
    places((), columns)
    check_archive(path)
    with np.load(path, allow_pickle=False) as stored:
        names = tuple(map(str, stored["vocab"])) if "vocab" in stored else ()
        if "indptr" in stored:
            if "format" in stored:
                check_csr(stored["format"])
            parts = stored["data"], stored["indices"], stored["indptr"]
            return Observations(csr_array(parts, shape=tuple(stored["shape"])), names)
        arrays = [name for name in stored.files if name != "vocab"]
        if len(arrays) != 1:
            raise InvalidData(
                f"it holds {len(arrays)} arrays ({', '.join(arrays)}); one, or a sparse matrix, is expected."
            )
        return Observations(stored[arrays[0]], names)


def check_csr(kind: Any) -> None:
    if bytes(kind.item()).decode() != "csr":
        raise InvalidData("the sparse matrix is not in CSR form; save matrix.tocsr().")


def read_market(path: Path, columns: Sequence[str]) -> Observations:
    from scipy.io import mmread

    places((), columns)
    with opened(path) as text:
        market_size(path, text)
    with warnings.catch_warnings():
        # Which of its two matrix types mmread returns does not matter here.
        warnings.simplefilter("ignore", DeprecationWarning)
        matrix = mmread(path)
    return Observations(csr_array(matrix) if issparse(matrix) else matrix)


def market_size(path: Path, lines: Iterable[str]) -> tuple[list[str], list[int]]:
    """The words of a MatrixMarket file's first line and the sizes that it claims, if it has room for them."""
    lines = iter(lines)
    words = next(lines, "").lower().split()
    sizes = next((line for line in lines if line.strip() and not line.startswith("%")), "")
    check_market(path, sizes, words)
    return words, [int(size) for size in sizes.split()]


READERS: dict[str, Callable[[Path, Sequence[str]], Observations]] = {
    "csv": read_csv,
    "tsv": read_csv,
    "parquet": read_parquet,
    "npy": read_array,
    "npz": read_arrays,
    "mtx": read_market,
}


def has_names(path: Path) -> bool:
    """Whether the file names its columns."""
    return ending(path) == "parquet" or bool(column_names(path))


def column_names(path: Path) -> tuple[str, ...]:
    """The names of a table's columns; none if it does not name them, or is no table."""
    suffix = ending(path)
    if suffix == "parquet":
        return tuple(parquet_table(path).column_names)
    if suffix not in ("csv", "tsv"):
        return ()
    with reading(path, f".{suffix}"):
        first = [cell.strip() for cell in next(csv_rows(path), [])]
    return () if all(map(is_number, first)) else tuple(first)


@contextmanager
def opened(path: Path, encoding: str = "utf-8", errors: str = "strict") -> Iterator[TextIO]:
    """Open a text file, decompressed if its name says so, without a byte-order mark."""
    opener: Callable[..., TextIO] = open
    if is_compressed(path):
        status = path.stat()
        check_unpacking(path.absolute(), status.st_size, status.st_mtime_ns)
        opener = OPENERS[path.suffix.lower()]
    with opener(path, "rt", encoding=marked(path, encoding), errors=errors, newline="") as file:
        yield file


def marked(path: Path, encoding: str) -> str:
    """The encoding, with an optional byte-order mark; the mark of UTF-16 overrides UTF-8."""
    if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
        return encoding
    opener: Callable[..., Any] = OPENERS.get(path.suffix.lower(), open)
    with opener(path, "rb") as file:
        begin = file.read(64)
    if begin[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) and begin[2:4] != b"\0\0":
        return "utf-16"
    if b"\0" in begin:
        raise WideText("not UTF-8 text, but probably UTF-16 or UTF-32; save it as UTF-8")
    return "utf-8-sig"
