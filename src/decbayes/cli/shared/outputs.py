"""Where results go: outputs are checked before the work begins; rows are written as CSV or Parquet."""

import gzip
import os
import re
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any, Protocol, cast

import numpy as np
from cyclopts import Parameter
from cyclopts.types import PositiveInt
from numpy.typing import NDArray

from decbayes.base.extras import require, require_extra
from decbayes.base.writing import check_file, check_writable
from decbayes.cli.shared.running import FULL, WrongArgument
from decbayes.cli.shared.standard_streams import STANDARD_OUTPUT
from decbayes.errors import DecbayesError
from decbayes.families import Array
from decbayes.inputs.tables import ending, is_number

DPI = 200
Dpi = Annotated[PositiveInt, Parameter(help="Dots per inch of pictures: 300 for a paper, 100 for a message.")]


def output_option(text: str) -> Parameter:
    """The option --output or -o, with its help."""
    return Parameter(name=["--output", "-o"], help=text)


def check_each_once(paths: Sequence[Path]) -> None:
    """Refuse a file, or a copy of it, that would count twice."""
    by_content: dict[bytes, Path] = {}
    for path in paths:
        other = by_content.setdefault(path.read_bytes(), path)
        if other is not path:
            same = "is given twice" if other == path else f"is the same as {other}"
            raise WrongArgument(f"{path} {same}: give the file of each site once.")


def check_output(output: Path | None, *inputs: Path | None, text: bool = False, as_json: bool = False) -> None:
    """Refuse a file that cannot be written or that this command reads, before work is lost.

    Only `text` may go to standard output.
    """
    if output == STANDARD_OUTPUT and as_json:
        raise WrongArgument("-o - and --json both write to standard output. Give one of them.")
    if output == STANDARD_OUTPUT and sys.stdout is None:
        raise DecbayesError("Standard output is closed. Give the name of a file after -o.")
    if output is None or (text and output == STANDARD_OUTPUT):
        return
    if output == STANDARD_OUTPUT:
        raise DecbayesError("This result is a binary file and cannot be printed. Give a file name after -o.")
    folder = output.parent
    check_file(output)
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise DecbayesError(f"{output} cannot be written: {folder} is not a folder that you can write to.")
    for path in inputs:
        if path is not None and path.exists() and output.exists() and output.samefile(path):
            raise DecbayesError(f"{output} is an input of this command and would be lost. Choose another name.")
    try:
        check_writable(output)
    except OSError as error:
        remedy = "Make room there, or choose another folder" if error.errno in FULL else "Choose another name or folder"
        raise DecbayesError(f"{output} cannot be written: {error.strerror}. {remedy}.") from None


def check_picture(picture: Path | None, *inputs: Path | None) -> None:
    """Check a picture's file as any output, and that it can be drawn."""
    check_output(picture, *inputs)
    if picture is not None:
        require_extra("plot", task="A picture")
        from matplotlib.backend_bases import FigureCanvasBase

        known = FigureCanvasBase.get_supported_filetypes()
        if picture.suffix.lower().removeprefix(".") not in known:
            raise DecbayesError(f"{picture}: pictures are written as .png, .svg or .pdf; choose one of these endings.")


def save_picture(figure: Any, path: Path, dpi: int) -> None:
    try:
        figure.savefig(path, dpi=dpi)
    except ValueError as error:
        raise DecbayesError(f"{path}: {error}") from None


MOST_DIGITS = 6
CHUNK = 1 << 24
SPECIAL = re.compile('[,"\r\n]')
# Spreadsheets run cells that begin with one of these characters. An empty text also passes this test and stays empty.
FORMULA = "=+-@\t\r"


class RowWriter(Protocol):
    """Writes rows: some first columns and a matrix of numbers; `size` tells how much is written."""

    size: int

    def write(self, first: dict[str, Sequence[Any]], names: Sequence[str], values: Array) -> None: ...


def check_rows(path: Path, *further: str) -> None:
    """Refuse a file type that cannot be written, before the work begins."""
    kinds = (".csv", ".csv.gz", ".parquet", *further)
    if path != STANDARD_OUTPUT and not path.name.endswith(kinds):
        endings = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
        raise DecbayesError(f"{path}: rows are written as {endings}; choose one of these endings.")
    if ending(path) == "parquet":
        require_extra("parquet", task="Writing Parquet files")


@contextmanager
def row_writer(
    path: Path, digits: int, *, begun: int = 0, keep: bool = False, formulas: bool = False
) -> Iterator[RowWriter]:
    """Write rows to a file that appears only when complete, or as CSV to standard output.

    CSV cells that a spreadsheet would run become text, unless `formulas`. With `keep`, rows written before an
    interruption stay in a file beside it (`part_of`); `begun` is the size of its valid part, which is copied first.
    """
    if path == STANDARD_OUTPUT:
        sys.stdout.flush()
        yield CsvRows(sys.stdout.buffer, digits, formulas=formulas)
        return
    temporary, started = path.with_name(f".{path.name}.{secrets.token_hex(6)}"), False
    try:
        with open_rows(temporary, path, digits, formulas) as rows:
            if begun:
                rows.copy(part_of(path), begun)
            started = True
            yield rows
        temporary.replace(path)
        part_of(path).unlink(missing_ok=True)
    except KeyboardInterrupt:
        if started and keep:
            temporary.replace(part_of(path))
        raise
    except OSError as error:
        if error.filename is not None or error.errno not in FULL:
            raise
        raise DecbayesError(
            f"{path} cannot be written: {error.strerror}. Make room there, and run the command again."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def part_of(path: Path) -> Path:
    """The file with the rows of an interrupted command."""
    return path.with_name(f"{path.name}.part")


@contextmanager
def open_rows(temporary: Path, path: Path, digits: int, formulas: bool) -> Iterator["CsvRows | ParquetRows"]:
    if ending(path) == "parquet":
        with ParquetRows(temporary) as rows:
            yield rows
    else:
        opener: Any = gzip.open if path.suffix == ".gz" else open
        with opener(temporary, "wb") as file:
            yield CsvRows(file, digits, opener, formulas=formulas)


class CsvRows:
    """Lines of text; the size is in bytes, uncompressed."""

    def __init__(self, file: IO[bytes], digits: int, opener: Any = open, *, formulas: bool = False) -> None:
        self._file, self._digits, self._opener, self.size = file, digits, opener, 0
        self._formulas = formulas

    def write(self, first: dict[str, Sequence[Any]], names: Sequence[str], values: Array) -> None:
        header = "" if self.size else ",".join(cells_of([*first, *names], self._formulas)) + "\n"
        columns = [cells_of(column, self._formulas) for column in first.values()]
        heads = map(",".join, zip(*columns, strict=True))
        lines = number_lines(values, self._digits)
        self._append((header + "".join(chain.from_iterable(zip(heads, lines, strict=True)))).encode())

    def copy(self, source: Path, size: int) -> None:
        with self._opener(source, "rb") as file:
            while self.size < size and (content := file.read(min(CHUNK, size - self.size))):
                self._append(content)

    def _append(self, content: bytes) -> None:
        self._file.write(content)
        self.size += len(content)


def cells_of(column: Sequence[Any], formulas: bool) -> list[str]:
    """The texts of a column, quoted only if any cell needs it."""
    texts = ["" if cell is None else str(cell) for cell in column]
    if not formulas:
        texts = [as_text(text) if text[:1] in FORMULA else text for text in texts]
    return texts if SPECIAL.search("".join(texts)) is None else [*map(quote, texts)]


def as_text(text: str) -> str:
    """Mark a cell as text if a spreadsheet would take it for a formula; numbers stay numbers."""
    return text if not text or is_number(text) else f"'{text}"


def quote(text: str) -> str:
    return f'"{text.replace(chr(34), 2 * chr(34))}"' if SPECIAL.search(text) else text


def number_lines(values: Array, digits: int) -> list[str]:
    """The numbers of each row, each after a comma, and a line end.

    Shares have few distinct texts, so they are looked up, which is ten times as fast as formatting.
    """
    shares = bool(((values >= 0.0) & (values <= 1.0)).all())
    if not shares or digits > MOST_DIGITS:
        return ["".join(f",{number_text(x, digits)}" for x in row) + "\n" for row in values.tolist()]
    table = share_texts(digits)
    width = values.shape[1] * table.dtype.itemsize
    content = table[np.rint(values * 10**digits).astype(np.intp)].tobytes().decode()
    return [content[first : first + width] + "\n" for first in range(0, len(content), width)]


def number_text(value: float, digits: int) -> str:
    return "" if value != value else f"{value:.{digits + 4}g}"


@cache
def share_texts(digits: int) -> NDArray[np.bytes_]:
    """ ",0.0000" to ",1.0000"."""
    whole, point = 10**digits, np.frombuffer(b",0.", dtype=np.uint8)
    numbers = np.arange(whole + 1)
    text = np.empty((whole + 1, digits + 3), dtype=np.uint8)
    text[:, :3] = point
    text[-1, 1] = ord("1")
    for place in range(digits):
        text[:, 3 + place] = ord("0") + numbers // 10 ** (digits - 1 - place) % 10
    return text.view(f"S{digits + 3}").ravel()


class ParquetRows:
    """Numbers are stored in 32 bits, with seven digits; the size is in rows."""

    def __init__(self, path: Path) -> None:
        self._path, self._writer, self.size = path, cast(Any, None), 0
        self._arrow = require("pyarrow", extra="parquet", task="Writing Parquet files")
        self._parquet = require("pyarrow.parquet", extra="parquet", task="Writing Parquet files")

    def __enter__(self) -> "ParquetRows":
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, first: dict[str, Sequence[Any]], names: Sequence[str], values: Array) -> None:
        numbers = dict(zip(names, np.ascontiguousarray(values.T, dtype=np.float32), strict=True))
        self._append(self._arrow.table({**{name: list(cells) for name, cells in first.items()}, **numbers}))

    def copy(self, source: Path, size: int) -> None:
        with self._parquet.ParquetFile(source, pre_buffer=False) as stored:
            for batch in stored.iter_batches():
                table = self._arrow.Table.from_batches([batch]).slice(0, size - self.size)
                if table.num_rows:
                    self._append(table)

    def _append(self, table: Any) -> None:
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table.cast(self._writer.schema))
        self.size += table.num_rows
