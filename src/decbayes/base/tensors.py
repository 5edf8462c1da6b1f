"""Arrays as safetensors bytes. Bytes from elsewhere are untrusted, so everything is checked."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from decbayes.errors import InvalidFile

DTYPES = {"F64": "<f8", "I32": "<i4"}
# The first bytes of the header of a file with a hash of all bytes after it, and where that hash begins.
METADATA = b'{"__metadata__":{'
HASHED = METADATA + b'"sha256":"'
HASH = slice(8 + len(HASHED), 8 + len(HASHED) + 64)

Arrays = Mapping[str, np.ndarray[Any, Any]]


def read_arrays(content: bytes) -> Arrays:
    """The arrays of untrusted safetensors bytes."""
    from safetensors import SafetensorError, deserialize

    try:
        views = dict(deserialize(content))  # type: ignore[no-untyped-call]
    except (SafetensorError, ValueError, RecursionError) as error:
        raise InvalidFile("It is damaged, or another kind of file: copy it or make it again.") from error
    return {name: as_array(name, view) for name, view in views.items()}


def write_arrays(tensors: Arrays, metadata: dict[str, str] | None = None) -> bytes:
    """Arrays as safetensors bytes, the same bytes for the same arrays. More than one entry of metadata has no order."""
    from safetensors.numpy import save as serialize

    return bytes(serialize(dict(tensors), metadata=metadata))


def hashed(content: bytes) -> bytes:
    """Safetensors bytes whose header begins with a hash of all that follows, to notice damage."""
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    rest = b'",' + header.removeprefix(METADATA) if header.startswith(METADATA) else b'"},' + header[1:]
    # Arrays begin at a multiple of eight bytes.
    rest += b" " * (-(HASH.stop + len(rest)) % 8) + content[8 + len(header) :]
    length = HASH.stop - 8 + len(rest) - (len(content) - 8 - len(header))
    return length.to_bytes(8, "little") + HASHED + hashlib.sha256(rest).hexdigest().encode() + rest


def check_hash(content: bytes) -> None:
    """Refuse bytes that have changed since they were written; those without a hash pass."""
    if content[8 : HASH.start] != HASHED:
        return
    if hashlib.sha256(memoryview(content)[HASH.stop :]).hexdigest().encode() != content[HASH]:
        raise InvalidFile("It was changed or damaged after it was written: copy it or make it again.")


def as_array(name: str, view: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    if view["dtype"] not in DTYPES:
        raise InvalidFile(f"'{name}' holds {view['dtype']} values; only {', '.join(DTYPES)} are read.")
    try:
        return np.frombuffer(view["data"], dtype=DTYPES[view["dtype"]]).reshape(view["shape"])
    except ValueError as error:
        # Too many dimensions, or sizes whose product overflows.
        raise InvalidFile(f"'{name}' has an impossible shape ({error}).") from None


def checked_csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, ...]) -> csr_array:
    """A CSR matrix from untrusted parts."""
    rows, columns = shape
    well_formed = (
        data.ndim == indices.ndim == indptr.ndim == 1
        and (data.dtype, indices.dtype, indptr.dtype) == (np.dtype("<f8"), np.dtype("<i4"), np.dtype("<i4"))
        and len(indptr) == rows + 1
        and len(data) == len(indices)
        and indptr[0] == 0
        and indptr[-1] == len(data)
        and (np.diff(indptr) >= 0).all()
        and (not len(indices) or (indices.min() >= 0 and indices.max() < columns))
    )
    if not well_formed:
        raise InvalidFile("A sparse contribution is inconsistent: its indices do not fit its shape.")
    starts = np.zeros(len(indices), dtype=bool)
    starts[indptr[:-1][indptr[:-1] < len(indices)]] = True
    if not ((np.diff(indices) > 0) | starts[1:]).all():
        raise InvalidFile("A sparse contribution is not in canonical order: columns must rise within each row.")
    return csr_array((data, indices, indptr), shape=shape)
