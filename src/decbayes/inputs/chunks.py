"""Data in chunks, because they are larger than memory or still being made."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from scipy.sparse import issparse

from decbayes.errors import InvalidData
from decbayes.inputs.filed import FileMatrix


@dataclass(frozen=True)
class Chunks:
    """Observations as one matrix after another; `make` returns an iterator from the start.

        db.streams.Chunks(lambda: (np.load(path) for path in sorted(folder.glob("*.npy"))))

    Chunks may differ in size, and their sizes do not affect results.

    Attributes:
        make: a function without arguments that returns an iterator over the matrices, from the first.

    >>> chunks = db.streams.Chunks(lambda: (np.full((2, 1), number) for number in range(3)))
    >>> [chunk.sum().item() for chunk in chunks], [chunk.sum().item() for chunk in chunks]
    ([0, 2, 4], [0, 2, 4])
    """

    make: Callable[[], Iterable[Any]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.make())


def is_chunked(data: Any) -> bool:
    """Whether this is a sequence of matrices rather than one."""
    several = isinstance(data, list | tuple) and len(data) > 0 and issparse(data[0])
    return several or isinstance(data, Chunks | FileMatrix | Iterator)


def check_again(data: Any) -> None:
    """Refuse iterators if data are needed more than once."""
    if isinstance(data, Iterator):
        raise InvalidData(
            "These chunks come from an iterator, which can be read only once, and are needed several times. Use "
            "Chunks(lambda: ...), which begins again each time."
        )


def each_chunk(chunks: Iterable[Any]) -> Iterator[Any]:
    """All chunks; an iterator without any is refused."""
    iterator = iter(chunks)
    first = list(islice(iterator, 1))
    if not first and isinstance(chunks, Iterator):
        raise InvalidData(
            "This iterator has no chunks: there are none, or they have been read, which can be done only once. Use "
            "Chunks(lambda: ...), which begins again each time."
        )
    return chain(first, iterator)


def in_batches(things: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size`, the last one shorter."""
    iterator = iter(things)
    while batch := list(islice(iterator, size)):
        yield batch
