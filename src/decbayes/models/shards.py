"""Data as models take it, without knowing which model: how many observations there are, and several shards as one."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from decbayes.inputs.chunks import Chunks
from decbayes.inputs.filed import FileMatrix


def count(data: Any) -> int:
    """How many observations there are."""
    return int(np.shape(data)[0])


def taken(data: Any, rows: NDArray[np.intp]) -> Any:
    """Some of the observations, in that order."""
    return data[rows] if issparse(data) else np.asarray(data)[rows]


def joined(shards: Sequence[Any]) -> Any:
    """All observations of several shards."""
    if len(shards) == 1:
        return shards[0]
    if any(isinstance(shard, FileMatrix) for shard in shards):
        return Chunks(lambda: chain.from_iterable([shard] if issparse(shard) else shard for shard in shards))
    return vstack(shards, format="csr") if issparse(shards[0]) else np.concatenate([np.asarray(s) for s in shards])
