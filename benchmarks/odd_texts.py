"""Texts unlike those the merge was built on: very short, few words, words that most topics share, one large site.

    python benchmarks/odd_texts.py [--quick] [--seeds 3]

Ten topics are drawn, and 800 documents at eight sites: all sites see all topics (random), or four each (some); sites
are of one size, or one has 60 % of the documents. Each site fits ten topics. Printed are mean log-likelihoods per
held-out word of the merge into ten slots, of the same without dividing topics word by word (whole), the paper's rule,
Ward's clustering, and one fit of all. The last line is one JSON object.
"""

import argparse
import json

import numpy as np
from _baselines import by_ward
from scipy.sparse import csr_array, vstack

import decbayes as db

TOPICS, SITES, DOCUMENTS, MIXING = 10, 8, 800, 0.1
# Words in the vocabulary, words per document, how even topics are, and how much more frequent words are than others.
TEXTS = {
    "very short, 100 words": (100, 6, 0.05, 0.0),
    "very short, frequent words": (500, 8, 0.05, 1.0),
    "long, frequent words": (500, 150, 0.05, 1.0),
    "topics that overlap": (200, 50, 0.5, 0.5),
    "25 words": (25, 30, 0.2, 0.0),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one kind of texts, one seed")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    seeds, kinds = (1, ["25 words"]) if options.quick else (options.seeds, list(TEXTS))
    results = {}
    for kind in kinds:
        for split in ("random", "some"):
            for sizes in ("equal", "one large"):
                runs = [scores(kind, split, sizes, seed) for seed in range(seeds)]
                means = {way: round(float(np.mean([run[way] for run in runs])), 3) for way in runs[0]}
                results[f"{kind}, {split}, {sizes}"] = means
                print(f"{kind:28} {split:7} {sizes:10} {means}", flush=True)
    print(json.dumps({"benchmark": "odd_texts", "seeds": seeds, **results}))


def scores(kind, split, sizes, seed):
    words, length, even, skew = TEXTS[kind]
    rng = np.random.default_rng([seed, list(TEXTS).index(kind)])
    frequency = np.arange(1.0, words + 1.0) ** -skew
    topics = rng.dirichlet(even * words * frequency / frequency.sum() + 1e-3, size=TOPICS)
    sees = [np.arange(TOPICS) if split == "random" else rng.choice(TOPICS, 4, replace=False) for _ in range(SITES)]
    shares = np.full(SITES, 1 / SITES) if sizes == "equal" else np.array([0.6] + [0.4 / (SITES - 1)] * (SITES - 1))
    sites = [drawn(topics[own], int(DOCUMENTS * part), length, rng) for own, part in zip(sees, shares, strict=True)]
    new = csr_array(vstack([drawn(topics[own], 60, length, rng) for own in sees]))
    prior = 0.1 if words < 200 else 0.05
    vocabulary = [f"w{word}" for word in range(words)]
    model = db.LatentDirichletAllocation(TOPICS, vocabulary, document_prior=MIXING, topic_prior=prior)
    own = [model.fit(site, rng=rng).posterior for site in sites]
    observed, held = db.checking.hold_out(new, share=0.3, rng=np.random.default_rng(7))
    ways = {
        "merge": db.merge(own),
        "whole": db.merge(own, solver=db.solvers.Grouping(passes=0)),
        "one-to-one": db.merge(own, solver=db.solvers.Hierarchical()),
        "Ward": by_ward(own, TOPICS),
        "one fit": model.fit(csr_array(vstack(sites)), rng=rng).posterior,
    }
    return {way: db.model_for(each.structure).score(each, observed, held) for way, each in ways.items()}


def drawn(topics, documents, length, rng):
    mixed = rng.dirichlet(np.full(len(topics), MIXING), size=documents)
    lengths = np.maximum(rng.poisson(length, documents), 2)
    return csr_array(np.array([rng.multinomial(n, share @ topics) for n, share in zip(lengths, mixed, strict=True)]))


if __name__ == "__main__":
    main()
