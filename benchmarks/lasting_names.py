"""Do topics keep their names? Ten sites get a tenth more documents every day; topics are merged each evening.

    python benchmarks/lasting_names.py [--quick] [--days 20] [--sites 10] [--seeds 3] [--births 110] [--only WAY]

Documents of 20 Newsgroups are dealt out at random. Each site begins with 150 and adds each day's to its own posterior.
Printed is the share of tokens, in documents that nobody fits, whose most probable topic has the same name on the next
day, and the last day's score per held-out word:

    matched   a new merge each day, whose topics are matched with yesterday's by cosine similarity, one to one
    since     merge(since=yesterday)
    epochs    each day's documents are fitted on top of yesterday's merge
    one site  the same with all documents at one site: nothing is merged, so nothing can be confused

Then, on synthetic topics at eight sites: one that is new comes to two of them on the fourth day. How long does
it take from the day that both have a topic like it (cosine 0.8) until the merge has a new name for it, which stays? The
last line is one JSON object.
"""

import argparse
import json

import numpy as np
from _workloads import news, news_model
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, vstack

import decbayes as db

FIRST, GROWTH, WATCHED = 150, 0.1, 600


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three days, three sites, one seed")
    parser.add_argument("--days", type=int, default=20)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--births", type=int, default=110, help="streams with a new topic")
    parser.add_argument("--only", choices=[*WAYS], help="one way only")
    options = parser.parse_args()
    if options.quick:
        options.days, options.sites, options.seeds, options.births = 3, 3, 1, 2
    results = {}
    for seed in range(options.seeds):
        stream = dealt(options, seed)
        for way in [options.only] if options.only else WAYS:
            stayed, score = watched(WAYS[way](stream, seed))
            results.setdefault(way, []).append((min(stayed), float(np.mean(stayed)), score))
            told = f"mean {np.mean(stayed):.3f}  least {min(stayed):.3f}  score {score:.3f}"
            print(f"seed {seed}  {way:8}  {told}", flush=True)
    waits = [new_topic(seed) for seed in range(options.births)]
    seen = [wait for wait in waits if wait is not None]
    named = sum(wait <= 1 for wait in seen)
    print(f"a topic that two sites have found anew has a new name within a day: {named} of {len(seen)}")
    keys = ("least share", "mean share", "score")
    means = {way: np.round(np.mean(rows, axis=0), 4).tolist() for way, rows in results.items()}
    table = {way: dict(zip(keys, row, strict=True)) for way, row in means.items()}
    setting = {"benchmark": "lasting_names", "days": options.days, "sites": options.sites}
    print(json.dumps({**setting, **table, "new topics named": [named, len(seen)]}))


def dealt(options, seed):
    """stream[day][site]: documents."""
    counts, _, _, held_out = news()
    sizes = [FIRST, *(round(FIRST * GROWTH * (1 + GROWTH) ** day) for day in range(options.days))]
    ends = np.cumsum(sizes)
    shuffled = np.random.default_rng(seed).permutation(np.flatnonzero(~held_out))
    sites = [own[: ends[-1]] for own in np.array_split(shuffled, options.sites)]
    return [[counts[own[end - size : end]] for own in sites] for size, end in zip(sizes, ends, strict=True)]


def streamed(stream, seed):
    """Each day's posteriors: every site has fitted its new documents on top of its own."""
    model, own = news_model(), [None] * len(stream[0])
    for day, shards in enumerate(stream):
        for site, shard in enumerate(shards):
            rng = np.random.default_rng([seed, day, site])
            own[site] = model.fit(shard, prior=own[site], start=own[site], rng=rng).posterior
        yield own


def matched(stream, seed):
    before, names = None, None
    for posteriors in streamed(stream, seed):
        merged = db.merge(posteriors)
        units = merged.mean("topics") / np.linalg.norm(merged.mean("topics"), axis=1, keepdims=True)
        names = list(range(len(units))) if before is None else [names[k] for k in closest(units, before)]
        before = units
        yield merged, names


def closest(units, before):
    return linear_sum_assignment(units @ before.T, maximize=True)[1]


def since(stream, seed):
    before = None
    for posteriors in streamed(stream, seed):
        before = db.merge(posteriors, since=before)
        before = before if before.ids else db.merging.follow(before, before).posterior
        yield before, before.ids


def epochs(stream, seed):
    for merged in db.streams.epochs(news_model(), stream, rng=np.random.default_rng(seed)):
        yield merged, range(len(merged.natural["topics"]))


def one_site(stream, seed):
    yield from epochs([[csr_array(vstack(shards))] for shards in stream], seed)


WAYS = {"matched": matched, "since": since, "epochs": epochs, "one site": one_site}


def watched(merges):
    """The share of tokens that keep their name from each day to the next, and the score on the last."""
    counts, _, _, held_out = news()
    documents = counts[np.flatnonzero(held_out)[:WATCHED]]
    observed, held = db.checking.hold_out(counts[np.flatnonzero(held_out)], share=0.1, rng=np.random.default_rng(7))
    stayed, before, last = [], None, None
    for last, names in merges:
        tokens = np.array(names, dtype=object)[topics_of_tokens(last, documents)]
        if before is not None:
            stayed.append(float(np.average(tokens == before, weights=documents.data)))
        before = tokens
    return stayed, db.model_for(last.structure).score(last, observed, held)


def topics_of_tokens(posterior, documents):
    """The most probable topic of each stored entry of the counts."""
    shares, words = db.model_for(posterior.structure).assign(posterior, documents), posterior.mean("topics").T
    rows = np.repeat(np.arange(documents.shape[0]), np.diff(documents.indptr))
    return (shares[rows] * words[documents.indices]).argmax(axis=1)


def new_topic(seed, days=8, begins=3):
    """Days that the thirteenth topic, which two of eight sites see from some day on, waits for a name that stays."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(400, 0.05), size=13)
    sees = [rng.choice(12, 5, replace=False) for _ in range(8)]
    words = [f"w{word:03d}" for word in range(400)]
    model = db.LatentDirichletAllocation(8, words, document_prior=0.1, topic_prior=0.05)
    data = [[drawn(topics[own], 60, rng)] for own in sees]
    merged, names, found = None, [], []
    for day in range(days):
        for site, own in enumerate(sees if day else ()):
            data[site].append(drawn(topics[own], 12, rng))
            if day >= begins and site < 2:
                data[site].append(drawn(topics[[*own, 12]], 25, rng))
        rngs = [np.random.default_rng([seed, day, site]) for site in range(8)]
        own = [model.fit(csr_array(np.vstack(each)), rng=r).posterior for each, r in zip(data, rngs, strict=True)]
        merged = db.merge(own, components="auto", since=merged)
        merged = merged if merged.ids else db.merging.follow(merged, merged).posterior
        names.append(merged.ids[int(likeness(merged, topics[12]).argmax())])
        found.append(min(likeness(posterior, topics[12]).max() for posterior in own[:2]) > 0.8)
    if not any(found[: days - 1]):
        return None
    named = next((day for day in range(begins, days) if names[day] == names[-1] not in names[:begins]), days)
    return max(named - found.index(True), 0)


def likeness(posterior, topic):
    """The cosine between each topic and a true one."""
    means = posterior.mean("topics")
    return means @ topic / np.linalg.norm(means, axis=1) / np.linalg.norm(topic)


def drawn(topics, documents, rng):
    shares = rng.dirichlet(np.full(len(topics), 0.2), size=documents)
    return np.array([rng.multinomial(60, share @ topics) for share in shares])


if __name__ == "__main__":
    main()
