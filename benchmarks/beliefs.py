"""Why intervals of features fall short.

    python benchmarks/beliefs.py [--sets N] [--jobs N] [--state FILE]

90 % intervals of the three noisy features of `coverage.py` with the centre of one method and the width of
another (mean field, calibrated, Gibbs sampling), and how far mean field's centres are from those of Gibbs sampling, in
the sampler's deviations. "one by one" is mean field; "together" keeps all features of an observation in one table of
2³ probabilities, which takes away what mean field assumes of them. Only sets where no feature is lost are counted.
With --state a file keeps what is done, and the same command goes on from there.
The last line is one JSON object.
"""

import argparse
import json
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

sys.path.sort(key=lambda folder: folder == str(Path(__file__).parent))
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np
from scipy.special import digamma, softmax
from scipy.stats import norm

import decbayes as db

sys.path.append(str(Path(__file__).parent))
from importlib import util

WIDTH = norm.ppf(0.95)
# A feature whose estimate is so many Gibbs deviations away was not found, or is another's mixture.
LOST = 6.0


def coverage_settings():
    """`coverage.py` of this folder: there is a library of its name."""
    spec = util.spec_from_file_location("coverage_benchmark", Path(__file__).parent / "coverage.py")
    module = util.module_from_spec(spec)
    sys.modules["coverage_benchmark"] = module
    spec.loader.exec_module(module)
    return module.SETTINGS


def together(data, means, variances, alpha, beta, noise, prior_variance):
    """Mean field with one table of all features of an observation, from a start; the features' means."""
    table = np.array(list(product([0.0, 1.0], repeat=len(means))))
    for _ in range(3000):
        mixed = table @ means
        level = table @ (digamma(alpha) - digamma(beta))
        level -= 0.5 / noise * ((mixed**2).sum(axis=1) + data.shape[1] * table @ variances)
        shares = softmax(level + data @ mixed.T / noise, axis=1)
        had, pairs = shares @ table, np.einsum("ns,sk,sl->kl", shares, table, table)
        count, before = had.sum(axis=0), means.copy()
        variances = 1.0 / (1.0 / prior_variance + count / noise)
        for k in range(len(means)):
            others = np.delete(pairs[k], k) @ np.delete(means, k, axis=0)
            means[k] = variances[k] * (had[:, k] @ data - others) / noise
        alpha, beta = 1.0 + count, 1.0 + len(data) - count
        if np.abs(means - before).max() < 1e-8:
            break
    return means


def feature_set(seed):
    """Errors and deviations of one data set, by method; None where calibration is refused."""
    warnings.simplefilter("ignore")
    setting, rng = coverage_settings()["features, noisy"], np.random.default_rng([seed, 13])
    data, truth = setting.simulate(rng)
    fitted = setting.model.fit(data, rng=rng).posterior
    batch = db.refine(setting.model, [data], [fitted], rng=rng, tolerance=1e-3).merged
    try:
        found = db.calibrate(setting.model, [data], batch)
    except db.errors.DecbayesError:
        return None
    order, noise = setting.order(truth, {"features": batch.mean("features")}), setting.noise
    given = [batch.mean("features").copy(), *batch.parameters("inclusion").values()]
    joint = together(data, given[0], batch.parameters("features")["variance"], given[1], given[2], noise, 1.0)
    drawn = setting.sampled(data, truth, rng)["features"]
    values = [batch.mean("features")[order], joint[order], drawn.mean(axis=0)]
    widths = [batch.deviation("features")[order], found.deviation("features")[order], drawn.std(axis=0)]
    return np.stack([*(value - truth["features"] for value in values), *widths]).tolist()


class Kept:
    """Results by task, computed side by side; a file keeps them, one line each, if there is one."""

    def __init__(self, pool, path):
        self.pool, self.path = pool, path
        lines = path.read_text().splitlines() if path and path.exists() else []
        self.done = dict(map(json.loads, lines))

    def rows(self, function, tasks):
        """What the function returns for each task, but for None."""
        keys = {f"{function.__name__} {task}": task for task in tasks}
        waiting = [key for key in keys if key not in self.done]
        for key, row in zip(waiting, self.pool.map(function, [keys[key] for key in waiting]), strict=True):
            self.done[key] = row
            if self.path:
                with self.path.open("a") as file:
                    file.write(json.dumps([key, row]) + "\n")
        return [self.done[key] for key in keys if self.done[key] is not None]


def features(sets, kept):
    rows = kept.rows(feature_set, range(sets))
    alone, joint, sampled, plain, wide, gibbs = np.stack(rows, axis=1)
    found = (np.abs(alone - sampled) / gibbs).max(axis=(1, 2)) < LOST
    result = {"sets": len(rows), "lost": int((~found).sum())}

    def told(name, errors, widths, which):
        result[name] = round(float((np.abs(errors) < WIDTH * widths)[which].mean()), 3)

    everything = np.ones(len(rows), dtype=bool)
    for ending, which in (("", everything), (", none lost", found)):
        told(f"mean field{ending}", alone, plain, which)
        told(f"calibrated{ending}", alone, wide, which)
        told(f"mean field's centre, Gibbs's width{ending}", alone, gibbs, which)
        told(f"centre of all together, Gibbs's width{ending}", joint, gibbs, which)
        told(f"Gibbs's centre, calibrated width{ending}", sampled, wide, which)
        told(f"Gibbs{ending}", sampled, gibbs, which)
    for name, errors in (("one by one", alone), ("together", joint)):
        away = ((errors - sampled) / gibbs)[found]
        result[f"away from Gibbs, {name}"] = round(float(np.sqrt((away**2).mean())), 2)
    result["calibrated width over Gibbs's"] = round(float(np.median((wide / gibbs)[found])), 3)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--state", type=Path, help="keep what is done in this file, and go on from it")
    parser.add_argument("--quick", action="store_true", help="eight data sets only")
    options = parser.parse_args()
    if options.quick:
        options.sets = 8
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        print(json.dumps(features(options.sets, Kept(pool, options.state))))


if __name__ == "__main__":
    main()
