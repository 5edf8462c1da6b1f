"""Apply a posterior to observations, in blocks: topics, classes, states, predictions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from decbayes.base.arguments import check_kind
from decbayes.families import Array
from decbayes.inputs.chunks import Chunks
from decbayes.inputs.filed import FileArray, FileMatrix
from decbayes.posterior import Posterior


def count(data: Any) -> int:
    """The number of observations."""
    return int(np.shape(data)[0])


def taken(data: Any, rows: NDArray[np.intp]) -> Any:
    """Selected observations, in that order."""
    return data[rows] if issparse(data) else np.asarray(data)[rows]


def joined(shards: Sequence[Any]) -> Any:
    """Concatenate several shards."""
    if len(shards) == 1:
        return shards[0]
    if any(isinstance(shard, FileMatrix) for shard in shards):
        return Chunks(lambda: chain.from_iterable([shard] if issparse(shard) else shard for shard in shards))
    return vstack(shards, format="csr") if issparse(shards[0]) else np.concatenate([np.asarray(s) for s in shards])


# Observations per block.
BLOCK = 1 << 11


class Observed(NamedTuple):
    """A block of observations. `places` are their positions in the file, if these are not their numbers.

    `rows` gives the row of each observation where the order differs or rows are missing; `size` is the number of rows.
    `data` may be a function, which loads the block only if somebody needs it.
    """

    data: Any
    places: Sequence[str] | None = None
    rows: NDArray[np.intp] | None = None
    size: int | None = None

    def loaded(self) -> Any:
        """The data, loaded now if necessary."""
        return self.data() if callable(self.data) else self.data

    def rows_in(self) -> int:
        """The number of rows, without loading the data if possible."""
        if self.size is not None:
            return self.size
        return len(self.places) if self.places is not None else count(self.data)


class Transform(NamedTuple):
    """The names of the numbers that each observation gets, and the function that computes them.

    `adds_up` tells whether they are shares of components, which sum to one. `known` counts the usable parts of each
    observation, which may be none.
    """

    names: tuple[str, ...]
    of: Callable[[Any], Array]
    adds_up: bool = True
    known: Callable[[Any], Array] | None = None


@dataclass(frozen=True)
class Block:
    """Consecutive observations: their positions, their numbers by name, and how much of each the model knows.

    Numbers that add up are shares of components.
    """

    places: Sequence[str]
    names: tuple[str, ...]
    values: Array
    adds_up: bool = True
    known: Array | None = None

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Observations that the model knows nothing about: their numbers reflect the prior only."""
        return np.zeros(len(self.values), dtype=bool) if self.known is None else self.known == 0


def transform(posterior: Posterior, source: Any, *, skip: int = 0, **reading: Any) -> Iterator[Block]:
    """Topics, classes or states of new data, block by block, in order.

        for block in db.models.transform(posterior, "letters/"):
            print(block.places, block.values)

    `source` is a file, several for topics, or data as the model takes it. `reading` says how to read files, as on the
    command line: `columns`, `format` and so on. The numbers are those of the model's `assign`, for regressions of
    `predict`. The first `skip` blocks are left out, for callers that already have them.

    >>> model = db.GaussianMixture(2, variance=1.0, prior_variance=100.0)
    >>> posterior = model.fit([-9.0, -8.0, 8.0, 9.0], rng=0).posterior
    >>> (block,) = db.models.transform(posterior, np.array([[-8.5], [8.5]]))
    >>> block.values.max(axis=1).round(2), len(set(block.values.argmax(axis=1)))
    (array([1., 1.]), 2)
    """
    from decbayes.models.core.registry import model_for

    check_kind(Posterior, posterior=posterior)
    model = model_for(posterior.structure)
    transformation, before = model.transform(posterior), 0
    filed = isinstance(source, str | Path) or (
        isinstance(source, list | tuple) and len(source) > 0 and isinstance(source[0], str | Path)
    )
    for number, observed in enumerate(model.stream(source, **reading) if filed else in_slices(source)):
        if number < skip:
            before += observed.rows_in()
            continue
        data = observed.loaded()
        values = np.asarray(transformation.of(data))
        if observed.rows is not None:
            full = np.full((observed.size or len(values), values.shape[1]), np.nan)
            full[observed.rows] = values
            values = full
        places = observed.places or [*map(str, range(before + 1, before + len(values) + 1))]
        before += len(values)
        known = None if transformation.known is None else transformation.known(data)
        yield Block(places, transformation.names, values, transformation.adds_up, known)


def in_slices(data: Any) -> Iterator[Observed]:
    """Blocks of rows of a matrix; anything else as one block."""
    if isinstance(data, FileMatrix):
        for rows in data:
            yield from in_slices(rows)
    elif isinstance(data, np.ndarray | FileArray) or issparse(data):
        for first in range(0, data.shape[0], BLOCK):
            yield Observed(data[first : first + BLOCK])
    else:
        yield Observed(data)
