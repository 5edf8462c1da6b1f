"""How good a merge is: held-out log-likelihood a word for ways to combine the same local posteriors.

    python benchmarks/alignment_quality.py [--quick] [--cache FOLDER]

Each agent's topics are fitted once to its share of 20 Newsgroups and frozen; only what combines them differs. `random`
deals the documents out at random, `group` gives each agent its own newsgroups. Of each held-out document a tenth of
the tokens is predicted from the rest. The last line is one JSON object.
"""

import argparse
import json
import time
from importlib.util import find_spec

import numpy as np
from _reference import cosine_permutations
from _workloads import TOPICS, news, news_model, news_posteriors

import decbayes as db
from decbayes.models.core.evaluation import hold_out

SOLVERS = {
    "matching": db.solvers.Matching(restarts=0),
    "matching, 8 restarts": db.solvers.Matching(restarts=8),
    "hierarchical, fan-in 2": db.solvers.Hierarchical(fan_in=2),
    "hierarchical, fan-in 8": db.solvers.Hierarchical(fan_in=8),
    "hierarchical, fan-in 32": db.solvers.Hierarchical(fan_in=32),
    "hierarchical, fan-in 8, no polish": db.solvers.Hierarchical(fan_in=8, polish=0),
}


def merges(posteriors):
    """(name, seconds, J, merged posterior) of each way to merge; J where it is aligned."""
    yield "naive", *timed(lambda: db.merging.product(posteriors))
    for name, solver in SOLVERS.items():
        yield name, *timed(lambda solver=solver: db.merge(posteriors, solver=solver))
    yield "cosine similarity", *timed(lambda: cosine_merge(posteriors))
    if find_spec("gensim"):
        yield "gensim EnsembleLda", *timed(lambda: ensemble(posteriors))


def timed(work):
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def cosine_merge(posteriors):
    structure = posteriors[0].structure
    permutations = cosine_permutations(posteriors, "topics")
    pairs = zip(posteriors, permutations, strict=True)
    return db.Posterior(structure, {"topics": sum(q.contribution["topics"][p] for q, p in pairs)})


def ensemble(posteriors):
    """gensim's stable topics, found by clustering all agents' expected topics, as a posterior of as many topics.

    Topics that it does not find (or finds beyond K) are left at the prior (or left out); each found topic is given an
    equal share of all words, because the ensemble says nothing about weights.
    """
    from gensim.corpora import Dictionary
    from gensim.models import EnsembleLda

    vocabulary = posteriors[0].structure.labels["topics"]
    dictionary = Dictionary.from_documents([list(vocabulary)])
    order = [dictionary.token2id[word] for word in vocabulary]
    expected = np.concatenate([posterior.mean("topics") for posterior in posteriors])
    columns = np.empty_like(expected)
    columns[:, order] = expected
    model = EnsembleLda(id2word=dictionary, num_models=0, random_state=0)
    model.add_model(columns.astype(np.float32), num_new_models=len(posteriors))
    found = max((clusters(model, eps) for eps in (0.1, 0.2, 0.3)), key=len)[:TOPICS]
    counts = np.zeros((TOPICS, len(vocabulary)))
    words = sum(posterior.contribution["topics"].sum() for posterior in posteriors)
    counts[: len(found)] = found[:, order] * words / max(1, len(found))
    return db.Posterior(posteriors[0].structure, {"topics": counts})


def clusters(model, eps):
    """The stable topics at one setting; `ensemble` takes the one that finds most, in the peer's favour."""
    model.recluster(eps=eps, min_samples=2, min_cores=1)
    return np.asarray(model.get_topics())


def scores(agents, split, cache):
    model, (counts, _, _, held_out) = news_model(), news()
    observed, held = hold_out(counts[np.flatnonzero(held_out)], share=0.1, rng=np.random.default_rng(7))
    posteriors = news_posteriors(agents, split, cache)
    rows = {}
    for name, seconds, merged in merges(posteriors):
        rows[name] = {
            "seconds": seconds,
            "J": merged.log_partition(),
            "log_likelihood_a_word": model.score(merged, observed, held),
        }
        print(agents, split, name, json.dumps(rows[name]), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="ten agents, split at random")
    parser.add_argument("--cache", help="folder that keeps the fitted posteriors")
    arguments = parser.parse_args()
    cases = [(10, "random")] if arguments.quick else [(n, s) for n in (5, 10, 50, 200) for s in ("random", "group")]
    results = {f"{agents} agents, {split}": scores(agents, split, arguments.cache) for agents, split in cases}
    print(json.dumps({"quick": arguments.quick, "results": results}))


if __name__ == "__main__":
    main()
