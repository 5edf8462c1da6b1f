"""Five sites fit scikit-learn's topic model on their own documents; merged, are they as good as one model of all?

    python benchmarks/interop_lda.py --quick

20 Newsgroups is split at random into five shards. Scores are log-likelihoods per held-out word: a tenth of the words of
1,000 other documents, given the other nine tenths. scikit-learn fits in two ways, batch and online; both are shown.
"merged" has as many topics as a site, "wider" more slots, so that topics found by few sites keep their own slot.
"refined" continues from the merge with our own model: in each round each site refits its documents with the other
sites' contributions as the prior, without scikit-learn. Its own perplexity of the same documents is printed, too,
to show that it does not tell which model predicts better.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _data import data_file
from scipy.sparse import csr_array
from sklearn.decomposition import LatentDirichletAllocation

import decbayes as db
from decbayes.interop import from_sklearn, to_sklearn

SITES = 5
SOLVERS: dict[str, Any] = {"grouping": db.solvers.Grouping(), "matching": db.solvers.Matching()}


@dataclass(frozen=True)
class Corpus:
    """Counts, their words, the rows of each site, and the held-out documents in two parts."""

    counts: csr_array
    words: tuple[str, ...]
    shards: list[np.ndarray]
    observed: csr_array
    held: csr_array


def newsgroups(share: float, rng: np.random.Generator) -> Corpus:
    stored = np.load(data_file("20news", "20news_bow.npz"), allow_pickle=False)
    parts = stored["data"].astype(np.int32), stored["indices"], stored["indptr"]
    counts = csr_array(parts, shape=tuple(stored["shape"]))
    training = rng.permutation(np.flatnonzero(~stored["heldout"]))
    shards = np.array_split(training[: int(share * len(training))], SITES)
    observed, held = db.checking.hold_out(counts[np.flatnonzero(stored["heldout"])], rng=rng)
    return Corpus(counts, tuple(stored["vocab"]), shards, observed, held)


def timed(task: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    result = task()
    return result, round(time.perf_counter() - begun, 1)


def compare(corpus: Corpus, method: str, options: argparse.Namespace) -> dict[str, Any]:
    """Scores and seconds of the sites, of their merges, and of one estimator that saw everything."""

    def fitted(rows: np.ndarray, seed: int) -> db.Posterior:
        estimator = LatentDirichletAllocation(
            options.topics, max_iter=options.passes, learning_method=method, random_state=seed
        )
        return from_sklearn(estimator.fit(corpus.counts[rows]), vocabulary=corpus.words)

    def score(posterior: db.Posterior) -> float:
        return round(db.model_for(posterior.structure).score(posterior, corpus.observed, corpus.held), 4)

    def perplexity(posterior: db.Posterior) -> int:
        return round(to_sklearn(posterior).perplexity(corpus.observed + corpus.held))

    def wider(slots: int) -> float:
        return score(db.merge(sites, components=slots, solver=solver))

    solver = SOLVERS[options.solver]
    sites, site_seconds = timed(lambda: [fitted(rows, seed) for seed, rows in enumerate(corpus.shards)])
    merged, merge_seconds = timed(lambda: db.merge(sites, solver=solver))
    model, rng = db.model_for(merged.structure), np.random.default_rng(options.seed)
    shards = [corpus.counts[rows] for rows in corpus.shards]
    refined, refine_seconds = timed(
        lambda: db.refine(model, shards, sites, rounds=options.rounds, rng=rng, solver=solver)
    )
    whole, whole_seconds = timed(lambda: fitted(np.concatenate(corpus.shards), 0))
    scores = {
        "sites": [score(site) for site in sites],
        "naive": score(db.merging.product(sites)),
        "merged": score(merged),
        "wider": {slots: wider(slots) for slots in options.slots},
        "refined": [score(posterior) for posterior in refined.rounds[1:]],
        "whole": score(whole),
    }
    return {
        **scores,
        "merged over naive": round(scores["merged"] - scores["naive"], 4),
        "whole over merged": round(scores["whole"] - scores["merged"], 4),
        "whole over wider": {slots: round(scores["whole"] - value, 4) for slots, value in scores["wider"].items()},
        "scikit-learn's perplexity": {
            "site": perplexity(sites[0]),
            "naive": perplexity(db.merging.product(sites)),
            "merged": perplexity(merged),
            "whole": perplexity(whole),
        },
        "whole over refined": [round(scores["whole"] - value, 4) for value in scores["refined"]],
        "seconds": {"sites": site_seconds, "merge": merge_seconds, "refine": refine_seconds, "whole": whole_seconds},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the documents and fewer topics")
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--slots", type=int, nargs="*", default=[40, 60, 80], help="also merge into so many topics")
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--share", type=float, default=1.0, help="the part of the training documents to use")
    parser.add_argument("--methods", nargs="+", choices=["batch", "online"], default=["batch", "online"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--solver", choices=SOLVERS, default="grouping", help="matching is the paper's")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.quick:
        options.topics, options.share, options.slots = 5, 0.1, [15]
    corpus = newsgroups(options.share, np.random.default_rng(options.seed))
    results = {method: compare(corpus, method, options) for method in options.methods}
    print(json.dumps({"benchmark": "interop_lda", "settings": vars(options), **results}))


if __name__ == "__main__":
    main()
