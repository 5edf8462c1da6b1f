"""Check the claims of a file before allocating memory: a small file must not become a large one.

A file may become 64 MiB of numbers, plus 64 bytes for each of its bytes on disk. Text needs several times its size in
memory once it is split into cells, so compressed text may unpack to a quarter of that. A trusted file that grows by
more must be unpacked first: files that are as large as they claim are read whatever their size."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy

from decbayes.errors import InvalidData

# Decompression by file name extension.
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
ROOM, EXPANSION, TEXT = 1 << 26, 1 << 6, 4
PIECE = 1 << 20
# Compression methods of NumPy, and the flag bits of encrypted or patched members.
PACKED, PROTECTED = (ZIP_STORED, ZIP_DEFLATED), 0x61
# Most rows or columns of a matrix, beside one for each byte of its file: empty rows take memory, too.
MOST_LINES = 1 << 24


def most_bytes(path: Path) -> int:
    """The most bytes of numbers that a file may become."""
    return ROOM + EXPANSION * path.stat().st_size


def check_claim(path: Path, claimed: int, remedy: str) -> None:
    """Refuse a file that would become much larger than it is."""
    if claimed > most_bytes(path):
        raise InvalidData(
            f"it has {path.stat().st_size:,} bytes and would become {claimed:,}, which is more than an honest file of "
            f"its size does. If you trust it, {remedy}."
        )


@lru_cache(maxsize=1 << 10)
def check_unpacking(path: Path, size: int, changed: int) -> None:
    """Unpack a compressed file once, keeping nothing, and refuse it if it is too large.

    Cached by size and modification time, so each version of a file is checked once.
    """
    most, unpacked = most_bytes(path) // TEXT, 0
    with OPENERS[path.suffix.lower()](path, "rb") as file:
        while content := file.read(PIECE):
            unpacked += len(content)
            if unpacked > most:
                raise InvalidData(
                    f"it has {size:,} bytes and more than {most:,} when unpacked, which is more than an honest file of "
                    "its size has. If you trust it, unpack it first."
                )


def array_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of a NumPy array, from the header of its file."""
    try:
        version = npy.read_magic(file)
        shape, by_column, kind = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)
    except (TokenError, SyntaxError, RecursionError, TypeError):
        raise InvalidData("its header does not describe an array: it is damaged, or not a NumPy file.") from None
    if kind.hasobject:
        raise InvalidData("it holds Python objects, which are not read.")
    return shape, by_column, kind


def array_bytes(shape: Iterable[int], kind: np.dtype[Any]) -> int:
    """The claimed size of an array in bytes, as an unbounded integer."""
    total = int(kind.itemsize)
    for size in shape:
        total *= int(size)
    return total


def check_array(path: Path) -> None:
    """Refuse a .npy file that claims more numbers than it holds."""
    with path.open("rb") as file:
        shape, _, kind = array_header(file)
        remaining = path.stat().st_size - file.tell()
    if array_bytes(shape, kind) != remaining or any(size < 0 for size in shape):
        raise InvalidData(f"its header promises {array_bytes(shape, kind):,} bytes of numbers; it holds {remaining:,}.")


def check_archive(path: Path) -> None:
    """Refuse a .npz file whose arrays claim more than they hold, or hold much more than the file."""
    with ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        if any(member.flag_bits & PROTECTED or member.compress_type not in PACKED for member in members):
            raise InvalidData("it is encrypted, or packed in another way than NumPy does. Save it with np.savez.")
        total = sum(member.file_size for member in members)
        check_claim(path, total, "save it with np.savez, which does not compress, or as a sparse matrix")
        for member in members:
            with archive.open(member) as file:
                shape, _, kind = array_header(file)
                if array_bytes(shape, kind) > member.file_size:
                    raise InvalidData(f"{member.filename} promises more numbers than it holds.")
        if "shape.npy" in archive.namelist():
            with archive.open("shape.npy") as file:
                check_lines(path, np.asarray(npy.read_array(file, allow_pickle=False)).ravel().tolist())


def check_lines(path: Path, sides: Iterable[int]) -> None:
    """Refuse a sparse matrix with far more rows or columns than its file could fill."""
    most = MOST_LINES + path.stat().st_size
    if any(not 0 <= side <= most for side in sides):
        raise InvalidData(f"it claims a matrix with more than {most:,} rows or columns.")


def check_market(path: Path, line: str, words: list[str]) -> None:
    """Refuse a MatrixMarket file whose first lines promise more entries than it has room for."""
    sizes = [int(word) for word in line.split()]
    if len(sizes) != (3 if "coordinate" in words else 2):
        raise ValueError("not the size of a matrix")
    check_lines(path, sizes[:2])
    check_claim(path, 8 * (2 * sizes[2] if "coordinate" in words else sizes[0] * sizes[1]), "store it in another way")


def check_parquet(path: Path, metadata: Any) -> None:
    """Refuse a Parquet file whose columns repeat a few values so often that they do not fit memory."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    stored = sum(group.total_byte_size for group in groups)
    check_claim(path, max(8 * metadata.num_rows * metadata.num_columns, stored), "store it as CSV")
