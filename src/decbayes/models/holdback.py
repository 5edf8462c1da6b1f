"""Keep some observations of a site out of its fit, always the same ones, to judge posteriors by."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.arguments import is_number
from decbayes.inputs.chunks import Chunks, check_again, is_chunked
from decbayes.inputs.filed import FileMatrix
from decbayes.models.holdout import hold_out
from decbayes.models.model import Model

# Of what a document or a vector holds, this share is predicted from the rest.
PREDICTED = 0.5


def hold_back(model: Model, data: Any, *, share: float = 0.05) -> tuple[Any, Any]:
    """(kept, held back): that share of the observations is left out of the site's fit, so that it can judge posteriors.

    Which ones depends on how many there are, and on nothing else: whoever asks again, for the same data and share, gets
    the same parts. round(share · n) are held back, and at least one where there are two or more. Chunks are divided one
    by one.
    """
    if not is_number(share) or not 0.0 <= share < 1.0:
        raise ValueError(f"share is the part of the observations to hold back, from 0 to below 1; not {share!r}.")
    if share == 0.0:
        return data, model.taken(data, np.zeros(0, dtype=np.intp)) if not is_chunked(data) else Chunks(lambda: ())
    if is_chunked(data):
        check_again(data)
        return divided(model, data, share, 0), divided(model, data, share, 1)
    parts = rows_of(model.count(data), share)
    return model.taken(data, parts[0]), model.taken(data, parts[1])


def in_halves(model: Model, shards: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Two halves of each shard that has two observations or more and is no stream of chunks."""
    divisible = [shard for shard in shards if not is_chunked(shard) and model.count(shard) > 1]
    return [hold_back(model, shard, share=0.5) for shard in divisible]


def to_predict(model: Model, data: Any, *, seed: int = 0) -> tuple[Any, Any]:
    """What is given of observations and what is to be predicted, for `log_predictive`: all, or one half of each."""
    if not model.in_parts:
        return data, None
    return hold_out(data, share=PREDICTED, rng=np.random.default_rng(seed))


def rows_of(count: int, share: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows that are kept, and those held back, in order."""
    size = min(max(1, round(share * count)), count - 1) if count > 1 else 0
    held = np.zeros(count, dtype=np.bool_)
    held[np.random.default_rng(count).choice(count, size, replace=False)] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def divided(model: Model, chunks: Any, share: float, part: int) -> Any:
    """One of the two parts, chunk by chunk."""

    def parts() -> Iterator[Any]:
        for chunk in chunks:
            yield model.taken(chunk, rows_of(model.count(chunk), share)[part])

    return FileMatrix.of(chunks.shape[1], parts()) if isinstance(chunks, FileMatrix) else Chunks(parts)
