"""Held-out data to evaluate a posterior, agreement of assignments with known labels, inputs of measures of accuracy."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import entr

from decbayes.base.arguments import Seed, generator, is_number, real_array
from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.inputs.chunks import Chunks, check_again, is_chunked
from decbayes.inputs.filed import FileMatrix
from decbayes.models.core.counts import checked_matrix
from decbayes.models.core.model import Model
from decbayes.models.core.points import as_numbers

# NumPy's limit for draws without replacement.
MOST_TOKENS = 999_999_999


def hold_out(data: Any, *, share: float = 0.1, rng: Seed) -> tuple[Any, Any]:
    """Split each observation in two: (observed, held).

    A sparse matrix holds word counts: of each document's n tokens round(share · n), at least one, are drawn without
    replacement; observed + held is the input. Documents of fewer than two tokens stay whole, in `observed`.
    A dense matrix holds vectors: the same share of each vector's components is drawn. NaN marks the held-out components
    in `observed` and the others in `held`. Values that are missing in the data are in neither.

    Args:
        data: documents × words counts, or vectors.
        share: the share of each observation to hold out.

    >>> observed, held = db.checking.hold_out(np.arange(8.0).reshape(2, 4), share=0.25, rng=0)
    >>> np.isnan(observed).sum(axis=1), np.isfinite(held).sum(axis=1)
    (array([1, 1]), array([1, 1]))
    """
    if not is_number(share) or not 0.0 < share < 1.0:
        raise ValueError(f"share is the part held out, between 0 and 1; not {share!r}.")
    random = generator(rng)
    if isinstance(data, FileMatrix):
        return hold_out_filed(data, share, random)
    return hold_out_tokens(data, share, random) if issparse(data) else hold_out_components(data, share, random)


def hold_out_filed(data: FileMatrix, share: float, rng: np.random.Generator) -> tuple[FileMatrix, FileMatrix]:
    """Counts in files, split into two matrices in files."""
    both = FileMatrix(data.shape[1]), FileMatrix(data.shape[1])
    for rows in data:
        for matrix, part in zip(both, hold_out_tokens(rows, share, rng), strict=True):
            matrix.append(part)
    return both


def hold_out_tokens(data: Any, share: float, rng: np.random.Generator) -> tuple[csr_array, csr_array]:
    counts = checked_matrix(data, data.shape[-1])
    values = counts.data.astype(np.int64)
    drawn = np.zeros_like(values)
    for number, (first, last) in enumerate(pairwise(counts.indptr)):
        document = values[first:last]
        tokens = int(document.sum())
        if tokens > MOST_TOKENS:
            raise InvalidData(
                f"Document {number} has {tokens:,} tokens, more than the {MOST_TOKENS:,} that can be divided. Split it."
            )
        size = held_size(tokens, share)
        drawn[first:last] = rng.multivariate_hypergeometric(document, size) if size else 0
    return with_values(counts, values - drawn), with_values(counts, drawn)


def hold_out_components(data: Any, share: float, rng: np.random.Generator) -> tuple[Array, Array]:
    vectors = as_numbers(data)
    if vectors.ndim != 2:
        raise InvalidData(f"Vectors must be the rows of a matrix; the shape is {vectors.shape}.")
    seen = ~np.isnan(vectors)
    if not seen.any() or np.isinf(vectors).any():
        raise InvalidData("The vectors hold infinite values, or nothing but NaN: there is nothing to hold out.")
    sizes = np.array([held_size(count, share) for count in range(vectors.shape[1] + 1)])[seen.sum(axis=1)]
    # Missing components come last in each vector's order, so that none of them is drawn.
    order = rng.permuted(np.tile(np.arange(vectors.shape[1]), (len(vectors), 1)), axis=1)
    rank = np.argsort(np.argsort(np.where(seen, order, order + vectors.shape[1]), axis=1), axis=1)
    is_held = rank < sizes[:, None]
    return np.where(is_held, np.nan, vectors), np.where(is_held, vectors, np.nan)


def held_size(size: int, share: float) -> int:
    """How many of `size` to hold out: at least one, but never all."""
    return min(max(1, round(share * size)), size - 1) if size > 1 else 0


def with_values(counts: csr_array, values: Any) -> csr_array:
    """The same matrix with other values, without zeros."""
    matrix = csr_array((values, counts.indices.copy(), counts.indptr.copy()), shape=counts.shape)
    matrix.eliminate_zeros()
    return matrix


# The share of each document or vector that is predicted from the rest.
PREDICTED = 0.5


def hold_back(model: Model, data: Any, *, share: float = 0.05) -> tuple[Any, Any]:
    """(kept, held back): hold back a share of the observations from the site's fit, to evaluate posteriors later.

    The choice depends only on the number of observations, so the same data and share always give the same parts.
    round(share · n) are held back, and at least one if there are two or more. Chunks are split one by one.

    Args:
        share: the share of observations to hold back.

    >>> model = db.models.GaussianMean(variance=1.0)
    >>> kept, held_back = db.checking.hold_back(model, np.arange(20.0)[:, None], share=0.1)
    >>> len(kept), len(held_back)
    (18, 2)
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
    """Split each shard in two, except single observations and streams of chunks."""
    divisible = [shard for shard in shards if not is_chunked(shard) and model.count(shard) > 1]
    return [hold_back(model, shard, share=0.5) for shard in divisible]


def to_predict(model: Model, data: Any, *, seed: int = 0) -> tuple[Any, Any]:
    """(given, to predict) for `log_predictive`: whole observations, or two halves of each."""
    if not model.in_parts:
        return data, None
    return hold_out(model.opened(data), share=PREDICTED, rng=np.random.default_rng(seed))


def rows_of(count: int, share: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows to keep and the rows to hold back, in order."""
    size = min(max(1, round(share * count)), count - 1) if count > 1 else 0
    is_held_back = np.zeros(count, dtype=np.bool_)
    is_held_back[np.random.default_rng(count).choice(count, size, replace=False)] = True
    return np.flatnonzero(~is_held_back), np.flatnonzero(is_held_back)


def divided(model: Model, chunks: Any, share: float, part: int) -> Any:
    """One of the two parts, chunk by chunk."""

    def parts() -> Iterator[Any]:
        for chunk in chunks:
            yield model.taken(chunk, rows_of(model.count(chunk), share)[part])

    return FileMatrix.of(chunks.shape[1], parts()) if isinstance(chunks, FileMatrix) else Chunks(parts)


def relative_entropy(assignments: Any) -> float:
    """How decided assignments are: 1 if each observation belongs to one component, 0 if to all equally.

    `assignments` are shares as `assign` gives them, (N, K).

    >>> db.checking.relative_entropy([[1.0, 0.0], [0.0, 1.0]]), db.checking.relative_entropy([[0.5, 0.5]])
    (1.0, 0.0)
    """
    shares = real_array(assignments)
    if shares.ndim != 2:
        raise InvalidData(f"Assignments are a matrix, observations × components; these have shape {shares.shape}.")
    most = len(shares) * np.log(shares.shape[1])
    return 1.0 if most == 0 else float(1.0 - entr(shares).sum() / most)


def adjusted_rand(labels: Any, assignments: Any) -> float:
    """The adjusted Rand index: 1 if two groupings differ only in their labels, about 0 if they are unrelated.

    Each is one label per observation, or shares as `assign` gives them, of which the largest counts.

    Args:
        labels: the one grouping, such as known labels.
        assignments: the other.

    >>> db.checking.adjusted_rand(["a", "a", "b", "b"], [1, 1, 0, 0])
    1.0
    >>> round(db.checking.adjusted_rand(["a", "a", "b", "b"], [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.1, 0.9]]), 2)
    -0.5
    """
    first, second = groups(labels), groups(assignments)
    if len(first) != len(second):
        raise InvalidData(f"There are {len(first)} labels and {len(second)} assignments.")
    table = np.zeros((first.max(initial=0) + 1, second.max(initial=0) + 1))
    np.add.at(table, (first, second), 1.0)
    together, rows, columns = (pairs(counts) for counts in (table, table.sum(axis=1), table.sum(axis=0)))
    chance = rows * columns / max(pairs(np.array([len(first)])), 1.0)
    most = 0.5 * (rows + columns)
    return 1.0 if most == chance else float((together - chance) / (most - chance))


def groups(labels: Any) -> NDArray[np.intp]:
    """Number labels of any type from 0."""
    array = np.asarray(labels)
    if array.ndim == 2:
        return np.asarray(array.argmax(axis=1))
    names = array if array.dtype.kind in "buif" else array.astype(str)
    return np.asarray(np.unique(names, return_inverse=True)[1], dtype=np.intp)


def pairs(counts: Any) -> float:
    """The number of pairs within groups of these sizes."""
    return float(np.sum(counts * (counts - 1.0) / 2.0))


class Risks(NamedTuple):
    """Per observation: its risk, its time (larger outcomes count as earlier), whether the event happened, its entry
    time; the observed and the expected outcome."""

    risk: Array
    time: Array
    event: Array
    entry: Array
    observed: Array
    expected: Array
