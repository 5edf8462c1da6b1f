"""A stream whose topics change: what predicts the next day best, nothing forgotten, a fixed share, or what was learned?

    python benchmarks/drift.py changing stationary newsgroups --seeds 3

Each day three sites (of Newsgroups: two) fit their new documents on top of what all had learned before, and merge. The
score is the log-likelihood per held-out word of the next day's documents, given the rest of each, averaged over days.

changing    8 topics of 200 words; on days 5 and 10 of 16 three of them are replaced by new ones
stationary  the same, and nothing changes
newsgroups  20 Newsgroups by a made-up calendar: six of the 20 groups are in the news on a day, 200 documents in all;
            after every third of 15 days three of the six make room for others. The data have no dates that could be
            used.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from _data import data_file
from scipy.sparse import csr_array

import decbayes as db

SHARES: tuple[Any, ...] = (None, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, "learn")
TOPICS, WORDS, DAYS, SITES, DOCUMENTS, LENGTH = 8, 200, 16, 3, 40, 60

Day = tuple[list[csr_array], csr_array]


def made_up(rng: np.random.Generator, changes: tuple[int, ...]) -> Iterator[Day]:
    """Each site's documents of a day, and others of the same day for a test."""
    topics = rng.dirichlet(np.full(WORDS, 0.05), size=TOPICS)
    for day in range(DAYS):
        if day in changes:
            topics[rng.choice(TOPICS, 3, replace=False)] = rng.dirichlet(np.full(WORDS, 0.05), size=3)
        yield [documents(rng, topics, DOCUMENTS) for _ in range(SITES)], documents(rng, topics, 60)


def documents(rng: np.random.Generator, topics: np.ndarray, count: int) -> csr_array:
    words = rng.dirichlet(np.full(TOPICS, 0.1), size=count) @ topics
    return csr_array(rng.multinomial(LENGTH, words / words.sum(axis=1, keepdims=True)))


def newsgroups(rng: np.random.Generator) -> Iterator[Day]:
    stored = np.load(data_file("20news", "20news_bow.npz"), allow_pickle=False)
    parts = stored["data"].astype(np.int32), stored["indices"], stored["indptr"]
    counts, labels = csr_array(parts, shape=tuple(stored["shape"])), stored["label"]
    waiting = {group: list(rng.permutation(np.flatnonzero(labels == group))) for group in range(20)}
    order = list(rng.permutation(20))
    current, others = order[:6], order[6:]
    for day in range(15):
        if day and day % 3 == 0:
            current, others = current[3:] + others[:3], others[3:] + current[:3]
        chosen = [waiting[group].pop() for group in rng.choice(current, 200)]
        yield [counts[chosen[:75]], counts[chosen[75:150]]], counts[chosen[150:]]


def model_of(name: str, words: int) -> db.LatentDirichletAllocation:
    ascent = db.Ascent(passes=60, tolerance=1e-3, warm_up=10, restarts=2 if name != "newsgroups" else 0)
    topics = TOPICS if name != "newsgroups" else 15
    return db.LatentDirichletAllocation(topics, tuple(f"w{i}" for i in range(words)), 0.1, 0.05, ascent=ascent)


def next_days(model: db.LatentDirichletAllocation, days: list[Day], forgetting: Any) -> float:
    """The mean score of a day, by what was learned up to the day before."""
    stream = (sites for sites, _ in days[:-1])
    known = db.streams.epochs(model, stream, rng=np.random.default_rng(5), forgetting=forgetting)
    scores = []
    for posterior, (_, test) in zip(known, days[1:], strict=True):
        observed, held = db.checking.hold_out(test, rng=np.random.default_rng(0), share=0.2)
        scores.append(model.score(posterior, observed, held))
    return float(np.mean(scores))


def stream_of(name: str, seed: int) -> list[Day]:
    rng = np.random.default_rng(seed)
    if name == "newsgroups":
        return list(newsgroups(rng))
    return list(made_up(rng, (5, 10) if name == "changing" else ()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("streams", nargs="*", default=["changing", "stationary"], help="or newsgroups")
    parser.add_argument("--quick", action="store_true", help="one changing stream")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    streams = ["changing"] if options.quick else options.streams
    results: dict[str, Any] = {name: {} for name in streams}
    for name in streams:
        print(f"{name:12}" + "".join(f"{forgetting!s:>9}" for forgetting in SHARES) + "   learn − none   − best fixed")
        for seed in range(options.first, options.first + options.seeds):
            days = stream_of(name, seed)
            model = model_of(name, days[0][1].shape[1])
            scores = {forgetting: next_days(model, days, forgetting) for forgetting in SHARES}
            learned, fixed = scores.pop("learn"), max(scores[share] for share in SHARES[1:-1])
            results[name][f"seed {seed}"] = {"nothing": scores[None], "best fixed": fixed, "learned": learned}
            shown = "".join(f"{score:9.4f}" for score in [*scores.values(), learned])
            print(f"seed {seed:<7}{shown}{learned - scores[None]:+15.4f}{learned - fixed:+15.4f}", flush=True)
    print(json.dumps({"benchmark": "drift", "settings": vars(options), **results}))


if __name__ == "__main__":
    main()
