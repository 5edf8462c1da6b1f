"""Write a store of the present format as text, for tests of later versions: `python tests/network/keeping.py`."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
from groups import gaussian_charter, identities

from decbayes.network import SqliteStore, sign_record
from decbayes.network.runtime.store.sqlite import FORMAT

KEPT = Path(__file__).parent / "kept_stores"
RECORDS = 3


def keep() -> Path:
    """A store with a record of each of three members, as SQL; and its charter."""
    members = identities(RECORDS)
    charter = gaussian_charter(members)
    target = KEPT / f"format-{FORMAT}"
    target.mkdir(parents=True)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "agent.store"
        with SqliteStore(path, charter) as store:
            for number, member in enumerate(members):
                posterior = charter.model.fit(np.full(30, float(number)), rng=None).posterior
                shards = frozenset({f"shard {number}"})
                store.put([sign_record(charter, member, 7, posterior=posterior, shards=shards, observations=30)])
        with closing(sqlite3.connect(path)) as connection:
            script = "\n".join([*connection.iterdump(), f"PRAGMA user_version = {FORMAT};"])
    (target / "store.sql").write_text(script)
    charter.save(target / "group.toml")
    return target


if __name__ == "__main__":
    print(keep())
