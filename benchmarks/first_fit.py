"""What a new user waits for: a first fit and a first merge in a fresh process, before and after kernels are compiled.

    python benchmarks/first_fit.py [--quick]

Processor seconds with an empty cache of compiled kernels ("cold") and with the one that this has left ("warm"), each
the least of a few runs; imports count. The last line is JSON.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

MEASURE = """
import json, time
import numpy as np
from scipy.sparse import csr_array
import decbayes as db

def topics(rng):
    return db.LatentDirichletAllocation(5, tuple(map(str, range(200)))), csr_array(rng.poisson(0.3, size=(100, 200)))

def mixture(rng):
    points = rng.normal(size=(500, 2)) + 4 * rng.integers(3, size=(500, 1))
    return db.GaussianMixture(components=3, dimension=2, covariance="full"), points

rng = np.random.default_rng(0)
model, data = {kind}(rng)
posterior = model.fit(data, rng=rng).posterior
fitted = time.process_time()
other = model.fit(data, rng=rng).posterior
between = time.process_time()
db.merge([posterior, other])
print(json.dumps({{"fit": fitted, "merge": time.process_time() - between}}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one run instead of three")
    repeats = 1 if parser.parse_args().quick else 3
    found = {}
    for kind in ("topics", "mixture"):
        found[kind] = least([cold_and_warm(kind) for _ in range(repeats)])
        for state, seconds in found[kind].items():
            print(f"{kind}, {state}: first fit {seconds['fit']:.1f} s, first merge {seconds['merge']:.1f} s")
    print(json.dumps({"benchmark": "first_fit", **found}))


def cold_and_warm(kind: str) -> dict[str, dict[str, float]]:
    with TemporaryDirectory() as cache:
        return {state: seconds(kind, Path(cache)) for state in ("cold", "warm")}


def seconds(kind: str, cache: Path) -> dict[str, float]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    run = [sys.executable, "-c", MEASURE.format(kind=kind)]
    return json.loads(subprocess.run(run, capture_output=True, check=True, env=environment).stdout)


def least(runs: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {state: {what: min(run[state][what] for run in runs) for what in runs[0][state]} for state in runs[0]}


if __name__ == "__main__":
    main()
