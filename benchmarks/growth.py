"""How fits of topics and their merges grow with documents, topics, words and sites: exponents from one run.

    python benchmarks/growth.py [--quick]

Synthetic documents of 60 words each. Seconds are processor time: per pass of a fit on one thread, and of a merge. An
exponent of 1 means linear. The last line is one JSON object.
"""

import argparse
import json
import time

import joblib
import numpy as np
from scipy.sparse import csr_array

import decbayes as db

PASSES = 4


def corpus(documents, words, topics=20, length=60, seed=0):
    """Topics share Zipf's law, each with its own favourites; a document has two topics."""
    rng = np.random.default_rng(seed)
    shares = (np.arange(words) + 10.0) ** -1.1 * np.exp(2.0 * rng.standard_normal((topics, words)))
    table = (np.cumsum(shares, axis=1) / shares.sum(axis=1, keepdims=True) + np.arange(topics)[:, None]).ravel()
    owner = np.repeat(np.arange(documents), length)
    own = rng.integers(topics, size=(documents, 2))[owner, rng.integers(2, size=len(owner))]
    word = np.searchsorted(table, own + rng.random(len(owner)), side="right") % words
    return csr_array((np.ones(len(owner), dtype=np.int32), (owner, word)), shape=(documents, words))


def model_of(words, topics):
    ascent = db.Ascent(passes=PASSES, tolerance=0.0, warm_up=PASSES)
    return db.LatentDirichletAllocation(topics, tuple(map(str, range(words))), ascent=ascent)


def pass_seconds(documents=8_000, words=10_000, topics=20):
    """The shortest of some passes, so that a first one that loads compiled code does not count."""
    clock = []
    with joblib.parallel_config("threading", n_jobs=1):
        model_of(words, topics).fit(
            corpus(documents, words),
            rng=np.random.default_rng(0),
            progress=lambda reached: clock.append(time.process_time()),
        )
    return float(np.diff(clock).min())


def merge_seconds(sites):
    counts, model = corpus(100 * sites, 5_000), model_of(5_000, 20)
    shards = [counts[first : first + 100] for first in range(0, 100 * sites, 100)]
    posteriors = [fit.posterior for fit in model.fit_many(shards, rng=np.random.default_rng(0))]
    begin = time.process_time()
    db.merge(posteriors)
    return time.process_time() - begin


def curve(name, sizes, measure):
    seconds = [measure(size) for size in sizes]
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    print(f"{name:12} {sizes[0]:,} to {sizes[-1]:,}: {seconds[0]:.3f} to {seconds[-1]:.3f} s, exponent {exponent:.2f}")
    return {"sizes": list(sizes), "seconds": seconds, "exponent": exponent}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    quick = parser.parse_args().quick
    most = 3 if quick else 5
    results = {
        "documents": curve("documents", [4_000 * 2**n for n in range(most)], lambda n: pass_seconds(documents=n)),
        "topics": curve("topics", [10 * 2**n for n in range(most)], lambda n: pass_seconds(topics=n)),
        "words": curve("words", [2_000 * 3**n for n in range(most)], lambda n: pass_seconds(words=n)),
        "sites": curve("sites", [10 * 2**n for n in range(most)], merge_seconds),
    }
    print(json.dumps({"benchmark": "growth", "quick": quick, **results}))


if __name__ == "__main__":
    main()
