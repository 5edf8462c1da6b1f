"""Topics on a GPU against the processor: the same data, scores and topics, and how long both take.

    python benchmarks/gpu.py [--quick] [--only news,sites,alike,thousand,pubmed]

Needs a GPU and the extra `gpu`; elsewhere it says so and ends. `news` fits 20 Newsgroups on both; `sites` splits it
over fifty sites, fits, merges and scores; `alike` compares their fits and merges on both; `thousand` merges a thousand
sites with 20 topics each there and on one core; `pubmed` makes a corpus of the size and the statistics of PubMed's
abstracts (8.2 million documents, 141,043 words) on the GPU and fits 100 topics in 50 passes. Seconds are on the clock,
after a first run that compiles. The last line is one JSON object.
"""

import argparse
import json
import time
from dataclasses import replace
from functools import partial

import joblib
import numpy as np
from _stopwatch import Stopwatch, told
from _workloads import news, news_model, news_posteriors
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, vstack

import decbayes as db
from decbayes.devices import gpu
from decbayes.errors import MissingDevice, MissingExtra

PUBMED = {"documents": 8_200_000, "words": 141_043, "length": 90, "topics": 100, "passes": 50}
QUICK = {"documents": 100_000, "words": 20_000, "length": 90, "topics": 20, "passes": 10}
SOLVERS = {"any to any": None, "one to one": db.solvers.Matching(restarts=0)}
ROUNDS = {"cuda": 25, "cpu": 3}
PARTS = {
    "decbayes.models.topics.lda:gathered": "fit: counts",
    "decbayes.models.topics.cuda.many_sites:gathered": "starts and posteriors",
    "decbayes.models.topics.cuda.climb:GpuSearch.__init__": "sent",
    "decbayes.models.topics.cuda.many_sites:climb_sites": "passes",
    "decbayes.models.topics.cuda.many_sites:kept_entries": "brought back",
    "decbayes.models.topics.lda:LatentDirichletAllocation.fit_many": "fit: other",
    "decbayes.merging.aligning:canonical_order": "merge: order",
    "decbayes.merging.grouping.grouping:start_labels": "start",
    "decbayes.merging.grouping.cuda.gpu_search:grown_labels": "start, there",
    "decbayes.merging.grouping.search:SlotSearch.moves": "moves",
    "decbayes.merging.grouping.cuda.gpu_search:GpuSlotSearch.moves": "moves, there",
    "decbayes.merging.grouping.grouping:escape": "escapes",
    "decbayes.merging.grouping.cuda.gpu_search:escape": "escapes, there",
    "decbayes.merging.grouping.grouping:Grouping._division": "division",
    "decbayes.merging.alignment:assigned_product": "sums",
    "decbayes.merging.aligning:solve_canonically": "solve: other",
    "decbayes.models.core.model:Model.score": "score",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small corpus in the place of PubMed's")
    parser.add_argument("--only", default="news,sites,alike,thousand,pubmed", help="what to run, separated by commas")
    arguments = parser.parse_args()
    try:
        device = gpu()
    except (MissingDevice, MissingExtra) as error:
        print(error)
        print(json.dumps({"benchmark": "gpu", "device": None}))
        return
    name = device.xp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{name}, CuPy {device.xp.__version__}", flush=True)
    pubmed_size = partial(pubmed, quick=arguments.quick)
    parts = {
        "news": newsgroups,
        "sites": fifty_sites,
        "alike": compare,
        "thousand": thousand_sites,
        "pubmed": pubmed_size,
    }
    results = {part: parts[part](device.xp) for part in arguments.only.split(",")}
    print(json.dumps({"benchmark": "gpu", "device": name, "quick": arguments.quick, **results}))


def timed(work):
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


def split_news():
    counts, vocabulary, _, held_out = news()
    train = np.random.default_rng(0).permutation(np.flatnonzero(~held_out))
    parts = db.checking.hold_out(counts[np.flatnonzero(held_out)], rng=np.random.default_rng(0))
    return counts[train], vocabulary, parts


def newsgroups(xp):
    """Both devices, from the same starts, and the processor from another."""
    counts, vocabulary, parts = split_news()
    results = {}
    for topics in (20, 100):
        ascent = db.Ascent(passes=30, tolerance=0.0, warm_up=10)
        model = db.LatentDirichletAllocation(topics, vocabulary, topic_prior=10 / len(vocabulary), ascent=ascent)
        model.fit(counts, rng=np.random.default_rng(0), device="cuda")
        fits = {}
        for label, device, seed in (("gpu", "cuda", 0), ("processor", "cpu", 0), ("another seed", "cpu", 1)):
            rng = np.random.default_rng(seed)
            fit, seconds = timed(lambda: model.fit(counts, rng=rng, device=device))  # noqa: B023
            fits[label] = {"seconds": seconds, "score": model.score(fit.posterior, *parts), "posterior": fit.posterior}
            print(f"K = {topics:>3}, {label:12} {seconds:7.3f} s, held-out {fits[label]['score']:.4f}", flush=True)
        reference = fits["processor"]["posterior"]
        for label in ("gpu", "another seed"):
            fits[label]["likeness"] = likeness(fits[label]["posterior"], reference)
            print(f"K = {topics:>3}, topics of the {label} and the processor's: cosine {fits[label]['likeness']:.6f}")
        results[topics] = {label: {k: v for k, v in fit.items() if k != "posterior"} for label, fit in fits.items()}
    return results


def likeness(first, second):
    """The mean cosine of the best pairs of topics."""
    ours, theirs = (each.mean("topics") for each in (first, second))
    ours, theirs = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (ours, theirs))
    cosines = ours @ theirs.T
    return float(cosines[linear_sum_assignment(-cosines)].mean())


def split_sites():
    """The model, the counts of fifty sites, and what to predict from what."""
    counts, vocabulary, parts = split_news()
    ascent = db.Ascent(passes=30, tolerance=1e-3, warm_up=10)
    model = db.LatentDirichletAllocation(20, vocabulary, topic_prior=10 / len(vocabulary), ascent=ascent)
    return model, [counts[rows] for rows in np.array_split(np.arange(counts.shape[0]), 50)], parts


def fifty_sites(xp):
    """Fitted, merged and scored: the whole on the clock, then once more with a stopwatch in each part.

    Medians over rounds; the first round of each device compiles, and does not count.
    """
    model, shards, parts = split_sites()
    results = {}
    for name in ("cuda", "cpu"):
        with db.devices.use_device(name):
            for label, solver in SOLVERS.items():
                rounds = [one_round(model, shards, parts, solver) for _ in range(1 + ROUNDS[name])][1:]
                print(f"50 sites, {name:4}, {label}: {line(rounds)}", flush=True)
                results[f"{name}, {label}"] = rounds
                profile(name, label, lambda: one_round(model, shards, parts, solver), xp)  # noqa: B023
    return results


def compare(xp):
    """Fits of fifty sites on both devices, merges of the same posteriors on both, and what another seed changes."""
    model, shards, parts = split_sites()
    runs = {"the GPU's fits": ("cuda", 0), "the processor's": ("cpu", 0), "those of another seed": ("cpu", 1)}
    fits = {
        label: [fit.posterior for fit in model.fit_many(shards, rng=np.random.default_rng(seed), device=device)]
        for label, (device, seed) in runs.items()
    }
    results = {}
    for label, posteriors in fits.items():
        alike = np.array([likeness(*pair) for pair in zip(posteriors, fits["the processor's"], strict=True)])
        found = {device: aligned_on(device, posteriors) for device in ("cuda", "cpu")}
        scores = {device: model.score(each.merged(), *parts) for device, each in found.items()}
        same = np.mean([np.equal(*pair).mean() for pair in zip(*map(slots_of, found.values()), strict=True)])
        print(
            f"50 sites, {label}: cosine {alike.mean():.6f} to the processor's ({(alike > 0.9999).sum()} sites above "
            f"0.9999); merged there {scores['cuda']:.4f}, here {scores['cpu']:.4f}, {same:.1%} in the same slots",
            flush=True,
        )
        results[label] = {"likeness": float(alike.mean()), "same_slots": float(same), "held_out": scores}
    return results


def thousand_sites(xp):
    """Merges on the GPU and on one core, each the faster of two after one that compiles; at random and by newsgroup."""
    model, (_, _, parts), results = news_model(), split_news(), {}
    for split in ("random", "group"):
        posteriors, took, scores = news_posteriors(1000, split), {}, {}
        for device, threads in (("cuda", None), ("cpu", 1)):
            with db.devices.use_device(device), joblib.parallel_config("threading", n_jobs=threads):
                rounds = [timed(lambda: db.merge(map(unread, posteriors))) for _ in range(3)]  # noqa: B023
            took[device] = min(seconds for _, seconds in rounds[1:])
            scores[device] = model.score(rounds[0][0], *parts)
        told = ", ".join(f"{name} {took[name]:.2f} s, held-out {scores[name]:.4f}" for name in took)
        print(f"1,000 sites, {split:6}: {told}; ratio {took['cpu'] / took['cuda']:.2f}", flush=True)
        results[split] = {"seconds": took, "held_out": scores}
    return results


def unread(posterior):
    """The same posterior as a merge finds it for the first time."""
    return db.Posterior(posterior.structure, posterior.contribution, posterior.ids)


def aligned_on(device, posteriors):
    with db.devices.use_device(device):
        return db.align(posteriors)


def slots_of(alignment):
    """Of each site the slots of its components."""
    (coupled,) = alignment.structure.symmetry
    return [own[coupled] for own in alignment.assignments]


def one_round(model, shards, parts, solver):
    fits, fitted = timed(lambda: model.fit_many(shards, rng=np.random.default_rng(0)))
    merged, aligned = timed(lambda: db.merge([fit.posterior for fit in fits], solver=solver))
    score, scored = timed(lambda: model.score(merged, *parts))
    return {"fit": fitted, "merge": aligned, "score": scored, "in_all": fitted + aligned + scored, "held_out": score}


def line(rounds):
    """Medians over rounds, and the range of the whole."""
    parts = ", ".join(
        f"{part} {np.median([each[part] for each in rounds]):.3f} s" for part in ("fit", "merge", "score")
    )
    whole = [each["in_all"] for each in rounds]
    return (
        f"{parts}, in all {np.median(whole):.3f} s ({min(whole):.3f} to {max(whole):.3f}, {len(whole)} rounds); "
        f"held-out {rounds[0]['held_out']:.4f}"
    )


def profile(name, label, work, xp):
    watch = Stopwatch(PARTS, xp.cuda.runtime.deviceSynchronize)
    with watch.running():
        _, whole = timed(work)
    print(f"50 sites, {name:4}, {label}, by part: {told(watch.seconds, whole)}", flush=True)


def pubmed(xp, quick):
    size = QUICK if quick else PUBMED
    (counts, extra), made = timed(lambda: synthetic(xp, **{k: size[k] for k in ("documents", "words", "length")}))
    xp.get_default_memory_pool().free_all_blocks()
    print(f"{counts.shape[0]:,} documents, {counts.nnz:,} entries, {counts.shape[1]:,} words; made in {made:.1f} s")
    ascent = db.Ascent(passes=size["passes"], tolerance=0.0, warm_up=10)
    vocabulary = tuple(map(str, range(size["words"])))
    model = db.LatentDirichletAllocation(size["topics"], vocabulary, topic_prior=0.01, ascent=ascent)
    clock = []
    small = replace(model, ascent=replace(ascent, passes=2))
    small.fit(counts[:1000], rng=np.random.default_rng(0), device="cuda")  # compiles

    def whole_fit():
        watch = lambda reached: clock.append(time.perf_counter())  # noqa: E731
        return model.fit(counts, rng=np.random.default_rng(0), device="cuda", progress=watch)

    fit, seconds = timed(whole_fit)
    each = float(np.median(np.diff(clock)))
    used = xp.get_default_memory_pool().total_bytes() / 2**30
    parts = db.checking.hold_out(extra, rng=np.random.default_rng(0))
    with db.devices.use_device("cuda"):
        score = model.score(fit.posterior, *parts)
    on_processor = model.score(fit.posterior, *parts)
    print(
        f"K = {size['topics']}, {size['passes']} passes: {seconds:.1f} s in all, {each:.3f} s each, first after "
        f"{clock[0] - (clock[-1] - seconds):.1f} s; {used:.0f} GiB of the GPU's memory; "
        f"held-out {score:.4f}, scored by the processor {on_processor:.4f}",
        flush=True,
    )
    entries = int(counts.nnz)
    return {"seconds": seconds, "pass": each, "entries": entries, "score": score, "processor_score": on_processor}


def synthetic(xp, documents, words, length, topics=100, held=2_000):
    """(counts, counts of further documents): topics share Zipf's law, each with its own favourites."""
    random = xp.random.default_rng(0)
    base = (xp.arange(words) + 10.0) ** -1.1
    favour = xp.exp(3.0 * random.standard_normal((topics, words)))
    cumulated = xp.cumsum(base * favour, axis=1)
    table = (cumulated / cumulated[:, -1:] + xp.arange(topics)[:, None]).ravel()
    pieces = []
    for first in range(0, documents + held, 500_000):
        size = min(500_000, documents + held - first)
        lengths = xp.maximum(1, random.poisson(length * random.gamma(4.0, 0.25, size))).astype(xp.int64)
        ends = xp.cumsum(lengths)
        owner = xp.searchsorted(ends, xp.arange(int(ends[-1])), side="right")
        own = random.integers(0, topics, (size, 4))
        which = xp.minimum(3, random.geometric(0.5, len(owner)) - 1)
        word = xp.searchsorted(table, own[owner, which] + random.random(len(owner)), side="right")
        word = xp.minimum(word % words, words - 1)
        keys, times = xp.unique(owner * words + word, return_counts=True)
        offsets = xp.searchsorted(keys, xp.arange(size + 1) * words)
        parts = times.astype(xp.int32), (keys % words).astype(xp.int32), offsets.astype(xp.int64)
        pieces.append(csr_array(tuple(part.get() for part in parts), shape=(size, words)))
    counts = vstack(pieces, format="csr")
    return counts[:documents], counts[documents:]


if __name__ == "__main__":
    main()
