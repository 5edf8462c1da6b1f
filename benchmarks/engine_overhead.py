"""What the engine costs: the same hierarchical merge in this thread, in threads, in loky's processes and on Dask.

    python benchmarks/engine_overhead.py [--quick]

Seconds on the clock, the second of two runs, so that workers are already up. That all engines give the same bits is
checked. Dask is left out where it is not installed. The last line is one JSON object.
"""

import argparse
import json
import time
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec

import joblib
from _workloads import synthetic_topics

import decbayes as db

WORKERS = 2


@contextmanager
def dask_cluster():
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster,
        Client(cluster),
        joblib.parallel_config("dask", n_jobs=WORKERS),
    ):
        yield


def engines():
    yield "one thread", lambda: joblib.parallel_config(n_jobs=1)
    yield "threads", lambda: joblib.parallel_config("threading", n_jobs=WORKERS)
    yield "loky", lambda: joblib.parallel_config("loky", n_jobs=WORKERS)
    if find_spec("distributed"):
        yield "dask", dask_cluster


def measured(engine, posteriors, solver):
    with ExitStack() as stack:
        stack.enter_context(engine())
        for _ in range(2):
            begin = time.perf_counter()
            merged = db.merge(posteriors, solver=solver)
            seconds = time.perf_counter() - begin
    return seconds, merged


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 agents instead of 2,000")
    quick = parser.parse_args().quick
    posteriors, solver = synthetic_topics(200 if quick else 2000), db.solvers.Hierarchical(fan_in=8, polish=0)
    results, digests = {}, set()
    for name, engine in engines():
        results[name], merged = measured(engine, posteriors, solver)
        digests.add(merged.digest)
        print(name, results[name], flush=True)
    print(json.dumps({"quick": quick, "seconds": results, "same_bits": len(digests) == 1}))


if __name__ == "__main__":
    main()
