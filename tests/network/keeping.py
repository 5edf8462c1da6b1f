"""Write a store of the present format and revision as text, for tests of later versions: run this file."""

import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
from groups import ballot_on, gaussian_charter, identities, seated

from decbayes.network import Admit, Remove, Rotate, SqliteStore, sign_record
from decbayes.network.protocol.talk.revisions import REVISION
from decbayes.network.runtime.store.sqlite import FORMAT

KEPT = Path(__file__).parent / "kept_stores"
RECORDS, SEATS = 3, 5


def decided(charter, keys):
    """One key is replaced; beside that, a removal needs its vote; after it, the new key helps to admit somebody.

    A last motion has one vote of three.
    """
    seats = seated(charter, keys[:SEATS])
    renewed = {**seats, "agent 1": keys[SEATS]}
    rotation = ballot_on(Rotate("agent 1", keys[SEATS].public), some(seats, 0, 2, 3), charter, number=1)
    removal = ballot_on(Remove("agent 4"), some(seats, 0, 1, 2), charter, number=2)
    admission = Admit("agent 6", keys[SEATS + 1].public)
    admitted = ballot_on(admission, some(renewed, 0, 1, 3), charter, [rotation], number=3)
    asked = ballot_on(Remove("agent 2"), some(renewed, 1), charter, [admitted], number=4)
    return [*(replace(ballot, settled=True) for ballot in (rotation, removal, admitted)), asked]


def some(seats, *numbers):
    return {f"agent {number}": seats[f"agent {number}"] for number in numbers}


def keep() -> Path:
    """A store with a record of each of three members and what five have decided, as SQL; and its charter."""
    keys = identities(SEATS + 2)
    charter = gaussian_charter(keys[:SEATS])
    target = KEPT / f"format-{FORMAT}-revision-{REVISION}"
    target.mkdir(parents=True)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "agent.store"
        with SqliteStore(path, charter) as store:
            for number, member in enumerate(keys[:RECORDS]):
                posterior = charter.model.fit(np.full(30, float(number)), rng=None).posterior
                shards = frozenset({f"shard {number}"})
                store.put([sign_record(charter, member, 7, posterior=posterior, shards=shards, observations=30)])
            store.put(decided(charter, keys))
        with closing(sqlite3.connect(path)) as connection:
            script = "\n".join([*connection.iterdump(), f"PRAGMA user_version = {FORMAT};"])
    (target / "store.sql").write_text(script)
    charter.save(target / "group.toml")
    return target


if __name__ == "__main__":
    print(keep())
