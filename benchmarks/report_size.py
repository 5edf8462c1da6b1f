"""How large reports are, and how long they take, against the alignment that they are about.

    python benchmarks/report_size.py [--quick]

Sites hold contributions that are made up: topics of ten words each, or clusters in three dimensions. Printed per size:
kilobytes of the page, and seconds of the alignment and of the page. The last line is JSON.
"""

import argparse
import json
import time

import numpy as np
from scipy.sparse import csr_array

import decbayes as db
from decbayes.posterior import Posterior
from decbayes.reporting.reports import page


def topics(sites: int, components: int, rng: np.random.Generator) -> list[Posterior]:
    words = tuple(f"word{number}" for number in range(10 * components))
    structure = db.LatentDirichletAllocation(components, words).structure
    own = np.kron(np.eye(components), np.ones((1, 10)))
    return [Posterior(structure, {"topics": csr_array(own * rng.poisson(20, own.shape))}) for _ in range(sites)]


def clusters(sites: int, components: int, rng: np.random.Generator) -> list[Posterior]:
    model = db.GaussianMixture(components, 3, variance=0.25, prior_variance=90.0)
    places = rng.normal(0, 8, size=(components, 3))
    points = [places[rng.integers(components, size=80)] + rng.normal(0, 0.5, (80, 3)) for _ in range(sites)]
    start = model.fit(np.concatenate(points[:20]), rng=rng).posterior
    return [model.fit(shard, rng=rng, start=start).posterior for shard in points]


SIZES = ((topics, 8, 6), (topics, 100, 50), (topics, 100, 200), (clusters, 1000, 20))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="the smallest only")
    sizes = SIZES[:1] if parser.parse_args().quick else SIZES
    rows = []
    for draw, sites, components in sizes:
        posteriors = draw(sites, components, np.random.default_rng(0))
        begun = time.perf_counter()
        found = db.align(posteriors)
        aligned = time.perf_counter()
        size, ended = len(page(found).encode()), time.perf_counter()
        row = {"sites": sites, draw.__name__: components, "kB": round(size / 1000)}
        rows.append(row | {"align_s": round(aligned - begun, 1), "report_s": round(ended - aligned, 1)})
        print(rows[-1], flush=True)
    print(json.dumps({"benchmark": "report_size", "rows": rows}))


if __name__ == "__main__":
    main()
