"""What a new user waits for: a first fit and a first merge in a fresh process, before and after `decbayes warm-up`.

    python benchmarks/first_fit.py [--quick]

Processor seconds with an empty cache of compiled kernels ("cold") and with the one that `decbayes warm-up` has left
("warm"), each the least of a few runs; imports count. The last line is JSON.
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
    with TemporaryDirectory() as folder:
        warmed = Path(folder)
        run(["-m", "decbayes", "warm-up"], warmed)
        for kind in ("topics", "mixture"):
            found[kind] = {"cold": cold(kind), "warm": least([seconds(kind, warmed) for _ in range(repeats)])}
            for state, took in found[kind].items():
                print(f"{kind}, {state}: first fit {took['fit']:.2f} s, first merge {took['merge']:.2f} s")
    print(json.dumps({"benchmark": "first_fit", **found}))


def cold(kind: str) -> dict[str, float]:
    with TemporaryDirectory() as cache:
        return seconds(kind, Path(cache))


def seconds(kind: str, cache: Path) -> dict[str, float]:
    return json.loads(run(["-c", MEASURE.format(kind=kind)], cache))


def run(words: list[str], cache: Path) -> bytes:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, *words], capture_output=True, check=True, env=environment).stdout


def least(runs: list[dict[str, float]]) -> dict[str, float]:
    return {what: min(each[what] for each in runs) for what in runs[0]}


if __name__ == "__main__":
    main()
