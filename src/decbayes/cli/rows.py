"""Rows of results as CSV or Parquet, some at a time; the file is there when all of it is."""

import gzip
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import DecbayesError
from decbayes.extras import require, require_extra
from decbayes.families import Array
from decbayes.inputs.tables import ending

MOST_DIGITS = 6
SPECIAL = re.compile('[,"\r\n]')


class Rows(Protocol):
    """Where rows go: some first columns, and a matrix of numbers beside them."""

    def write(self, first: dict[str, Sequence[Any]], names: Sequence[str], values: Array) -> None: ...


def check_rows(path: Path) -> None:
    """Refuse a kind of file that cannot be written, before the work is done."""
    if not path.name.endswith((".csv", ".csv.gz", ".parquet")):
        raise DecbayesError(f"{path}: rows are written as .csv, .csv.gz or .parquet; choose a name that ends so.")
    if ending(path) == "parquet":
        require_extra("parquet", task="Writing Parquet files")


@contextmanager
def writing(path: Path, digits: int) -> Iterator[Rows]:
    """A file of rows: whole when all went well, and not there otherwise."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        if ending(path) == "parquet":
            with ParquetRows(temporary) as rows:
                yield rows
        else:
            opener: Any = gzip.open if path.suffix == ".gz" else open
            with opener(temporary, "wb") as file:
                yield CsvRows(file, digits)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class CsvRows:
    def __init__(self, file: IO[bytes], digits: int) -> None:
        self._file, self._digits, self._begun = file, digits, False

    def write(self, first: dict[str, Sequence[Any]], names: Sequence[str], values: Array) -> None:
        if not self._begun:
            self._file.write((",".join(map(quoted, [*first, *names])) + "\n").encode())
            self._begun = True
        heads = map(",".join, zip(*map(cells_of, first.values()), strict=True))
        lines = number_lines(values, self._digits)
        self._file.write("".join(chain.from_iterable(zip(heads, lines, strict=True))).encode())


def cells_of(column: Sequence[Any]) -> list[str]:
    """Texts of a column; most need no quotes, which is seen at once."""
    texts = ["" if cell is None else str(cell) for cell in column]
    return texts if SPECIAL.search("".join(texts)) is None else [*map(quoted, texts)]


def quoted(text: str) -> str:
    return f'"{text.replace(chr(34), 2 * chr(34))}"' if SPECIAL.search(text) else text


def number_lines(values: Array, digits: int) -> list[str]:
    """Each row's numbers after commas, and the end of the line.

    Shares have few different texts, which are looked up: that is ten times as fast as writing each number.
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
    """Shares are stored with 32 bits: seven digits."""

    def __init__(self, path: Path) -> None:
        self._path, self._writer = path, cast(Any, None)
        self._arrow = require("pyarrow", extra="parquet", task="Writing Parquet files")

    def __enter__(self) -> "ParquetRows":
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, first: dict[str, Sequence[Any]], names: Sequence[str], values: Array) -> None:
        numbers = dict(zip(names, np.ascontiguousarray(values.T, dtype=np.float32), strict=True))
        table = self._arrow.table({**{name: list(cells) for name, cells in first.items()}, **numbers})
        if self._writer is None:
            parquet = require("pyarrow.parquet", extra="parquet", task="Writing Parquet files")
            self._writer = parquet.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table)
