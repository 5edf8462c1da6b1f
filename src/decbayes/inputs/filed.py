"""Arrays in files: appended to, read a slice at a time, never in memory as a whole."""

from collections.abc import Iterable, Iterator
from itertools import count
from mmap import mmap
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from decbayes.base.writing import scratch_folder

# Entries of a sparse matrix to read at a time.
BLOCK_ENTRIES = 1 << 20


class FileArray:
    """Rows of numbers in a file. Slices are read when requested, and written when assigned.

    A memory map would do the same, but the pages it has touched count as the process's own memory.
    """

    def __init__(
        self,
        path: Path,
        dtype: DTypeLike,
        row: tuple[int, ...] = (),
        *,
        length: int = 0,
        offset: int = 0,
        folder: "Folder | None" = None,
    ) -> None:
        self.path, self.dtype, self.row, self.offset = path, np.dtype(dtype), row, offset
        self._folder = folder  # deleted when no longer referenced
        self._length, self._width = length, int(np.prod(row, dtype=np.int64))

    @classmethod
    def of_map(cls, mapped: np.memmap[Any, Any]) -> "FileArray | None":
        """The file under a memory map, if its rows are contiguous there."""
        base: object = mapped.base
        # A part of a map does not know its position in the file.
        if not isinstance(base, mmap) or not mapped.flags.c_contiguous or not mapped.filename or not mapped.ndim:
            return None
        return cls(Path(mapped.filename), mapped.dtype, mapped.shape[1:], length=len(mapped), offset=mapped.offset)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._length, *self.row

    @property
    def bytes(self) -> int:
        return self._place(self._length)

    @property
    def ndim(self) -> int:
        return 1 + len(self.row)

    def __len__(self) -> int:
        return self._length

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        first, last, _ = rows.indices(self._length)
        count = max(0, last - first) * self._width
        values = np.fromfile(self.path, self.dtype, count, offset=self._place(first))
        return values.reshape(-1, *self.row) if self.row else values

    def __setitem__(self, rows: slice, values: NDArray[Any]) -> None:
        first, last, _ = rows.indices(self._length)
        if (last - first, *self.row) != values.shape:
            raise ValueError(
                f"rows {first} to {last} of shape {self.row} cannot hold an array of shape {values.shape}."
            )
        self._write(first, values)

    def flattened(self) -> "FileArray":
        """The same rows as vectors."""
        return FileArray(
            self.path, self.dtype, (self._width,), length=self._length, offset=self.offset, folder=self._folder
        )

    def append(self, values: NDArray[Any]) -> None:
        """Write further rows at the end."""
        self._write(self._length, values)
        self._length += len(values)

    def _write(self, first: int, values: NDArray[Any]) -> None:
        with self.path.open("r+b") as file:
            file.seek(self._place(first))
            file.write(np.ascontiguousarray(values, dtype=self.dtype).data)

    def _place(self, row: int) -> int:
        return self.offset + row * self._width * self.dtype.itemsize


class Folder:
    """A temporary folder for arrays; it is deleted when no longer referenced."""

    def __init__(self, parent: Path | None = None) -> None:
        self._path = scratch_folder(self, parent)
        self._names = map(str, count())

    def array(self, dtype: DTypeLike, row: tuple[int, ...] = (), *, length: int = 0) -> FileArray:
        """A new array of zeros."""
        path = self._path / next(self._names)
        array = FileArray(path, dtype, row, length=length, folder=self)
        with path.open("wb") as file:
            file.truncate(array.bytes)
        return array


class FileMatrix:
    """A CSR matrix in files. It is written in blocks of rows, and iterating reads it in blocks."""

    def __init__(self, width: int) -> None:
        folder = Folder()
        self._width, self._data, self._indices = width, folder.array(np.float64), folder.array(np.int32)
        self._lengths: list[NDArray[np.int64]] = []

    @classmethod
    def of(cls, width: int, pieces: Iterable[csr_array]) -> Self:
        matrix = cls(width)
        for piece in pieces:
            matrix.append(piece)
        return matrix

    @property
    def shape(self) -> tuple[int, int]:
        return sum(map(len, self._lengths)), self._width

    def append(self, rows: csr_array) -> None:
        self._data.append(rows.data)
        self._indices.append(rows.indices)
        self._lengths.append(np.diff(rows.indptr).astype(np.int64))

    def __iter__(self) -> Iterator[csr_array]:
        lengths = np.concatenate([np.zeros(0, dtype=np.int64), *self._lengths])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        for rows in spans_up_to(offsets, BLOCK_ENTRIES):
            entries = slice(int(offsets[rows.start]), int(offsets[rows.stop]))
            parts = self._data[entries], self._indices[entries], offsets[rows.start : rows.stop + 1] - entries.start
            yield csr_array(parts, shape=(rows.stop - rows.start, self._width))


def spans_up_to(offsets: NDArray[np.int64], most: int) -> Iterator[slice]:
    """Consecutive rows with a limited number of entries, but at least one row."""
    first, size = 0, len(offsets) - 1
    while first < size:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1)
        yield slice(first, last)
        first = last
