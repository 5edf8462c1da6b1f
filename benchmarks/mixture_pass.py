"""One pass of the Gaussian mixture against scikit-learn's BayesianGaussianMixture: MNIST in 50 dimensions, K = 50.

    python benchmarks/mixture_pass.py [--quick] [--full]

Beside them the two matrix products that a pass needs, in NumPy. `--full` is full covariances, in ten dimensions. All
run in one thread; processor time is counted, so that other work on the machine does not. The last line is JSON.
"""

import argparse
import gzip
import json
import os
import time
import warnings
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
from _data import FOLDER, data_file
from sklearn.mixture import BayesianGaussianMixture

import decbayes as db

COMPONENTS = DIMENSIONS = 50
FULL = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="12,000 of the 60,000 digits")
    parser.add_argument("--full", action="store_true", help="full covariances")
    parser.add_argument("--data", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    points = digits(arguments.data)[: 12_000 if arguments.quick else None, -FULL if arguments.full else 0 :]
    kind, ratios, table = "full" if arguments.full else "diagonal", [], []
    for repeat in range(5):
        theirs, ours = scikit_learn_pass(points, repeat, kind), decbayes_pass(points, repeat, kind)
        products = products_seconds(points, kind)
        ratios.append(theirs / ours)
        table.append((theirs, ours, products))
        print(
            f"scikit-learn {theirs:.3f} s a pass, decbayes {ours:.3f} s, two products {products:.3f} s: "
            f"{theirs / ours:.1f} ×"
        )
    figures = {"points": len(points), "kind": kind, "ratio": float(np.median(ratios)), "seconds": table}
    print(json.dumps({"benchmark": "mixture_pass", **figures}))


def products_seconds(points: np.ndarray, kind: str) -> float:
    """Processor seconds of features times coefficients and of responsibilities times features."""
    dimension = points.shape[1]
    width = dimension * (dimension + 3) // 2 + 1 if kind == "full" else 2 * dimension + 1
    features, slopes = np.ones((len(points), width)), np.ones((width, COMPONENTS))
    seconds = []
    for _ in range(3):
        start = time.process_time()
        (features @ slopes).T @ features
        seconds.append(time.process_time() - start)
    return min(seconds)


def digits(folder: Path) -> np.ndarray:
    """MNIST's training images, centred, on their first principal axes, with unit variance overall."""
    content = gzip.decompress(data_file("mnist", "train-images-idx3-ubyte.gz", folder=folder).read_bytes())
    images = np.frombuffer(content, np.uint8, offset=16).reshape(-1, 784) / 255.0
    centred = images - images.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    reduced = centred @ axes[:, -DIMENSIONS:]
    return reduced / reduced.std()


def scikit_learn_pass(points: np.ndarray, seed: int, kind: str = "diagonal") -> float:
    """Processor seconds of one pass: the difference of a longer and a shorter fit."""
    seconds = []
    for passes in (2, 18):
        estimator = BayesianGaussianMixture(
            n_components=COMPONENTS,
            covariance_type={"diagonal": "diag"}.get(kind, kind),
            weight_concentration_prior_type="dirichlet_distribution",
            init_params="random_from_data",
            max_iter=passes,
            tol=0.0,
            random_state=seed,
        )
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(points)
        seconds.append(time.process_time() - start)
    return (seconds[1] - seconds[0]) / 16


def decbayes_pass(points: np.ndarray, seed: int, kind: str = "diagonal") -> float:
    """Processor seconds of one pass: the median between reports."""
    clock: list[float] = []
    model = db.GaussianMixture(
        components=COMPONENTS,
        dimension=points.shape[1],
        covariance=kind,
        ascent=db.Ascent(passes=18, tolerance=0.0, restarts=0),
    )
    model.fit(points, rng=np.random.default_rng(seed), progress=lambda report: clock.append(time.process_time()))
    return float(np.median(np.diff(clock)))


if __name__ == "__main__":
    main()
