"""Five sites fit scikit-learn's topic model on their own documents; merged, are they as good as one model of all?

    python benchmarks/interop_lda.py --quick

20 Newsgroups is split at random into five shards. Scores are log-likelihoods per held-out word: a tenth of the words of
1,000 other documents, given the other nine tenths. "refined" goes on from the merge with our own model: each site
refits its documents against the others' evidence and publishes again, once a round, scikit-learn no longer needed.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.decomposition import LatentDirichletAllocation

import decbayes as db
from decbayes.interop import from_sklearn, merge_sklearn

SITES = 5


def newsgroups() -> tuple[csr_array, tuple[str, ...], np.ndarray]:
    """Counts, vocabulary, and which documents are held out."""
    folder = Path(os.environ.get("DECBAYES_DATA", Path(__file__).parents[2] / "shared" / "data"))
    stored = np.load(folder / "20news" / "20news_bow.npz", allow_pickle=False)
    parts = stored["data"].astype(np.int32), stored["indices"], stored["indptr"]
    return csr_array(parts, shape=tuple(stored["shape"])), tuple(stored["vocab"]), stored["heldout"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the documents, fewer topics and passes")
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--passes", type=int, default=30)
    parser.add_argument("--share", type=float, default=1.0, help="the part of the training documents to use")
    parser.add_argument("--method", choices=["batch", "online"], default="batch")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.quick:
        options.topics, options.passes, options.share = 5, 10, 0.1
    print(json.dumps(run(options)))


def run(options: argparse.Namespace) -> dict[str, object]:
    counts, words, held_out = newsgroups()
    rng = np.random.default_rng(options.seed)
    training = rng.permutation(np.flatnonzero(~held_out))
    shards = np.array_split(training[: int(options.share * len(training))], SITES)
    observed, held = db.hold_out(counts[np.flatnonzero(held_out)], rng=rng)

    def fitted(rows: np.ndarray, seed: int) -> LatentDirichletAllocation:
        estimator = LatentDirichletAllocation(
            options.topics, max_iter=options.passes, learning_method=options.method, random_state=seed
        )
        return estimator.fit(counts[rows])

    begun = time.perf_counter()
    sites = [fitted(rows, seed) for seed, rows in enumerate(shards)]
    fits = time.perf_counter() - begun
    posteriors = [from_sklearn(site, vocabulary=words) for site in sites]
    model = db.model_for(posteriors[0].structure)

    def score(posterior: db.Posterior) -> float:
        return round(model.log_predictive(posterior, observed, held), 4)

    begun = time.perf_counter()
    merged = from_sklearn(merge_sklearn(sites), vocabulary=words)
    merging = time.perf_counter() - begun
    scores = {
        "sites": [score(posterior) for posterior in posteriors],
        "naive": score(db.product(posteriors)),
        "merged": score(merged),
    }
    print(json.dumps(scores), flush=True)
    begun = time.perf_counter()
    refined = db.refine(model, [counts[rows] for rows in shards], posteriors, rounds=options.rounds, rng=rng)
    refining = time.perf_counter() - begun
    scores["refined"] = [score(posterior) for posterior in refined.rounds[1:]]
    begun = time.perf_counter()
    scores["whole"] = score(from_sklearn(fitted(np.concatenate(shards), 0), vocabulary=words))
    seconds = {"sites": fits, "merge": merging, "refine": refining, "whole": time.perf_counter() - begun}
    return {
        "benchmark": "interop_lda",
        "settings": vars(options),
        "score": scores,
        "gain over naive": round(scores["merged"] - scores["naive"], 4),
        "behind whole": round(scores["whole"] - scores["merged"], 4),
        "behind whole, refined": [round(scores["whole"] - value, 4) for value in scores["refined"]],
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
    }


if __name__ == "__main__":
    main()
