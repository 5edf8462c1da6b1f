"""Kill a process that writes versions to a store, in the middle of it, again and again.

Run as `python killing.py FOLDER COUNT SEED`; prints one JSON object. A process of its own, because it forks.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from groups import digest, gaussian_charter, identities

from decbayes.network import Agent, Record, SqliteStore, persist_first

# A body of 160 kB takes several writes, so that some kills hit the middle of one.
DIMENSION = 20_000
(WRITER,) = identities(1)
CHARTER = gaussian_charter([WRITER], dimension=DIMENSION)


def write(path: Path, acknowledge: int) -> None:
    """Publish version after version; name each one on the pipe once the agent may send it."""
    store = SqliteStore(path, CHARTER)
    agent = Agent(CHARTER, WRITER, rng=np.random.default_rng(time.time_ns()), saved=store.load())
    persist_first(agent, agent.on_bytes("peer", digest(agent.pool.root, CHARTER)), store)
    points = np.ones((1, DIMENSION))
    while True:
        shard = f"shard {len(agent.evidence.shards)}"
        persist_first(agent, agent.observe(points, shard=shard, rng=agent.rng), store)
        os.write(acknowledge, agent.version.to_bytes(8, "little"))


def kill_one(path: Path, after: float) -> int:
    """Start a writer, kill it some time after its first version, and return the last version it acknowledged."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        try:
            write(path, writer)
        finally:
            os._exit(1)
    os.close(writer)
    acknowledged = [os.read(reader, 8)]
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while len(version := os.read(reader, 8)) == 8:
        acknowledged.append(version)
    os.close(reader)
    if not acknowledged[0]:
        raise RuntimeError("The writer has ended before its first version; a kill would prove nothing.")
    return int.from_bytes(acknowledged[-1], "little")


def main(folder: str, count: str, seed: str) -> None:
    path, rng = Path(folder) / "killed.store", np.random.default_rng(int(seed))
    lost = damaged = unacknowledged = 0
    for _ in range(int(count)):
        acknowledged = kill_one(path, float(rng.uniform(0, 0.03)))
        with SqliteStore(path, CHARTER) as store:
            newest = max((item.version for item in store.load() if isinstance(item, Record)), default=0)
            damaged += store.damaged
        lost += newest < acknowledged
        unacknowledged += newest > acknowledged
    print(json.dumps({"kills": int(count), "lost": lost, "damaged": damaged, "unacknowledged": unacknowledged}))


if __name__ == "__main__":
    main(*sys.argv[1:])
