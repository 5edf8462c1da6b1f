"""Files too large for memory, in blocks of rows: the same numbers that `tables.py` reads at once."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from decbayes.base.extras import require
from decbayes.errors import InvalidData
from decbayes.inputs._bounds import array_header, check_archive, check_array, check_parquet
from decbayes.inputs.chunks import in_batches
from decbayes.inputs.filed import BLOCK_ENTRIES, FileArray, FileMatrix, Folder, spans_up_to
from decbayes.inputs.tables import (
    BINARY,
    READERS,
    Observations,
    check_csr,
    check_numeric,
    csv_rows,
    ending,
    has_names,
    is_compressed,
    market_size,
    named_columns,
    numbers,
    opened,
    places,
    read_table,
    reading,
    same_width,
)

# Size from which a file is not read at once, and the assumed expansion of compressed files.
LARGE, UNPACKED = 1 << 26, 4
# Rows of a table to read at a time.
ROWS = 1 << 14


class Pieces(NamedTuple):
    """Blocks of rows of a table, the number of columns, and their names if the file has them."""

    width: int
    columns: tuple[str, ...]
    matrices: Iterator[Any]


class InNoOrder(Exception):
    """Entries of a sparse matrix that are not sorted by row."""


def is_large(*paths: Path) -> bool:
    return sum(map(size_of, paths)) > LARGE


def size_of(path: Path) -> int:
    """The approximate size of a file after decompression, in bytes."""
    return path.stat().st_size * (UNPACKED if is_compressed(path) else 1)


def read_any_table(path: Path, columns: Sequence[str] = ()) -> Observations:
    """The numbers of a file: in memory, or in temporary files if they are many."""
    suffix = ending(path)
    if suffix not in LARGE_READERS or not is_large(path) or (is_compressed(path) and suffix in BINARY):
        return read_table(path, columns)
    with reading(path, f".{suffix}"):
        try:
            return LARGE_READERS[suffix](path, columns)
        except InNoOrder:
            return READERS[suffix](path, columns)


def spooled(pieces: Pieces) -> Observations:
    """All pieces, in temporary files."""
    first = next(pieces.matrices, None)
    if first is None:
        return Observations(np.zeros((0, pieces.width)), pieces.columns)
    matrices = chain([first], pieces.matrices)
    if issparse(first):
        return Observations(FileMatrix.of(pieces.width, matrices), pieces.columns)
    rows = Folder().array(np.float64, first.shape[1:])
    for matrix in matrices:
        rows.append(matrix)
    return Observations(rows, pieces.columns)


def large_csv(path: Path, columns: Sequence[str]) -> Observations:
    rows = csv_rows(path)
    first = [cell.strip() for cell in next(rows, [])]
    if not first:
        raise InvalidData("it holds only blank lines.")
    named, kept, chosen = named_columns(first, columns)
    blocks = in_batches(rows if named else chain([first], rows), ROWS)

    def matrices() -> Iterator[Any]:
        before = int(named)
        for block in blocks:
            cells = [[row[place] for place in kept] for row in same_width(block, len(first), before)]
            yield numbers(cells, chosen, before - named)
            before += len(block)

    return spooled(Pieces(len(kept), chosen, matrices()))


def large_parquet(path: Path, columns: Sequence[str]) -> Observations:
    parquet = require("pyarrow.parquet", extra="parquet", task="Reading Parquet files")
    # With buffering, the whole file would end up in memory.
    file = parquet.ParquetFile(path, pre_buffer=False)
    check_parquet(path, file.metadata)
    kept = places(file.schema_arrow.names, columns) if columns else range(len(file.schema_arrow.names))
    names = tuple(file.schema_arrow.names[place] for place in kept)

    def matrices() -> Iterator[Any]:
        for batch in file.iter_batches(ROWS, columns=list(names)):
            parts = [batch.column(name).to_numpy(zero_copy_only=False) for name in names]
            check_numeric(names, parts)
            yield np.column_stack([part.astype(np.float64) for part in parts])

    return spooled(Pieces(len(names), names, matrices()))


def large_array(path: Path, columns: Sequence[str]) -> Observations:
    """The rows in place, without a copy."""
    places((), columns)
    check_array(path)
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    rows = FileArray.of_map(mapped)
    return Observations(mapped if rows is None else rows)


def large_arrays(path: Path, columns: Sequence[str]) -> Observations:
    places((), columns)
    check_archive(path)
    with ZipFile(path) as archive:
        members = {name.removesuffix(".npy") for name in archive.namelist()}
        names = tuple(map(str, whole(archive, "vocab"))) if "vocab" in members else ()
        if "indptr" in members:
            if "format" in members:
                check_csr(whole(archive, "format"))
            _, width = map(int, whole(archive, "shape"))
            return spooled(Pieces(width, names, stored_rows(archive, width)))
        arrays = members - {"vocab"}
        if len(arrays) != 1:
            raise InNoOrder
        with archive.open(f"{arrays.pop()}.npy") as file:
            return spooled(Pieces(0, names, stored_blocks(file)))


def whole(archive: ZipFile, name: str) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as file:
        return np.asarray(npy.read_array(file, allow_pickle=False))


def stored_rows(archive: ZipFile, width: int) -> Iterator[csr_array]:
    """A CSR matrix whose parts are in the archive."""
    offsets = whole(archive, "indptr").astype(np.int64)
    with archive.open("data.npy") as data, archive.open("indices.npy") as indices:
        (*_, value), (*_, index) = array_header(data), array_header(indices)
        for rows in spans_up_to(offsets, BLOCK_ENTRIES):
            bounds = offsets[rows.start : rows.stop + 1]
            size = int(bounds[-1] - bounds[0])
            parts = read_numbers(data, value, size), read_numbers(indices, index, size), bounds - bounds[0]
            yield csr_array(parts, shape=(len(bounds) - 1, width))


def stored_blocks(file: IO[bytes]) -> Iterator[NDArray[Any]]:
    """Rows of a dense array."""
    shape, by_column, kind = array_header(file)
    if by_column:
        raise InNoOrder
    row = int(np.prod(shape[1:], dtype=np.int64))
    for first in range(0, shape[0], ROWS):
        size = min(ROWS, shape[0] - first)
        yield read_numbers(file, kind, size * row).reshape(size, *shape[1:])


def read_numbers(file: IO[bytes], kind: np.dtype[Any], size: int) -> NDArray[Any]:
    content = file.read(size * kind.itemsize)
    if len(content) != size * kind.itemsize:
        raise InvalidData("it ends too early.")
    return np.frombuffer(content, kind)


def large_market(path: Path, columns: Sequence[str]) -> Observations:
    places((), columns)
    with opened(path) as file:
        lines = iter(file)
        words, sizes = market_size(path, lines)
        if words[:3] != ["%%matrixmarket", "matrix", "coordinate"] or words[-1] != "general":
            raise InNoOrder
        height, width, entries = sizes
        return spooled(Pieces(width, (), market_rows(lines, height, width, entries)))


def market_rows(lines: Iterator[str], height: int, width: int, entries: int) -> Iterator[csr_array]:
    """Entries sorted by row, as matrices of some rows each."""
    first, read, waiting = 0, 0, np.zeros((0, 3))
    for block in in_batches(lines, BLOCK_ENTRIES):
        cells = np.loadtxt(block, ndmin=2, comments="%")
        read += len(cells)
        values = cells if cells.shape[1] == 3 else np.column_stack([cells, np.ones(len(cells))])
        waiting = np.concatenate([waiting, values])
        if (np.diff(waiting[:, 0]) < 0).any():
            raise InNoOrder
        # The last row may continue in the next block.
        whole = int(np.searchsorted(waiting[:, 0], waiting[-1, 0])) if len(waiting) else 0
        if whole:
            last = int(waiting[whole - 1, 0])
            yield rows_of(waiting[:whole], first, last, width)
            first, waiting = last, waiting[whole:]
    if read != entries:
        raise InvalidData(f"it ends after {read:,} entries; its first lines promise {entries:,}.")
    yield rows_of(waiting, first, height, width)


def rows_of(entries: NDArray[Any], first: int, last: int, width: int) -> csr_array:
    """Rows `first` to `last`, from entries that count rows and columns from one."""
    rows, columns = entries[:, 0].astype(np.int64) - 1 - first, entries[:, 1].astype(np.int64) - 1
    if len(rows) and not (0 <= rows.min() <= rows.max() < last - first and 0 <= columns.min() <= columns.max() < width):
        raise InvalidData("an entry is outside the matrix that the first lines promise.")
    return csr_array((entries[:, 2], (rows, columns)), shape=(last - first, width))


LARGE_READERS: dict[str, Callable[[Path, Sequence[str]], Observations]] = {
    "csv": large_csv,
    "tsv": large_csv,
    "parquet": large_parquet,
    "npy": large_array,
    "npz": large_arrays,
    "mtx": large_market,
}


def read_points(path: Path, columns: Sequence[str] = (), agreed: Sequence[str] = ()) -> Observations:
    """A table of points: images become rows, a single column stays one. Large tables stay in files.

    By default, the columns that sites have agreed on are selected if the file names its columns.
    """
    table = read_any_table(path, columns or (agreed if agreed and has_names(path) else ()))
    if isinstance(table.values, FileArray):
        return Observations(table.values.flattened(), table.columns)
    if isinstance(table.values, FileMatrix):
        raise InvalidData(f"{path} holds a sparse matrix of {table.values.shape[0]:,} rows; points are dense.")
    values = np.asarray(table.values.toarray() if issparse(table.values) else table.values)
    if not values.size:
        raise InvalidData(f"{path} holds no observations.")
    rows = np.atleast_1d(values)
    return Observations(rows.reshape(len(rows), -1), table.columns)
