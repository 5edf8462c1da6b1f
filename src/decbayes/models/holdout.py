"""Set a part of each observation aside, to be predicted from the rest."""

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from decbayes.arguments import check_kind, is_number
from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.inputs.filed import FileMatrix
from decbayes.models.counts import checked_matrix
from decbayes.models.points import as_numbers

# Of more tokens NumPy draws none without replacement.
MOST_TOKENS = 999_999_999


def hold_out(data: Any, *, share: float = 0.1, rng: np.random.Generator) -> tuple[Any, Any]:
    """Split each observation in two: (observed, held).

    A sparse matrix holds word counts: of each document's n tokens round(share · n), at least one, are drawn without
    replacement; observed + held is the input. A document of fewer than two tokens is observed whole.
    A dense matrix holds vectors: the same share of each vector's components is drawn, and NaN marks in `observed` the
    components that were held out, in `held` those that were not. What is missing to begin with is in neither.
    """
    check_kind(np.random.Generator, rng=rng)
    if not is_number(share) or not 0.0 < share < 1.0:
        raise ValueError(f"share is the part held out, between 0 and 1; not {share!r}.")
    if isinstance(data, FileMatrix):
        return hold_out_filed(data, share, rng)
    return hold_out_tokens(data, share, rng) if issparse(data) else hold_out_components(data, share, rng)


def hold_out_filed(data: FileMatrix, share: float, rng: np.random.Generator) -> tuple[FileMatrix, FileMatrix]:
    """Counts in files, of which both parts are in files too."""
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
    there = ~np.isnan(vectors)
    if not there.any() or np.isinf(vectors).any():
        raise InvalidData("The vectors hold infinite values, or nothing but NaN: there is nothing to hold out.")
    sizes = np.array([held_size(count, share) for count in range(vectors.shape[1] + 1)])[there.sum(axis=1)]
    # Missing components come last in each vector's order, so that none of them is drawn.
    order = rng.permuted(np.tile(np.arange(vectors.shape[1]), (len(vectors), 1)), axis=1)
    rank = np.argsort(np.argsort(np.where(there, order, order + vectors.shape[1]), axis=1), axis=1)
    taken = rank < sizes[:, None]
    return np.where(taken, np.nan, vectors), np.where(taken, vectors, np.nan)


def held_size(size: int, share: float) -> int:
    """How many of `size` are held out: at least one, and never all."""
    return min(max(1, round(share * size)), size - 1) if size > 1 else 0


def with_values(counts: csr_array, values: Any) -> csr_array:
    """The same matrix with other values, zeros left out."""
    matrix = csr_array((values, counts.indices.copy(), counts.indptr.copy()), shape=counts.shape)
    matrix.eliminate_zeros()
    return matrix
