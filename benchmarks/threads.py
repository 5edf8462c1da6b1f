"""How much faster a fit is on several cores: passes of topics, mixtures and features on 1, 2, … threads.

    python benchmarks/threads.py [--quick] [--peer]

Seconds on the clock per pass, the best of several passes: other work on the machine can only make a pass slower. That
every number of threads gives the same bits is checked. `--peer` runs scikit-learn's topics with `n_jobs` on the same
cores beside it. Topics are those of 20 Newsgroups, points are MNIST in 50 dimensions. The last line is one JSON object.
"""

import argparse
import json
import os
import time

import joblib
import numpy as np
from _data import FOLDER
from _workloads import news
from mixture_pass import digits

import decbayes as db


def thread_counts():
    cores = joblib.cpu_count()
    return [threads for threads in (1, 2, 4, 8, 16, 32, 64) if threads < cores] + [cores]


def topics_fit(documents, topics, passes):
    counts, vocabulary, _, _ = news()
    ascent = db.Ascent(passes=passes, tolerance=0.0, warm_up=passes)
    model = db.LatentDirichletAllocation(topics, vocabulary, topic_prior=10 / len(vocabulary), ascent=ascent)
    return lambda progress: model.fit(counts[:documents], rng=np.random.default_rng(0), progress=progress)


def mixture_fit(points, passes):
    ascent = db.Ascent(passes=passes, tolerance=0.0, restarts=0)
    model = db.GaussianMixture(components=50, dimension=50, covariance="diagonal", ascent=ascent)
    return lambda progress: model.fit(points, rng=np.random.default_rng(0), progress=progress)


def features_fit(points, passes):
    ascent = db.Ascent(passes=passes, tolerance=0.0, restarts=0)
    model = db.LatentFeatures(10, dimension=points.shape[1], variance=0.5, ascent=ascent)
    start = model.fit(points[:500], rng=np.random.default_rng(0)).posterior
    return lambda progress: model.fit(points, rng=np.random.default_rng(0), start=start, progress=progress)


def seconds_per_pass(fit, threads):
    """(the shortest time between two passes, a digest of what was found)."""
    clock = []
    with joblib.parallel_config("threading", n_jobs=threads):
        posterior = fit(lambda reached: clock.append(time.perf_counter())).posterior
    return float(np.diff(clock).min()), posterior.digest


def curve(name, fit):
    """All numbers of threads in turn, twice."""
    measured = [(threads, *seconds_per_pass(fit, threads)) for _ in range(2) for threads in thread_counts()]
    best = {count: min(seconds for threads, seconds, _ in measured if threads == count) for count in thread_counts()}
    ratios = {threads: best[1] / seconds for threads, seconds in best.items()}
    for threads, seconds in best.items():
        line = f"{1e3 * seconds:9.1f} ms per pass, ratio {ratios[threads]:5.2f}"
        print(f"{name:32} {threads:>3} threads {line}", flush=True)
    same = len({digest for _, _, digest in measured}) == 1
    return {"seconds": best, "ratio": ratios, "same_bits": same}


def peer_seconds(documents, topics):
    """Seconds per pass of scikit-learn with as many processes as there are cores: a longer less a shorter fit."""
    from sklearn.decomposition import LatentDirichletAllocation

    counts, vocabulary, _, _ = news()
    seconds = []
    for passes in (1, 2, 8):  # the first starts the processes
        peer = LatentDirichletAllocation(
            topics,
            doc_topic_prior=0.1,
            topic_word_prior=10 / len(vocabulary),
            max_iter=passes,
            max_doc_update_iter=10,
            n_jobs=joblib.cpu_count(),
            random_state=0,
        )
        begin = time.perf_counter()
        peer.fit(counts[:documents])
        seconds.append(time.perf_counter() - begin)
    return (seconds[2] - seconds[1]) / 6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data and fewer passes")
    parser.add_argument("--peer", action="store_true", help="scikit-learn's topics on the same cores")
    arguments = parser.parse_args()
    documents, passes = (2000, 4) if arguments.quick else (None, 12)
    points = digits(FOLDER)[: 6000 if arguments.quick else None]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    results = {
        "topics, K = 20": curve("topics, K = 20", topics_fit(documents, 20, passes)),
        "topics, K = 100": curve("topics, K = 100", topics_fit(documents, 100, passes)),
        "mixture, K = 50, diagonal": curve("mixture, K = 50, diagonal", mixture_fit(points, passes)),
        "features, K = 10": curve("features, K = 10", features_fit(points[:20_000], passes)),
    }
    if arguments.peer:
        results["scikit-learn, topics, K = 20"] = peer_seconds(documents, 20)
        print(f"scikit-learn, topics, K = 20: {1e3 * results['scikit-learn, topics, K = 20']:.1f} ms per pass")
    print(json.dumps({"quick": arguments.quick, "cores": joblib.cpu_count(), "results": results}))


if __name__ == "__main__":
    main()
