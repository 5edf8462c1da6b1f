"""What an agent's own data has to say: fitted shard by shard, refined against everybody else's evidence."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from decbayes.errors import InvalidData
from decbayes.inputs.filed import FileMatrix
from decbayes.merging import align, merge
from decbayes.models.points import as_numbers
from decbayes.network.protocol.charter import Charter
from decbayes.posterior import Posterior


@dataclass(frozen=True)
class Evidence:
    """The posterior of some shards of an agent's data, under the group's prior."""

    posterior: Posterior
    shards: frozenset[str] = frozenset()
    observations: int = 0


@dataclass(frozen=True)
class Learned:
    """New evidence, and the shards of the evidence it replaces: if these have changed meanwhile, it is out of date."""

    evidence: Evidence
    replaces: frozenset[str]


def learn(charter: Charter, own: Evidence, shard: str, data: Any, rng: np.random.Generator) -> Learned:
    """Fit a new shard on top of the agent's own earlier ones."""
    posterior = charter.update.learn(data, own.posterior, rng=rng)
    evidence = Evidence(posterior, own.shards | {shard}, own.observations + charter.model.count(data))
    return Learned(evidence, own.shards)


def relearn(
    charter: Charter, own: Evidence, shards: Mapping[str, Any], others: Sequence[Posterior], rng: np.random.Generator
) -> Learned:
    """Fit all own shards again, with everybody else's evidence as their prior."""
    missing = sorted(own.shards - shards.keys())
    if missing:
        raise InvalidData(f"Refining needs the data of all own shards; observe these again first: {missing[:5]}.")
    alignment = align([own.posterior, *others])
    data = charter.model.joined([shards[name] for name in sorted(own.shards)])
    posterior = charter.update.relearn(data, alignment.relabelled()[0], alignment.merged(), rng=rng)
    return Learned(Evidence(posterior, own.shards, own.observations), own.shards)


def reconcile(own: Evidence, published: Evidence) -> Evidence:
    """What an agent stands for when it hears of a version of its own that it has forgotten.

    Shards that only one of the two holds count once. Where both hold some, the larger stays: what it lacks of the
    other cannot be told apart, and counting a shard twice would be the worse error.
    """
    if own.shards <= published.shards:
        return published
    if published.shards and not own.shards & published.shards:
        posterior = merge([own.posterior, published.posterior])
        return Evidence(posterior, own.shards | published.shards, own.observations + published.observations)
    return own


def dense_parts(data: Any) -> list[np.ndarray]:
    values = as_numbers(data)
    return [np.asarray(values.shape), values]


def sparse_parts(data: Any) -> list[np.ndarray]:
    """A sparse matrix in one form, whatever integers, order of entries or stored zeros it came with."""
    matrix = csr_array(data, copy=True)
    matrix.data = as_numbers(matrix.data)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return [np.asarray(part, dtype=np.int64) for part in (matrix.shape, matrix.indptr, matrix.indices)] + [matrix.data]


def filed_parts(data: FileMatrix) -> Iterator[Iterable[np.ndarray]]:
    """The same parts of a matrix in files, each some rows at a time."""
    lengths = [np.diff(sparse_parts(rows)[1]) for rows in data]
    yield [np.asarray(data.shape, dtype=np.int64)]
    yield [np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), *lengths]))]
    yield (sparse_parts(rows)[2] for rows in data)
    yield (sparse_parts(rows)[3] for rows in data)


def parts_of(data: Any) -> Iterable[Iterable[np.ndarray]]:
    if isinstance(data, FileMatrix):
        return filed_parts(data)
    return ([part] for part in (sparse_parts(data) if issparse(data) else dense_parts(data)))


def shard_id(data: Any) -> str:
    """A name for data that is its content's hash: the same data twice is the same shard."""
    digest = hashlib.sha256()
    for part in parts_of(data):
        for place, some in enumerate(part):
            digest.update((b"" if place else str(some.dtype).encode()) + np.ascontiguousarray(some).tobytes())
    return digest.hexdigest()[:32]
