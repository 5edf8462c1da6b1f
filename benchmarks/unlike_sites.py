"""Sites that differ: one broadcast of topics merged in several ways, against one fit of all documents.

    python benchmarks/unlike_sites.py [--quick] [--seeds 5] [--refine] [--cache FOLDER]

20 Newsgroups is dealt out to 10 and 50 sites, at random or by newsgroup. Each site fits 20 topics ("wide": 40) and
publishes once; everything is merged into 20 slots. Scores are log-likelihoods per held-out word, medians over seeds.

- one-to-one: the paper's rule, one topic of each site in each slot (`Hierarchical`, the best of it at this size)
- Ward: Ward's clustering of all sites' topics as probabilities, counts added up within clusters
- cosine 0.7: topics join the first that is similar enough, as in BERTopic's merge; the number of topics is what comes
- ensemble: gensim's EnsembleLda on the same topics, where gensim is installed; the number of topics is what comes
- merge, wide: `db.merge` of 20 or of 40 topics per site
- refined: three rounds of refinement after the merge (`--refine`)

Also how much larger wide posteriors are, how many slots `components="auto"` finds, and the processor time of a merge
beside that of `Hierarchical`. The last line is one JSON object with the medians.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from _workloads import TOPICS, cached, news, news_model
from scipy.cluster.hierarchy import fcluster, ward
from scipy.sparse import csr_array, vstack

import decbayes as db
from decbayes.files import to_bytes

WIDE = 40
SIMILAR = 0.7


def shards(sites, split, seed):
    """Rows of the training documents, dealt out; each newsgroup's documents stay together in "group"."""
    _, _, labels, held_out = news()
    rows = np.random.default_rng([seed, sites]).permutation(np.flatnonzero(~held_out))
    rows = rows[np.argsort(labels[rows], kind="stable")] if split == "group" else rows
    return np.array_split(rows, sites)


def fitted(counts, rows, topics, seed, cache):
    """One posterior per site."""
    model = replace(news_model(), topics=topics)

    def fit(site, shard):
        return model.fit(counts[shard], rng=np.random.default_rng([seed, site, topics])).posterior

    return [
        cached(cache and Path(cache) / f"{topics}-{site:03d}.posterior", lambda s=site, r=shard: fit(s, r))
        for site, shard in enumerate(rows)
    ]


def grouped(posteriors, labels):
    """The posterior in which topics with the same label are one."""
    counts = vstack([csr_array(posterior.contribution["topics"]) for posterior in posteriors])
    number = labels.max() + 1
    sums = csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(number, len(labels))) @ counts
    return db.Posterior(posteriors[0].structure.with_components(int(number)), {"topics": sums})


def probabilities(posteriors):
    return np.vstack([posterior.mean("topics") for posterior in posteriors])


def by_ward(posteriors):
    return grouped(posteriors, fcluster(ward(probabilities(posteriors)), TOPICS, "maxclust") - 1)


def by_cosine(posteriors):
    """A topic joins the first one it is similar to, or begins a new one: larger sites' topics come first."""
    shares = probabilities(posteriors)
    unit = shares / np.linalg.norm(shares, axis=1, keepdims=True)
    first, labels = [], np.empty(len(unit), dtype=int)
    for topic, row in enumerate(unit):
        similar = unit[first] @ row if first else np.zeros(0)
        if not len(similar) or similar.max() < SIMILAR:
            first.append(topic)
            labels[topic] = len(first) - 1
        else:
            labels[topic] = int(similar.argmax())
    return grouped(posteriors, labels)


def by_ensemble(posteriors):
    """gensim's clusters of topics: those it calls stable are topics, what it calls noise is left out."""
    from gensim.models.ensemblelda import CBDBSCAN, _calculate_asymmetric_distance_matrix_chunk, mass_masking

    shares = probabilities(posteriors)
    distances = _calculate_asymmetric_distance_matrix_chunk(shares, shares, 0, mass_masking, 0.95)
    clusters = CBDBSCAN(eps=0.1, min_samples=max(2, len(posteriors) // 2))
    clusters.fit(distances)
    labels = np.array([result.label if result.label is not None else -1 for result in clusters.results])
    if not (labels >= 0).any():
        return None
    names = {label: number for number, label in enumerate(sorted(set(labels[labels >= 0])))}
    number = len(names)
    merged = grouped(posteriors, np.array([names.get(label, number) for label in labels]))
    return db.Posterior(
        merged.structure.with_components(number), {"topics": csr_array(merged.contribution["topics"])[:number]}
    )


def size(posterior):
    """Bytes of a posterior's file."""
    return len(to_bytes(posterior))


def seconds(task):
    start = time.process_time()
    result = task()
    return result, time.process_time() - start


def one_seed(sites, split, seed, options, score):
    counts = news()[0]
    rows = shards(sites, split, seed)
    folder = options.cache and Path(options.cache) / f"{split}-{sites}-{seed}"
    own, wide = (fitted(counts, rows, topics, seed, folder) for topics in (TOPICS, WIDE))
    model = news_model()
    one_to_one, slow = seconds(lambda: db.merge(own, solver=db.Hierarchical()))
    merged, fast = seconds(lambda: db.merge(own))
    found = {
        "one-to-one": score(one_to_one),
        "Ward": score(by_ward(own)),
        "merge": score(merged),
        "wide": score(db.merge(wide, components=TOPICS)),
        "time beside one-to-one": fast / slow,
        "bytes of wide beside own": sum(map(size, wide)) / sum(map(size, own)),
        "slots by auto": len(db.merge(own, components="auto").structure.prior["topics"]),
    }
    similar = by_cosine(own)
    found["cosine 0.7"], found["cosine topics"] = score(similar), similar.structure.prior["topics"].shape[0]
    try:
        stable = by_ensemble(own)
    except ImportError:
        stable = None
    if stable is not None:
        found["ensemble"], found["ensemble topics"] = score(stable), stable.structure.prior["topics"].shape[0]
    if options.refine:
        data = [counts[shard] for shard in rows]
        rng = np.random.default_rng(seed)
        found["refined"] = score(db.refine(model, data, own, rounds=3, rng=rng, schedule="parallel").merged)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, ten sites")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--refine", action="store_true", help="also three rounds of refinement")
    parser.add_argument("--cache", help="folder that keeps the fitted posteriors")
    options = parser.parse_args()
    counts, _, _, held_out = news()
    observed, held = db.hold_out(counts[np.flatnonzero(held_out)], share=0.1, rng=np.random.default_rng(7))

    def score(posterior):
        return db.model_for(posterior.structure).score(posterior, observed, held)

    seeds = range(1 if options.quick else options.seeds)
    whole = [
        score(news_model().fit(counts[~held_out], rng=np.random.default_rng([seed, 99])).posterior) for seed in seeds
    ]
    results = {"one fit of all": round(median(whole), 4)}
    print(results, flush=True)
    for sites in (10,) if options.quick else (10, 50):
        for split in ("random", "group"):
            runs = [one_seed(sites, split, seed, options, score) for seed in seeds]
            names = sorted({name for run in runs for name in run})
            results[f"{sites} {split}"] = {
                name: round(median(run[name] for run in runs if name in run), 3) for name in names
            }
            print(sites, split, results[f"{sites} {split}"], flush=True)
    print(json.dumps({"benchmark": "unlike_sites", "seeds": len(seeds), **results}))


if __name__ == "__main__":
    main()
