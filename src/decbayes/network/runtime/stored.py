"""What an agent's store holds, read without an agent or a network."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decbayes.errors import StoreFailed
from decbayes.network.protocol.charter import Charter
from decbayes.network.protocol.keys import AgentId
from decbayes.network.protocol.pool import Merged, Pool
from decbayes.network.runtime.store import SqliteStore
from decbayes.posterior import Posterior


@dataclass(frozen=True)
class Answer:
    """A merged posterior, earlier epochs included, and which set of this epoch's records it was made from."""

    posterior: Posterior
    description: dict[str, Any]


def stored(path: str | os.PathLike[str], charter: Charter) -> Answer:
    """The merged posterior of what an agent's store holds, whether the agent runs or not."""
    merged = stored_pool(path, charter).merged()
    return Answer(charter.update.whole(merged.posterior), set_description(merged, charter.names))


def stored_parts(path: str | os.PathLike[str], charter: Charter) -> dict[str, Posterior]:
    """What each member has contributed, by name, as an agent's store holds it."""
    if charter.epoch is not None:
        raise StoreFailed("A later epoch's parts lack the evidence of earlier ones; only the whole can be had.")
    records = stored_pool(path, charter).counted()
    return {charter.names[record.origin]: record.posterior for record in records if record.posterior is not None}


def stored_pool(path: str | os.PathLike[str], charter: Charter) -> Pool:
    if not Path(path).exists():
        raise StoreFailed(f"There is no store {path}.")
    pool = Pool(charter)
    with SqliteStore(path, charter, read_only=True) as store:
        pool.restore(store.load())
    return pool


def set_description(merged: Merged, names: Mapping[AgentId, str]) -> dict[str, Any]:
    """Which set a merged posterior was made from."""
    return {
        "counted": {names[origin]: version for origin, version, _ in merged.entries},
        "observations": merged.observations,
        "set": merged.set_hash,
    }
