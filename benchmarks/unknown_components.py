"""How many components: what fits find by themselves, against batch fits that are told the true number.

    python benchmarks/unknown_components.py [--quick] [--seeds N] [--part NAME]

Part "fits": `components="auto"` on 1,000 to 5,000 points of ten clusters, of known, diagonal and full covariance, whose
centres are at least three or 2.25 standard deviations apart, and `topics="auto"` on documents of twelve topics. The
batch fit has the true number and the best of ten starts. Part "stream": `streams.sequential`, one pass over a million
points. Part "validation": 12 topics at 8 sites that see 5 and fit 8; sites score the cuts of one tree on documents that
they held back, and the summed scores choose. Part "merges": sites that see half of the clusters, or 5 of 12 topics, and
fit 8; `merge(components="auto")` finds the number from the posteriors alone, against one fit of all data with the true
number. Part "digits": binary MNIST at five sites, at random or two digits each, every site with a number of its own:
components, adjusted Rand index and normalised mutual information with the digits, score. For each setting: the numbers
found, and the mean and the worst difference of the held-out score, in nats per point or word (above zero: better than
batch); seconds of both. The last line is a JSON object.
"""

import argparse
import gzip
import json
import tracemalloc
from dataclasses import replace
from time import perf_counter

import numpy as np
from _data import data_file
from scipy.sparse import csr_array, vstack

import decbayes as db

CLUSTERS, TOPICS = 10, 12
# Points, dimensions, and about how far neighbouring centres are apart, in standard deviations.
MIXTURES = {"apart": (1000, 2, 4.0), "close": (1000, 2, 3.0), "ten dimensions": (2000, 10, 4.0), "more": (5000, 2, 4.0)}
# Documents, words in the vocabulary, words per document, Dirichlet parameters of topics and of documents.
CORPORA = {"long": (2000, 1000, 100, 0.05, 0.1), "few": (600, 500, 80, 0.05, 0.1), "short": (300, 1000, 60, 0.1, 0.3)}


class Clusters:
    """Ten Gaussians in a box."""

    def __init__(self, rng, dimension, apart, kind):
        self.weights = rng.dirichlet(np.full(CLUSTERS, 5.0))
        self.centres, self.kind = self._spread(rng, dimension, apart), kind
        scales = rng.uniform(0.4, 1.2, size=(CLUSTERS, dimension))
        turns = [np.linalg.qr(rng.normal(size=(dimension, dimension)))[0] for _ in range(CLUSTERS)]
        shapes = {"known": np.eye(dimension), "diagonal": scales[:, :, None] * np.eye(dimension)}
        self.shapes = shapes.get(kind, np.array(turns) * scales[:, None, :])

    def _spread(self, rng, dimension, apart):
        side = apart * CLUSTERS ** (1 / dimension)
        while True:
            centres = rng.uniform(-side / 2, side / 2, size=(CLUSTERS, dimension))
            distance = np.linalg.norm(centres[:, None] - centres, axis=-1) + 1e9 * np.eye(CLUSTERS)
            if distance.min() > 0.75 * apart:
                return centres

    def draw(self, rng, count):
        label = rng.choice(CLUSTERS, count, p=self.weights)
        noise = rng.normal(size=(count, self.centres.shape[1]))
        shapes = np.broadcast_to(self.shapes, (CLUSTERS, *self.shapes.shape[-2:]))
        return self.centres[label] + np.einsum("nij,nj->ni", shapes[label], noise)

    def model(self, count):
        spread = float((self.centres**2).mean())
        dimension = self.centres.shape[1]
        if self.kind == "known":
            return db.GaussianMixture(count, dimension, variance=1.0, prior_variance=spread)
        return db.GaussianMixture(count, dimension, covariance=self.kind)


def timed(call):
    begin = perf_counter()
    return call(), perf_counter() - begin


def number(posterior):
    return posterior.structure.components(posterior.structure.symmetry[0])


def row(found, true, own, batch, seconds):
    return {"number": number(found), "of": true, "score": own - batch, "seconds": seconds[0], "batch": seconds[1]}


def mixture_row(kind, setting, seed):
    points, dimension, apart = setting
    rng = np.random.default_rng(seed)
    clusters = Clusters(rng, dimension, apart, kind)
    data, held_out = clusters.draw(rng, points), clusters.draw(rng, 10_000)
    auto, told = clusters.model("auto"), clusters.model(CLUSTERS)
    fit, own = timed(lambda: auto.fit(data, rng=np.random.default_rng(seed)).posterior)
    batch, other = timed(lambda: told.fit(data, rng=np.random.default_rng(seed)).posterior)
    return row(fit, CLUSTERS, auto.score(fit, held_out), told.score(batch, held_out), (own, other))


def topic_row(setting, seed):
    documents, words, length, topic_prior, document_prior = setting
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(words, topic_prior), size=TOPICS)

    def draw(count):
        shares = rng.dirichlet(np.full(TOPICS, document_prior), size=count)
        return csr_array(np.array([rng.multinomial(max(1, rng.poisson(length)), share @ topics) for share in shares]))

    data, (observed, held) = draw(documents), db.checking.hold_out(draw(300), rng=rng)
    vocabulary = tuple(f"word{number}" for number in range(words))
    auto = db.LatentDirichletAllocation("auto", vocabulary, topic_prior=0.05)
    told = replace(auto, topics=TOPICS, ascent=replace(auto.ascent, restarts=9))
    fit, own = timed(lambda: auto.fit(data, rng=np.random.default_rng(seed)).posterior)
    batch, other = timed(lambda: told.fit(data, rng=np.random.default_rng(seed)).posterior)
    return row(fit, TOPICS, auto.score(fit, observed, held), told.score(batch, observed, held), (own, other))


def summary(rows):
    """Numbers found, mean and worst score against batch, seconds of both."""
    scores = [each["score"] for each in rows]
    return {
        "numbers": [each["number"] for each in rows],
        "of": rows[0]["of"],
        "score": round(float(np.mean(scores)), 4),
        "worst score": round(min(scores), 4),
        "seconds": round(float(np.median([each["seconds"] for each in rows])), 2),
        "seconds of batch": round(float(np.median([each["batch"] for each in rows])), 2),
    }


def fits(quick, seeds):
    found = {}
    for kind in ("known", "diagonal", "full"):
        for name, setting in list(MIXTURES.items())[: 2 if quick else None]:
            found[f"{kind}, {name}"] = summary([mixture_row(kind, setting, seed) for seed in range(seeds)])
            print(kind, name, found[f"{kind}, {name}"], flush=True)
    for name, setting in list(CORPORA.items())[1 if quick else 0 :]:
        found[f"topics, {name}"] = summary([topic_row(setting, seed) for seed in range(seeds)])
        print("topics", name, found[f"topics, {name}"], flush=True)
    return found


def one_pass(clusters, points, seed):
    """The last posterior of a stream that is drawn as it is read."""
    rng = np.random.default_rng(seed)
    stream = (clusters.draw(rng, 10_000) for _ in range(points // 10_000))
    return last(db.streams.sequential(clusters.model("auto"), stream, rng=rng))


def peak(call):
    """The most memory that a call takes."""
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def last(items):
    for item in items:
        latest = item
    return latest


def stream(quick, seeds):
    """One pass against a batch fit of as many points, and of a tenth of them for how memory grows."""
    points, found = 100_000 if quick else 1_000_000, {}
    for kind in ("known", "diagonal", "full"):
        rows, growth = [], []
        one_pass(Clusters(np.random.default_rng(0), 2, 6.0, kind), 10_000, 0)  # what is loaded once is not counted
        for seed in range(1 if quick else min(seeds, 3)):
            rng = np.random.default_rng(seed)
            clusters = Clusters(rng, 2, 6.0, kind)
            least, most = (peak(lambda n=n: one_pass(clusters, n, seed)) for n in (points // 10, points))  # noqa: B023
            posterior, own = timed(lambda: one_pass(clusters, points, seed))  # noqa: B023
            data, held_out = clusters.draw(rng, points), clusters.draw(rng, 10_000)
            told = replace(clusters.model(CLUSTERS), ascent=db.Ascent(restarts=4, tolerance=1e-4))
            batch, other = timed(lambda told=told, data=data, rng=rng: told.fit(data, rng=rng).posterior)
            scores = clusters.model("auto").score(posterior, held_out), told.score(batch, held_out)
            rows.append(row(posterior, CLUSTERS, *scores, (own, other)))
            growth.append(most / least)
        found[kind] = summary(rows) | {"points": points, "memory of ten times the points": round(max(growth), 2)}
        print("stream", kind, found[kind], flush=True)
    return found


def unlike_sites(rng, sites=8, seen=5, found=8, documents=160, words=400):
    """Sites that each see some of the topics, every topic at three sites or four."""
    topics = rng.dirichlet(np.full(words, 0.05), size=TOPICS)
    order = np.concatenate([rng.permutation(TOPICS) for _ in range(sites * seen // TOPICS + 1)])
    model = db.LatentDirichletAllocation(found, tuple(f"word{number}" for number in range(words)), topic_prior=0.05)
    shards = []
    for first in range(0, sites * seen, seen):
        shares = rng.dirichlet(np.full(seen, 0.3), size=documents) @ topics[order[first : first + seen]]
        shards.append(csr_array(np.array([rng.multinomial(max(2, rng.poisson(60)), share) for share in shares])))
    return model, shards


def validation(quick, seeds):
    """Numbers that held-back documents choose among cuts of one tree."""
    chosen = {held: {"smallest": [], "best": []} for held in (2, 10, 20)}
    for seed in range(seeds if quick else max(seeds, 20)):
        rng = np.random.default_rng(seed)
        model, shards = unlike_sites(rng)
        for held, numbers in chosen.items():
            parts = [db.checking.hold_back(model, shard, share=held / 160) for shard in shards]
            cuts = db.merging.tree([model.fit(kept, rng=rng).posterior for kept, _ in parts]).cuts(range(4, 25))
            scores = sum(db.validate(model, cuts, back) for _, back in parts)
            numbers["smallest"].append(scores.smallest)
            numbers["best"].append(scores.best)
    for held, numbers in chosen.items():
        print("validation", held, {rule: sorted(found) for rule, found in numbers.items()}, flush=True)
    return {f"{held} documents": {rule: sorted(found) for rule, found in each.items()} for held, each in chosen.items()}


def merges(quick, seeds):
    """What a merge finds from posteriors alone."""
    found = {}
    for kind in ("known", "diagonal", "full"):
        found[kind] = summary([merged_clusters(kind, seed) for seed in range(seeds)])
        print("merges", kind, found[kind], flush=True)
    found["topics"] = summary([merged_topics(seed) for seed in range(seeds)])
    print("merges topics", found["topics"], flush=True)
    return found


def merged_clusters(kind, seed, sites=8, points=200):
    rng = np.random.default_rng(seed)
    clusters = Clusters(rng, 2, 4.0, kind)
    whole, shares = clusters.weights, [rng.permutation(CLUSTERS)[: CLUSTERS // 2] for _ in range(sites)]
    shards, model, told = [], clusters.model(8), clusters.model(CLUSTERS)
    for seen in shares:
        clusters.weights = np.isin(np.arange(CLUSTERS), seen) / len(seen)
        shards.append(clusters.draw(rng, points))
    clusters.weights = whole
    data, held_out = np.concatenate(shards), clusters.draw(rng, 10_000)
    return merged_row(
        model, told, shards, data, CLUSTERS, rng, lambda known, posterior: known.score(posterior, held_out)
    )


def merged_topics(seed):
    rng = np.random.default_rng(seed)
    model, shards = unlike_sites(rng)
    parts = [db.checking.hold_back(model, shard, share=0.1) for shard in shards]
    observed, held = db.checking.hold_out(vstack([back for _, back in parts]), rng=rng)
    kept = [part for part, _ in parts]
    told = replace(model, topics=TOPICS)
    return merged_row(
        model, told, kept, vstack(kept), TOPICS, rng, lambda m, posterior: m.score(posterior, observed, held)
    )


def merged_row(model, told, shards, data, true, rng, score):
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    merged, own = timed(lambda: db.merge(posteriors, components="auto"))
    tried = replace(told, ascent=replace(told.ascent, restarts=9))
    batch, other = timed(lambda: tried.fit(data, rng=rng).posterior)
    return row(merged, true, score(db.model_for(merged.structure), merged), score(told, batch), (own, other))


def digits(quick, seeds):
    """Binary digits, and how well components and digits agree."""
    images, labels = binary_digits("train")
    held_out, truth = binary_digits("t10k")
    rng, found = np.random.default_rng(0), {}
    rows = rng.permutation(len(images))[: 1000 if quick else 5000]
    model = db.BernoulliMixture("auto", images.shape[1])
    splits = {"random": np.array_split(rows, 5)}
    splits["by digit"] = [rows[labels[rows] // 2 == pair] for pair in range(5)]
    for name, split in splits.items():
        posteriors = [model.fit(images[shard], rng=rng).posterior for shard in split]
        merges = {
            "one to one": db.merge(posteriors, solver=db.solvers.Matching()),
            **{
                f"merged, {asked or 'default'}": db.merge(posteriors, components=asked)
                for asked in (None, "largest", "auto", 40)
            },
        }
        found[f"{name}, sites"] = [number(posterior) for posterior in posteriors]
        found |= {f"{name}, {way}": agreement(merged, held_out, truth) for way, merged in merges.items()}
    found["one fit"] = agreement(model.fit(images[rows], rng=rng).posterior, held_out, truth)
    for setting, figures in found.items():
        print("digits", setting, figures, flush=True)
    return found


def binary_digits(part):
    """28 × 28 images as 14 × 14 of black and white, and their labels."""
    images, labels = (
        gzip.decompress(data_file("mnist", f"{part}-{kind}-ubyte.gz").read_bytes())
        for kind in ("images-idx3", "labels-idx1")
    )
    grey = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    return 1.0 * (grey > 127).reshape(len(grey), -1), np.frombuffer(labels, np.uint8, offset=8)


def agreement(posterior, points, truth):
    from sklearn.metrics import normalized_mutual_info_score

    model = db.model_for(posterior.structure)
    labels = model.assign(posterior, points).argmax(axis=1)
    rand, shared = db.checking.adjusted_rand(truth, labels), normalized_mutual_info_score(truth, labels)
    used, score = len(np.unique(labels)), model.score(posterior, points)
    return {"K": used, "ARI": round(rand, 3), "NMI": round(float(shared), 3), "score": round(score, 2)}


PARTS = {"fits": fits, "stream": stream, "validation": validation, "merges": merges, "digits": digits}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two seeds, fewer settings, a tenth of the stream")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--part", choices=sorted(PARTS), help="one part instead of all")
    arguments = parser.parse_args()
    seeds = 2 if arguments.quick else arguments.seeds
    chosen = [arguments.part] if arguments.part else list(PARTS)
    print(json.dumps({name: PARTS[name](arguments.quick, seeds) for name in chosen}))


if __name__ == "__main__":
    main()
