"""Many shards on a Dask cluster of processes, one of which is killed on the way: the same bits as here.

    python benchmarks/cluster.py [--quick]

Shards are Parquet files. Each is fitted where Dask puts it, by a worker that reads it; posteriors are merged as a tree
of 32 each. Then the same in this process. Seconds are on the clock. The last line is one JSON object.
"""

import argparse
import json
import os
import signal
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import decbayes as db

CENTRES, FAN_IN = np.array([-3.0, 0.0, 4.0]), 32
MODEL = db.GaussianMixture(components=3, dimension=1, variance=0.25, prior_variance=10.0, ascent=db.Ascent(restarts=0))


def written(folder, shards):
    """Partitions of 100 points each."""
    rng, paths = np.random.default_rng(0), [f"{folder}/{number}.parquet" for number in range(shards)]
    for path in paths:
        points = CENTRES[rng.integers(3, size=100)] + 0.5 * rng.standard_normal(100)
        pq.write_table(pa.table({"x": points}), path)
    return paths


def fitted(path):
    """The posterior of a shard; its random numbers depend on its number alone."""
    points = pq.read_table(path)["x"].to_numpy()
    return MODEL.fit(points, rng=np.random.default_rng([0, int(Path(path).stem)])).posterior


def merged(group):
    return db.merge(group)


def tree(level, merge):
    """Groups of FAN_IN into one each, until one is left."""
    while len(level) > 1:
        level = [merge(level[first : first + FAN_IN]) for first in range(0, len(level), FAN_IN)]
    return level[0]


def on_dask(paths, workers):
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1") as cluster,
        Client(cluster) as client,
    ):
        victim = min(client.run(os.getpid).values())
        begin = time.perf_counter()
        futures = client.map(fitted, paths, retries=3, pure=False)
        last = tree(futures, lambda group: client.submit(merged, group, retries=3, pure=False))
        threading.Timer(3.0, os.kill, (victim, signal.SIGKILL)).start()
        found = last.result()
        pids = client.run(os.getpid).values()
        return found, time.perf_counter() - begin, victim not in pids


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="500 shards instead of 10,000")
    quick = parser.parse_args().quick
    shards = 500 if quick else 10_000
    workers = max(2, min(8, joblib.cpu_count()))
    with TemporaryDirectory() as folder:
        paths = written(folder, shards)
        found, seconds, killed = on_dask(paths, workers)
        begin = time.perf_counter()
        local = tree([fitted(path) for path in paths], merged)
        here = time.perf_counter() - begin
    same = found.digest == local.digest
    print(f"{shards:,} shards: Dask {seconds:.1f} s with {workers} workers, one killed: {killed}; here {here:.1f} s")
    print(f"the same bits: {same}")
    print(f"means {np.sort(found.mean('components').ravel()).round(3)}, truth {CENTRES}")
    figures = {"shards": shards, "workers": workers, "dask": seconds, "here": here, "killed": killed, "same_bits": same}
    print(json.dumps({"benchmark": "cluster", "quick": quick, **figures}))


if __name__ == "__main__":
    main()
